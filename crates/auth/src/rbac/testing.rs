//! Short forms of rules, subjects and bindings for the tables of tests.

use pintle_value::Str;

use super::policy::{PolicyRule, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind};

/// The strings of a comma-separated list. The list is empty if the text is empty.
fn list(text: &str) -> Vec<Str> {
    if text.is_empty() { Vec::new() } else { text.split(',').map(Str::from).collect() }
}

/// A rule from comma-separated lists: verbs, groups, resources, object names, paths. The group is the core group if the
/// text is empty and there are resources.
pub(super) fn rule(verbs: &str, groups: &str, resources: &str, names: &str, urls: &str) -> PolicyRule {
    let core = groups.is_empty() && !resources.is_empty();
    PolicyRule {
        verbs: list(verbs),
        api_groups: if core { vec![Str::default()] } else { list(groups) },
        resources: list(resources),
        resource_names: list(names),
        non_resource_urls: list(urls),
    }
}

/// A subject from `User:NAME`, `Group:NAME`, `ServiceAccount:NAME` or `ServiceAccount:NAMESPACE/NAME`.
pub(super) fn subject(text: &str) -> Subject {
    let (kind, name) = text.split_once(':').unwrap();
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let kind = match kind {
        "User" => SubjectKind::User,
        "Group" => SubjectKind::Group,
        _ => SubjectKind::ServiceAccount,
    };
    Subject { kind, namespace: namespace.into(), name: name.into() }
}

/// A binding of `Role/NAME` or `ClusterRole/NAME` to subjects.
pub(super) fn binding(role: &str, subjects: &[&str]) -> RoleBinding {
    let (kind, name) = role.split_once('/').unwrap();
    let kind = if kind == "Role" { RoleKind::Role } else { RoleKind::ClusterRole };
    let subjects = subjects.iter().map(|text| subject(text)).collect();
    RoleBinding { subjects, role: RoleRef { kind, name: name.into() } }
}
