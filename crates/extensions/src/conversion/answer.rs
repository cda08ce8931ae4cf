//! The answer as a whole: a review that has a response, to the question that was asked, with as many objects. Its words
//! are those of the decoder that upstream reads it with.

use pintle_codec::{json, yaml};
use pintle_registry::GroupVersion;
use pintle_value::Value;

use super::review::{Review, ReviewVersion};
use super::{Failure, Fault, kind_of, named};

const GROUP: &str = "apiextensions.k8s.io";
const REVIEW: &str = "ConversionReview";

/// What else upstream's decoder of answers knows by name, of all versions.
const OTHER_KINDS: [&str; 9] = [
    "CustomResourceDefinition",
    "CustomResourceDefinitionList",
    "WatchEvent",
    "ListOptions",
    "GetOptions",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
];

/// The objects in the body of an answer, as many as were asked about.
///
/// # Errors
/// It is no answer to the question, or one that says no.
pub fn answered(review: &Review<'_>, originals: &[Value], body: &[u8]) -> Result<Vec<Value>, Failure> {
    let about = originals.first().unwrap_or(&Value::Null);
    let failed = |fault, why: String| Failure { fault, ..Failure::of_call(about, &why) };
    let mut answer = decode(review.version, body).map_err(|why| failed(Fault::Call, why))?;
    check(review, &answer).map_err(|why| failed(Fault::Response, why))?;
    let objects = answer.at_mut(&["response", "convertedObjects"]).map(Value::take);
    let objects = match objects {
        Some(Value::Array(objects)) => objects,
        _ => Vec::new(),
    };
    if objects.len() == originals.len() {
        return Ok(objects);
    }
    let (kind, found, expected) = (named(about), objects.len(), originals.len());
    let message = format!("conversion webhook for {kind} returned {found} objects, expected {expected}");
    Err(Failure { fault: Fault::Count, message })
}

/// Reads the body of an answer.
fn decode(version: ReviewVersion, body: &[u8]) -> Result<Value, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    // What does not begin as JSON does is read as YAML.
    let value = if body.trim_ascii_start().first() == Some(&b'{') {
        json::decode(body, json::DecodeOptions::default()).map_err(|error| unread(error.to_string()))?.value
    } else {
        yaml::decode(body).map_err(|error| error.to_string())?.value
    };
    let meta = json::type_meta(&value).map_err(|error| unread(error.to_string()))?;
    let kind = if meta.kind.is_empty() { REVIEW } else { &meta.kind };
    let found = match meta.api_version.as_str() {
        "" => GroupVersion::new(GROUP, version.name()),
        text => GroupVersion::parse(text).ok_or_else(|| format!("unexpected GroupVersion string: {text}"))?,
    };
    check_kind(version, &found, kind)?;
    check_types(&value)?;
    Ok(value)
}

fn check_kind(version: ReviewVersion, found: &GroupVersion, kind: &str) -> Result<(), String> {
    let version = version.name();
    let ours = found.group == GROUP && matches!(found.version.as_str(), "v1" | "v1beta1");
    if ours && kind == REVIEW && found.version == version {
        return Ok(());
    }
    let known = ours && (kind == REVIEW || OTHER_KINDS.contains(&kind));
    if known || (found.group.is_empty() && found.version == "v1" && kind == "Status") {
        let from = &found.version;
        return Err(format!("converting ({from}.{kind}) to ({version}.{REVIEW}): unknown conversion"));
    }
    Err(format!(
        "no kind \"{kind}\" is registered for version \"{found}\" in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\""
    ))
}

/// What Go expects somewhere in an answer.
struct Field {
    path: &'static [&'static str],
    /// The struct that the field stands in.
    of: &'static str,
    /// The Go type of the field.
    ty: &'static str,
    fits: fn(&Value) -> bool,
}

const FIELDS: [Field; 7] = [
    Field { path: &["response"], of: "ConversionReview", ty: "ConversionResponse", fits: is_object },
    Field { path: &["response", "uid"], of: "ConversionResponse", ty: "types.UID", fits: is_text },
    Field {
        path: &["response", "convertedObjects"],
        of: "ConversionResponse",
        ty: "[]runtime.RawExtension",
        fits: is_list,
    },
    Field { path: &["response", "result"], of: "ConversionResponse", ty: "v1.Status", fits: is_object },
    Field { path: &["response", "result", "status"], of: "Status", ty: "string", fits: is_text },
    Field { path: &["response", "result", "message"], of: "Status", ty: "string", fits: is_text },
    Field { path: &["response", "result", "code"], of: "Status", ty: "int32", fits: is_number },
];

fn is_object(value: &Value) -> bool {
    value.as_object().is_some()
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some()
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some()
}

fn is_number(value: &Value) -> bool {
    value.as_int().is_some_and(|code| i32::try_from(code).is_ok())
}

fn check_types(answer: &Value) -> Result<(), String> {
    for Field { path, of, ty, fits } in FIELDS {
        let Some(value) = answer.at(path).filter(|value| !value.is_null() && !fits(value)) else { continue };
        let found = match value {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        // The package of a struct of the review is that of its version.
        let version = GroupVersion::parse(answer.api_version()).unwrap_or_default().version;
        let package = if ty == "ConversionResponse" { format!("{version}.") } else { String::new() };
        let path = path.join(".");
        return Err(format!("json: cannot unmarshal {found} into Go struct field {of}.{path} of type {package}{ty}"));
    }
    Ok(())
}

/// Checks that an answer is to the question, and that it says yes.
fn check(review: &Review<'_>, answer: &Value) -> Result<(), String> {
    let strict = review.version == ReviewVersion::V1;
    let (version, kind) = (answer.api_version(), answer.kind());
    if strict && (version.is_empty() || kind.is_empty()) {
        let expected = kind_of(&format!("{GROUP}/v1"), REVIEW);
        return Err(format!("expected webhook response of {expected}, got {}", kind_of(version, kind)));
    }
    let Some(response) = answer.get("response").filter(|response| !response.is_null()) else {
        return Err("no response provided".to_owned());
    };
    let uid = response.str_at(&["uid"]);
    if strict && uid != review.uid {
        return Err(format!("expected response.uid={:?}, got {uid:?}", review.uid));
    }
    match (response.str_at(&["result", "status"]), response.str_at(&["result", "message"])) {
        ("Success", _) => Ok(()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}
