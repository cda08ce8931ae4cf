//! Checks that the published fixtures (one fully populated object of every kind) have exactly the catalog's fields, in
//! the same order. They are read from the Go module cache (`cargo xtask fetch-modules`).

mod modules;

use std::fmt;
use std::fs;
use std::path::Path;

use pintle_catalog::{Catalog, complete_of};
use pintle_schema::{Scalar, Type, TypeId};
use pintle_versions::Minor;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// JSON that preserves the order of keys.
#[derive(Debug)]
enum Json {
    Null,
    Bool,
    Number,
    Text,
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E: Error>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E: Error>(self, _: bool) -> Result<Json, E> {
                Ok(Json::Bool)
            }
            fn visit_i64<E: Error>(self, _: i64) -> Result<Json, E> {
                Ok(Json::Number)
            }
            fn visit_u64<E: Error>(self, _: u64) -> Result<Json, E> {
                Ok(Json::Number)
            }
            fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
                Ok(Json::Number)
            }
            fn visit_str<E: Error>(self, _: &str) -> Result<Json, E> {
                Ok(Json::Text)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = items.next_element()? {
                    all.push(item);
                }
                Ok(Json::Array(all))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    all.push(entry);
                }
                Ok(Json::Object(all))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

struct FixtureChecker<'a> {
    catalog: &'a Catalog,
    problems: Vec<String>,
}

impl FixtureChecker<'_> {
    /// Compares a value with its type. `enclosing` contains the enclosing structs: the fixtures stop at recursion.
    fn compare(&mut self, path: &str, ty: TypeId, value: &Json, enclosing: &mut Vec<TypeId>) {
        let fits = match (self.catalog.types().get(ty), value) {
            (_, Json::Null) | (Type::Any | Type::Union(_), _) => true,
            (Type::List(list), Json::Array(items)) => {
                for item in items {
                    self.compare(&format!("{path}[]"), list.item, item, enclosing);
                }
                true
            }
            (Type::Map(map), Json::Object(entries)) => {
                for (_, value) in entries {
                    self.compare(&format!("{path}{{}}"), map.value, value, enclosing);
                }
                true
            }
            (Type::Struct(declared), Json::Object(entries)) => {
                let found: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                // A nested object has no type metadata, so these fields are empty there.
                let nested = |name: &str| !enclosing.is_empty() && ["kind", "apiVersion"].contains(&name);
                let all = declared.fields.iter().filter(|f| f.number > 0 || !nested(&f.name));
                let expected: Vec<&str> = all.map(|f| f.name.as_str()).collect();
                // A list of the type's own items is left out where it is first met.
                let has_itself = declared
                    .fields
                    .iter()
                    .any(|f| matches!(self.catalog.types().get(f.ty), Type::List(list) if list.item == ty));
                let recursive =
                    enclosing.contains(&ty) || has_itself || declared.name == "apiextensions/v1.JSONSchemaProps";
                let matches = if recursive { is_subsequence(&found, &expected) } else { found == expected };
                if !matches {
                    self.problems
                        .push(format!("{path} ({}):\n  found    {found:?}\n  expected {expected:?}", declared.name));
                }
                enclosing.push(ty);
                for (key, value) in entries {
                    if let Some(field) = declared.field(key) {
                        self.compare(&format!("{path}.{key}"), field.ty, value, enclosing);
                    }
                }
                enclosing.pop();
                true
            }
            (Type::Scalar(scalar), value) => match scalar.kind {
                Scalar::Bool => matches!(value, Json::Bool),
                Scalar::String
                | Scalar::Bytes
                | Scalar::Time
                | Scalar::MicroTime
                | Scalar::Duration
                | Scalar::Quantity => {
                    matches!(value, Json::Text)
                }
                Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 | Scalar::Float64 => {
                    matches!(value, Json::Number)
                }
                Scalar::IntOrString => matches!(value, Json::Number | Json::Text),
                Scalar::RawExtension | Scalar::FieldsV1 => matches!(value, Json::Object(_)),
                Scalar::Json => true,
            },
            _ => false,
        };
        if !fits {
            self.problems.push(format!("{path}: {value:?} is not a {:?}", self.catalog.types().get(ty)));
        }
    }
}

/// Returns whether the items of `some` are in `all` in the same order.
fn is_subsequence(some: &[&str], all: &[&str]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|name| rest.any(|other| other == name))
}

/// Compares all fixtures of a folder with the catalog of a version. Returns the number of kinds.
fn check(folder: &Path, minor: Minor) -> usize {
    let catalog = complete_of(minor);
    let mut checker = FixtureChecker { catalog, problems: Vec::new() };
    let mut kinds = 0;
    for entry in fs::read_dir(folder).expect("the module has fixtures") {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((head, kind)) = name.strip_suffix(".json").and_then(|n| n.rsplit_once('.')) else { continue };
        let Some((group, version)) = head.rsplit_once('.') else { continue };
        let group = if group == "core" { "" } else { group };
        // The options and meta types are registered in every group. The core group has their fixtures.
        let ty = catalog.kind_type(group, version, kind).or_else(|| {
            (group.is_empty() && version == "v1").then(|| catalog.struct_type(&format!("meta/v1.{kind}"))).flatten()
        });
        let Some(ty) = ty else {
            let stable = version.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
            assert!(!stable, "{name} is of a stable version, and the catalog of {minor} does not know it");
            continue;
        };
        kinds += 1;
        let text = fs::read_to_string(&path).expect("a readable file");
        let value: Json = serde_json::from_str(&text).expect("a fixture is JSON");
        checker.compare(&name, ty, &value, &mut Vec::new());
    }
    assert!(checker.problems.is_empty(), "{}", checker.problems.join("\n"));
    kinds
}

#[test]
fn published_fixtures_have_the_catalogs_fields() {
    for minor in Minor::known() {
        let kinds = check(&modules::folder("k8s.io/api", minor).join("testdata/HEAD"), minor);
        assert!(kinds >= 110, "{kinds} kinds in {minor}");
    }
}

#[test]
fn published_fixtures_of_extensions_have_the_catalogs_fields() {
    for minor in Minor::known() {
        let module = modules::folder("k8s.io/apiextensions-apiserver", minor);
        assert!(check(&module.join("pkg/apis/testdata/HEAD"), minor) >= 2);
    }
}
