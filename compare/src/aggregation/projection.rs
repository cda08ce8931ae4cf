//! The part of a document that is of the tested API servers. The servers' own groups differ.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// The hash of a document that the server has made. It depends on the order of members.
static HASH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\?hash=[0-9A-F]{128}").expect("a valid pattern"));
/// The end of the names of all tested groups.
const GROUPS: &str = ".example.com";

/// True if only a part of the answer is compared.
pub(crate) fn is_projected(path: &str) -> bool {
    projected(path, b"{}").is_some()
}

/// Removes the servers' own parts of a document; `None` if the whole body is compared. Only versions of groups, paths
/// and definitions are removed, so the order of the remaining ones is compared.
pub(crate) fn projected(path: &str, body: &[u8]) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    let mut document: Value = serde_json::from_slice(body).ok()?;
    match path.trim_end_matches('/') {
        "/apis" => {
            keep_items(document.get_mut("groups"), |group| &group["name"]);
            keep_items(document.get_mut("items"), |group| &group["metadata"]["name"]);
        }
        "/apis/apiregistration.k8s.io/v1/apiservices" => {
            keep_items(document.get_mut("items"), |service| &service["metadata"]["name"]);
        }
        "/openapi/v3" => keep_members(document.get_mut("paths"), "example.com"),
        "/openapi/v2" => {
            keep_members(document.get_mut("paths"), "example.com");
            keep_members(document.get_mut("definitions"), "com.example.");
            let members = document.as_object_mut()?;
            members.retain(|name, _| name == "paths" || name == "definitions");
        }
        _ => return None,
    }
    Some(HASH.replace_all(&format!("{document:#}"), "?hash=<hash>").into_owned())
}

fn keep_items(items: Option<&mut Value>, name: fn(&Value) -> &Value) {
    if let Some(Value::Array(items)) = items {
        items.retain(|item| name(item).as_str().is_some_and(|name| name.ends_with(GROUPS)));
    }
}

fn keep_members(members: Option<&mut Value>, part: &str) {
    if let Some(Value::Object(members)) = members {
        members.retain(|name, _| name.contains(part));
    }
}

#[cfg(test)]
mod tests {
    use super::{is_projected, projected};

    #[test]
    fn only_the_tested_groups_are_kept() {
        let groups = br#"{"groups": [{"name": "apps"}, {"name": "b.example.com"}, {"name": "a.example.com"}]}"#;
        let kept = projected("/apis?x=y", groups).expect("a document");
        assert_eq!(
            kept.split_whitespace().collect::<String>(),
            r#"{"groups":[{"name":"b.example.com"},{"name":"a.example.com"}]}"#
        );
        assert_eq!(projected("/apis/b.example.com", groups), None);
        assert!(is_projected("/apis/?x=y") && is_projected("/openapi/v2") && !is_projected("/apis/b.example.com"));
    }
}
