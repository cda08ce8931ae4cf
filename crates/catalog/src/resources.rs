//! Parses the resource metadata in `data/resources.txt`. The head of that file documents the format and the sources.

use pintle_versions::{DataLine, Minor, MinorRange, lines_of, nested_lines};

use crate::facts::FactsError;

/// An API group and its priority in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// The name, empty for the core group.
    pub name: &'static str,
    /// Groups with a higher priority come first.
    pub priority: u32,
    /// The versions, the preferred one first.
    pub versions: Vec<VersionFacts>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFacts {
    /// The name.
    pub name: &'static str,
    /// Versions with a higher priority come first in their group.
    pub priority: u32,
    /// False if the version is served only where the configuration says so (`--runtime-config`).
    pub enabled: bool,
}

/// One version of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceFacts {
    /// The group, empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural name, as in paths.
    pub plural: &'static str,
    /// The singular name.
    pub singular: String,
    /// The kind.
    pub kind: &'static str,
    /// The list kind. Meaningless for resources that cannot be listed.
    pub list_kind: String,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// Short names for kubectl.
    pub short_names: Vec<&'static str>,
    /// Categories for kubectl.
    pub categories: Vec<&'static str>,
    /// The verbs, sorted.
    pub verbs: Vec<&'static str>,
    /// False if the resource is known but not implemented.
    pub served: bool,
    /// How the resource is implemented.
    pub backing: BackingFacts,
    /// The subresources, sorted.
    pub subresources: Vec<SubresourceFacts>,
    /// The release from which on requests get a warning because the version is deprecated.
    pub deprecated_since: Option<Minor>,
    /// The warning for requests to a deprecated version.
    pub deprecation: Option<String>,
    /// The release from which on a deprecated version is no longer served; empty if that is not known.
    pub removed_release: &'static str,
    /// The feature without which the resource is not served, whatever the configuration says.
    pub gate: Option<&'static str>,
    /// Whether PUT creates an object that does not exist (upstream: `AllowCreateOnUpdate`).
    pub creates_on_update: bool,
    /// Whether an update without a resourceVersion overwrites any revision (upstream: `AllowUnconditionalUpdate`).
    pub updates_unconditionally: bool,
    /// The dotted paths of the fields that a write of the object resets (upstream: `GetResetFields`).
    pub resets: Vec<&'static str>,
    /// The first release that has it; `None` if life cycles did not count yet.
    pub introduced: Option<Minor>,
    /// Whether the deprecation names another kind that replaces this version.
    pub is_replaced: bool,
    /// The releases that serve it: from its introduction to its removal. The emulated version decides.
    pub releases: MinorRange,
}

impl ResourceFacts {
    /// How the objects are stored. `None` if nothing is stored.
    #[must_use]
    pub fn storage(&self) -> Option<&StorageFacts> {
        match &self.backing {
            BackingFacts::Stored(storage) => Some(storage),
            BackingFacts::Computed(_) | BackingFacts::Action(_) => None,
        }
    }

    /// True if objects are kept at this version.
    #[must_use]
    pub fn is_hub(&self) -> bool {
        self.storage().is_some_and(|storage| (storage.hub_group, storage.hub_version) == (self.group, self.version))
    }
}

/// How a resource is implemented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackingFacts {
    /// Stored objects.
    Stored(StorageFacts),
    /// Objects that are computed on request by the source with this name.
    Computed(&'static str),
    /// Nothing is stored. A create runs the action with this name.
    Action(&'static str),
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubresourceFacts {
    /// The last segment of the path.
    pub name: &'static str,
    /// The group of its kind.
    pub group: &'static str,
    /// The version of its kind.
    pub version: &'static str,
    /// The kind of request and response bodies: the resource's own, or another one (`Scale`).
    pub kind: &'static str,
    /// The verbs, sorted.
    pub verbs: Vec<&'static str>,
    /// False if the subresource is known but not implemented.
    pub served: bool,
    /// The action that a create runs, if it does not write the object.
    pub action: Option<&'static str>,
    /// The connector that serves it, if it connects clients with a node, pod or service.
    pub connector: Option<&'static str>,
    /// The group and version of another version of the kind that is accepted. It has the same fields.
    pub accepts: Option<(&'static str, &'static str)>,
    /// The paths for the scale subresource.
    pub scale: Option<ScaleFacts>,
    /// The dotted paths of the fields that a write through the subresource resets.
    pub resets: Vec<&'static str>,
}

/// The paths of the scale in an object, dot-separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleFacts {
    /// The desired number of replicas.
    pub replicas: &'static str,
    /// The current number of replicas.
    pub current: &'static str,
    /// The label selector, or the map of labels, that selects the pods.
    pub selector: &'static str,
    /// Whether `selector` is a map of labels.
    pub labels: bool,
}

/// How the objects of a resource are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageFacts {
    /// The part of the storage key between the root and the namespace or name: `pods`, `minions`, `services/specs`.
    pub prefix: &'static str,
    /// The group of the storage version. Differs from the resource's own group if the resource is a view of another
    /// one.
    pub hub_group: &'static str,
    /// The storage version.
    pub hub_version: &'static str,
    /// The version in which kube-apiserver stores objects, if there is a special one. See `Catalog::storage_version`.
    pub(crate) upstream: Option<(&'static str, &'static str)>,
    /// The groups and versions that are not served, but that kube-apiserver reads from its storage. Their objects are
    /// read as objects of this version.
    pub stored_versions: Vec<(&'static str, &'static str)>,
    /// Whether a DELETE returns the deleted object instead of a `Status` (upstream: `ReturnDeletedObject`).
    pub returns_deleted: bool,
}

/// All verbs of a stored resource.
const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a subresource that updates the object.
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// The lines of a text in the format of `data/resources.txt` that hold in a release.
pub fn release_lines(text: &str, minor: Minor) -> impl Iterator<Item = DataLine<'_>> {
    nested_lines(text, minor, |line| match line {
        line if line.starts_with("group ") => 0,
        line if line.starts_with("version ") => 1,
        line if line.starts_with("    /") => 3,
        _ => 2,
    })
}

/// Parses the resource metadata of a release. The groups are sorted in discovery order: by priority, then by name.
pub(crate) fn parse(text: &'static str, minor: Minor) -> Result<(Vec<GroupFacts>, Vec<ResourceFacts>), FactsError> {
    let mut groups: Vec<GroupFacts> = Vec::new();
    let mut resources: Vec<ResourceFacts> = Vec::new();
    for DataLine { number, text: line, versions: releases } in release_lines(text, minor) {
        let fail = |problem: &str| FactsError::new(number, problem);
        let priority = |text: &str| text.parse::<u32>().map_err(|_| fail("invalid priority"));
        if let Some((name, number)) = line.strip_prefix("group ").and_then(|l| l.split_once(' ')) {
            groups.push(GroupFacts { name: group_name(name), priority: priority(number)?, versions: Vec::new() });
            continue;
        }
        let group = groups.last_mut().ok_or_else(|| fail("no preceding group"))?;
        if let Some((name, number)) = line.strip_prefix("version ").and_then(|l| l.split_once(' ')) {
            let (number, enabled) = number.strip_suffix(" disabled").map_or((number, true), |number| (number, false));
            group.versions.push(VersionFacts { name, priority: priority(number)?, enabled });
            continue;
        }
        let version = group.versions.last().ok_or_else(|| fail("no preceding version"))?.name;
        if let Some(line) = line.strip_prefix("    /") {
            let resource = resources.last_mut().ok_or_else(|| fail("no preceding resource"))?;
            let parsed = subresource(resource, line).map_err(fail)?;
            resource.subresources.push(parsed);
        } else if let Some(line) = line.strip_prefix("  ") {
            let mut parsed = resource(group.name, version, line).map_err(fail)?;
            parsed.releases = parsed.releases.intersection(releases);
            resources.push(parsed);
        } else {
            return Err(fail("expected a group, version, resource or subresource"));
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
    }
    groups.sort_by(|a, b| b.priority.cmp(&a.priority).then(a.name.cmp(b.name)));
    Ok((groups, resources))
}

fn resource(group: &'static str, version: &'static str, line: &'static str) -> Result<ResourceFacts, &'static str> {
    let mut words = line.split(' ');
    let (Some(plural), Some(kind), Some(scope)) = (words.next(), words.next(), words.next()) else {
        return Err("missing plural name, kind or scope");
    };
    let namespaced = match scope {
        "namespaced" => true,
        "cluster" => false,
        _ => return Err("invalid scope, expected namespaced or cluster"),
    };
    let mut storage = StorageFacts {
        prefix: plural,
        hub_group: group,
        hub_version: version,
        upstream: None,
        stored_versions: Vec::new(),
        returns_deleted: false,
    };
    let mut parsed = ResourceFacts {
        group,
        version,
        plural,
        singular: kind.to_ascii_lowercase(),
        kind,
        list_kind: format!("{kind}List"),
        namespaced,
        short_names: Vec::new(),
        categories: Vec::new(),
        verbs: ALL_VERBS.to_vec(),
        served: true,
        backing: BackingFacts::Stored(storage.clone()),
        subresources: Vec::new(),
        deprecated_since: None,
        deprecation: None,
        removed_release: "",
        gate: None,
        creates_on_update: false,
        updates_unconditionally: true,
        resets: vec!["status"],
        introduced: None,
        is_replaced: false,
        releases: MinorRange::ALL,
    };
    let (mut unstored, mut deprecated, mut removed, mut instead) = (None, None, None, None);
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("short", names) => parsed.short_names = names.split(',').collect(),
            ("categories", names) => parsed.categories = names.split(',').collect(),
            ("verbs", verbs) => parsed.verbs = verbs.split(',').collect(),
            ("computed", source) => unstored = Some(BackingFacts::Computed(source)),
            ("action", name) => unstored = Some(BackingFacts::Action(name)),
            ("unserved", "") => parsed.served = false,
            ("returned", "") => storage.returns_deleted = true,
            ("prefix", prefix) => storage.prefix = prefix,
            ("hub", hub) => (storage.hub_group, storage.hub_version) = api_version(hub),
            ("upstream", hub) => storage.upstream = Some(api_version(hub)),
            ("stored", versions) => storage.stored_versions = versions.split(',').map(api_version).collect(),
            ("deprecated", since) => {
                deprecated = Some(since);
                parsed.deprecated_since = Some(since.parse().map_err(|_| "invalid version")?);
            }
            ("introduced", version) => {
                let minor: Minor = version.parse().map_err(|_| "invalid version")?;
                parsed.introduced = Some(minor);
                parsed.releases = parsed.releases.intersection(MinorRange::since(minor));
            }
            ("removed", version) => {
                removed = Some(version);
                let minor: Minor = version.parse().map_err(|_| "invalid version")?;
                parsed.releases = parsed.releases.intersection(MinorRange::until(minor.previous()));
            }
            ("gate", feature) => parsed.gate = Some(feature),
            ("create-on-update", "") => parsed.creates_on_update = true,
            ("conditional-update", "") => parsed.updates_unconditionally = false,
            ("resets", paths) => parsed.resets = dotted_paths(paths),
            ("instead", kind) => instead = kind.rsplit_once('/'),
            _ => return Err("unknown attribute of a resource"),
        }
    }
    parsed.backing = unstored.unwrap_or(BackingFacts::Stored(storage));
    parsed.is_replaced = instead.is_some();
    parsed.removed_release = removed.filter(|_| deprecated.is_some()).unwrap_or_default();
    parsed.deprecation = deprecated.map(|since| {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let removal = removed.map(|version| format!(", unavailable in v{version}+")).unwrap_or_default();
        let advice = instead.map(|(api, kind)| format!("; use {api} {kind}")).unwrap_or_default();
        format!("{api_version} {kind} is deprecated in v{since}+{removal}{advice}")
    });
    Ok(parsed)
}

fn dotted_paths(text: &'static str) -> Vec<&'static str> {
    text.split(',').filter(|path| !path.is_empty()).collect()
}

fn subresource(resource: &ResourceFacts, line: &'static str) -> Result<SubresourceFacts, &'static str> {
    let mut words = line.split(' ');
    let mut parsed = SubresourceFacts {
        name: words.next().unwrap_or_default(),
        group: resource.group,
        version: resource.version,
        kind: resource.kind,
        verbs: SUBRESOURCE_VERBS.to_vec(),
        served: true,
        action: None,
        connector: None,
        accepts: None,
        scale: None,
        resets: vec!["status"],
    };
    if parsed.name == "status" {
        parsed.resets = vec!["spec"];
    }
    let mut scale = ScaleFacts::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("verbs", verbs) => parsed.verbs = verbs.split(',').collect(),
            ("unserved", "") => parsed.served = false,
            ("action", name) => parsed.action = Some(name),
            ("connector", name) => parsed.connector = Some(name),
            ("accepts", version) => parsed.accepts = Some(api_version(version)),
            ("replicas", path) => scale.replicas = path,
            ("current", path) => scale.current = path,
            ("selector", path) => scale.selector = path,
            ("labels", path) => (scale.selector, scale.labels) = (path, true),
            ("resets", paths) => parsed.resets = dotted_paths(paths),
            (kind, "") => {
                let (api_version, kind) = kind.rsplit_once('/').ok_or("unknown attribute of a subresource")?;
                let (group, version) = api_version.split_once('/').ok_or("missing group of the kind")?;
                (parsed.group, parsed.version, parsed.kind) = (group_name(group), version, kind);
            }
            _ => return Err("unknown attribute of a subresource"),
        }
    }
    parsed.scale = (!scale.replicas.is_empty()).then_some(scale);
    Ok(parsed)
}

fn group_name(text: &'static str) -> &'static str {
    if text == "core" { "" } else { text }
}

/// Splits an `apiVersion` into group and version.
fn api_version(text: &'static str) -> (&'static str, &'static str) {
    text.split_once('/').unwrap_or(("", text))
}

/// A group with its registered versions.
pub type RegisteredGroup = (&'static str, Vec<&'static str>);

/// Parses the registered groups and versions of a release: a line a group, and its versions, with the group repeated where
/// their releases differ.
pub(crate) fn parse_registered(text: &'static str, minor: Minor) -> Vec<RegisteredGroup> {
    let mut groups: Vec<RegisteredGroup> = Vec::new();
    for line in lines_of(text, minor) {
        let mut words = line.text.split(' ');
        let group = group_name(words.next().unwrap_or_default());
        match groups.last_mut().filter(|(known, _)| *known == group) {
            Some((_, versions)) => versions.extend(words),
            None => groups.push((group, words.collect())),
        }
    }
    groups.iter_mut().for_each(|(_, versions)| versions.sort_unstable());
    groups
}
