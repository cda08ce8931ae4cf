//! Checks that the resource metadata agrees with the types and with what kube-apiserver publishes.

use pintle_catalog::shared;

#[test]
fn every_resource_has_its_types() {
    let catalog = shared();
    for resource in catalog.resources() {
        let what = format!("{}/{} {}", resource.group, resource.version, resource.plural);
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
    let catalog = shared();
    for (group, version, kind, _) in catalog.kinds() {
        let listed = catalog.kind_type(group, version, &format!("{kind}List")).is_some();
        let known = catalog.resources().iter().any(|r| (r.group, r.version, r.kind) == (group, version, kind));
        let elsewhere = ["meta.k8s.io", "apidiscovery.k8s.io"].contains(&group);
        assert!(!listed || known || elsewhere, "{group}/{version} {kind}");
    }
}

/// The types of versions that are only stored belong to versions that resources name, and these are not served.
#[test]
fn stored_versions_are_not_served() {
    let catalog = shared();
    let mut named = Vec::new();
    for resource in catalog.resources() {
        for (group, version) in resource.storage().map_or(&[][..], |storage| &storage.stored_versions) {
            let what = format!("{group}/{version} {}", resource.kind);
            assert!(catalog.kind_type(group, version, resource.kind).is_none(), "{what} is served");
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
    let mut prefixes: Vec<_> = shared()
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
    let names: Vec<_> = shared().groups().iter().map(|g| g.name).collect();
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
        ]
    );
    let autoscaling = shared().groups().iter().find(|g| g.name == "autoscaling").unwrap();
    assert_eq!(autoscaling.versions[0].name, "v2");
}

#[test]
fn deprecated_kinds_have_warnings() {
    let endpoints = shared().resource("", "v1", "endpoints").unwrap();
    assert_eq!(
        endpoints.deprecation.as_deref(),
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    );
}
