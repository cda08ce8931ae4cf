//! Compares the types with the published schema of server-side apply: each type, written in the format of that schema,
//! must give the same text. The schema is read from the Go module cache (`cargo xtask fetch-modules`) and was generated
//! independently from the Go types.

mod modules;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pintle_catalog::{Catalog, complete_of};
use pintle_schema::{Field, ListTopology, Omit, Scalar, Struct, Type, TypeId, Types};
use pintle_value::Value;
use pintle_versions::Minor;

/// The types of the schema that is published for a version by name, each with its lines.
fn published(minor: Minor) -> BTreeMap<String, String> {
    let path = modules::folder("k8s.io/client-go", minor).join("applyconfigurations/internal/internal.go");
    let text = std::fs::read_to_string(&path).expect("the module has a schema");
    let start = text.find("types:\n").expect("the schema starts with its types") + "types:\n".len();
    let end = start + text[start..].find('`').expect("the schema ends");
    // A map is separable by default. One field and one struct declare it explicitly.
    text[start..end]
        .replace("\n          elementRelationship: separable\n", "\n")
        .replace("\n    elementRelationship: separable\n", "\n")
        .split("- name: ")
        .fold((BTreeMap::new(), String::new()), |(mut types, mut open), part| {
            // Fields are named in the same way, two columns further in. Only a name at the start of a line names a
            // type.
            if open.is_empty() || open.ends_with('\n') {
                if let Some((name, body)) = open.split_once('\n') {
                    types.insert(name.to_owned(), body.to_owned());
                }
                open = part.to_owned();
            } else {
                open.push_str("- name: ");
                open.push_str(part);
            }
            (types, open)
        })
        .0
}

/// Returns whether a type has its own JSON encoding. The published schema refers to such types by name.
fn has_own_json(scalar: Scalar) -> bool {
    !matches!(
        scalar,
        Scalar::String
            | Scalar::Bool
            | Scalar::Int32
            | Scalar::Int64
            | Scalar::Uint32
            | Scalar::Uint64
            | Scalar::Uint8
            | Scalar::Float64
            | Scalar::Bytes
    )
}

/// How the published schema describes a struct without fields.
const EMPTY_STRUCT: &str = "  map:
    elementType:
      scalar: untyped
      list:
        elementType:
          namedType: __untyped_atomic_
        elementRelationship: atomic
      map:
        elementType:
          namedType: __untyped_deduced_
        elementRelationship: separable
";

struct Writer<'a> {
    catalog: &'a Catalog,
    types: &'a Types,
    out: String,
}

impl Writer<'_> {
    fn structure(&mut self, declared: &Struct) {
        if declared.fields.is_empty() {
            // A struct without declared fields accepts any field.
            self.out.push_str(EMPTY_STRUCT);
            return;
        }
        self.out.push_str("  map:\n    fields:\n");
        let mut fields: Vec<&Field> = declared.fields.iter().collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        for field in fields {
            let _ = writeln!(self.out, "    - name: {}\n      type:", yaml_string(&field.name));
            self.type_reference(field.ty, 8);
            if let Some(default) = published_default(self.types, field) {
                let space = if default.starts_with('\n') { "" } else { " " };
                let _ = writeln!(self.out, "      default:{space}{default}");
            }
        }
        if declared.atomic {
            self.out.push_str("    elementRelationship: atomic\n");
        }
        let id = self.catalog.struct_type(&declared.name);
        if let Some(union) = self.catalog.unions().iter().find(|u| Some(u.owner) == id) {
            match union.discriminator {
                Some(name) => {
                    let _ = writeln!(self.out, "    unions:\n    - discriminator: {name}\n      fields:");
                }
                None => self.out.push_str("    unions:\n    - fields:\n"),
            }
            let mut members = union.members.clone();
            members.sort_unstable();
            for member in members {
                let (first, rest) = member.split_at(1);
                let value = first.to_uppercase() + rest;
                let _ = writeln!(self.out, "      - fieldName: {member}\n        discriminatorValue: {value}");
            }
        }
    }

    /// Writes a type reference, indented by `columns`.
    fn type_reference(&mut self, id: TypeId, columns: usize) {
        let indent = " ".repeat(columns);
        match self.types.get(id) {
            Type::Scalar(scalar) if scalar.kind == Scalar::RawExtension => {
                let _ = writeln!(self.out, "{indent}namedType: __untyped_atomic_");
            }
            Type::Scalar(scalar) if has_own_json(scalar.kind) => {
                let _ = writeln!(self.out, "{indent}namedType: {}", openapi_name(&scalar.name));
            }
            Type::Scalar(scalar) => {
                let name = match scalar.kind {
                    Scalar::String | Scalar::Bytes => "string",
                    Scalar::Bool => "boolean",
                    _ => "numeric",
                };
                let _ = writeln!(self.out, "{indent}scalar: {name}");
            }
            Type::Struct(found) => {
                let _ = writeln!(self.out, "{indent}namedType: {}", found.model);
                let declared = self.catalog.struct_type(&found.name).map(|id| self.types.get(id));
                if let Some(Type::Struct(declared)) = declared
                    && declared.atomic != found.atomic
                {
                    let word = if found.atomic { "atomic" } else { "separable" };
                    let _ = writeln!(self.out, "{indent}elementRelationship: {word}");
                }
            }
            Type::Map(map) => {
                let _ = writeln!(self.out, "{indent}map:\n{indent}  elementType:");
                self.type_reference(map.value, columns + 4);
                if map.atomic {
                    let _ = writeln!(self.out, "{indent}  elementRelationship: atomic");
                }
            }
            Type::List(list) => {
                let _ = writeln!(self.out, "{indent}list:\n{indent}  elementType:");
                self.type_reference(list.item, columns + 4);
                match &list.topology {
                    ListTopology::Undeclared | ListTopology::Atomic => {
                        let _ = writeln!(self.out, "{indent}  elementRelationship: atomic");
                    }
                    ListTopology::Set => {
                        let _ = writeln!(self.out, "{indent}  elementRelationship: associative");
                    }
                    ListTopology::Map(keys) => {
                        let _ = writeln!(self.out, "{indent}  elementRelationship: associative\n{indent}  keys:");
                        for key in keys {
                            let _ = writeln!(self.out, "{indent}  - {key}");
                        }
                    }
                }
            }
            Type::Union(_) | Type::Any => {
                let _ = writeln!(self.out, "{indent}namedType: __untyped_atomic_");
            }
        }
    }
}

/// The OpenAPI name of a type with its own JSON encoding.
fn openapi_name(name: &str) -> String {
    match name.rsplit_once('.') {
        Some(("meta/v1", name)) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        Some(("resource", name)) => format!("io.k8s.apimachinery.pkg.api.resource.{name}"),
        Some(("intstr", name)) => format!("io.k8s.apimachinery.pkg.util.intstr.{name}"),
        _ => name.to_owned(),
    }
}

/// The published default of a field: the declared one, or the zero value of an absent field.
fn published_default(types: &Types, field: &Field) -> Option<String> {
    if let Some(default) = &field.default {
        return Some(match default {
            Value::String(text) => yaml_string(text),
            Value::Int(number) => number.to_string(),
            Value::Bool(set) => set.to_string(),
            // The only default of this sort has one field, which is an empty object.
            Value::Object(fields) => fields.iter().map(|(name, _)| format!("\n        {name}: {{}}")).collect(),
            other => format!("{other:?}"),
        });
    }
    if field.pointer {
        return None;
    }
    match types.get(field.ty) {
        Type::Struct(_) => Some("{}".to_owned()),
        Type::Scalar(scalar) if field.omit == Omit::Never && !has_own_json(scalar.kind) => match scalar.kind {
            Scalar::String => Some("\"\"".to_owned()),
            Scalar::Bool => Some("false".to_owned()),
            Scalar::Bytes => None,
            _ => Some("0".to_owned()),
        },
        _ => None,
    }
}

/// Formats a string as YAML.
fn yaml_string(text: &str) -> String {
    let plain = !text.is_empty() && text.starts_with(|c: char| c.is_alphabetic() || c == '/');
    if plain { text.to_owned() } else { format!("\"{text}\"") }
}

#[test]
fn types_match_the_published_apply_schema() {
    for minor in Minor::known() {
        let compared = check(complete_of(minor), &published(minor));
        assert!(compared > 560, "only {compared} types of {minor} were compared");
    }
}

/// Compares the types of a version with the published ones. Returns their number.
fn check(catalog: &Catalog, published: &BTreeMap<String, String>) -> usize {
    let mut compared = 0;
    let mut problems = String::new();
    for (_, id) in catalog.structs() {
        let Type::Struct(declared) = catalog.types().get(id) else { continue };
        let Some(expected) = published.get(declared.model.as_str()) else { continue };
        let mut writer = Writer { catalog, types: catalog.types(), out: String::new() };
        writer.structure(declared);
        compared += 1;
        if writer.out != *expected {
            let _ = writeln!(problems, "{}:\n--- ours\n{}--- published\n{expected}", declared.model, writer.out);
        }
    }
    assert!(problems.is_empty(), "{}: {problems}", catalog.minor());
    compared
}
