//! The resources that the plugin looks at, and where they have pod templates (upstream: `DefaultPodSpecExtractor`).

use pintle_registry::Resource;

/// The role of a resource for the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Has the labels that choose a policy.
    Namespace,
    /// Is subject to a policy.
    Pod,
    /// Has a pod template at this path.
    Template(&'static [&'static str]),
}

const TARGETS: [(&str, &str, Target); 10] = [
    ("", "namespaces", Target::Namespace),
    ("", "pods", Target::Pod),
    ("", "podtemplates", Target::Template(&["template"])),
    ("", "replicationcontrollers", Target::Template(&["spec", "template"])),
    ("apps", "daemonsets", Target::Template(&["spec", "template"])),
    ("apps", "deployments", Target::Template(&["spec", "template"])),
    ("apps", "replicasets", Target::Template(&["spec", "template"])),
    ("apps", "statefulsets", Target::Template(&["spec", "template"])),
    ("batch", "cronjobs", Target::Template(&["spec", "jobTemplate", "spec", "template"])),
    ("batch", "jobs", Target::Template(&["spec", "template"])),
];

impl Target {
    /// The role of a resource; `None` if the plugin does not look at the resource.
    pub(super) fn of(resource: &Resource) -> Option<Self> {
        let is_same =
            |(group, plural, _): &&(&str, &str, Target)| resource.group == *group && resource.plural == *plural;
        TARGETS.iter().find(is_same).map(|(.., target)| *target)
    }
}
