//! The status of PodCertificateRequests: a signer issues a certificate, denies the request or fails, once (upstream:
//! `ValidatePodCertificateRequestStatusUpdate`). The signer needs the permission to sign for the requested signer name.

use pintle_registry::{BoxFuture, ClusterValidation, StrategyContext, ValidatedWrite, VirtualAccess, WriteAccess};
use pintle_value::print::quote;
use pintle_value::time::{Duration, Time};
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata};
use pintle_x509::PublicKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::pod_request::requested_key;
use super::signer_permissions;
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, same};
use crate::pem;

/// The types of conditions, all of them final.
const TYPES: [&str; 3] = ["Issued", "Denied", "Failed"];
/// The fields of a status besides its conditions.
const ISSUED_FIELDS: [&str; 4] = ["certificateChain", "notBefore", "beginRefreshAt", "notAfter"];
const MAX_CHAIN: usize = 100 * 1024;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The strategy for the status of PodCertificateRequests.
pub(super) static STATUS: StatusStrategy =
    StatusStrategy::new(|context, object, old| validate(context, object, old).err().unwrap_or_default())
        .preserving(SPEC_AND_METADATA)
        .validating_in_cluster(&SignPermission);

/// Requires the permission to sign for the signer, if the status changes.
struct SignPermission;

impl ClusterValidation for SignPermission {
    fn validate<'a>(&'a self, write: ValidatedWrite<'a>) -> BoxFuture<'a, Errors> {
        Box::pin(async move {
            match write.old {
                Some(old) => require_permission(write.context, write.object, old, write.access).await,
                None => Errors::new(),
            }
        })
    }
}

/// Requires the permission to sign for the signer of a request. Upstream checks the permission only if the new status
/// is valid.
async fn require_permission(
    context: &StrategyContext,
    object: &Value,
    old: &Value,
    access: &dyn WriteAccess,
) -> Errors {
    if same(Some(&status(object)), Some(&status(old))) || validate(context, object, old).is_err() {
        return Errors::new();
    }
    let signer = old.str_at(&["spec", "signerName"]);
    for name in signer_permissions(signer) {
        if access.allows_virtual(VirtualAccess { verb: "sign", resource: "signers", name: &name }).await {
            return Errors::new();
        }
    }
    let detail = format!("User {} is not permitted to \"sign\" for signer {}", quote(&context.user), quote(signer));
    FieldError::forbidden(&FieldPath::new("spec.signerName"), detail).into()
}

/// The status of a request, without an empty list of conditions.
fn status(object: &Value) -> Value {
    let mut status = object.get("status").filter(|status| !status.is_null()).cloned().unwrap_or_else(Value::object);
    if status.items_at(&["conditions"]).is_empty() {
        status.remove("conditions");
    }
    status
}

/// Whether a request has a condition of one of these types.
fn is_any(object: &Value, types: &[&str]) -> bool {
    let conditions = object.items_at(&["status", "conditions"]).iter();
    let mut true_conditions = conditions.filter(|condition| condition.str_at(&["status"]) == "True");
    true_conditions.any(|condition| types.contains(&condition.str_at(&["type"])))
}

/// An error about a field, which ends the validation.
fn invalid(path: &str, value: impl Into<Value>, detail: impl Into<String>) -> Errors {
    FieldError::invalid(&FieldPath::new(path), value, detail).into()
}

/// An error about the status as a whole.
fn invalid_status(detail: &str) -> Errors {
    FieldError::invalid(&FieldPath::new("status"), Value::Null, detail).without_value().into()
}

/// Validates an update of the status.
fn validate(context: &StrategyContext, object: &Value, old: &Value) -> Result<(), Errors> {
    let errors = validate_conditions(context, object);
    if !errors.is_empty() {
        return Err(errors);
    }
    let is_unchanged = || same(Some(&status(object)), Some(&status(old)));
    if is_any(old, &TYPES) {
        return is_unchanged()
            .then_some(())
            .ok_or_else(|| invalid_status("immutable after PodCertificateRequest is issued, denied, or failed"));
    }
    if is_any(object, &["Denied", "Failed"]) {
        let status = &object["status"];
        let is_empty = |field: &&str| status.get(field).is_none_or(Value::is_empty);
        let detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
        return ISSUED_FIELDS.iter().all(is_empty).then_some(()).ok_or_else(|| invalid_status(detail));
    }
    if is_any(object, &["Issued"]) {
        return validate_issued(context, object, old);
    }
    let detail = r#"status is immutable unless transitioning to "Issued", "Denied", or "Failed""#;
    is_unchanged().then_some(()).ok_or_else(|| invalid_status(detail))
}

/// Requires at most one condition, with the status `True`. Upstream's paths have a dot before the index.
fn validate_conditions(context: &StrategyContext, object: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status.conditions");
    let mut known = 0;
    for (i, condition) in object.items_at(&["status", "conditions"]).iter().enumerate() {
        let index = format!("[{i}]");
        let path = path.child(&index);
        let kind = condition.str_at(&["type"]);
        if !TYPES.contains(&kind) {
            errors.not_supported(&path.child("type"), kind, &TYPES);
            continue;
        }
        known += 1;
        if known > 1 {
            let detail = r#"There may be at most one condition with type "Issued", "Denied", or "Failed""#;
            errors.invalid(&path.child("type"), kind, detail);
        }
        let status = condition.str_at(&["status"]);
        if status != "True" {
            errors.not_supported(&path.child("status"), status, &["True"]);
        }
    }
    errors.append(metadata::validate_conditions(&object["status"]["conditions"], context.missing_fields(), &path));
    errors
}

const CHAIN: &str = "status.certificateChain";
const NOT_BEFORE: &str = "status.notBefore";
const NOT_AFTER: &str = "status.notAfter";
const BEGIN_REFRESH: &str = "status.beginRefreshAt";

/// Validates an issued certificate, with the rest of its chain.
fn validate_issued(context: &StrategyContext, object: &Value, old: &Value) -> Result<(), Errors> {
    let chain = object.str_at(&["status", "certificateChain"]);
    if chain.len() > MAX_CHAIN {
        return Err(FieldError::too_long(&FieldPath::new(CHAIN), MAX_CHAIN).into());
    }
    let invalid_chain = |detail: &str| invalid(CHAIN, chain, detail);
    let mut blocks = pem::blocks(chain);
    let leaf =
        blocks.next().ok_or_else(|| invalid_chain("issued certificate chain must contain at least one certificate"))?;
    if leaf.kind != "CERTIFICATE" {
        return Err(invalid_chain("issued certificate chain must consist entirely of CERTIFICATE PEM blocks"));
    }
    let leaf = parse(&leaf.bytes).ok_or_else(|| invalid_chain("leaf certificate does not parse as valid X.509"))?;
    // Errors of names are reported together with the error of the key and with missing times. After such an error,
    // nothing else is validated.
    let mut errors = validate_names(&leaf);
    let mut fail = |other: Errors| {
        errors.append(other);
        Err(std::mem::take(&mut errors))
    };
    let wanted = match requested_key(old) {
        Ok(key) => key,
        Err(error) => return fail(error.into()),
    };
    let is_comparable = wanted != PublicKey::Other;
    if is_comparable && PublicKey::of(leaf.public_key()).as_ref() != Some(&wanted) {
        return fail(invalid_chain("leaf certificate was not issued to the requested public key"));
    }
    errors.append(missing_times(object));
    if !errors.is_empty() {
        return Err(errors);
    }
    validate_times(context, object, &leaf)?;
    for block in blocks {
        if block.kind != "CERTIFICATE" {
            return Err(invalid_chain("issued certificate chain must consist entirely of CERTFICATE PEM blocks"));
        }
        if parse(&block.bytes).is_none() {
            return Err(invalid_chain("intermediate certificate does not parse as valid X.509"));
        }
    }
    Ok(())
}

/// Parses a certificate in DER.
fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty()).map(|(_, certificate)| certificate)
}

/// Refuses alternative names that clients do not expect.
fn validate_names(leaf: &X509Certificate<'_>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new(CHAIN);
    let names = leaf.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |names| &names.value.general_names);
    for name in names.iter().filter_map(|name| if let GeneralName::DNSName(name) = name { Some(*name) } else { None }) {
        if name.is_empty() {
            errors.invalid(&path, name, "leaf certificate should not contain empty DNSName");
        }
        if name.contains("..") {
            errors.invalid(&path, name, "leaf certificate's DNSName should not contain '..'");
        }
        if name.starts_with('.') || name.ends_with('.') {
            errors.invalid(&path, name, "leaf certificate's DNSName should not start or end with '.'");
        }
    }
    for name in names {
        if let GeneralName::RFC822Name(address) = name
            && !super::mail_address::is_valid(address)
        {
            errors.invalid(&path, *address, "leaf certificate should not contain invalid EmailAddress");
        }
    }
    errors
}

/// A time of the status, unless it is not set.
fn status_time(object: &Value, field: &str) -> Option<Time> {
    object.time_at(&["status", field]).filter(|time| !time.is_zero())
}

/// An error for each time of the status that is not set.
fn missing_times(object: &Value) -> Errors {
    let consistent = "must be present and consistent with the issued certificate";
    let in_range = "must be present and in the range [notbefore+10min, notafter-10min]";
    let mut errors = Errors::new();
    for (field, path, detail) in [
        ("notBefore", NOT_BEFORE, consistent),
        ("notAfter", NOT_AFTER, consistent),
        ("beginRefreshAt", BEGIN_REFRESH, in_range),
    ] {
        if status_time(object, field).is_none() {
            errors.required(&FieldPath::new(path), detail);
        }
    }
    errors
}

/// Requires the times of the certificate in the status, and a lifetime and a time of refresh within limits.
fn validate_times(context: &StrategyContext, object: &Value, leaf: &X509Certificate<'_>) -> Result<(), Errors> {
    let of_leaf =
        [leaf.validity().not_before, leaf.validity().not_after].map(|time| Time::from_seconds(time.timestamp()));
    let [begins, ends] = of_leaf;
    let times = ["notBefore", "notAfter", "beginRefreshAt"].map(|field| status_time(object, field));
    let [Some(not_before), Some(not_after), Some(refresh)] = times else { return Err(missing_times(object)) };
    let check = |is_valid: bool, path: &str, time: Time, detail: &str| {
        is_valid.then_some(()).ok_or_else(|| invalid(path, time.rfc3339_nano(), detail))
    };
    let skew = not_before.since(context.now).0;
    let is_near = -5 * MINUTE < skew && skew < 5 * MINUTE;
    check(
        not_before == begins,
        NOT_BEFORE,
        not_before,
        "must be set to the NotBefore time encoded in the leaf certificate",
    )?;
    check(is_near, NOT_BEFORE, not_before, "must be set to within 5 minutes of kube-apiserver's current time")?;
    check(not_after == ends, NOT_AFTER, not_after, "must be set to the NotAfter time encoded in the leaf certificate")?;
    let lifetime = ends.since(begins).0;
    if lifetime < HOUR {
        return Err(invalid(CHAIN, lifetime, "leaf certificate lifetime must be >= 1 hour"));
    }
    let most = object.int_at(&["spec", "maxExpirationSeconds"]).unwrap_or(0);
    if lifetime > most.saturating_mul(SECOND) {
        let detail = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})");
        return Err(invalid(CHAIN, lifetime, detail));
    }
    let margin = 10 * MINUTE;
    check(
        refresh >= not_before.plus(Duration(margin)),
        BEGIN_REFRESH,
        refresh,
        "must be at least 10 minutes after status.notBefore",
    )?;
    check(
        refresh <= not_after.plus(Duration(-margin)),
        BEGIN_REFRESH,
        refresh,
        "must be at least 10 minutes before status.notAfter",
    )
}

#[cfg(test)]
mod tests;
