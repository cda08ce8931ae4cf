//! The view of pods and pod templates that the checks read, and the texts that the checks share.

use pintle_value::Value;

use crate::pods::{ALL_LISTS, containers};

/// A pod or a pod template.
#[derive(Clone, Copy, Debug)]
pub struct PodTemplate<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// A container of any type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Container<'a>(&'a Value);

static NULL: Value = Value::Null;

impl<'a> PodTemplate<'a> {
    /// The pod or template that has its `metadata` and `spec` in this object.
    #[must_use]
    pub fn of(object: &'a Value) -> Self {
        Self { metadata: object.get("metadata").unwrap_or(&NULL), spec: object.get("spec").unwrap_or(&NULL) }
    }

    /// The init containers, containers and ephemeral containers.
    pub(super) fn containers(self) -> impl Iterator<Item = Container<'a>> {
        containers(self.spec, &ALL_LISTS).map(Container)
    }

    /// The names of the containers for which a condition holds.
    pub(super) fn names(self, condition: impl FnMut(&Container<'a>) -> bool) -> Vec<&'a str> {
        self.containers().filter(condition).map(Container::name).collect()
    }

    /// A field of the pod's security context.
    pub(super) fn security(self, field: &str) -> Option<&'a Value> {
        self.spec.at(&["securityContext", field])
    }

    pub(super) fn field(self, name: &str) -> Option<&'a Value> {
        self.spec.get(name)
    }

    pub(super) fn volumes(self) -> &'a [Value] {
        self.spec.items_at(&["volumes"])
    }

    pub(super) fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata.entries_at(&["annotations"]);
        annotations.filter_map(|(key, value)| Some((key, value.as_str()?)))
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'a str> {
        self.metadata.at(&["annotations", key]).and_then(Value::as_str)
    }

    /// True if the pod names Windows as its operating system.
    pub(super) fn is_windows(self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }

    /// True if the pod has a user namespace of its own.
    pub(super) fn has_user_namespace(self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }

    pub(super) fn runtime_class(self) -> &'a str {
        self.spec.str_at(&["runtimeClassName"])
    }
}

impl<'a> Container<'a> {
    pub(super) fn name(self) -> &'a str {
        self.0.str_at(&["name"])
    }

    /// A field of the security context.
    pub(super) fn security(self, field: &str) -> Option<&'a Value> {
        self.0.at(&["securityContext", field])
    }

    pub(super) fn at(self, path: &[&str]) -> Option<&'a Value> {
        self.0.at(path)
    }

    pub(super) fn items_at(self, path: &[&str]) -> &'a [Value] {
        self.0.items_at(path)
    }
}

/// The pod and the containers that set a field of a security context to a forbidden value.
#[derive(Debug, Default)]
pub(super) struct Setters<'a> {
    pod: bool,
    containers: Vec<&'a str>,
}

impl<'a> Setters<'a> {
    /// The pod and the containers whose field is forbidden.
    pub(super) fn of(pod: PodTemplate<'a>, field: &str, mut is_forbidden: impl FnMut(&'a Value) -> bool) -> Self {
        Self {
            pod: pod.security(field).is_some_and(&mut is_forbidden),
            containers: pod.names(|container| container.security(field).is_some_and(&mut is_forbidden)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.pod && self.containers.is_empty()
    }

    /// `pod`, and `containers "a", "b"`.
    pub(super) fn parts(&self) -> Vec<String> {
        let pod = self.pod.then(|| "pod".to_owned());
        pod.into_iter().chain((!self.containers.is_empty()).then(|| containers_text(&self.containers))).collect()
    }
}

impl std::fmt::Display for Setters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.parts().join(" and "))
    }
}

/// `container "a"`, or `containers "a", "b"`.
pub(super) fn containers_text(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names.iter().copied()))
}

/// Texts in quotes, as they are: `"a", "b"`.
pub(super) fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(", ")
}

pub(super) fn plural(count: usize, singular: &'static str, plural: &'static str) -> &'static str {
    if count == 1 { singular } else { plural }
}
