//! The form in which kube-apiserver stores CRDs: version v1beta1, which is not served any more. It writes the common
//! fields of all versions only once (upstream: `apiextensions/v1beta1`, and the conversions of both versions).

use pintle_registry::UnservedVersion;
use pintle_value::{Value, object};

/// The stored version.
pub(super) const V1BETA1: UnservedVersion =
    UnservedVersion { from_served: Some(to_v1beta1), ..UnservedVersion::read("apiextensions.k8s.io/v1beta1", to_v1) };

/// The fields that all versions may share, with their names in a version and in the whole specification.
const SHARED_FIELDS: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// The fields of a conversion webhook, with their names in v1 and in v1beta1.
const WEBHOOK_FIELDS: [(&str, &str); 2] =
    [("clientConfig", "webhookClientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];

fn to_v1beta1(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec") else { return };
    let mut versions = spec.items_at(&["versions"]).to_vec();
    for version in &mut versions {
        rename_paths(version, "jsonPath", "JSONPath");
    }
    if let Some(first) = versions.first() {
        spec.set("version", first.str_at(&["name"]));
    }
    for (own, common) in SHARED_FIELDS {
        let first = versions.first().and_then(|version| version.get(own)).cloned();
        if versions.iter().all(|version| version.get(own) == first.as_ref()) {
            versions.iter_mut().for_each(|version| drop(version.remove_at(&[own])));
            if let Some(first) = first {
                spec.set(common, first);
            }
        }
    }
    spec.set("versions", versions);
    if let Some(conversion) = spec.get_mut("conversion")
        && let Some(webhook) = conversion.remove_at(&["webhook"])
    {
        for (own, stored) in WEBHOOK_FIELDS {
            if let Some(value) = webhook.get(own) {
                conversion.set(stored, value.clone());
            }
        }
    }
    let preserves = spec.bool_at(&["preserveUnknownFields"]);
    spec.set("preserveUnknownFields", preserves);
}

/// Converts a CRD with the defaults of v1beta1.
fn to_v1(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec") else { return };
    let mut versions = spec.items_at(&["versions"]).to_vec();
    let version = spec.str_at(&["version"]);
    if versions.is_empty() && !version.is_empty() {
        versions.push(object! { "name": version, "served": true, "storage": true });
    }
    for (own, common) in SHARED_FIELDS {
        let Some(shared) = spec.get(common).filter(|shared| !shared.is_null()) else { continue };
        versions.iter_mut().for_each(|version| version.set(own, shared.clone()));
    }
    for version in &mut versions {
        rename_paths(version, "JSONPath", "jsonPath");
    }
    let is_unset = |key: &str| spec.get(key).is_none_or(Value::is_null);
    let preserves = is_unset("preserveUnknownFields") || spec.bool_at(&["preserveUnknownFields"]);
    let mut conversion = object! { "strategy": "None" };
    if let Some(stored) = spec.get("conversion").filter(|stored| !stored.is_null()) {
        let strategy = stored.str_at(&["strategy"]).to_owned();
        let mut webhook = Value::object();
        for (own, stored) in WEBHOOK_FIELDS.map(|(own, key)| (own, stored.get(key))) {
            if let Some(value) = stored.filter(|value| !value.is_null()) {
                webhook.set(own, value.clone());
            }
        }
        if strategy == "Webhook" && webhook.items_at(&["conversionReviewVersions"]).is_empty() {
            webhook.set("conversionReviewVersions", vec![Value::from("v1beta1")]);
        }
        conversion.set("strategy", strategy);
        if webhook.as_object().is_some_and(|webhook| !webhook.is_empty()) {
            conversion.set("webhook", webhook);
        }
    }
    for key in ["version", "validation", "subresources", "additionalPrinterColumns", "selectableFields"] {
        spec.remove_at(&[key]);
    }
    spec.set("versions", versions);
    spec.set("conversion", conversion);
    spec.set("preserveUnknownFields", preserves);
    if spec.str_at(&["scope"]).is_empty() {
        spec.set("scope", "Namespaced");
    }
}

/// Renames the field of printer columns that has another name in v1beta1.
fn rename_paths(version: &mut Value, old: &str, new: &str) {
    let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        if let Some(path) = column.remove_at(&[old]) {
            column.set(new, path);
        }
    }
}
