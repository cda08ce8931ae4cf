//! Parsing and validation of a webhook's `ConversionReview` response. Messages follow upstream's decoder (upstream:
//! `getConvertedObjectsFromResponse`).

use pintle_codec::{json, yaml};
use pintle_registry::GroupVersion;
use pintle_value::Value;

use super::review::{ConversionReview, ReviewVersion};
use super::{ConversionError, ConversionErrorType, format_kind, format_kind_of};

const GROUP: &str = "apiextensions.k8s.io";
const REVIEW: &str = "ConversionReview";

/// The other kinds that upstream's decoder knows, of all versions.
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

/// Returns the converted objects in a response body, as many as the request has.
///
/// # Errors
/// Returns an error if the body is not a response to the request, reports a failure, or has another number of objects.
pub fn parse_response(
    review: &ConversionReview<'_>,
    originals: &[Value],
    body: &[u8],
) -> Result<Vec<Value>, ConversionError> {
    let about = originals.first().unwrap_or(&Value::Null);
    let failed = |error_type, why: String| ConversionError { error_type, ..ConversionError::call_failed(about, &why) };
    let mut answer = decode(review.version, body).map_err(|why| failed(ConversionErrorType::CallFailure, why))?;
    check(review, &answer).map_err(|why| failed(ConversionErrorType::MalformedResponse, why))?;
    let objects = answer.at_mut(&["response", "convertedObjects"]).map(Value::take);
    let objects = match objects {
        Some(Value::Array(objects)) => objects,
        _ => Vec::new(),
    };
    if objects.len() == originals.len() {
        return Ok(objects);
    }
    let (kind, found, expected) = (format_kind_of(about), objects.len(), originals.len());
    let message = format!("conversion webhook for {kind} returned {found} objects, expected {expected}");
    Err(ConversionError { error_type: ConversionErrorType::PartialResponse, message })
}

/// Decodes a response body.
fn decode(version: ReviewVersion, body: &[u8]) -> Result<Value, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    // A body that does not start like JSON is decoded as YAML.
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

/// A typed field of the response.
struct ResponseField {
    path: &'static [&'static str],
    /// The Go struct that contains the field.
    of: &'static str,
    /// The Go type of the field.
    ty: &'static str,
    fits: fn(&Value) -> bool,
}

const FIELDS: [ResponseField; 7] = [
    ResponseField { path: &["response"], of: "ConversionReview", ty: "ConversionResponse", fits: is_object },
    ResponseField { path: &["response", "uid"], of: "ConversionResponse", ty: "types.UID", fits: is_text },
    ResponseField {
        path: &["response", "convertedObjects"],
        of: "ConversionResponse",
        ty: "[]runtime.RawExtension",
        fits: is_list,
    },
    ResponseField { path: &["response", "result"], of: "ConversionResponse", ty: "v1.Status", fits: is_object },
    ResponseField { path: &["response", "result", "status"], of: "Status", ty: "string", fits: is_text },
    ResponseField { path: &["response", "result", "message"], of: "Status", ty: "string", fits: is_text },
    ResponseField { path: &["response", "result", "code"], of: "Status", ty: "int32", fits: is_number },
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
    for ResponseField { path, of, ty, fits } in FIELDS {
        let Some(value) = answer.at(path).filter(|value| !value.is_null() && !fits(value)) else { continue };
        let found = value.json_type();
        // Structs of the review belong to the package of its version.
        let version = GroupVersion::parse(answer.api_version()).unwrap_or_default().version;
        let package = if ty == "ConversionResponse" { format!("{version}.") } else { String::new() };
        let path = path.join(".");
        return Err(format!("json: cannot unmarshal {found} into Go struct field {of}.{path} of type {package}{ty}"));
    }
    Ok(())
}

/// Checks that a response matches the request and reports success.
fn check(review: &ConversionReview<'_>, answer: &Value) -> Result<(), String> {
    let strict = review.version == ReviewVersion::V1;
    let (version, kind) = (answer.api_version(), answer.kind());
    if strict && (version.is_empty() || kind.is_empty()) {
        let expected = format_kind(&format!("{GROUP}/v1"), REVIEW);
        return Err(format!("expected webhook response of {expected}, got {}", format_kind(version, kind)));
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
