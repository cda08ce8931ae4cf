//! The strategy for CertificateSigningRequest. The server sets the user info of the requester. The object, `status` and
//! `approval` may each change other fields (upstream: `pkg/registry/certificates`, `pkg/apis/certificates/validation`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_schema::base64;
use pintle_value::{Errors, FieldPath, Object, Str, Value, field, names, repeated};
use pintle_versions::Minor;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{pkcs10, stored};
use crate::generic::{keep_old, same};
use crate::go_diff::{self, GoStruct};
use crate::pem;
use crate::validation::{strings_at, validate_signer_name};

pub(super) const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MIN_EXPIRATION_SECONDS: i64 = 600;

/// Conditions whose status must be `True`.
const TRUE_CONDITIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Conditions that only the subresource `approval` sets.
const APPROVAL_CONDITIONS: [&str; 2] = ["Approved", "Denied"];

/// The known key usages, sorted.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The strategy for CertificateSigningRequest.
pub(crate) struct CertificateSigningRequestStrategy;

impl Strategy for CertificateSigningRequestStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[stored::V1BETA1]
    }

    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        if let Some(spec) = object.at_mut(&["spec"]) {
            for field in ["username", "uid", "groups", "extra"] {
                spec.remove(field);
            }
            for (field, text) in [("username", &context.user), ("uid", &context.uid)] {
                if !text.is_empty() {
                    spec.set(field, text);
                }
            }
            if !context.groups.is_empty() {
                spec.set("groups", context.groups.clone());
            }
            if !context.extra.is_empty() {
                let extra: Object = context.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect();
                spec.set("extra", extra);
            }
        }
        // A new request cannot be approved already.
        object.set("status", Value::object());
    }

    fn prepare_for_update(&self, _: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["spec"]);
        keep_old(object, old, &["status"]);
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        validate(object, None)
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        validate_update(object, old, CsrEndpoint::Object)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // Any valid path segment.
        names::path_segment_name(name, prefix)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        match name {
            "status" => Some(&CsrEndpoint::Status),
            "approval" => Some(&CsrEndpoint::Approval),
            _ => None,
        }
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &["spec.signerName"]
    }

    fn is_selectable_by_namespace(&self) -> bool {
        false
    }
}

/// Which endpoint writes the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CsrEndpoint {
    Object,
    /// `status`: the certificate, and conditions other than approval and denial.
    Status,
    /// `approval`: only conditions.
    Approval,
}

impl SubresourceStrategy for CsrEndpoint {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["spec"]);
        if *self == CsrEndpoint::Status {
            for kind in APPROVAL_CONDITIONS {
                restore_conditions(object, old, kind);
            }
            set_times(context, object, old);
        } else {
            set_times(context, object, old);
            let conditions = object.at(&["status", "conditions"]).cloned();
            keep_old(object, old, &["status"]);
            match conditions {
                Some(conditions) => object.set_at(&["status", "conditions"], conditions),
                None => {
                    object.remove_at(&["status", "conditions"]);
                }
            }
        }
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        validate_update(object, old, *self)
    }
}

fn conditions(object: &Value) -> &[Value] {
    object.items_at(&["status", "conditions"])
}

fn conditions_of<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    conditions(object).iter().filter(|c| c.str_at(&["type"]) == kind).collect()
}

/// Restores the old conditions of a type if their number did not change.
fn restore_conditions(object: &mut Value, old: &Value, kind: &str) {
    let before = conditions_of(old, kind);
    if conditions_of(object, kind).len() != before.len() {
        return;
    }
    let list = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    let same_type = list.into_iter().flatten().filter(|c| c.str_at(&["type"]) == kind);
    for (condition, before) in same_type.zip(before) {
        *condition = before.clone();
    }
}

/// Sets the times that the client omitted.
fn set_times(context: &StrategyContext, object: &mut Value, old: &Value) {
    let now = Value::from(context.now);
    let key = |condition: &Value| ["type", "status"].map(|field| Str::from(condition.str_at(&[field])));
    // The first condition of several counts.
    let before = conditions(old).iter().rev();
    let before: BTreeMap<[Str; 2], &Value> =
        before.filter_map(|before| Some((key(before), before.get("lastTransitionTime")?))).collect();
    let list = object.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut);
    for condition in list.into_iter().flatten() {
        condition.set_default("lastUpdateTime", now.clone());
        let time = before.get(&key(condition)).copied().unwrap_or(&now);
        condition.set_default("lastTransitionTime", time.clone());
    }
}

/// Validates a request. Errors of the old object are tolerated.
fn validate(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldPath::new("spec");
    let request = object.str_at(&["spec", "request"]);
    if let Err(fault) = check_request(request) {
        errors.invalid(&spec.child("request"), request, fault);
    }
    validate_usages(&mut errors, object, old, &spec.child("usages"));

    let signer = object.str_at(&["spec", "signerName"]);
    let signer_path = spec.child("signerName");
    if signer == LEGACY_SIGNER && old.is_none_or(|old| old.str_at(&["spec", "signerName"]) != LEGACY_SIGNER) {
        errors.invalid(&signer_path, signer, "the legacy signerName is not allowed via this API version");
    } else {
        validate_signer_name(&mut errors, signer, &signer_path);
    }
    if let Some(seconds) = object.int_at(&["spec", "expirationSeconds"]).filter(|s| *s < MIN_EXPIRATION_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&spec.child("expirationSeconds"), seconds, detail);
    }
    validate_conditions(&mut errors, object, old);

    let certificate = |object: &Value| Str::from(object.str_at(&["status", "certificate"]));
    let tolerated =
        old.map(certificate).is_some_and(|old| old == certificate(object) || certificate_error(&old).is_some());
    if let Some(fault) = certificate_error(&certificate(object)).filter(|_| !tolerated) {
        errors.invalid(&FieldPath::new("status.certificate"), "<certificate data>", fault);
    }
    errors
}

fn decode(text: &str) -> String {
    String::from_utf8_lossy(&base64::decode(text.as_bytes()).unwrap_or_default()).into_owned()
}

/// Validates the first PEM block of a request.
fn check_request(request: &str) -> Result<(), String> {
    pkcs10::check(&request_der(request)?)
}

/// The DER of the first PEM block of a request.
pub(super) fn request_der(request: &str) -> Result<Vec<u8>, String> {
    match pem::blocks(&decode(request)).next() {
        Some(block) if block.kind == "CERTIFICATE REQUEST" => Ok(block.bytes),
        _ => Err("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    }
}

/// The subject of a `CertificateSigningRequest`.
///
/// # Errors
/// The request cannot be read (`certificates.ParseCSR`).
pub fn requested_subject(object: &Value) -> Result<pkcs10::RequestedSubject, String> {
    pkcs10::subject(&request_der(object.str_at(&["spec", "request"]))?)
}

/// Returns the error in a certificate chain.
fn certificate_error(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let text = decode(certificate);
    let mut none = true;
    for block in pem::blocks(&text) {
        if block.kind != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {}", field::quote(block.kind)));
        }
        if block.headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        let mut rest = block.bytes.as_slice();
        if rest.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        while !rest.is_empty() {
            match X509Certificate::from_der(rest) {
                Ok((behind, _)) => rest = behind,
                Err(_) => return Some("x509: malformed certificate".to_owned()),
            }
        }
        none = false;
    }
    none.then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn has_duplicates(items: &[&str]) -> bool {
    items.iter().collect::<BTreeSet<_>>().len() < items.len()
}

fn validate_usages(errors: &mut Errors, object: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
    let before = old.map(|old| strings_at(old, &["spec", "usages"])).unwrap_or_default();
    let given = strings_at(object, &["spec", "usages"]);
    if given.is_empty() {
        errors.required(path, "");
    }
    if before.iter().all(|usage| USAGES.contains(usage)) {
        for (i, usage) in given.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage)) {
            errors.not_supported(&path.index(i), *usage, &USAGES);
        }
    }
    if !has_duplicates(&before) {
        for i in repeated(&given) {
            errors.duplicate(&path.index(i), given[i]);
        }
    }
}

fn validate_conditions(errors: &mut Errors, object: &Value, old: Option<&Value>) {
    let before = old.map_or(&[][..], conditions);
    let types: BTreeSet<&str> = before.iter().map(|condition| condition.str_at(&["type"])).collect();
    let was = |kind: &str| types.contains(kind);
    let before_repeats = types.len() < before.len();

    let list = FieldPath::new("status.conditions");
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (i, condition) in conditions(object).iter().enumerate() {
        let path = list.index(i);
        let (kind, status) = (condition.str_at(&["type"]), condition.str_at(&["status"]));
        if kind.is_empty() && !was("") {
            errors.required(&path.child("type"), "");
        }
        let allowed: &[&str] = if TRUE_CONDITIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.required(&path.child("status"), "");
        } else if !allowed.contains(&status) {
            errors.not_supported(&path.child("status"), status, allowed);
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) && !(was("Approved") && was("Denied")) {
            errors.invalid(&list, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if !seen.insert(kind) && !before_repeats {
            errors.duplicate(&path.child("type"), kind);
        }
    }
}

fn validate_update(object: &Value, old: &Value, endpoint: CsrEndpoint) -> Errors {
    let mut errors = validate(object, Some(old));
    let path = FieldPath::new("status.conditions");
    for kind in TRUE_CONDITIONS {
        if conditions_of(object, kind).len() < conditions_of(old, kind).len() {
            errors.forbidden(&path, format!("updates may not remove a condition of type \"{kind}\""));
        }
    }
    if endpoint != CsrEndpoint::Approval {
        for kind in APPROVAL_CONDITIONS {
            let list = |object: &Value| Value::Array(conditions_of(object, kind).into_iter().cloned().collect());
            let (new, before) = (list(object), list(old));
            let (count, count_before) = (new.items_at(&[]).len(), before.items_at(&[]).len());
            if count > count_before {
                errors.forbidden(&path, format!("updates may not add a condition of type \"{kind}\""));
            } else if count == count_before && !same(Some(&new), Some(&before)) {
                let condition = GoStruct("certificates/v1.CertificateSigningRequestCondition", Minor::NEWEST);
                let difference = go_diff::lists(before.items_at(&[]), new.items_at(&[]), condition);
                let detail = format!("updates may not modify a condition of type \"{kind}\"\n{difference}");
                errors.forbidden(&path, detail);
            }
        }
    }
    let certificate = |object: &Value| Str::from(object.str_at(&["status", "certificate"]));
    if certificate(object) != certificate(old) {
        let path = FieldPath::new("status.certificate");
        if endpoint != CsrEndpoint::Status {
            errors.forbidden(&path, "updates may not set certificate content");
        } else if !certificate(old).is_empty() {
            errors.forbidden(&path, "updates may not modify existing certificate content");
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    fn request() -> Value {
        let made = include_str!("pkcs10.txt").lines().next().and_then(|line| line.strip_prefix("p256 "));
        let pem = pem_of("CERTIFICATE REQUEST", made.expect("a request"));
        object(&format!(
            r#"{{"spec":{{"request":"{pem}","signerName":"example.com/s","usages":["client auth"],"username":"mallory"}}}}"#
        ))
    }

    /// Returns a PEM block in base64.
    fn pem_of(kind: &str, content: &str) -> String {
        base64::encode(format!("-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n").as_bytes())
    }

    #[test]
    fn certificates() {
        for (kind, content, expect) in [
            ("CERTIFICATE", "MQ==", "x509: malformed certificate"),
            ("CERTIFICATE", "", "found CERTIFICATE PEM block containing 0 certificates"),
            ("CERTIFICATE", "K: v\n\nMQ==", "no PEM block headers are permitted"),
            ("PRIVATE KEY", "MQ==", "only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""),
        ] {
            assert_eq!(certificate_error(&pem_of(kind, content)).as_deref(), Some(expect));
        }
        assert_eq!(certificate_error(""), None);
        assert_eq!(certificate_error("YQ==").as_deref(), Some("must contain at least one CERTIFICATE PEM block"));
    }

    #[test]
    fn the_requester_is_the_authenticated_user() {
        let mut new = request();
        new.set_at(&["spec", "extra"], object(r#"{"a":["b"]}"#));
        new.set_at(&["status", "certificate"], "YQ==");
        CertificateSigningRequestStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new.str_at(&["spec", "username"]), "admin");
        assert_eq!(new["spec"]["groups"], object(r#"["system:masters"]"#));
        assert_eq!(new.at(&["spec", "extra"]), None);
        assert_eq!(new["status"], Value::object());
    }

    #[test]
    fn requests() {
        let check = |change: &dyn Fn(&mut Value), expect: &[&str]| {
            let mut new = request();
            change(&mut new);
            assert_eq!(messages(&CertificateSigningRequestStrategy.validate(&context(), &new)), expect);
        };
        check(&|_| {}, &[]);
        check(
            &|r| r.set_at(&["spec", "request"], "YQ=="),
            &["spec.request: Invalid value: \"YQ==\": PEM block type must be CERTIFICATE REQUEST"],
        );
        let broken = pem_of("CERTIFICATE REQUEST", "MQ==");
        check(
            &|r| r.set_at(&["spec", "request"], broken.as_str()),
            &[&format!("spec.request: Invalid value: \"{broken}\": asn1: syntax error: truncated tag or length")],
        );
        check(
            &|r| {
                r.set_at(&["spec", "usages"], vec!["any", "any"]);
                r.set_at(&["spec", "expirationSeconds"], 60);
                r.set_at(&["spec", "signerName"], LEGACY_SIGNER);
            },
            &[
                "spec.usages[1]: Duplicate value: \"any\"",
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
                "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 600 seconds (10 minutes)",
            ],
        );
        check(
            &|r| r.set_at(&["spec", "signerName"], "x"),
            &[
                "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ],
        );
        check(
            &|r| r.set_at(&["spec", "signerName"], "x/y"),
            &["spec.signerName: Invalid value: \"x\": should be a domain with at least two segments separated by dots"],
        );
    }

    #[test]
    fn each_endpoint_changes_its_own_fields() {
        let old = request();
        let approved = object(r#"{"conditions":[{"type":"Approved","status":"True"}]}"#);
        let mut new = old.clone();
        new.set("status", approved.clone());
        new.set_at(&["status", "certificate"], "YQ==");

        let approval = CertificateSigningRequestStrategy.subresource("approval").expect("approval");
        let mut by_approval = new.clone();
        approval.prepare_for_update(&context(), &mut by_approval, &old);
        assert_eq!(by_approval.str_at(&["status", "certificate"]), "");
        assert_eq!(
            by_approval["status"]["conditions"][0],
            object(
                r#"{"type":"Approved","status":"True","lastUpdateTime":"2023-11-14T22:13:20Z","lastTransitionTime":"2023-11-14T22:13:20Z"}"#
            )
        );
        assert!(approval.validate_update(&context(), &by_approval, &old).is_empty());

        let status = CertificateSigningRequestStrategy.subresource("status").expect("status");
        let mut by_status = new.clone();
        status.prepare_for_update(&context(), &mut by_status, &old);
        assert_eq!(
            messages(&status.validate_update(&context(), &by_status, &old)),
            [
                "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
                "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"",
            ]
        );
        assert_eq!(
            messages(&approval.validate_update(&context(), &old, &by_approval)),
            ["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""]
        );
        let mut both = by_approval.clone();
        both.set_at(
            &["status", "conditions"],
            object(r#"[{"type":"Approved","status":"True"},{"type":"Denied","status":"False"}]"#),
        );
        assert_eq!(
            messages(&approval.validate_update(&context(), &both, &by_approval)),
            [
                "status.conditions[1].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            ]
        );
    }
}
