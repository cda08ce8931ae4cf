//! Validates `spec.conversion` of a CustomResourceDefinition (upstream: `validateCustomResourceConversion`). Field
//! paths follow upstream's internal version, which has the fields of `webhook` beside the strategy.

use std::collections::HashSet;

use pintle_schema::base64;
use pintle_value::{Errors, FieldPath, Value, names};

use super::validation_options::ValidationOptions;
use crate::validation::{invalid_each, require_one_of, strings_at};
use crate::webhook;
use crate::{go_json, pem};

const STRATEGIES: [&str; 2] = ["None", "Webhook"];
const NOT_WEBHOOK: &str = "should not be set when strategy is not set to Webhook";

/// The known versions of ConversionReview. A webhook must accept at least one of them.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Validates `spec.conversion`.
pub(super) fn validate(errors: &mut Errors, spec: &Value, options: &ValidationOptions, path: &FieldPath<'_>) {
    let Some(conversion) = spec.get("conversion") else { return };
    let strategy = conversion.str_at(&["strategy"]);
    if spec.bool_at(&["preserveUnknownFields"]) && strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(go_json::invalid_pointer(&path.child("strategy"), strategy, detail));
    }
    require_one_of(errors, &path.child("strategy"), strategy, &STRATEGIES);
    let client = conversion.at(&["webhook", "clientConfig"]);
    let (client_path, versions_path) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy == "Webhook" {
        match client {
            None => errors.required(&client_path, "required when strategy is set to Webhook"),
            Some(client) => validate_client(errors, client, options.require_readable_bundle, &client_path),
        }
        validate_review_versions(errors, conversion, options.require_known_review_version, &versions_path);
        return;
    }
    if client.is_some() {
        errors.forbidden(&client_path, NOT_WEBHOOK);
    }
    if !review_versions(conversion).is_empty() {
        errors.forbidden(&versions_path, NOT_WEBHOOK);
    }
}

fn validate_client(errors: &mut Errors, client: &Value, readable: bool, path: &FieldPath<'_>) {
    match (client.get("url").and_then(Value::as_str), client.get("service")) {
        (Some(url), None) => webhook::validate_url(errors, url, &path.child("url")),
        (None, Some(service)) => webhook::validate_service(errors, service, &path.child("service")),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
    let bundle = client.str_at(&["caBundle"]);
    if let Some(fault) = bundle_error(bundle).filter(|_| readable && !bundle.is_empty()) {
        let detail = format!("unable to load root certificates: {fault}");
        errors.invalid(&path.child("caBundle"), bundle, detail);
    }
}

/// True if a CRD has a conversion webhook with a CA bundle that contains no parsable certificate.
#[must_use]
pub fn has_unreadable_bundle(crd: &Value) -> bool {
    let bundle = crd.str_at(&["spec", "conversion", "webhook", "clientConfig", "caBundle"]);
    !bundle.is_empty() && bundle_error(bundle).is_some()
}

/// Returns why a CA bundle contains no parsable certificate, or `None` if it contains one.
fn bundle_error(bundle: &str) -> Option<&'static str> {
    let bytes = base64::decode(bundle.as_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut blocks = pem::blocks(&text);
    let mut malformed = false;
    for block in blocks.by_ref().filter(|block| block.kind == "CERTIFICATE" && !block.headers) {
        if x509_parser::parse_x509_certificate(&block.bytes).is_ok() {
            return None;
        }
        malformed = true;
    }
    Some(match (malformed, blocks.is_at_end()) {
        (true, _) => "failed to parse certificate: x509: malformed certificate",
        (false, false) => "unable to parse bytes as PEM block",
        (false, true) => "no valid certificate authority data seen",
    })
}

fn review_versions(conversion: &Value) -> Vec<&str> {
    strings_at(conversion, &["webhook", "conversionReviewVersions"])
}

/// Returns true if a conversion lists a version of ConversionReview that the server knows, or lists none at all.
pub(super) fn has_known_review_version(conversion: &Value) -> bool {
    let versions = review_versions(conversion);
    versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
}

fn validate_review_versions(errors: &mut Errors, conversion: &Value, known: bool, path: &FieldPath<'_>) {
    let versions = review_versions(conversion);
    if versions.is_empty() {
        return errors.required(path, "");
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        if seen.insert(version) {
            invalid_each(errors, &path.index(i), *version, names::dns1035_label(version));
        } else {
            errors.invalid(&path.index(i), *version, "duplicate version");
        }
    }
    if known && !has_known_review_version(conversion) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(path, versions, detail);
    }
}
