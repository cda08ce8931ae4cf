//! The kinds as which a type is registered (`x-kubernetes-group-version-kind`). Most types have one kind.
//! `DeleteOptions` and `WatchEvent` belong to every group and version that kube-apiserver registers, served or not.

use std::collections::HashMap;

use pintle_catalog::Catalog;
use pintle_registry::GroupVersion;
use pintle_schema::TypeId;
use pintle_value::{Value, object};

/// The kinds of the meta package that belong only to the core group.
const CORE_KINDS: &[&str] = &["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// The kinds of the meta package that belong to every group and version.
const KINDS_OF_EVERY_VERSION: &[&str] = &["DeleteOptions", "WatchEvent"];

/// The groups that client-go does not know. Upstream describes custom resources with client-go's scheme.
const UNKNOWN_TO_CLIENT_GO: &[&str] =
    &["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// The scope of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocumentScope<'a> {
    /// The whole API.
    All,
    /// A group and version.
    Version(&'a GroupVersion),
    /// A group and version that has only custom resources.
    Custom,
}

/// The kinds of types.
pub(crate) struct KindsOfTypes {
    kinds: HashMap<TypeId, Value>,
}

impl KindsOfTypes {
    /// Collects the kinds of all types of the catalog. Some kinds belong to every group and version. The document of
    /// one group and version publishes them only for that version and the core group (upstream: `filterScopedGVKs`).
    pub(crate) fn new(catalog: &Catalog, document: DocumentScope<'_>) -> Self {
        let mut kinds_of_types: HashMap<TypeId, Vec<Value>> = HashMap::new();
        for (group, version, kind, id) in catalog.kinds().filter(|(group, ..)| *group != "meta.k8s.io") {
            kinds_of_types.entry(id).or_default().push(entry(group, version, kind));
        }
        let meta = |kind: &'static str| Some((kind, catalog.struct_type(&format!("meta/v1.{kind}"))?));
        for (kind, id) in CORE_KINDS.iter().filter_map(|kind| meta(kind)) {
            kinds_of_types.insert(id, vec![entry("", "v1", kind)]);
        }
        for (kind, id) in KINDS_OF_EVERY_VERSION.iter().filter_map(|kind| meta(kind)) {
            let all = catalog
                .registered_versions()
                .iter()
                .flat_map(|(group, versions)| versions.iter().map(move |v| (*group, *v)));
            let shown = |(group, version): &(&str, &str)| match document {
                DocumentScope::All => true,
                DocumentScope::Custom => !UNKNOWN_TO_CLIENT_GO.contains(group),
                DocumentScope::Version(own) => {
                    (*group, *version) == ("", "v1") || (own.group == *group && own.version == *version)
                }
            };
            kinds_of_types.insert(id, all.filter(shown).map(|(group, version)| entry(group, version, kind)).collect());
        }
        Self { kinds: kinds_of_types.into_iter().map(|(id, kinds)| (id, Value::Array(kinds))).collect() }
    }

    /// Returns the kinds of a type.
    pub(crate) fn of(&self, id: TypeId) -> Option<Value> {
        self.kinds.get(&id).cloned()
    }
}

fn entry(group: &str, version: &str, kind: &str) -> Value {
    object! { "group": group, "kind": kind, "version": version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(document: Option<&str>, ty: &str, expect: &str) {
        let catalog = pintle_catalog::shared();
        let document = document.and_then(GroupVersion::parse);
        let kinds = KindsOfTypes::new(catalog, document.as_ref().map_or(DocumentScope::All, DocumentScope::Version));
        let found = catalog.struct_type(ty).and_then(|id| kinds.of(id)).unwrap_or_default();
        let lines = found.as_array().into_iter().flatten().map(|kind| {
            format!("{}/{}/{}", kind.str_at(&["group"]), kind.str_at(&["version"]), kind.str_at(&["kind"]))
        });
        assert_eq!(lines.collect::<Vec<_>>().join(" "), expect, "{ty}");
    }

    #[test]
    fn kinds() {
        check(None, "core/v1.Pod", "/v1/Pod");
        check(None, "apps/v1.DeploymentList", "apps/v1/DeploymentList");
        check(Some("apps/v1"), "autoscaling/v1.Scale", "autoscaling/v1/Scale");
        check(None, "meta/v1.Status", "/v1/Status");
        check(None, "meta/v1.ObjectMeta", "");
        check(Some("v1"), "meta/v1.DeleteOptions", "/v1/DeleteOptions");
        check(Some("apps/v1"), "meta/v1.DeleteOptions", "/v1/DeleteOptions apps/v1/DeleteOptions");
        check(Some("policy/v1"), "meta/v1.WatchEvent", "/v1/WatchEvent policy/v1/WatchEvent");
    }

    #[test]
    fn every_group_of_the_catalog_is_registered() {
        for group in pintle_catalog::shared().groups() {
            for version in &group.versions {
                let known = pintle_catalog::shared()
                    .registered_versions()
                    .iter()
                    .any(|(g, vs)| *g == group.name && vs.contains(&version.name));
                assert!(known, "{} {}", group.name, version.name);
            }
        }
    }
}
