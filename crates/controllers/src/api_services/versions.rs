//! The versions that CustomResourceDefinitions serve.

use std::collections::{BTreeSet, HashMap};

use pintle_cache::Object;
use pintle_codec::json::Projection;
use pintle_registry::GroupVersion;
use pintle_value::Str;

/// A version of a CRD, and whether it is served.
type Version = (GroupVersion, bool);

/// The versions of all CRDs.
#[derive(Debug, Default)]
pub(super) struct DefinedVersions {
    /// By the name of the CRD.
    by_crd: HashMap<Str, Vec<Version>>,
    /// How many CRDs serve a version.
    served: HashMap<GroupVersion, usize>,
}

impl DefinedVersions {
    /// True if a CRD serves the version.
    pub(super) fn is_served(&self, version: &GroupVersion) -> bool {
        self.served.contains_key(version)
    }

    /// Replaces all CRDs. Returns their old and new versions.
    pub(super) fn replace<'o>(&mut self, crds: impl Iterator<Item = &'o Object>) -> BTreeSet<GroupVersion> {
        let before: Vec<Str> = self.by_crd.keys().cloned().collect();
        let mut affected: BTreeSet<GroupVersion> = before.iter().flat_map(|name| self.set(name, None)).collect();
        for crd in crds {
            affected.extend(self.set(crd.name(), Some(crd)));
        }
        affected
    }

    /// Replaces a CRD, or removes it. Returns its old and new versions.
    pub(super) fn set(&mut self, name: &str, crd: Option<&Object>) -> BTreeSet<GroupVersion> {
        let before = self.by_crd.remove(name).unwrap_or_default();
        let now = crd.map(versions_of).unwrap_or_default();
        for (version, _) in before.iter().filter(|(_, is_served)| *is_served) {
            if let Some(count) = self.served.get_mut(version) {
                *count -= 1;
                if *count == 0 {
                    self.served.remove(version);
                }
            }
        }
        for (version, _) in now.iter().filter(|(_, is_served)| *is_served) {
            *self.served.entry(version.clone()).or_default() += 1;
        }
        let affected = before.into_iter().chain(now.iter().cloned()).map(|(version, _)| version).collect();
        if !now.is_empty() {
            self.by_crd.insert(name.into(), now);
        }
        affected
    }
}

/// The versions of a stored CRD.
fn versions_of(crd: &Object) -> Vec<Version> {
    const FIELDS: [&str; 3] = ["spec.group", "spec.versions.name", "spec.versions.served"];
    let Some(crd) = Projection::of(FIELDS).read(&crd.json) else { return Vec::new() };
    let group = crd.str_at(&["spec", "group"]);
    let versions = crd.items_at(&["spec", "versions"]).iter();
    versions
        .map(|version| (GroupVersion::new(group, version.str_at(&["name"])), version.bool_at(&["served"])))
        .collect()
}
