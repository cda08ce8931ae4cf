//! The collections of store keys, as kube-apiserver names the keys: `/registry/pods/…`, `/registry/services/specs/…`,
//! and `/registry/example.com/things/…` for custom resources.

use std::borrow::Cow;
use std::collections::HashMap;

use pintle_registry::GroupResource;
use pintle_versions::Minor;

use crate::cluster::{RANGES_PREFIX, SERVER_ADDRESSES_PREFIX};

/// The prefixes of records that are stored in addition to the objects of the API. Each has the encryption of a resource
/// of the core group (upstream: `newServiceIPAllocators`, `apiServerIPInfo`).
const RECORDS: [(&str, &str); 2] = [(RANGES_PREFIX, "services"), (SERVER_ADDRESSES_PREFIX, "apiServerIPInfo")];

/// Something for each collection of a built-in kind, found by store keys.
#[derive(Debug)]
pub(super) struct ByCollection<T> {
    /// The prefix of all keys, with a slash at the end.
    root: String,
    by_prefix: HashMap<&'static str, T>,
}

impl<T> ByCollection<T> {
    /// Collections by their prefixes, below the prefix of all keys.
    pub(super) fn new(key_prefix: &str, by_prefix: HashMap<&'static str, T>) -> Self {
        Self { root: format!("{}/", key_prefix.trim_end_matches('/')), by_prefix }
    }

    /// The entry of a key's collection. `None` for keys of custom resources, and for keys that are not keys of
    /// objects.
    pub(super) fn get(&self, key: &str) -> Option<&T> {
        let path = key.strip_prefix(&self.root)?;
        let ends = path.match_indices('/').map(|(end, _)| end).take(2);
        ends.filter_map(|end| self.by_prefix.get(&path[..end])).last()
    }

    /// The group and the plural name of a key that may be the key of a custom resource: the group has a dot.
    pub(super) fn custom_resource<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        let mut segments = key.strip_prefix(&self.root)?.split('/');
        let (group, resource, _name) = (segments.next()?, segments.next()?, segments.next()?);
        group.contains('.').then_some((group, resource))
    }
}

/// The resources of store keys, as an encryption configuration names them.
#[derive(Debug)]
pub(crate) struct StoredResources(ByCollection<GroupResource>);

impl StoredResources {
    /// The resources below a prefix of keys.
    pub(crate) fn new(key_prefix: &str) -> Self {
        // Values of every version may be there. A resource has the same prefix in all versions that have it.
        let facts: Vec<_> = Minor::known().flat_map(pintle_catalog::resources_of).collect();
        let stored = facts.iter().filter_map(|facts| Some((facts.storage()?, facts.plural)));
        let stored = stored.map(|(storage, plural)| (storage.prefix, GroupResource::new(storage.hub_group, plural)));
        let records = RECORDS.map(|(prefix, resource)| (prefix, GroupResource::new("", resource)));
        Self(ByCollection::new(key_prefix, stored.chain(records).collect()))
    }

    /// The resource of a key. `None` for keys that are not keys of resources: their values are not encrypted.
    pub(crate) fn of(&self, key: &str) -> Option<Cow<'_, GroupResource>> {
        self.0.get(key).map(Cow::Borrowed).or_else(|| {
            let (group, resource) = self.0.custom_resource(key)?;
            Some(Cow::Owned(GroupResource::new(group, resource)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_custom_resources_have_a_group_with_a_dot() {
        let collections = ByCollection::new("/registry/", HashMap::from([("pods", 1), ("services/specs", 2)]));
        for (key, built_in, custom) in [
            ("/registry/example.com/things/a", None, Some(("example.com", "things"))),
            ("/registry/example.com/things/n/a", None, Some(("example.com", "things"))),
            ("/registry/example.com/things", None, None),
            ("/registry/pods/n/a", Some(1), None),
            ("/registry/pods/n.a/a", Some(1), None),
            ("/registry/services/specs/n/a", Some(2), None),
            ("/registry/services/endpoints/n/a", None, None),
            ("/other/pods/n/a", None, None),
            ("/registry", None, None),
        ] {
            assert_eq!((collections.get(key).copied(), collections.custom_resource(key)), (built_in, custom), "{key}");
        }
    }
}
