//! The resource facts: `data/resources.txt` read into plain structs. The head of that file documents the format and
//! says where the facts are from.

use crate::facts::FactsError;

/// A group and its priority in discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    /// The name, empty for the core group.
    pub name: &'static str,
    /// Groups with a higher one come first.
    pub priority: u32,
    /// The versions, the preferred one first.
    pub versions: Vec<VersionFacts>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFacts {
    /// The name.
    pub name: &'static str,
    /// Versions with a higher one come first in their group.
    pub priority: u32,
}

/// One version of one resource.
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
    /// The kind of a list; of no meaning for resources that cannot be listed.
    pub list_kind: String,
    /// True if its objects are in namespaces.
    pub namespaced: bool,
    /// Short names for kubectl.
    pub short_names: Vec<&'static str>,
    /// Categories for kubectl.
    pub categories: Vec<&'static str>,
    /// The verbs, sorted.
    pub verbs: Vec<&'static str>,
    /// False for what is known but not built yet.
    pub served: bool,
    /// What stands behind it.
    pub backing: BackingFacts,
    /// The subresources, sorted.
    pub subresources: Vec<SubresourceFacts>,
    /// The warning that every request for a deprecated kind is answered with.
    pub deprecation: Option<String>,
}

impl ResourceFacts {
    /// Where and how the objects are stored; `None` for a resource that stores nothing.
    #[must_use]
    pub fn storage(&self) -> Option<&StorageFacts> {
        match &self.backing {
            BackingFacts::Stored(storage) => Some(storage),
            BackingFacts::Computed(_) | BackingFacts::Action(_) => None,
        }
    }
}

/// What stands behind a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackingFacts {
    /// Objects that are stored.
    Stored(StorageFacts),
    /// Objects that are worked out when asked for, by the source of this name.
    Computed(&'static str),
    /// Nothing is kept: a create does what this is the name of.
    Action(&'static str),
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubresourceFacts {
    /// The last part of the path.
    pub name: &'static str,
    /// The group of its kind.
    pub group: &'static str,
    /// The version of its kind.
    pub version: &'static str,
    /// The kind of bodies and answers: the resource's own, or another one (`Scale`).
    pub kind: &'static str,
    /// The verbs, sorted.
    pub verbs: Vec<&'static str>,
    /// False for what is known but not built yet.
    pub served: bool,
    /// The name of what a create does there, where it does something else than write the object.
    pub action: Option<&'static str>,
    /// Where the object keeps what the subresource shows, if that is its scale.
    pub scale: Option<ScaleFacts>,
}

/// Where an object keeps its scale; paths have dots between their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleFacts {
    /// How many replicas there should be.
    pub replicas: &'static str,
    /// How many there are.
    pub current: &'static str,
    /// A label selector, or a map of labels, that selects their pods.
    pub selector: &'static str,
    /// True if that is a map of labels.
    pub labels: bool,
}

/// Where and how the objects of a resource are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageFacts {
    /// The part of a key between the root and the namespace or name: `pods`, `minions`, `services/specs`.
    pub prefix: &'static str,
    /// The group of the version that objects are kept at; another than the resource's own for a view of its objects.
    pub hub_group: &'static str,
    /// The version that objects are kept at.
    pub hub_version: &'static str,
    /// The group that kube-apiserver stores objects at; discovery's storage version hash is made of it.
    pub upstream_group: &'static str,
    /// The version that kube-apiserver stores objects at.
    pub upstream_version: &'static str,
    /// True if a DELETE that removes an object answers with it, false if with a `Status` (upstream:
    /// `ReturnDeletedObject`).
    pub returns_deleted: bool,
}

/// All verbs of a stored resource.
const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The verbs of a subresource that writes the object.
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// Reads the resource facts. Groups come out in discovery's order: by priority, then by name.
pub(crate) fn parse(text: &'static str) -> Result<(Vec<GroupFacts>, Vec<ResourceFacts>), FactsError> {
    let mut groups: Vec<GroupFacts> = Vec::new();
    let mut resources: Vec<ResourceFacts> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |problem: &str| FactsError::new(i + 1, problem);
        let priority = |text: &str| text.parse::<u32>().map_err(|_| fail("a priority that is no number"));
        if let Some((name, number)) = line.strip_prefix("group ").and_then(|l| l.split_once(' ')) {
            groups.push(GroupFacts { name: group_name(name), priority: priority(number)?, versions: Vec::new() });
            continue;
        }
        let group = groups.last_mut().ok_or_else(|| fail("no group before it"))?;
        if let Some((name, number)) = line.strip_prefix("version ").and_then(|l| l.split_once(' ')) {
            group.versions.push(VersionFacts { name, priority: priority(number)? });
            continue;
        }
        let version = group.versions.last().ok_or_else(|| fail("no version before it"))?.name;
        if let Some(line) = line.strip_prefix("    /") {
            let owner = resources.last_mut().ok_or_else(|| fail("no resource before it"))?;
            let made = subresource(owner, line).map_err(fail)?;
            owner.subresources.push(made);
        } else if let Some(line) = line.strip_prefix("  ") {
            resources.push(resource(group.name, version, line).map_err(fail)?);
        } else {
            return Err(fail("neither group, version, resource nor subresource"));
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
        return Err("a resource needs plural, kind and scope");
    };
    let namespaced = match scope {
        "namespaced" => true,
        "cluster" => false,
        _ => return Err("a scope that is neither namespaced nor cluster"),
    };
    let mut storage = StorageFacts {
        prefix: plural,
        hub_group: group,
        hub_version: version,
        upstream_group: group,
        upstream_version: version,
        returns_deleted: false,
    };
    let mut made = ResourceFacts {
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
        deprecation: None,
    };
    let (mut unstored, mut deprecated, mut instead) = (None, None, None);
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("short", names) => made.short_names = names.split(',').collect(),
            ("categories", names) => made.categories = names.split(',').collect(),
            ("verbs", verbs) => made.verbs = verbs.split(',').collect(),
            ("computed", source) => unstored = Some(BackingFacts::Computed(source)),
            ("action", name) => unstored = Some(BackingFacts::Action(name)),
            ("unserved", "") => made.served = false,
            ("returned", "") => storage.returns_deleted = true,
            ("prefix", prefix) => storage.prefix = prefix,
            ("hub", hub) => {
                (storage.hub_group, storage.hub_version) = api_version(hub);
                (storage.upstream_group, storage.upstream_version) = api_version(hub);
            }
            ("upstream", hub) => (storage.upstream_group, storage.upstream_version) = api_version(hub),
            ("deprecated", since) => deprecated = Some(since),
            ("instead", kind) => instead = kind.rsplit_once('/'),
            _ => return Err("an unknown word of a resource"),
        }
    }
    made.backing = unstored.unwrap_or(BackingFacts::Stored(storage));
    made.deprecation = deprecated.map(|since| {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let advice = instead.map(|(api, kind)| format!("; use {api} {kind}")).unwrap_or_default();
        format!("{api_version} {kind} is deprecated in v{since}+{advice}")
    });
    Ok(made)
}

fn subresource(owner: &ResourceFacts, line: &'static str) -> Result<SubresourceFacts, &'static str> {
    let mut words = line.split(' ');
    let mut made = SubresourceFacts {
        name: words.next().unwrap_or_default(),
        group: owner.group,
        version: owner.version,
        kind: owner.kind,
        verbs: SUBRESOURCE_VERBS.to_vec(),
        served: true,
        action: None,
        scale: None,
    };
    let mut scale = ScaleFacts::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("verbs", verbs) => made.verbs = verbs.split(',').collect(),
            ("unserved", "") => made.served = false,
            ("action", name) => made.action = Some(name),
            ("replicas", path) => scale.replicas = path,
            ("current", path) => scale.current = path,
            ("selector", path) => scale.selector = path,
            ("labels", path) => (scale.selector, scale.labels) = (path, true),
            (kind, "") => {
                let (api_version, kind) = kind.rsplit_once('/').ok_or("an unknown word of a subresource")?;
                let (group, version) = api_version.split_once('/').ok_or("a kind without its group")?;
                (made.group, made.version, made.kind) = (group_name(group), version, kind);
            }
            _ => return Err("an unknown word of a subresource"),
        }
    }
    made.scale = (!scale.replicas.is_empty()).then_some(scale);
    Ok(made)
}

fn group_name(text: &'static str) -> &'static str {
    if text == "core" { "" } else { text }
}

/// Splits an `apiVersion` as objects have it.
fn api_version(text: &'static str) -> (&'static str, &'static str) {
    text.split_once('/').unwrap_or(("", text))
}
