//! The bodies of writes as JSON, with or without secret values.

use bytes::Bytes;
use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_registry::GroupVersion;
use pintle_value::Value;

use crate::context::RequestContext;
use crate::request::negotiate::media_type;

/// The replacement for a secret value.
const REDACTED: &str = "REDACTED";
/// The annotation in which kubectl keeps the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A resource whose bodies contain secrets.
struct SecretResource {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    kind: &'static str,
    /// The fields of a body that contain no secrets. All other values are replaced.
    public: &'static [&'static str],
}

/// Resources with secrets in their fields. Custom resources may contain secrets, too, but nothing declares them.
const SECRETS: [SecretResource; 3] = [
    SecretResource {
        group: "",
        resource: "secrets",
        subresource: "",
        kind: "Secret",
        public: &["apiVersion", "kind", "metadata", "type", "immutable"],
    },
    SecretResource {
        group: "authentication.k8s.io",
        resource: "tokenreviews",
        subresource: "",
        kind: "TokenReview",
        public: &["apiVersion", "kind", "metadata"],
    },
    SecretResource {
        group: "",
        resource: "serviceaccounts",
        subresource: "token",
        kind: "TokenRequest",
        public: &["apiVersion", "kind", "metadata", "spec"],
    },
];

/// The body of a write.
#[derive(Clone, Copy)]
pub struct RequestBody<'r> {
    request: &'r RequestContext,
    bytes: &'r Bytes,
}

impl std::fmt::Debug for RequestBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestBody").field("size", &self.size()).finish_non_exhaustive()
    }
}

/// A body without its secret values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactedBody {
    /// The rest of the body, as JSON text. `None` if the body is malformed.
    pub json: Option<Vec<u8>>,
    /// True if the kind of the body has secrets. The message of an error may quote them.
    pub has_secrets: bool,
}

impl<'r> RequestBody<'r> {
    pub(super) fn new(request: &'r RequestContext, bytes: &'r Bytes) -> Self {
        Self { request, bytes }
    }

    /// The size of the body as it was received, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The body as JSON text, whatever its encoding. `None` if the body is malformed.
    #[must_use]
    pub fn json(&self) -> Option<Vec<u8>> {
        Some(json::encode(&self.tree()?))
    }

    /// The body with the values of secrets and tokens replaced.
    #[must_use]
    pub fn redacted(&self) -> RedactedBody {
        let mut tree = self.tree();
        let info = &self.request.info;
        let is_requested = |row: &&SecretResource| {
            (row.group, row.resource, row.subresource) == (&*info.group, &*info.resource, &*info.subresource)
        };
        // The server refuses a body whose kind differs from the path's kind, but it has already received the body.
        let kind = tree.as_ref().map_or("", Value::kind);
        let row = SECRETS.iter().find(is_requested).or_else(|| SECRETS.iter().find(|row| row.kind == kind));
        if let (Some(tree), Some(row)) = (&mut tree, row) {
            redact(tree, row);
        }
        RedactedBody { json: tree.as_ref().map(json::encode), has_secrets: row.is_some() }
    }

    fn tree(&self) -> Option<Value> {
        let media_type = media_type(&self.request.headers);
        let media_type = media_type.as_deref().unwrap_or("application/json");
        match media_type {
            "application/vnd.kubernetes.protobuf" => self.protobuf(),
            "application/cbor" | "application/apply-patch+cbor" => {
                cbor::decode(self.bytes, cbor::Limits::default()).ok()
            }
            "application/yaml" | "application/apply-patch+yaml" => {
                yaml::decode(self.bytes).ok().map(|decoded| decoded.value)
            }
            _ => json::decode(self.bytes, json::DecodeOptions::default()).ok().map(|decoded| decoded.value),
        }
    }

    fn protobuf(&self) -> Option<Value> {
        let envelope = protobuf::open_envelope(self.bytes).ok()?;
        let GroupVersion { group, version } = GroupVersion::parse(&envelope.api_version)?;
        let catalog = &self.request.cluster.served.catalog;
        let schema = catalog.schema(catalog.kind_type(&group, &version, &envelope.kind)?);
        let mut tree = protobuf::decode_object(&envelope, &schema.types, schema.root).ok()?;
        tree.set("apiVersion", envelope.api_version.as_str());
        tree.set("kind", envelope.kind.as_str());
        Some(tree)
    }
}

/// Replaces the secret values in a body. The body is an object, a part of an object, or a JSON patch, whose paths are
/// kept.
fn redact(tree: &mut Value, row: &SecretResource) {
    match tree {
        Value::Array(operations) => {
            for operation in operations {
                match operation {
                    Value::Object(fields) => fields
                        .iter_mut()
                        .filter(|(name, value)| !(matches!(*name, "op" | "path" | "from") && value.as_str().is_some()))
                        .for_each(|(_, value)| replace_values(value)),
                    other => replace_values(other),
                }
            }
        }
        Value::Object(fields) => {
            fields
                .iter_mut()
                .filter(|(name, _)| !row.public.contains(name))
                .for_each(|(_, value)| replace_values(value));
            if let Some(last_applied) = tree.at_mut(&["metadata", "annotations", LAST_APPLIED]) {
                replace_values(last_applied);
            }
        }
        other => replace_values(other),
    }
}

/// Replaces all values below a value, but not the names of fields.
fn replace_values(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(replace_values),
        Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| replace_values(value)),
        Value::Null => {}
        other => *other = Value::from(REDACTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: usize, body: &str, expect: &str) {
        let mut tree = json::decode(body.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
        redact(&mut tree, &SECRETS[row]);
        assert_eq!(String::from_utf8(json::encode(&tree)).expect("text"), expect);
    }

    #[test]
    fn values_of_secrets_are_replaced_and_their_names_are_kept() {
        check(
            0,
            r#"{"data":{"a":"cQ=="},"kind":"Secret","metadata":{"annotations":{"b":"c","kubectl.kubernetes.io/last-applied-configuration":"{}"}},"stringData":{"d":"e"},"x":[{"y":1}]}"#,
            r#"{"data":{"a":"REDACTED"},"kind":"Secret","metadata":{"annotations":{"b":"c","kubectl.kubernetes.io/last-applied-configuration":"REDACTED"}},"stringData":{"d":"REDACTED"},"x":[{"y":"REDACTED"}]}"#,
        );
        check(
            0,
            r#"[{"op":"add","path":"/data/a","value":"cQ=="},{"op":"remove","path":"/data/b"},"c"]"#,
            r#"[{"op":"add","path":"/data/a","value":"REDACTED"},{"op":"remove","path":"/data/b"},"REDACTED"]"#,
        );
        check(0, r#""secret""#, r#""REDACTED""#);
        check(
            1,
            r#"{"spec":{"audiences":["a"],"token":"t"}}"#,
            r#"{"spec":{"audiences":["REDACTED"],"token":"REDACTED"}}"#,
        );
        check(
            2,
            r#"{"spec":{"audiences":["a"]},"status":{"token":"t"}}"#,
            r#"{"spec":{"audiences":["a"]},"status":{"token":"REDACTED"}}"#,
        );
    }
}
