//! Normalisation of fields of every kind, with structs made for the tests, because no built-in kind has all kinds of
//! fields.

use pintle_schema::{
    Field, List, ListTopology, Map, Omit, PatchMeta, Problems, Scalar, ScalarType, Struct, Type, TypeId, Types, Union,
    UnionKind, normalise, static_defaults, static_defaults_of_changed,
};
use pintle_value::{Str, Value};

fn scalar(types: &mut Types, kind: Scalar) -> TypeId {
    types.add(Type::Scalar(ScalarType { kind, name: Str::default(), values: None }))
}

fn list(types: &mut Types, item: TypeId, pointers: bool) -> TypeId {
    types.add(Type::List(List { item, pointers, topology: ListTopology::Undeclared, name: Str::default() }))
}

fn map(types: &mut Types, value: TypeId) -> TypeId {
    types.add(Type::Map(Map { value, atomic: false, name: Str::default(), key: Str::default() }))
}

/// Creates a field. Its name ends with `*` for a pointer, `?` for omitempty, `~` for omitzero.
fn field(spec: &str, ty: TypeId) -> Field {
    let omit = match spec {
        _ if spec.contains('~') => Omit::Zero,
        _ if spec.contains('?') => Omit::Empty,
        _ => Omit::Never,
    };
    Field {
        name: Str::from(spec.trim_end_matches(['*', '?', '~'])),
        ty,
        pointer: spec.contains('*'),
        omit,
        required: false,
        number: 1,
        embedded: 0,
        patch: PatchMeta::default(),
        default: None,
    }
}

fn structure(types: &mut Types, name: &str, fields: Vec<Field>) -> TypeId {
    types.add(Type::Struct(Struct::new(name, "", fields)))
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[track_caller]
fn check(types: &Types, root: TypeId, input: &str, expect: &str) {
    let mut value = read(input);
    let mut problems = Problems::default();
    normalise(types, root, &mut value, &mut problems);
    let mut text = serde_json::to_string(&value).expect("a tree");
    problems.unknown.iter().for_each(|name| text += &format!("; unknown {name}"));
    assert_eq!(text, expect, "{input}");
    assert_eq!(problems.errors, Vec::<String>::new(), "{input}");
    let mut again = value.clone();
    let mut none = Problems::default();
    normalise(types, root, &mut again, &mut none);
    assert_eq!((again, none), (value, Problems::default()), "the second time: {input}");
}

/// Creates a struct with a field of each scalar type, all omitted in the same way.
fn scalars(suffix: &str) -> (Types, TypeId) {
    let mut types = Types::default();
    let fields = [
        ("b", Scalar::Bool),
        ("bytes", Scalar::Bytes),
        ("d", Scalar::Duration),
        ("f", Scalar::Float64),
        ("i", Scalar::Int32),
        ("io", Scalar::IntOrString),
        ("j", Scalar::Json),
        ("q", Scalar::Quantity),
        ("r", Scalar::RawExtension),
        ("s", Scalar::String),
        ("t", Scalar::Time),
    ]
    .map(|(name, kind)| field(&format!("{name}{suffix}"), scalar(&mut types, kind)));
    let root = structure(&mut types, "test/v1.Thing", fields.to_vec());
    (types, root)
}

#[test]
fn unset_fields_are_encoded_like_go() {
    let zero = r#"{"b":false,"bytes":null,"d":"0s","f":0,"i":0,"io":0,"j":null,"q":"0","r":null,"s":"","t":null}"#;
    let (types, root) = scalars("");
    check(&types, root, "{}", zero);
    check(&types, root, "null", zero);
    let (types, root) = scalars("?");
    check(&types, root, "{}", r#"{"d":"0s","io":0,"j":null,"q":"0","r":null,"t":null}"#);
    let (types, root) = scalars("~");
    check(&types, root, "{}", "{}");
    check(&types, root, zero, "{}");
    let (types, root) = scalars("*?");
    check(&types, root, "{}", "{}");
    let set = r#"{"b":false,"bytes":"","d":"0s","f":0,"i":0,"io":0,"q":"0","s":""}"#;
    check(&types, root, set, set);
}

#[test]
fn scalars_are_canonicalized_or_rejected() {
    let (types, root) = scalars("*?");
    check(
        &types,
        root,
        r#"{"d":"90m","f":3.0,"io":"80%","q":"0.5","t":"2020-01-01T01:00:00+01:00","bytes":"aGk="}"#,
        r#"{"bytes":"aGk=","d":"1h30m0s","f":3,"io":"80%","q":"500m","t":"2020-01-01T00:00:00Z"}"#,
    );
    let (values, values_root) = scalars("");
    for (input, error) in [
        (r#"{"i":"x"}"#, "json: cannot unmarshal string into Go struct field Thing.i of type int32"),
        (r#"{"i":2147483648}"#, "json: cannot unmarshal number 2147483648 into Go struct field Thing.i of type int32"),
        (r#"{"i":1.5}"#, "json: cannot unmarshal number 1.5 into Go struct field Thing.i of type int32"),
        (r#"{"s":1}"#, "json: cannot unmarshal number into Go struct field Thing.s of type string"),
        (r#"{"b":"true"}"#, "json: cannot unmarshal string into Go struct field Thing.b of type bool"),
        (r#"{"t":5}"#, "json: cannot unmarshal number into Go struct field Thing.t of type string"),
        (r#"{"io":[]}"#, "json: cannot unmarshal array into Go struct field Thing.io of type int32"),
        (r#"{"bytes":"a"}"#, "illegal base64 data at input byte 0"),
        (r#"{"d":null}"#, "time: invalid duration \"\""),
        ("[]", "json: cannot unmarshal array into Go value of type v1.Thing"),
    ] {
        let mut problems = Problems::default();
        normalise(&values, values_root, &mut read(input), &mut problems);
        assert_eq!(problems.errors, [error], "{input}");
    }
}

#[test]
fn null_and_empty_differ_for_lists_maps_and_structs() {
    let mut types = Types::default();
    let string = scalar(&mut types, Scalar::String);
    let inner = structure(&mut types, "test/v1.Inner", vec![field("n", string)]);
    let fields = vec![
        field("kept", list(&mut types, string, false)),
        field("list?", list(&mut types, string, false)),
        field("zero~", list(&mut types, string, false)),
        field("inners?", list(&mut types, inner, false)),
        field("pointers?", list(&mut types, inner, true)),
        field("map?", map(&mut types, string)),
        field("value?", inner),
        field("opt*?", inner),
        field("omitzero~", inner),
    ];
    let root = structure(&mut types, "test/v1.Thing", fields);
    check(&types, root, "{}", r#"{"kept":null,"value":{"n":""}}"#);
    check(
        &types,
        root,
        r#"{"kept":[],"list":[],"zero":[],"map":{},"opt":{},"omitzero":{},"value":null}"#,
        r#"{"kept":[],"opt":{"n":""},"value":{"n":""},"zero":[]}"#,
    );
    check(
        &types,
        root,
        r#"{"list":["a",null],"inners":[null,{}],"pointers":[null,{}],"map":{"a":null},"omitzero":{"n":"x"}}"#,
        r#"{"inners":[{"n":""},{"n":""}],"kept":null,"list":["a",""],"map":{"a":""},"omitzero":{"n":"x"},"pointers":[null,{"n":""}],"value":{"n":""}}"#,
    );
    check(
        &types,
        root,
        r#"{"inners":[{},{"N":1,"x":{"y":1}}],"zzz":1}"#,
        r#"{"inners":[{"n":""},{"n":""}],"kept":null,"value":{"n":""}}; unknown inners[1].N; unknown inners[1].x; unknown zzz"#,
    );
}

#[test]
fn unions_accept_every_declared_json_type() {
    let mut types = Types::default();
    let count = scalar(&mut types, Scalar::Int64);
    let schema = structure(&mut types, "apiextensions/v1.JSONSchemaProps", vec![field("min*?", count)]);
    let fields = [
        ("array*?", UnionKind::SchemaOrArray),
        ("bool*?", UnionKind::SchemaOrBool),
        ("strings*?", UnionKind::SchemaOrStringArray),
    ]
    .map(|(spec, kind)| field(spec, types.add(Type::Union(Union { kind, schema }))));
    let root = structure(&mut types, "test/v1.Thing", fields.to_vec());
    // The decoder of a union's content is not strict.
    check(
        &types,
        root,
        r#"{"array":[{"min":1,"x":1},null],"bool":{"x":1},"strings":["a",null]}"#,
        r#"{"array":[{"min":1},{}],"bool":{},"strings":["a",""]}"#,
    );
    let shapes = r#"{"array":{"min":2},"bool":false,"strings":{}}"#;
    check(&types, root, shapes, shapes);
    check(&types, root, r#"{"array":1,"strings":[]}"#, "{}");
}

#[test]
fn static_defaults_apply_to_every_present_value() {
    let mut types = Types::default();
    let string = scalar(&mut types, Scalar::String);
    let number = scalar(&mut types, Scalar::Int32);
    let protocol = Field { default: Some(Value::from("TCP")), ..field("protocol?", string) };
    let port = Field { default: Some(Value::from(80)), ..field("port*?", number) };
    let inner = structure(&mut types, "test/v1.Inner", vec![protocol, port]);
    let fields = vec![
        field("value", inner),
        field("opt*?", inner),
        Field { default: Some(Value::object()), ..field("made*?", inner) },
        field("list?", list(&mut types, inner, false)),
        field("map?", map(&mut types, inner)),
    ];
    let root = structure(&mut types, "test/v1.Thing", fields);
    let zeros = vec![
        Field { default: Some(Value::from(0)), ..field("count?", number) },
        Field { default: Some(Value::from(0)), ..field("kept", number) },
        Field { default: Some(Value::from(0)), ..field("pointer*?", number) },
    ];
    let zeros = structure(&mut types, "test/v1.Zeros", zeros);
    let mut zero = Value::object();
    static_defaults(&types, zeros, &mut zero);
    assert_eq!(serde_json::to_string(&zero).expect("a tree"), r#"{"kept":0,"pointer":0}"#, "defaults that are zero");
    let defaulted = |input: &str| {
        let mut value = read(input);
        normalise(&types, root, &mut value, &mut Problems::default());
        static_defaults(&types, root, &mut value);
        serde_json::to_string(&value).expect("a tree")
    };
    let mut bare = Value::object();
    static_defaults(&types, root, &mut bare);
    assert_eq!(bare["value"].str_at(&["protocol"]), "TCP", "a value struct that the tree does not have");
    let full = r#"{"port":80,"protocol":"TCP"}"#;
    assert_eq!(defaulted("{}"), format!(r#"{{"made":{full},"value":{full}}}"#));
    assert_eq!(
        defaulted(r#"{"opt":{"port":0},"list":[{"protocol":"UDP"},{}],"map":{"a":{"protocol":""}}}"#),
        format!(
            r#"{{"list":[{{"port":80,"protocol":"UDP"}},{full}],"made":{full},"map":{{"a":{full}}},"opt":{{"port":0,"protocol":"TCP"}},"value":{full}}}"#
        )
    );
    // An object that is shared with the original at the same path is not normalised again.
    let shared = |object: Value| match object {
        Value::Object(object) => Value::Object(object.into_shared(0..0)),
        other => other,
    };
    let (left, other) = (shared(read(r#"{"port":1}"#)), shared(read(r#"{"port":2}"#)));
    let mut live = Value::object();
    for field in ["value", "opt", "made"] {
        live.set(field, left.clone());
    }
    live.set("list", vec![left.clone(), left.clone()]);
    live.set_at(&["map", "a"], left.clone());
    let mut changed = live.clone();
    static_defaults_of_changed(&types, root, &mut changed, Some(&live));
    assert_eq!(changed, live);
    changed.set("opt", other.clone());
    changed.set("list", vec![left.clone(), other.clone(), left.clone()]);
    changed.set_at(&["map", "b"], left.clone());
    static_defaults_of_changed(&types, root, &mut changed, Some(&live));
    assert_eq!(
        serde_json::to_string(&changed).expect("a tree"),
        r#"{"list":[{"port":1},{"port":2,"protocol":"TCP"},{"port":1,"protocol":"TCP"}],"made":{"port":1},"map":{"a":{"port":1},"b":{"port":1,"protocol":"TCP"}},"opt":{"port":2,"protocol":"TCP"},"value":{"port":1}}"#
    );
}
