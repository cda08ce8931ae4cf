//! What Pintle does otherwise by choice, or what the Go API server cannot show because it is not a whole
//! kube-apiserver. Each entry has its reason.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::sequence::Request;

static SCHEME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"in scheme \\+"[^"]*""#).expect("a valid pattern"));

/// The status and the headers, without those of Go's file server.
fn head(text: &str) -> Vec<&str> {
    let is_known = |line: &&str| {
        ["etag: ", "last-modified: ", "accept-ranges: ", "vary: "].iter().any(|name| line.starts_with(name))
    };
    text.lines().take_while(|line| !line.is_empty()).filter(|line| !is_known(line)).collect()
}

/// The JSON documents of a body.
fn documents(text: &str) -> Option<Vec<Unordered>> {
    let (_, body) = text.split_once("\n\n")?;
    serde_json::Deserializer::from_str(body.trim_end_matches("<end>"))
        .into_iter()
        .map(|value| value.ok().map(sorted))
        .collect()
}

/// A value whose members, and conditions, are sorted.
fn sorted(value: Value) -> Unordered {
    match value {
        Value::Array(mut items) if items.iter().all(|item| item.get("lastTransitionTime").is_some()) => {
            items.sort_by_key(|item| item["type"].to_string());
            Unordered::Array(items.into_iter().map(sorted).collect())
        }
        Value::Object(members) => {
            Unordered::Object(members.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Unordered::Array(items.into_iter().map(sorted).collect()),
        other => Unordered::Scalar(other),
    }
}

/// A JSON value that does not know the order of members.
#[derive(PartialEq)]
enum Unordered {
    Object(BTreeMap<String, Unordered>),
    Array(Vec<Unordered>),
    Scalar(Value),
}

/// The parts of an answer with a list of errors, sorted.
fn parts(text: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(['[', ']', ',', '{', '}', '\n']).map(str::trim).collect();
    parts.sort_unstable();
    parts
}

/// An accepted difference.
struct Known {
    /// Why it is accepted.
    #[allow(dead_code, reason = "for the reader")]
    reason: &'static str,
    /// True if the difference between these two answers, in this order Pintle's and the Go API server's, is this one.
    is_this: fn(&Request, &str, &str) -> bool,
}

const KNOWN: &[Known] = &[
    Known {
        reason: "Pintle keeps its history, the Go API server begins one when a watch cache is first used",
        is_this: |request, pintle, go| {
            request.is_watch()
                && go.contains("too old resource version")
                && !pintle.contains("too old resource version")
        },
    },
    Known {
        reason: "members of OpenAPI documents, of a table row's object and of the managed fields in partial objects of \
                 custom resources are in another order, and so are the conditions of definitions, which \
                 upstream's controllers write in a race",
        is_this: |request, pintle, go| {
            let may_differ = request.path.starts_with("/openapi/v3/")
                || request.path.contains("/customresourcedefinitions")
                || go.contains("\"columnDefinitions\"")
                || go.contains("PartialObjectMetadata");
            may_differ && head(pintle) == head(go) && documents(pintle).is_some_and(|ours| Some(ours) == documents(go))
        },
    },
    Known {
        reason: "upstream collects the errors of a schema and of metadata in the order of a Go map",
        is_this: |_, pintle, go| go.starts_with("422") && pintle.starts_with("422") && parts(pintle) == parts(go),
    },
    Known {
        reason: "the message has the source line where the scheme is made",
        is_this: |_, pintle, go| {
            let scheme = |text: &str| SCHEME.replace_all(text, "in scheme").into_owned();
            go.contains("in scheme") && scheme(pintle) == scheme(go)
        },
    },
    Known {
        reason: "upstream accepts custom resources in Protobuf, has no decoder for them and breaks the connection",
        is_this: |request, pintle, go| {
            let is_protobuf = |(name, value): &(String, String)| {
                name.eq_ignore_ascii_case("content-type") && value.contains("protobuf")
            };
            go.starts_with("0\n") && pintle.starts_with("415") && request.headers.iter().any(is_protobuf)
        },
    },
    Known {
        reason: "the Go API server has no internal types of built-in kinds, so their Go package has another name",
        is_this: |_, pintle, go| go.contains("to (v1.") && pintle == go.replace("to (v1.", "to (core."),
    },
];

/// True if the answers to a request differ in an accepted way only.
pub(crate) fn is_known(request: &Request, pintle: &str, go: &str) -> bool {
    KNOWN.iter().any(|known| (known.is_this)(request, pintle, go))
}
