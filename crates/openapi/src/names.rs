//! Builds operation ids, tags and articles like upstream's route installer and its OpenAPI customization
//! (`GetOperationIDAndTags`, `GetArticleForNoun`).

use pintle_registry::GroupVersion;

/// The common properties of a web service's operations: the root path, the middle of their ids, and their tag
/// (upstream: `restful.WebService`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebService {
    /// The path without a trailing slash: `/apis/apps/v1`.
    pub(crate) root: String,
    /// The part of operation ids after the verb: `AppsV1`.
    scope: String,
    /// The tag of all operations: `apps_v1`.
    pub(crate) tag: String,
}

impl WebService {
    /// The web service of a group and version.
    pub(crate) fn of_version(version: &GroupVersion) -> Self {
        let group = Self::of_group(&version.group);
        Self {
            root: format!("{}/{}", group.root, version.version),
            scope: group.scope + &identifier(&version.version, true),
            tag: format!("{}_{}", group.tag, identifier(&version.version, false)),
        }
    }

    /// The web service of a group; the core group's path is `/api`.
    pub(crate) fn of_group(group: &str) -> Self {
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
        Self { root, scope: identifier(group, true), tag: identifier(group, false) }
    }

    /// A web service outside of API groups. Its tag is the first segment of the path.
    pub(crate) fn of_path(path: &str) -> Self {
        let first = path.split('/').next().unwrap_or_default();
        Self { root: format!("/{path}"), scope: String::new(), tag: identifier(first, false) }
    }

    /// Returns the id of an operation: its verb, the scope, and `rest`.
    pub(crate) fn operation(&self, verb: &str, rest: &str) -> String {
        format!("{verb}{}{}", self.scope, identifier(rest, true))
    }
}

/// Removes the characters that identifiers may not contain, and capitalizes the character after each removed character.
fn identifier(text: &str, capital: bool) -> String {
    let mut result = String::with_capacity(text.len());
    let mut capital = capital;
    for (i, c) in text.chars().enumerate() {
        if c.is_alphabetic() || c == '_' || (i != 0 && c.is_numeric()) {
            if std::mem::take(&mut capital) {
                result.extend(c.to_uppercase());
            } else {
                result.push(c);
            }
        } else {
            capital = true;
        }
    }
    result
}

/// Returns a word with its first letter in upper case and the others in lower case.
pub(crate) fn title(word: &str) -> String {
    let mut chars = word.chars();
    let mut result: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    result.extend(chars.flat_map(char::to_lowercase));
    result
}

/// Returns the article before a kind, surrounded by spaces. Plural kinds have no article.
pub(crate) fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        " "
    } else if kind.starts_with(|c: char| matches!(c.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u')) {
        " an "
    } else {
        " a "
    }
}

/// Returns the name of a custom resource's model: the reversed group, the version and the kind.
pub(crate) fn custom_model(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations() {
        let check = |group: &str, version: &str, verb: &str, rest: &str, expect: &str| {
            let service = WebService::of_version(&GroupVersion::new(group, version));
            assert_eq!(format!("{} {}", service.operation(verb, rest), service.tag), expect);
        };
        check("", "v1", "read", "NamespacedPod", "readCoreV1NamespacedPod core_v1");
        check("apps", "v1", "delete", "collectionX", "deleteAppsV1CollectionX apps_v1");
        check("rbac.authorization.k8s.io", "v1", "list", "Role", "listRbacAuthorizationV1Role rbacAuthorization_v1");
        check("bench.example.com", "v1beta1", "get", "X", "getBenchExampleComV1beta1X benchExampleCom_v1beta1");
        assert_eq!(WebService::of_group("events.k8s.io").operation("get", "APIGroup"), "getEventsAPIGroup");
        assert_eq!(WebService::of_group("").operation("get", "APIVersions"), "getCoreAPIVersions");
        assert_eq!(WebService::of_path("version").operation("get", "CodeVersion"), "getCodeVersion");
    }

    #[test]
    fn words() {
        assert_eq!(title("ephemeralcontainers"), "Ephemeralcontainers");
        assert_eq!(title("GET"), "Get");
        assert_eq!(title(""), "");
        for (kind, expect) in [("Pod", " a "), ("Ingress", " an "), ("Endpoints", " "), ("StorageClass", " a ")] {
            assert_eq!(article(kind), expect, "{kind}");
        }
        assert_eq!(custom_model("bench.example.com", "v1", "Widget"), "com.example.bench.v1.Widget");
    }
}
