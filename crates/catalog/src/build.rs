//! Makes the arena of types from the type facts: resolves names, flattens inlined structs as Go's JSON encoder does
//! and keeps where Protobuf nests them.

use std::collections::HashMap;

use pintle_schema::{
    Embedded, EnumValues, Field, List, ListTopology, Map, Omit, Patch, Scalar, ScalarType, Struct, Type, TypeId, Types,
    Union, UnionKind,
};
use pintle_value::{Str, Value};

use crate::facts::{Alias, FactsError, FieldFacts, Package, StructFacts};

/// A declared name: package and name in it.
type Name = (&'static str, &'static str);

/// What the facts become.
pub(crate) struct Built {
    pub(crate) types: Types,
    /// Structs by Go name (`core/v1.Pod`), sorted.
    pub(crate) structs: Vec<(Str, TypeId)>,
    /// Registered kinds by group, version and kind, sorted.
    pub(crate) kinds: Vec<(Kind, TypeId)>,
}

/// Group, version and kind of a registered type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
}

/// Builds the types of all packages.
pub(crate) fn build(packages: &[Package<'static>]) -> Result<Built, FactsError> {
    let mut builder = Builder::default();
    for package in packages {
        for alias in &package.aliases {
            builder.aliases.insert((package.name, alias.name), alias.clone());
        }
        for facts in &package.structs {
            let name = (package.name, facts.name);
            let id = builder.declare(name);
            builder.ids.insert(name, id);
            builder.structs.insert(name, facts.clone());
        }
    }
    let mut built = Built { types: Types::default(), structs: Vec::new(), kinds: Vec::new() };
    for package in packages {
        for facts in &package.structs {
            let Some(id) = builder.ids.get(&(package.name, facts.name)).copied() else { continue };
            builder.define(package, facts, id)?;
            built.structs.push((qualified(package.name, facts.name), id));
            if let (true, Some(group)) = (facts.kind, package.group) {
                built.kinds.push((Kind { group, version: package.version, kind: facts.name }, id));
            }
        }
    }
    builder.finish_variants();
    built.types = builder.types;
    built.structs.sort_unstable();
    built.kinds.sort_unstable();
    Ok(built)
}

/// Everything that makes two uses of a list type differ.
type ListKey = (TypeId, bool, &'static str, &'static str, &'static str);

#[derive(Default)]
struct Builder {
    types: Types,
    aliases: HashMap<Name, Alias<'static>>,
    structs: HashMap<Name, StructFacts<'static>>,
    /// Structs and named scalars; basic types have no package.
    ids: HashMap<Name, TypeId>,
    lists: HashMap<ListKey, TypeId>,
    maps: HashMap<(TypeId, bool, &'static str), TypeId>,
    /// Copies of a struct that merge in another way than the struct declares, by (struct, atomic).
    variants: HashMap<(TypeId, bool), TypeId>,
}

/// How a field says that its list or map merges.
#[derive(Clone, Copy, Default)]
struct Topology {
    list: &'static str,
    keys: &'static str,
    map: &'static str,
}

fn qualified(package: &str, name: &str) -> Str {
    let mut full = Str::with_capacity(package.len() + name.len() + 1);
    full.push_str(package);
    full.push('.');
    full.push_str(name);
    full
}

/// The leaf that a basic type or a type with JSON of its own is.
fn leaf(package: &str, name: &str) -> Option<Scalar> {
    Some(match (package, name) {
        ("", "string") => Scalar::String,
        ("", "bool") => Scalar::Bool,
        ("", "int16" | "int32" | "rune") => Scalar::Int32,
        ("", "int" | "int64") => Scalar::Int64,
        ("", "uint16" | "uint32") => Scalar::Uint32,
        ("", "uint" | "uint64") => Scalar::Uint64,
        ("", "byte") => Scalar::Uint8,
        ("", "float64") => Scalar::Float64,
        ("meta/v1", "Time") => Scalar::Time,
        ("meta/v1", "MicroTime") => Scalar::MicroTime,
        ("meta/v1", "Duration") => Scalar::Duration,
        ("meta/v1", "FieldsV1") => Scalar::FieldsV1,
        ("resource", "Quantity") => Scalar::Quantity,
        ("intstr", "IntOrString") => Scalar::IntOrString,
        ("runtime", "RawExtension") => Scalar::RawExtension,
        ("apiextensions/v1", "JSON") => Scalar::Json,
        _ => return None,
    })
}

fn union(package: &str, name: &str) -> Option<UnionKind> {
    match (package, name) {
        ("apiextensions/v1", "JSONSchemaPropsOrArray") => Some(UnionKind::SchemaOrArray),
        ("apiextensions/v1", "JSONSchemaPropsOrBool") => Some(UnionKind::SchemaOrBool),
        ("apiextensions/v1", "JSONSchemaPropsOrStringArray") => Some(UnionKind::SchemaOrStringArray),
        _ => None,
    }
}

impl Builder {
    /// A place for a struct; types with JSON of their own are there at once.
    fn declare(&mut self, (package, name): Name) -> TypeId {
        match leaf(package, name) {
            Some(kind) => {
                self.types.add(Type::Scalar(ScalarType { kind, name: qualified(package, name), values: None }))
            }
            None => self.types.add(Type::Any),
        }
    }

    fn define(&mut self, package: &Package<'static>, facts: &StructFacts<'static>, id: TypeId) -> Result<(), FactsError> {
        if leaf(package.name, facts.name).is_some() {
            return Ok(());
        }
        if let Some(kind) = union(package.name, facts.name) {
            let (schema, _) = self.resolve(package.name, "JSONSchemaProps", Topology::default())?;
            self.types.replace(id, Type::Union(Union { kind, schema }));
            return Ok(());
        }
        let mut fields = Vec::with_capacity(facts.fields.len() + 1);
        let mut embedded = Vec::new();
        self.flatten(package.name, facts, 0, true, &mut fields, &mut embedded)?;
        let mut made =
            Struct::new(qualified(package.name, facts.name), qualified(package.model, facts.name), fields);
        made.embedded = embedded;
        made.atomic = facts.atomic;
        self.types.replace(id, Type::Struct(made));
        Ok(())
    }

    /// Adds a struct's fields, with those of inlined structs in their place. `message` is the Protobuf message that
    /// they are in, `numbered` is false for a struct that Protobuf does not have (TypeMeta).
    fn flatten(
        &self_builder!(),
    ) -> Result<(), FactsError> {
        unreachable!()
    }
}
