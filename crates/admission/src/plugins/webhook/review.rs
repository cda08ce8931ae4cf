//! `AdmissionReview`: the encoded request of a webhook, and the decoded answer (upstream:
//! `admission/plugin/webhook/request`, `webhook/errors`).

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_auth::review::{ReviewKind, ReviewVersion};
use pintle_codec::json;
use pintle_registry::{ApiError, GroupVersion, GroupVersionKind, GroupVersionResource};
use pintle_schema::{Scalar, base64};
use pintle_value::print::quote;
use pintle_value::{Str, Value, object};

use crate::objects::VersionedObjects;
use crate::{AdmissionAttributes, matching::MatchedResource};

static ADMISSION_REVIEW: LazyLock<ReviewKind> = LazyLock::new(|| {
    let (kind, v1, v1beta1) = ("AdmissionReview", "admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    let mut types = ConfigTypes::default();
    let (text, flag, any) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool), types.any());
    let (bytes, number) = (types.scalar(Scalar::Bytes), types.scalar(Scalar::Int32));
    let (texts, map) = (types.list(text), types.map(text));
    let cause = types.object("v1.StatusCause", &[("reason", text), ("message", text), ("field", text)]);
    let details = [
        ("name", text),
        ("group", text),
        ("kind", text),
        ("uid", text),
        ("causes", types.list(cause)),
        ("retryAfterSeconds", number),
    ];
    let details = types.object("v1.StatusDetails", &details);
    let status = [
        ("kind", text),
        ("apiVersion", text),
        ("metadata", any),
        ("status", text),
        ("message", text),
        ("reason", text),
        ("*details", details),
        ("code", number),
    ];
    let status = types.object("v1.Status", &status);
    let mut kinds = Vec::new();
    for (version, package) in [(v1, "v1"), (v1beta1, "v1beta1")] {
        let response = [
            ("uid", text),
            ("allowed", flag),
            ("*status", status),
            ("patch", bytes),
            ("*patchType", types.named_text(&format!("{package}.PatchType"))),
            ("auditAnnotations", map),
            ("warnings", texts),
        ];
        let response = types.object(&format!("{package}.AdmissionResponse"), &response);
        let fields = [("kind", text), ("apiVersion", text), ("request", any), ("*response", response)];
        kinds.push((version, kind, types.object(&format!("{package}.{kind}"), &fields)));
    }
    let name = "k8s.io/apiserver/pkg/util/webhook/client.go:71";
    ReviewKind { kind, v1, v1beta1, scheme: ConfigScheme { name, strict: false, types, kinds } }
});

/// Appends members of a JSON object.
struct Members<'a>(&'a mut Vec<u8>);

impl Members<'_> {
    fn key(&mut self, key: &str) {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        json::write_string(key, self.0);
        self.0.push(b':');
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        json::write_string(text, self.0);
    }

    fn optional(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    fn texts(&mut self, key: &str, texts: &[Str]) {
        self.key(key);
        self.0.push(b'[');
        for (i, text) in texts.iter().enumerate() {
            if i > 0 {
                self.0.push(b',');
            }
            json::write_string(text, self.0);
        }
        self.0.push(b']');
    }

    fn object(&mut self, key: &str, write: impl FnOnce(&mut Members<'_>)) {
        self.key(key);
        self.0.push(b'{');
        write(&mut Members(self.0));
        self.0.push(b'}');
    }

    fn kind(&mut self, key: &str, GroupVersionKind { group, version, kind }: &GroupVersionKind) {
        self.object(key, |members| {
            [("group", group), ("version", version), ("kind", kind)]
                .iter()
                .for_each(|(key, text)| members.text(key, text));
        });
    }

    fn resource(&mut self, key: &str, GroupVersionResource { group, version, resource }: &GroupVersionResource) {
        self.object(key, |members| {
            let fields = [("group", group), ("version", version), ("resource", resource)];
            fields.iter().for_each(|(key, text)| members.text(key, text));
        });
    }
}

/// The JSON of the review of a write.
pub(super) fn encode(
    version: ReviewVersion,
    uid: &str,
    attributes: &AdmissionAttributes<'_>,
    matched: MatchedResource<'_>,
    objects: &VersionedObjects<'_>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    out.push(b'{');
    let mut review = Members(&mut out);
    review.text("kind", ADMISSION_REVIEW.kind);
    review.text("apiVersion", ADMISSION_REVIEW.api_version(version));
    review.object("request", |request| {
        request.text("uid", uid);
        request.kind("kind", &matched.kind(attributes));
        request.resource("resource", &matched.resource(attributes));
        request.optional("subResource", attributes.subresource);
        request.kind("requestKind", &attributes.kind());
        request.resource("requestResource", &attributes.resource.gvr());
        request.optional("requestSubResource", attributes.subresource);
        request.optional("name", attributes.name);
        request.optional("namespace", attributes.namespace);
        request.text("operation", attributes.operation.text());
        request.object("userInfo", |user| {
            user.optional("username", &attributes.user.name);
            user.optional("uid", &attributes.user.uid);
            if !attributes.user.groups.is_empty() {
                user.texts("groups", &attributes.user.groups);
            }
            if !attributes.user.extra.is_empty() {
                let mut extra: Vec<_> = attributes.user.extra.iter().collect();
                extra.sort_by_key(|(key, _)| key);
                user.object("extra", |members| extra.iter().for_each(|(key, values)| members.texts(key, values)));
            }
        });
        for (key, object) in [("object", &objects.object), ("oldObject", &objects.old)] {
            request.key(key);
            match object.is_null() {
                true => request.0.extend_from_slice(b"null"),
                false => {
                    attributes.objects.encode(attributes.resource, object, &objects.kind, request.0);
                    // An encoder of whole bodies ends with a line break.
                    request.0.truncate(request.0.trim_ascii_end().len());
                }
            }
        }
        request.key("dryRun");
        request.0.extend_from_slice(if attributes.dry_run { b"true" } else { b"false" });
        let options = attributes.options.to_object(attributes.operation);
        let kind = GroupVersionKind::new("meta.k8s.io", "v1", options.kind());
        request.key("options");
        // Connect requests have no options.
        match options.is_null() {
            true => request.0.extend_from_slice(b"null"),
            false => attributes.objects.encode(attributes.resource, &options, &kind, request.0),
        }
    });
    out.extend_from_slice(b"}\n");
    out
}

/// The answer of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    /// The `Status` of a denial; null if there is none.
    pub(super) status: Value,
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: Str,
    pub(super) annotations: Vec<(Str, Str)>,
    pub(super) warnings: Vec<String>,
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResponseError {
    /// The answer is not a review.
    Undecodable(String),
    /// The review does not have the form of an answer.
    Invalid(String),
}

/// Reads an answer (upstream: `VerifyAdmissionResponse`).
///
/// # Errors
/// See [`ResponseError`].
pub(super) fn decode(
    version: ReviewVersion,
    uid: &str,
    is_mutating: bool,
    body: &[u8],
) -> Result<AdmissionResponse, ResponseError> {
    let review = ADMISSION_REVIEW
        .decode(version, body)
        .map_err(|why| ResponseError::Undecodable(status_conversion(version, body).unwrap_or(why)))?;
    let invalid = |text: String| Err(ResponseError::Invalid(text));
    let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
        return invalid("webhook response was absent".to_owned());
    };
    let patch = base64::decode(response.str_at(&["patch"]).as_bytes()).unwrap_or_default();
    let patch_type = response.get("patchType").and_then(Value::as_str);
    if version == ReviewVersion::V1 {
        let found = response.str_at(&["uid"]);
        if found != uid {
            return invalid(format!("expected response.uid={}, got {}", quote(uid), quote(found)));
        }
        let expected = ADMISSION_REVIEW.api_version(version);
        if review.api_version() != expected || review.kind() != ADMISSION_REVIEW.kind {
            let GroupVersion { group, version } = GroupVersion::parse(review.api_version()).unwrap_or_default();
            let (expected_kind, kind) = (ADMISSION_REVIEW.kind, review.kind());
            return invalid(format!(
                "expected webhook response of {expected}, Kind={expected_kind}, got {group}/{version}, Kind={kind}"
            ));
        }
        match (is_mutating, patch.is_empty(), patch_type) {
            (true, false, None) => {
                return invalid("webhook returned response.patch but not response.patchType".to_owned());
            }
            (true, true, Some(_)) => {
                return invalid("webhook returned response.patchType but not response.patch".to_owned());
            }
            (true, false, Some("")) => {
                return invalid("webhook returned invalid response.patchType of \"\"".to_owned());
            }
            (false, false, _) => return invalid("validating webhook may not return response.patch".to_owned()),
            (false, true, Some(_)) => {
                return invalid("validating webhook may not return response.patchType".to_owned());
            }
            _ => {}
        }
    }
    let texts = |(key, value): (&str, &Value)| (Str::from(key), Str::from(value.as_str().unwrap_or_default()));
    let warning = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(AdmissionResponse {
        allowed: response.bool_at(&["allowed"]),
        status: response.get("status").cloned().unwrap_or_default(),
        // As in upstream, a patch in the older version has the only type that exists.
        patch_type: match version {
            ReviewVersion::V1 => patch_type.unwrap_or_default().into(),
            ReviewVersion::V1Beta1 => "JSONPatch".into(),
        },
        patch: if is_mutating { patch } else { Vec::new() },
        annotations: response.entries_at(&["auditAnnotations"]).map(texts).collect(),
        warnings: response.items_at(&["warnings"]).iter().map(warning).collect(),
    })
}

/// The message for an answer that is a `Status`. The decoder of admission reviews knows the kind `Status`, but cannot
/// convert it.
fn status_conversion(version: ReviewVersion, body: &[u8]) -> Option<String> {
    let tree = json::decode(body, json::DecodeOptions::default()).ok()?.value;
    let to = ADMISSION_REVIEW.api_version(version).rsplit('/').next()?;
    let is_status = (tree.api_version(), tree.kind()) == ("v1", "Status");
    is_status.then(|| format!("converting (v1.Status) to ({to}.AdmissionReview): unknown conversion"))
}

/// The error of a request that a webhook denies, and its code (upstream: `ToStatusErr`).
pub(super) fn denial(webhook: &str, status: &Value) -> (ApiError, u16) {
    let mut status = if status.is_null() {
        object! {}
    } else {
        status.clone()
    };
    let code = status.int_at(&["code"]).filter(|code| *code >= 400).unwrap_or(400);
    status.set("code", code);
    if matches!(status.str_at(&["status"]), "" | "Success") {
        status.set("status", "Failure");
    }
    let denied = format!("admission webhook {} denied the request", quote(webhook));
    let message = match (status.str_at(&["message"]), status.str_at(&["reason"])) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    status.set("message", message.as_str());
    (ApiError::Denied { message, status: Box::new(status) }, u16::try_from(code).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_checked() {
        let check = |is_mutating: bool, version: ReviewVersion, body: &str, expect: Result<(), &str>| {
            let found = decode(version, "u", is_mutating, body.as_bytes()).map(drop).map_err(|error| match error {
                ResponseError::Undecodable(why) => format!("undecodable: {why}"),
                ResponseError::Invalid(why) => why,
            });
            assert_eq!(found, expect.map_err(str::to_owned), "{body}");
        };
        let (v1, v1beta1) = (ReviewVersion::V1, ReviewVersion::V1Beta1);
        let answer = |response: &str| {
            format!(r#"{{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {response}}}"#)
        };
        let ok = answer(r#"{"uid": "u", "allowed": true}"#);
        check(true, v1, &ok, Ok(()));
        check(false, v1, &ok, Ok(()));
        check(
            true,
            v1beta1,
            &ok,
            Err("undecodable: converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"),
        );
        check(
            true,
            v1,
            r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no"}"#,
            Err("undecodable: converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        );
        check(true, v1, &answer("null"), Err("webhook response was absent"));
        check(true, v1, &answer(r#"{"uid": "w"}"#), Err("expected response.uid=\"u\", got \"w\""));
        check(
            true,
            v1,
            r#"{"response": {"uid": "u", "allowed": true}}"#,
            Err("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
        );
        check(false, v1beta1, r#"{"response": {"uid": "w", "allowed": true, "patchType": "x"}}"#, Ok(()));
        for (fields, mutating, validating) in [
            (r#""patch": "W10=""#, Err("webhook returned response.patch but not response.patchType"), "patch"),
            (
                r#""patchType": "JSONPatch""#,
                Err("webhook returned response.patchType but not response.patch"),
                "patchType",
            ),
            (
                r#""patchType": "", "patch": "W10=""#,
                Err("webhook returned invalid response.patchType of \"\""),
                "patch",
            ),
            (r#""patchType": "JSONPatch", "patch": "W10=""#, Ok(()), "patch"),
        ] {
            let body = answer(&format!(r#"{{"uid": "u", {fields}}}"#));
            check(true, v1, &body, mutating);
            check(false, v1, &body, Err(&format!("validating webhook may not return response.{validating}")));
        }
    }

    #[test]
    fn denials_have_a_message_and_a_code() {
        let check = |status: Value, message: &str, code: u16| {
            let (error, found) = denial("a.b.c", &status);
            assert_eq!(
                (error.to_string(), found),
                (format!("admission webhook \"a.b.c\" denied the request{message}"), code)
            );
        };
        check(Value::Null, " without explanation", 400);
        check(object! {"message": "no", "code": 200, "status": "Success"}, ": no", 400);
        check(object! {"reason": "Forbidden", "code": 403}, ": Forbidden", 403);
        check(object! {"reason": "Forbidden", "message": "no", "code": 999}, ": no", 999);
    }
}
