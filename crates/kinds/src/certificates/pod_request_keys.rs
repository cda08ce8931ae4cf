//! Where a PodCertificateRequest has its public key and the proof of possession. Version v1beta1 has fields for them.
//! Version v1 has annotations, so that no request of an older kubelet is lost (upstream: `pkg/apis/certificates/v1`).

use pintle_schema::base64;
use pintle_value::Value;

pub(super) const PUBLIC_KEY: &str = "pkixPublicKey";
pub(super) const PROOF: &str = "proofOfPossession";

/// The fields, each with its annotation.
const KEYS: [(&str, &str); 2] = [
    (PUBLIC_KEY, "certificates.k8s.io/initial-pkix-public-key"),
    (PROOF, "certificates.k8s.io/initial-proof-of-possession"),
];

/// The fields of the spec that come after the keys.
const LATER_FIELDS: [&str; 2] = ["stubPKCS10Request", "unverifiedUserAnnotations"];

/// The value of one of the fields in base64, from the field or its annotation; empty if the request has neither.
pub(super) fn value<'v>(object: &'v Value, field: &str) -> &'v str {
    let text = object.str_at(&["spec", field]);
    let annotation = KEYS.iter().find(|(known, _)| *known == field).filter(|_| text.is_empty());
    annotation.and_then(|(_, annotation)| object.annotation(annotation)).unwrap_or(text)
}

/// Moves the fields to their annotations.
pub(super) fn move_to_annotations(object: &mut Value) {
    for (field, annotation) in KEYS {
        let text = object.remove_at(&["spec", field]);
        if let Some(text) = text.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty()) {
            object.annotate(annotation, text);
        }
    }
}

/// Moves the annotations to their fields. Annotations that are not base64 are lost, as in upstream.
pub(super) fn move_to_fields(object: &mut Value) {
    let values = KEYS.map(|(field, annotation)| {
        let bytes = object.annotation(annotation).map(bytes_of).unwrap_or_default();
        (field, if bytes.is_empty() { Value::Null } else { base64::encode(&bytes).into() })
    });
    remove_annotations(object, |_| true);
    let Some(spec) = object.get_mut("spec") else { return };
    let later = LATER_FIELDS.map(|field| (field, spec.remove(field)));
    for (field, value) in values {
        spec.set(field, value);
    }
    for (field, value) in later {
        if let Some(value) = value {
            spec.set(field, value);
        }
    }
}

/// Removes the annotations that have no bytes. Upstream loses them when it converts the object.
pub(super) fn drop_malformed_annotations(object: &mut Value) {
    remove_annotations(object, |text| bytes_of(text).is_empty());
}

/// The bytes of a text in base64; none if it is not base64.
pub(super) fn bytes_of(text: &str) -> Vec<u8> {
    base64::decode(text.as_bytes()).unwrap_or_default()
}

/// Removes the annotations of keys whose value is chosen.
fn remove_annotations(object: &mut Value, is_chosen: impl Fn(&str) -> bool) {
    let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut) else { return };
    let is_key = |name: &str| KEYS.iter().any(|(_, annotation)| *annotation == name);
    let before = annotations.len();
    annotations.retain(|name, value| !(is_key(name) && is_chosen(value.as_str().unwrap_or_default())));
    if annotations.is_empty() && before > 0 {
        object.remove_at(&["metadata", "annotations"]);
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::print::json;

    use super::*;
    use crate::testing::object;

    const FIELDS: &str = r#"{"metadata":{"annotations":{"a":"b"}},
        "spec":{"podName":"p","pkixPublicKey":"YQ==","proofOfPossession":"Yg==","stubPKCS10Request":null}}"#;
    const ANNOTATIONS: &str = r#"{"metadata":{"annotations":{"a":"b",
        "certificates.k8s.io/initial-pkix-public-key":"YQ==","certificates.k8s.io/initial-proof-of-possession":"Yg=="}},
        "spec":{"podName":"p","stubPKCS10Request":null}}"#;

    #[test]
    fn keys_move_between_fields_and_annotations() {
        let mut moved = object(FIELDS);
        move_to_annotations(&mut moved);
        assert_eq!(moved, object(ANNOTATIONS));
        move_to_fields(&mut moved);
        // The fields have their order in the type.
        assert_eq!(json(&moved), json(&object(FIELDS)));
    }

    #[test]
    fn the_value_is_in_one_of_two_places() {
        for text in [FIELDS, ANNOTATIONS] {
            assert_eq!(
                [PUBLIC_KEY, PROOF, "podName"].map(|field| value(&object(text), field).to_owned()),
                ["YQ==", "Yg==", "p"]
            );
        }
        assert_eq!(value(&object("{}"), PUBLIC_KEY), "");
    }

    #[test]
    fn annotations_without_bytes_are_lost() {
        let request = r#"{"metadata":{"annotations":{"certificates.k8s.io/initial-pkix-public-key":"?",
            "certificates.k8s.io/initial-proof-of-possession":""}},"spec":{"stubPKCS10Request":"Yw=="}}"#;
        let mut dropped = object(request);
        drop_malformed_annotations(&mut dropped);
        assert_eq!(dropped, object(r#"{"metadata":{},"spec":{"stubPKCS10Request":"Yw=="}}"#));
        let mut moved = object(request);
        move_to_fields(&mut moved);
        let spec = r#"{"pkixPublicKey":null,"proofOfPossession":null,"stubPKCS10Request":"Yw=="}"#;
        assert_eq!(moved, object(&format!(r#"{{"metadata":{{}},"spec":{spec}}}"#)));
        let mut kept = object(ANNOTATIONS);
        drop_malformed_annotations(&mut kept);
        assert_eq!(kept, object(ANNOTATIONS));
    }
}
