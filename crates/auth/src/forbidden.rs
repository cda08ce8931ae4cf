//! The message for a user who is not allowed to do something (upstream: `responsewriters.ForbiddenStatusError`).

use pintle_value::{Str, print};

use crate::{AuthorizationAttributes, UserInfo};

/// A user may not do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForbiddenError {
    /// The group of the resource.
    pub group: Str,
    /// The plural name of the resource; empty for a path.
    pub resource: Str,
    /// The object's name, or empty.
    pub name: Str,
    /// The user, the forbidden action and the authorizer's reason.
    pub why: String,
}

impl ForbiddenError {
    /// The error for a user who is not allowed to do the action of the attributes. The authorizer's reason may be
    /// empty.
    #[must_use]
    pub fn new(user: &UserInfo, attributes: &AuthorizationAttributes<'_>, reason: &str) -> Self {
        let mut why = escape_markup(&message(user, attributes));
        if !reason.is_empty() {
            why.push_str(": ");
            why.push_str(reason);
        }
        let AuthorizationAttributes { group, resource, name, .. } = *attributes;
        Self { group: group.into(), resource: resource.into(), name: name.into(), why }
    }
}

/// The user and the forbidden action.
fn message(user: &UserInfo, attributes: &AuthorizationAttributes<'_>) -> String {
    let AuthorizationAttributes { verb, group, resource, subresource, namespace, path, .. } = *attributes;
    let user = print::quote(&user.name);
    if resource.is_empty() {
        return format!("User {user} cannot {verb} path {}", print::quote(path));
    }
    let resource = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
    let scope = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", print::quote(namespace))
    };
    format!(
        "User {user} cannot {verb} resource {} in API group {} {scope}",
        print::quote(&resource),
        print::quote(group)
    )
}

/// Escapes characters that HTML would read as markup, as upstream's errors of authorization do.
#[must_use]
pub fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_who_cannot_do_what() {
        let user = UserInfo { name: "<bob> & \"co\"".into(), ..UserInfo::default() };
        let scale = AuthorizationAttributes {
            verb: "update",
            group: "apps",
            resource: "deployments",
            subresource: "scale",
            namespace: "ns",
            name: "web",
            ..AuthorizationAttributes::default()
        };
        let nodes = AuthorizationAttributes { verb: "list", resource: "nodes", ..AuthorizationAttributes::default() };
        let path = AuthorizationAttributes { verb: "get", path: "/metrics", ..AuthorizationAttributes::default() };
        let who = r#"User "&lt;bob&gt; &amp; \"co\"" cannot "#;
        for (attributes, reason, expect) in [
            (&scale, "", r#"update resource "deployments/scale" in API group "apps" in the namespace "ns""#),
            (&nodes, "RBAC: <x>", r#"list resource "nodes" in API group "" at the cluster scope: RBAC: <x>"#),
            (&path, "", r#"get path "/metrics""#),
        ] {
            let error = ForbiddenError::new(&user, attributes, reason);
            assert_eq!(error.why, format!("{who}{expect}"));
            assert_eq!(
                (&*error.group, &*error.resource, &*error.name),
                (attributes.group, attributes.resource, attributes.name)
            );
        }
    }
}
