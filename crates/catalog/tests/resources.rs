//! Checks that the resource metadata agrees with the types and with the metadata that kube-apiserver publishes.

mod modules;

use std::path::Path;

use pintle_catalog::{Catalog, ResourceFacts, complete, complete_of};
use pintle_versions::Minor;

#[test]
fn every_resource_has_its_types() {
    for catalog in Minor::known().map(complete_of) {
        check_resources(catalog);
    }
}

fn check_resources(catalog: &Catalog) {
    for resource in catalog.resources() {
        let what = format!("{}/{} {} in {}", resource.group, resource.version, resource.plural, catalog.minor());
        assert!(catalog.kind_type(resource.group, resource.version, resource.kind).is_some(), "{what}");
        if resource.verbs.contains(&"list") {
            assert!(catalog.kind_type(resource.group, resource.version, &resource.list_kind).is_some(), "{what}");
        }
        assert!(resource.verbs.is_sorted(), "{what}");
        assert!(resource.subresources.is_sorted_by_key(|s| s.name), "{what}");
        for sub in &resource.subresources {
            assert!(catalog.kind_type(sub.group, sub.version, sub.kind).is_some(), "{what}/{}", sub.name);
            assert!(sub.verbs.is_sorted(), "{what}/{}", sub.name);
        }
        assert!(catalog.groups().iter().any(|g| g.name == resource.group), "{what}");
        if let Some(storage) = resource.storage() {
            let hub = catalog.resource(storage.hub_group, storage.hub_version, resource.plural);
            let hub =
                hub.and_then(|r| r.storage()).unwrap_or_else(|| panic!("{what}: its storage version is not stored"));
            assert_eq!(hub.prefix, storage.prefix, "{what} has another prefix than its storage version");
            assert_eq!((hub.hub_group, hub.hub_version), (storage.hub_group, storage.hub_version), "{what}");
        } else {
            assert!(!resource.verbs.contains(&"watch"), "{what}");
        }
    }
}

/// Every kind with a list kind must be a resource.
#[test]
fn every_listed_kind_is_a_resource() {
    for catalog in Minor::known().map(complete_of) {
        for (group, version, kind, _) in catalog.kinds() {
            let listed = catalog.kind_type(group, version, &format!("{kind}List")).is_some();
            let known = catalog.resources().iter().any(|r| (r.group, r.version, r.kind) == (group, version, kind));
            let elsewhere = ["meta.k8s.io", "apidiscovery.k8s.io"].contains(&group);
            assert!(!listed || known || elsewhere, "{group}/{version} {kind} in {}", catalog.minor());
        }
    }
}

/// The types of versions that are only stored belong to versions that resources name and that are not served.
#[test]
fn stored_versions_are_not_served() {
    let catalog = complete();
    let mut named = Vec::new();
    for resource in catalog.resources() {
        for (group, version) in resource.storage().map_or(&[][..], |storage| &storage.stored_versions) {
            let what = format!("{group}/{version} {}", resource.kind);
            let is_served = catalog.resource(group, version, resource.plural).is_some();
            assert!(!is_served && catalog.kind_type(group, version, resource.kind).is_none(), "{what} is served");
            assert!(!named.contains(&(*group, *version, resource.kind)), "{what} is named twice");
            named.push((group, version, resource.kind));
        }
    }
    let stored_types = catalog.stored_types().expect("types");
    assert!(stored_types.kinds().any(|kind| kind == ("extensions", "v1beta1", "Ingress")));
    for kind in stored_types.kinds() {
        assert!(named.contains(&kind), "{kind:?} belongs to no resource");
    }
}

#[test]
fn storage_prefixes_are_unique() {
    let mut prefixes: Vec<_> = complete()
        .resources()
        .iter()
        .filter_map(|r| r.storage().filter(|s| (s.hub_group, s.hub_version) == (r.group, r.version)))
        .map(|s| s.prefix)
        .collect();
    let all = prefixes.len();
    prefixes.sort_unstable();
    prefixes.dedup();
    assert_eq!(prefixes.len(), all);
}

/// Groups in the order of kube-apiserver's `/apis`.
#[test]
fn groups_are_sorted_by_priority() {
    let names: Vec<_> = complete().groups().iter().map(|g| g.name).collect();
    assert_eq!(names[..4], ["apiregistration.k8s.io", "", "apps", "events.k8s.io"]);
    assert_eq!(
        names[13..],
        [
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "resource.k8s.io",
            "flowcontrol.apiserver.k8s.io",
            "internal.apiserver.k8s.io",
            "storagemigration.k8s.io",
        ]
    );
    let autoscaling = complete().groups().iter().find(|g| g.name == "autoscaling").unwrap();
    assert_eq!(autoscaling.versions[0].name, "v2");
}

/// A server without the versions that are off by default does not have their types.
#[test]
fn versions_that_are_off_have_types_of_their_own() {
    let (shared, complete) = (pintle_catalog::shared(), complete());
    for group in complete.groups() {
        for version in &group.versions {
            let mut resources =
                complete.resources().iter().filter(|r| r.group == group.name && r.version == version.name);
            let is_loaded = |r: &ResourceFacts| shared.kind_type(r.group, r.version, r.kind).is_some();
            assert!(resources.all(|r| is_loaded(r) == version.enabled), "{}/{}", group.name, version.name);
        }
    }
    let count = shared.types().len();
    assert!(complete.types().len() > count + 200, "{count}");
    assert!(shared.types().iter().zip(complete.types().iter()).all(|(one, other)| one == other));
}

/// The lifecycle of a kind by `prerelease-lifecycle-gen`.
#[derive(Default)]
struct Lifecycle {
    introduced: Option<String>,
    deprecated: Option<String>,
    removed: Option<String>,
    instead: Option<String>,
}

/// The lifecycle of a kind of k8s.io/api, from the Go functions that upstream generates.
fn lifecycle(package: &Path, kind: &str) -> Lifecycle {
    let text = std::fs::read_to_string(package.join("zz_generated.prerelease-lifecycle.go")).unwrap_or_default();
    let returned = |function: &str| {
        let (_, rest) = text.split_once(&format!("func (in *{kind}) APILifecycle{function}() "))?;
        let (_, value) = rest.split_once("return ")?;
        Some(value.lines().next()?.to_owned())
    };
    let version = |function: &str| returned(function).map(|numbers| numbers.replace(", ", "."));
    let instead = returned("Replacement").map(|kind| {
        let mut names = kind.split('"').skip(1).step_by(2);
        let mut name = || names.next().unwrap_or_default().to_owned();
        format!("{}/{} {}", name(), name(), name())
    });
    Lifecycle {
        introduced: version("Introduced"),
        deprecated: version("Deprecated"),
        removed: version("Removed"),
        instead,
    }
}

/// The warnings and the removal of versions agree with the published types.
#[test]
fn deprecated_kinds_have_warnings() {
    for minor in Minor::known() {
        let warnings = check_deprecations(minor);
        assert!(warnings > 5, "{warnings} in {minor}");
    }
    let endpoints = complete().resource("", "v1", "endpoints").unwrap();
    assert_eq!(
        endpoints.deprecation.as_deref(),
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    );
}

/// Returns the number of warnings in a version.
fn check_deprecations(served: Minor) -> usize {
    let minor = |version: &str| version.parse::<Minor>().ok();
    let api = modules::folder("k8s.io/api", served);
    let mut warnings = 0;
    for facts in complete_of(served).resources() {
        let group = match facts.group {
            "" => "core",
            "internal.apiserver.k8s.io" => "apiserverinternal",
            group => group.split('.').next().unwrap_or_default(),
        };
        let found = lifecycle(&api.join(group).join(facts.version), facts.kind);
        let what = format!("{}/{} {}", facts.group, facts.version, facts.kind);
        let removed = found.removed.as_deref().and_then(minor).is_some_and(|removed| removed <= served);
        assert_eq!(facts.releases.contains(served), !removed, "{what} in {served}");
        // Older versions count as if they had always been there.
        let introduced = found.introduced.as_deref().and_then(minor).filter(|minor| *minor >= Minor::new(31));
        assert_eq!(facts.introduced, introduced, "{what} in {served}");
        let deprecated = found.deprecated.filter(|version| minor(version).is_some_and(|minor| minor <= served));
        let expect = deprecated.map(|since| {
            let removed = found.removed.map(|version| format!(", unavailable in v{version}+")).unwrap_or_default();
            let instead = found.instead.map(|kind| format!("; use {kind}")).unwrap_or_default();
            let version = what.trim_start_matches('/');
            format!("{version} is deprecated in v{since}+{removed}{instead}")
        });
        warnings += usize::from(expect.is_some());
        // Upstream sets the warning of this kind in the type itself.
        let by_hand = ["/v1 ComponentStatus", "/v1 Endpoints"].contains(&what.as_str());
        if !by_hand || expect.is_some() {
            let is_deprecated = facts.deprecated_since.is_some_and(|since| since <= served);
            assert_eq!(facts.deprecation.as_ref().filter(|_| is_deprecated), expect.as_ref(), "{what} in {served}");
        }
    }
    warnings
}
