//! Pintle's intended differences, and the differences that exist because the Go API server is not a whole
//! kube-apiserver. Each entry has its reason. The differences of the aggregation layer are in `aggregation`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::aggregation::is_accepted;
use crate::sequence::Request;

static SCHEME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"in scheme\s+\\*"[^"]*""#).expect("a valid pattern"));

/// The package of a Go type.
static GO_PACKAGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\((\*?)\w+\.").expect("a valid pattern"));

/// The status and the headers. Headers that depend on the bytes of the body or on its time are without their values.
fn head(text: &str) -> Vec<&str> {
    const VARYING: [&str; 5] = ["etag: ", "location: ", "content-range: ", "last-modified: ", "expires: "];
    let varies = |line: &str| VARYING.iter().any(|name| line.starts_with(name));
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(|line| if varies(line) { line.split(' ').next().unwrap_or_default() } else { line }).collect()
}

/// The JSON documents of a body.
fn documents(text: &str) -> Option<Vec<Unordered>> {
    let (_, body) = text.split_once("\n\n")?;
    serde_json::Deserializer::from_str(body.trim_end_matches("<end>"))
        .into_iter()
        .map(|value| value.ok().map(sorted))
        .collect()
}

/// A value with sorted members and sorted conditions.
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

/// A JSON value that ignores the order of members.
#[derive(PartialEq)]
enum Unordered {
    Object(BTreeMap<String, Unordered>),
    Array(Vec<Unordered>),
    Scalar(Value),
}

/// Sorts the managers of every object in a value. All other values keep their places.
pub(crate) fn sort_managers(value: &mut Value) {
    match value {
        Value::Array(items) => {
            if items.iter().all(|item| item.get("fieldsV1").is_some()) {
                items
                    .sort_by_key(|item| (item["manager"].to_string(), item["operation"].to_string(), item.to_string()));
            }
            items.iter_mut().for_each(sort_managers);
        }
        Value::Object(members) => members.values_mut().for_each(sort_managers),
        _ => {}
    }
}

/// A document without the descriptions of its members.
fn without_descriptions(document: Unordered) -> Unordered {
    match document {
        Unordered::Object(members) => {
            let members = members
                .into_iter()
                .filter(|(key, value)| key != "description" || !matches!(value, Unordered::Scalar(_)));
            Unordered::Object(members.map(|(key, value)| (key, without_descriptions(value))).collect())
        }
        Unordered::Array(items) => Unordered::Array(items.into_iter().map(without_descriptions).collect()),
        scalar @ Unordered::Scalar(_) => scalar,
    }
}

/// The sorted parts of an answer with a list of errors. YAML breaks its lines between words, so the parts of a YAML
/// answer are words.
fn parts(text: &str) -> Vec<&str> {
    let is_yaml = text.contains("content-type: application/yaml");
    let is_end = |c: char| "[],{}\n".contains(c) || (is_yaml && c == ' ');
    let mut parts: Vec<&str> = text.split(is_end).map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.sort_unstable();
    parts
}

/// An accepted difference.
struct Known {
    /// The reason why the difference is accepted.
    #[allow(dead_code, reason = "for the reader")]
    reason: &'static str,
    /// True if the difference between two answers is this one. The first answer is Pintle's, and the second is the Go
    /// API server's.
    is_this: fn(&Request, &str, &str) -> bool,
}

const KNOWN: &[Known] = &[
    Known {
        reason: "the Go API server has no rules for built-in kinds",
        is_this: |request, pintle, go| {
            let rules = [
                "].image: Required value",
                "a valid config key must consist of",
                "name is neither a standard finalizer name nor is it fully qualified",
            ];
            let is_rule = rules.iter().any(|rule| pintle.contains(rule));
            let is_built_in = ["/api/v1/", "/apis/apps/"].iter().any(|root| request.path.starts_with(root));
            is_built_in && is_rule && pintle.starts_with("422") && go.starts_with("20")
        },
    },
    Known {
        reason: "a list that cannot be converted is 429 in the Go API server only once its watch cache has noticed",
        is_this: |request, pintle, go| {
            let fails = |text: &str| text.contains("conversion webhook for");
            let is_list =
                request.method == "GET" && request.path.split('?').next().is_some_and(|p| p.ends_with("/foos"));
            is_list && fails(pintle) && fails(go) && pintle.starts_with("429") && go.starts_with("500")
        },
    },
    Known {
        reason: "Go strings keep bytes that are not UTF-8, which its JSON encoder escapes; here they are U+FFFD already",
        is_this: |_, pintle, go| go.contains(r"\ufffd") && pintle.replace('\u{fffd}', r"\ufffd") == go,
    },
    Known {
        reason: "upstream encodes the object that it changes or deletes at the storage version first, which may need a \
                 webhook that fails",
        is_this: |request, pintle, go| {
            let fails = go.starts_with("500") && go.contains("conversion webhook for");
            match request.method.as_str() {
                "DELETE" => fails && pintle.starts_with("200"),
                "PUT" | "PATCH" => fails && pintle.starts_with(['4', '5']),
                _ => false,
            }
        },
    },
    Known {
        reason: "a delete without grace whose object another client deletes at the same moment succeeds, too, so the \
                 number of successes varies",
        is_this: |request, pintle, go| {
            let codes = |text: &str| {
                let (_, codes) = text.split_once("status codes [")?;
                let mut codes: Vec<_> = codes.split(']').next()?.split(", ").map(str::to_owned).collect();
                codes.dedup();
                Some(codes)
            };
            request.method == "DELETE"
                && request.path.contains("/pods/")
                && codes(pintle).is_some_and(|found| found.iter().any(|code| code == "200") && codes(go) == Some(found))
        },
    },
    Known {
        reason: "the text of a refused patch shows the number -0 of a built-in kind as 0",
        is_this: |request, pintle, go| {
            request.method == "PATCH" && go.contains(":-0") && go.replace(":-0", ":0") == pintle
        },
    },
    Known {
        reason: "lists in CBOR are written while they are read, so their length is not known at the beginning",
        is_this: |_, pintle, go| go.contains("application/cbor") && pintle.replacen("[_ ", "[", 1) == go,
    },
    Known {
        reason: "Pintle keeps its history, the Go API server begins one when a watch cache is first used",
        is_this: |request, pintle, go| {
            request.is_watch()
                && go.contains("too old resource version")
                && !pintle.contains("too old resource version")
        },
    },
    Known {
        reason: "in OpenAPI documents, members are in another order and descriptions are Pintle's own",
        is_this: |request, pintle, go| {
            let bare =
                |text: &str| documents(text).map(|all| all.into_iter().map(without_descriptions).collect::<Vec<_>>());
            let is_same = match (bare(pintle), bare(go)) {
                (Some(pintle), Some(go)) => pintle == go,
                _ => pintle.split_once("\n\n").map(|(_, body)| body) == go.split_once("\n\n").map(|(_, body)| body),
            };
            request.path.starts_with("/openapi/") && head(pintle) == head(go) && is_same
        },
    },
    Known {
        reason: "conditions of definitions are in another order: upstream's controllers write them in a race",
        is_this: |request, pintle, go| {
            let may_differ = request.path.contains("/customresourcedefinitions");
            may_differ && head(pintle) == head(go) && documents(pintle).is_some_and(|ours| Some(ours) == documents(go))
        },
    },
    Known {
        reason: "managers are sorted by time, and a second may pass between two writes on one server only",
        is_this: |request, pintle, go| {
            let sorted = |text: &str| {
                let (head, body) = text.split_once("\n\n")?;
                let mut value: Value = serde_json::from_str(body).ok()?;
                sort_managers(&mut value);
                Some(format!("{head}\n{value}"))
            };
            let has_lines = ["content-type: application/yaml", "content-type: application/vnd.kubernetes.protobuf"]
                .iter()
                .any(|media_type| go.contains(media_type));
            let lines = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(|line| line.replace("- ", "  ")).collect();
                lines.sort_unstable();
                lines
            };
            (go.contains("managedFields") && sorted(pintle).is_some_and(|ours| Some(ours) == sorted(go)))
                || (has_lines && !request.is_watch() && go.contains("FieldsV1") && lines(pintle) == lines(go))
        },
    },
    Known {
        reason: "upstream collects the errors of a schema and of metadata, and conflicts, in the order of a Go map",
        is_this: |_, pintle, go| (go.starts_with("422") || go.starts_with("409")) && parts(pintle) == parts(go),
    },
    Known {
        reason: "upstream collects the errors of a typed object in the order of a Go map",
        is_this: |_, pintle, go| {
            let has_errors = |text: &str| text.starts_with("500") && text.contains(": errors:\\n");
            let lines = |text: &str| {
                let mut lines: Vec<_> = text.split("\\n").map(|line| line.replace("\",\"code\":500}", "")).collect();
                lines.sort_unstable();
                lines
            };
            has_errors(pintle) && lines(pintle) == lines(go)
        },
    },
    Known {
        reason: "upstream stops at the first undeclared field, in the order of a Go map",
        is_this: |_, pintle, go| {
            let is_undeclared = |text: &str| text.starts_with("500") && text.contains("field not declared in schema");
            is_undeclared(pintle) && is_undeclared(go)
        },
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
            let fails = go.starts_with("0\n") || go.contains("does not appear to be a protobuf message");
            fails && pintle.starts_with("415") && request.headers.iter().any(is_protobuf)
        },
    },
    Known {
        reason: "kube-apiserver decodes a patched built-in object without an apiVersion into the internal type, which \
                 knows none of its fields; the Go API server has no internal types",
        is_this: |request, pintle, go| {
            request.method == "PATCH"
                && go.starts_with("200")
                && pintle.contains("was undeterminable: name must be provided")
        },
    },
    Known {
        reason: "the Go API server has no internal types of built-in kinds, so their Go package has another name",
        is_this: |_, pintle, go| {
            let bare = |text: &str| GO_PACKAGE.replace_all(text, "($1").into_owned();
            go.contains("v1.") && bare(pintle) == bare(go)
        },
    },
];

/// True if the answers to a request differ only in an accepted way.
pub(crate) fn is_known(request: &Request, pintle: &str, go: &str) -> bool {
    KNOWN.iter().any(|known| (known.is_this)(request, pintle, go)) || is_accepted(request, pintle, go)
}
