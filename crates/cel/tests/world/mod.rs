//! What the expressions of the tables see: variables, a type provider, data, sizes.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::sync::Arc;

use pintle_cel::{Env, SizeEstimate, Sizes, Type, TypeProvider, Value, untyped};
use pintle_value::{Object, Str, Value as Json};

/// Objects with a few fields.
struct Types;

impl TypeProvider for Types {
    fn has_type(&self, name: &str) -> bool {
        matches!(name, "Obj" | "Item")
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        Some(match (type_name, field) {
            ("Obj", "replicas" | "maxReplicas" | "missing") | ("Item", "n") => Type::Int,
            ("Obj", "name" | "opt") | ("Item", "name") => Type::String,
            ("Obj", "items") => Type::list(Type::object("Item")),
            ("Obj", "labels") => Type::map(Type::String, Type::String),
            ("Obj", "tags") => Type::list(Type::String),
            ("Obj", "nested") => Type::object("Item"),
            _ => return None,
        })
    }
}

/// Sizes by path.
pub(crate) struct KnownSizes;

impl Sizes for KnownSizes {
    fn size(&self, path: &[Str], _: &Type) -> Option<SizeEstimate> {
        let (min, max) = match path.join(".").as_str() {
            "self.name" => (0, 63),
            "self.items" => (0, 10),
            "self.items.@items.name" => (0, 20),
            "self.labels" => (1, 5),
            "self.labels.@keys" => (0, 10),
            "self.labels.@values" => (0, 12),
            "self.tags" => (0, 4),
            "self.tags.@items" => (0, 9),
            "s" => (0, 100),
            "li" => (0, 7),
            "ls" => (0, 8),
            "ls.@items" => (0, 5),
            "m" | "m.@keys" => (0, 3),
            "m.@values" => (0, 4),
            "u" => (2, 30),
            _ => return None,
        };
        Some(SizeEstimate { min, max })
    }
}

/// An environment and data for it.
pub(crate) struct World {
    /// The environment.
    pub(crate) env: Env,
    /// What is known of sizes.
    pub(crate) sizes: KnownSizes,
    data: Vec<Json>,
}

impl World {
    /// The environment of Kubernetes.
    pub(crate) fn kubernetes() -> Self {
        let strings = Type::map(Type::String, Type::String);
        let variables = [
            ("self", Type::object("Obj"), this()),
            ("s", Type::String, "hello world".into()),
            ("u", Type::String, "ünïcödé ✓".into()),
            ("x", Type::Int, Json::Int(7)),
            ("y", Type::Int, Json::Int(-3)),
            ("d", Type::Double, Json::Float(2.5)),
            ("b", Type::Bool, Json::Bool(true)),
            ("li", Type::list(Type::Int), Json::Array([3, 1, 2].map(Json::Int).to_vec())),
            ("ls", Type::list(Type::String), texts(&["b", "a", "c"])),
            ("m", strings.clone(), object([("k1", "v1".into()), ("k2", "v2".into())])),
            (
                "lm",
                Type::list(strings),
                Json::Array(vec![object([("a", "1".into())]), object([("a", "2".into()), ("b", "3".into())])]),
            ),
            ("dy", Type::Dyn, dynamic()),
            ("e", Type::list(Type::Int), Json::Array(Vec::new())),
            ("dn", Type::Dyn, Json::Int(5)),
            ("ds", Type::Dyn, "dyn".into()),
        ];
        let mut env = Env::kubernetes().types(Arc::new(Types));
        let mut data = Vec::new();
        for (name, t, value) in variables {
            env = env.variable(name, t);
            data.push(value);
        }
        Self { env, sizes: KnownSizes, data }
    }

    /// The data as values.
    pub(crate) fn bindings(&self) -> Vec<Value<'_>> {
        self.data.iter().map(untyped).collect()
    }
}

fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
    Json::Object(Object::from_iter(entries))
}

fn texts(texts: &[&str]) -> Json {
    Json::Array(texts.iter().map(|text| Json::from(*text)).collect())
}

fn this() -> Json {
    let item = |name: &str, n| object([("name", name.into()), ("n", Json::Int(n))]);
    object([
        ("replicas", Json::Int(3)),
        ("maxReplicas", Json::Int(5)),
        ("name", "web-server".into()),
        ("items", Json::Array(vec![item("a1", 1), item("b2", 2), item("a3", 3)])),
        ("labels", object([("app", "web".into()), ("tier", "front".into())])),
        ("tags", texts(&["x", "y", "z"])),
        ("nested", item("in", 7)),
    ])
}

fn dynamic() -> Json {
    let mixed = vec![Json::Int(1), Json::Float(2.5), "q".into(), Json::Null, object([("z", Json::Bool(true))])];
    object([("f", Json::Array(mixed)), ("s", "txt".into()), ("n", Json::Int(42))])
}

/// A value as the tables write it.
pub(crate) fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => format!("{u}u"),
        Value::Double(x) => format!("{x:?}"),
        Value::String(text) => pintle_value::print::quote(text),
        Value::Bytes(bytes) => format!("bytes {:02x?}", &**bytes),
        Value::Duration(nanos) => format!("{nanos}ns"),
        Value::Timestamp(time) => time.to_string(),
        Value::List(list) => {
            let elements: Vec<String> = list.iter().map(|element| show(&element)).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Map(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", show(&key), show(&value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Optional(None) => "none".to_owned(),
        Value::Optional(Some(value)) => format!("some({})", show(value)),
        Value::Type(name) => format!("type {name}"),
        Value::Opaque(value) => format!("a {}", value.type_name()),
        Value::Invalid(error) => format!("invalid {error}"),
    }
}
