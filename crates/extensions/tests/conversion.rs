//! Properties of the handling of conversion webhook responses: nothing panics, and an accepted object has the identity
//! of the original. The error messages are tested with a server (`crates/integration/tests/custom_resources/conversion`).

use pintle_codec::json;
use pintle_extensions::conversion::{ConversionReview, ReviewVersion, accept_converted, parse_response};
use pintle_value::{Object, Value, object};
use proptest::prelude::*;

const REVIEW: ConversionReview<'_> =
    ConversionReview { version: ReviewVersion::V1, uid: "q", desired: "example.com/v2" };

/// A valid response with these objects.
fn response(objects: Vec<Value>) -> Value {
    object! {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "response": object! { "uid": "q", "result": object! { "status": "Success" }, "convertedObjects": objects },
    }
}

fn widget(version: &str, metadata: Value) -> Value {
    let mut widget = object! { "apiVersion": format!("example.com/{version}"), "kind": "Widget" };
    widget.set("metadata", metadata);
    widget
}

/// Arbitrary values, with meaningful names.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,3}|Widget|example.com/v2|Success".prop_map(|text| Value::from(text.as_str())),
    ];
    let name = "[a-z]{1,2}|metadata|labels|annotations|name|uid|kind|apiVersion|response|result|convertedObjects";
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let members = proptest::collection::vec((name, inner.clone()), 0..5);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Object>())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_panics(body in proptest::collection::vec(any::<u8>(), 0..200), tree in values(), original in values()) {
        let _ = parse_response(&REVIEW, std::slice::from_ref(&original), &body);
        let mut body = response(vec![tree.clone()]);
        let text = json::encode(&body);
        let _ = parse_response(&REVIEW, std::slice::from_ref(&original), &text);
        let _ = accept_converted(&original, tree.clone(), REVIEW.desired);
        body.set("response", tree);
        let _ = parse_response(&REVIEW, &[original], &json::encode(&body));
    }

    #[test]
    fn accepted_objects_keep_their_identity_and_metadata(labels in values(), extra in values(), more in values()) {
        let own = object! { "name": "a", "uid": "u", "generation": 7 };
        let original = widget("v1", own.clone());
        let mut returned = object! { "name": "a", "uid": "u", "generation": 9, "finalizers": extra };
        returned.set("labels", labels);
        let mut converted = widget("v2", returned);
        converted.set("spec", more.clone());
        if let Ok(mut accepted) = accept_converted(&original, converted, REVIEW.desired) {
            let mut metadata = accepted.remove("metadata").unwrap_or_default();
            metadata.remove("labels");
            prop_assert_eq!(metadata, own);
            prop_assert_eq!(accepted.api_version(), "example.com/v2");
            prop_assert_eq!(accepted.remove("spec").unwrap_or_default(), more);
        }
    }
}

#[test]
fn requests_contain_the_objects() {
    let objects = [json::encode(&widget("v1", object! { "name": "a" })), json::encode(&widget("v1", object! {}))];
    for count in 0..=2 {
        let body = json::decode(&REVIEW.body(&objects[..count]), json::DecodeOptions::default()).expect("JSON").value;
        let request = &body["request"];
        assert_eq!((request.str_at(&["uid"]), request.str_at(&["desiredAPIVersion"])), ("q", "example.com/v2"));
        assert_eq!(request.items_at(&["objects"]).len(), count);
        assert_eq!(body.kind(), "ConversionReview");
        assert!(body.get("response").is_some());
    }
}
