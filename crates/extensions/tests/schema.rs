//! Parsing and accessors of structural schemas, and their size in memory.

use pintle_extensions::schema::{Additional, Format, ListType, SchemaNode, StructuralSchema, Type};
use pintle_value::Value;

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn schema(text: &str) -> StructuralSchema {
    StructuralSchema::parse(&read(text)).expect(text)
}

#[test]
fn schemas_that_are_not_structural_are_rejected() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let found = StructuralSchema::parse(&read(text)).err().map_or_else(String::new, |error| error.to_string());
        assert_eq!(found, expect, "{text}");
    }
    check(r#"{"type":"object"}"#, "");
    check(r##"{"$ref":"#/x"}"##, "OpenAPIV3Schema '$ref' is not supported");
    check(r#"{"properties":{"a":{"id":"x"}}}"#, "OpenAPIV3Schema 'id' is not supported");
    check(r#"{"$schema":"x"}"#, "OpenAPIV3Schema 'schema' is not supported");
    check(r#"{"items":{"patternProperties":{"a":{}}}}"#, "OpenAPIV3Schema 'patternProperties' is not supported");
    check(r#"{"anyOf":[{"dependencies":{"a":["b"]}}]}"#, "OpenAPIV3Schema 'dependencies' is not supported");
    check(r#"{"not":{"additionalItems":false}}"#, "OpenAPIV3Schema 'additionalItems' is not supported");
    check(r#"{"additionalProperties":{"definitions":{"a":{}}}}"#, "OpenAPIV3Schema 'definitions' is not supported");
    check(r#"{"id":"","definitions":{},"$ref":""}"#, "");
    check(r#"{"items":[{"type":"string"}]}"#, "OpenAPIV3Schema 'items' must be a schema, but is an array");
    check(
        r#"{"x-kubernetes-preserve-unknown-fields":false}"#,
        "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
    );
}

#[test]
fn nodes_return_what_is_declared() {
    let schema = schema(
        r#"{"type":"object","required":["l"],"properties":{
            "l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["b","a"],"maxItems":5,
                "items":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}}},
            "s":{"type":"string","format":"date-time","maxLength":9,"enum":["x"],"default":"x","nullable":true},
            "m":{"type":"object","additionalProperties":{"type":"integer","format":"int32"},"maxProperties":3},
            "t":{"type":"object","additionalProperties":true},
            "q":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
            "e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
            "x-kubernetes-validations":[{"rule":"true"},{"rule":"false"}]}"#,
    );
    let root = schema.root();
    let node = |name: &str| root.property(name).expect(name);
    assert_eq!(root.properties().map(|(name, _)| name).collect::<Vec<_>>(), ["e", "l", "m", "q", "s", "t"]);
    assert_eq!(root.required().collect::<Vec<_>>(), ["l"]);
    assert_eq!(root.rules().iter().map(|rule| rule.str_at(&["rule"])).collect::<Vec<_>>(), ["true", "false"]);
    let list = node("l");
    assert_eq!((list.ty(), list.list_type(), list.max_items()), (Some(Type::Array), Some(ListType::Map), Some(5)));
    assert_eq!(list.map_keys().collect::<Vec<_>>(), ["b", "a"]);
    assert!(list.items().is_some_and(SchemaNode::is_atomic_map));
    let text = node("s");
    assert_eq!(text.format(), Some(("date-time", Some(Format::DateTime))));
    assert_eq!((text.max_length(), text.default(), text.is_nullable()), (Some(9), Some(&Value::from("x")), true));
    assert_eq!(text.enumeration(), Some([Value::from("x")].as_slice()));
    let map = node("m");
    assert!(matches!(map.additional(), Additional::Values(values) if values.ty() == Some(Type::Integer)));
    assert_eq!((map.max_properties(), map.entry("k").and_then(SchemaNode::ty)), (Some(3), Some(Type::Integer)));
    assert!(matches!(node("t").additional(), Additional::Any));
    assert!(matches!(root.additional(), Additional::Undeclared));
    assert!(node("q").is_int_or_string() && node("q").ty().is_none());
    assert_eq!(node("q").junctors().filter_map(SchemaNode::ty).collect::<Vec<_>>(), [Type::Integer, Type::String]);
    assert!(node("e").is_embedded_resource() && node("e").preserves_unknown());
}

/// The status is validated by its own schema. Errors have the path of the status, but paths in their texts begin below
/// it.
#[test]
fn a_node_validates_a_single_field() {
    let schema = schema(
        r#"{"type":"object","properties":{"status":{"type":"object","required":["n"],"maxProperties":1,
            "properties":{"n":{"type":"integer","maximum":1},"kind":{"type":"string","enum":["x"]}}}}}"#,
    );
    let status = schema.root().property("status").expect("status");
    let check = |new: &str, old: &str, expect: &[&str]| {
        let errors = status.validate_update(Some("status"), &read(new), Some(&read(old)));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{new}");
    };
    check(r#"{"n":1}"#, "{}", &[]);
    check(r#"{"n":2}"#, "{}", &["status.n: Invalid value: 2: n in body should be less than or equal to 1"]);
    check(r#"{"n":2}"#, r#"{"n":2,"kind":"x"}"#, &[]);
    check("{}", r#"{"n":1}"#, &["status.n: Required value"]);
    check("5", "{}", &[r#"status: Invalid value: "integer":  in body must be of type object: "integer""#]);
    check(r#"{"n":1,"kind":"x"}"#, "{}", &["status: Too many: 2: must have at most 1 item"]);
    check(r#"{"n":1,"kind":"x"}"#, r#"{"n":1,"kind":"x"}"#, &[]);
}

#[test]
fn an_ordinary_schema_is_a_few_kilobytes() {
    let schema = schema(include_str!("data/application-schema.json"));
    let object = read(include_str!("data/application.json"));
    assert!(schema.validate(&object).is_empty());
    assert_eq!(schema.len(), 76);
    let per_node = schema.size() / schema.len();
    assert!(per_node <= 80, "{per_node} bytes per node");
}
