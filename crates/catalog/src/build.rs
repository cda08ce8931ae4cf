//! Builds the arena of types from the type metadata: resolves names, flattens embedded structs as Go's JSON encoder
//! does, and records their nesting in Protobuf.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_schema::{
    Embedded, EnumValues, Field, List, ListTopology, Map, Omit, PatchMeta, Scalar, ScalarType, Struct, Type, TypeId,
    Types, Union, UnionKind,
};
use pintle_value::{Str, Value};

use crate::catalog::Catalog;
use crate::facts::{Alias, FactsError, FieldFacts, Package, StructFacts};

/// The name of a type: its package and its name in the package.
type TypeName = (&'static str, &'static str);

/// The result of [`build`].
pub(crate) struct BuiltTypes {
    pub(crate) types: Types,
    /// Structs by Go name (`core/v1.Pod`), sorted.
    pub(crate) structs: Vec<(Str, TypeId)>,
    /// Registered kinds by group, version and kind, sorted.
    pub(crate) kinds: Vec<(GroupVersionKind, TypeId)>,
}

/// Group, version and kind of a registered type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupVersionKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
}

/// The types to which other types refer.
#[derive(Clone, Copy)]
pub(crate) struct Base<'a> {
    pub(crate) catalog: &'a Catalog,
    /// The packages of the base types. Empty if the other packages need no more than the types.
    pub(crate) packages: &'a [Package<'static>],
}

/// Builds the types of all packages. The types of the base come before them, if there is a base.
pub(crate) fn build(packages: &[Package<'static>], base: Option<Base<'_>>) -> Result<BuiltTypes, FactsError> {
    let types = base.map_or_else(Types::default, |base| Types::with_base(Arc::clone(base.catalog.types())));
    let mut builder = TypesBuilder { types, base: base.map(|base| base.catalog), ..TypesBuilder::default() };
    for package in base.iter().flat_map(|base| base.packages) {
        for alias in &package.aliases {
            builder.aliases.insert((package.name, alias.name), alias.clone());
        }
        for facts in &package.structs {
            let name = (package.name, facts.name);
            builder.ids.extend(builder.base_struct(name).map(|id| (name, id)));
            builder.structs.insert(name, facts.clone());
        }
    }
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
    let mut result = BuiltTypes { types: Types::default(), structs: Vec::new(), kinds: Vec::new() };
    for package in packages {
        for facts in &package.structs {
            let Some(id) = builder.ids.get(&(package.name, facts.name)).copied() else { continue };
            builder.define(package, facts, id)?;
            result.structs.push((qualified_name(package.name, facts.name), id));
            if let (true, Some(group)) = (facts.kind, package.group) {
                result.kinds.push((GroupVersionKind { group, version: package.version, kind: facts.name }, id));
            }
        }
    }
    builder.finish_variants();
    result.types = builder.types;
    result.structs.sort_unstable();
    result.kinds.sort_unstable();
    Ok(result)
}

/// The attributes that distinguish uses of a list type.
type ListUse = (TypeId, bool, &'static str, &'static str, Str);

#[derive(Default)]
struct TypesBuilder<'a> {
    types: Types,
    base: Option<&'a Catalog>,
    aliases: HashMap<TypeName, Alias<'static>>,
    structs: HashMap<TypeName, StructFacts<'static>>,
    /// Structs and named scalars. Basic types have an empty package.
    ids: HashMap<TypeName, TypeId>,
    lists: HashMap<ListUse, TypeId>,
    maps: HashMap<(TypeId, bool, Str, Str), TypeId>,
    /// Copies of structs with another map topology than declared, by (struct, atomic).
    variants: HashMap<(TypeId, bool), TypeId>,
}

/// The list and map topology of a field.
#[derive(Clone, Copy, Default)]
struct FieldTopology {
    list: &'static str,
    keys: &'static str,
    map: &'static str,
}

fn qualified_name(package: &str, name: &str) -> Str {
    let mut full = Str::with_capacity(package.len() + name.len() + 1);
    full.push_str(package);
    full.push('.');
    full.push_str(name);
    full
}

/// The scalar of a basic type or of a type with its own JSON encoding.
fn scalar_of(package: &str, name: &str) -> Option<Scalar> {
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

fn union_kind(package: &str, name: &str) -> Option<UnionKind> {
    match (package, name) {
        ("apiextensions/v1", "JSONSchemaPropsOrArray") => Some(UnionKind::SchemaOrArray),
        ("apiextensions/v1", "JSONSchemaPropsOrBool") => Some(UnionKind::SchemaOrBool),
        ("apiextensions/v1", "JSONSchemaPropsOrStringArray") => Some(UnionKind::SchemaOrStringArray),
        _ => None,
    }
}

impl TypesBuilder<'_> {
    /// Reserves the ID of a struct. Types with their own JSON encoding are added at once.
    fn declare(&mut self, (package, name): TypeName) -> TypeId {
        match scalar_of(package, name) {
            Some(kind) => {
                self.types.add(Type::Scalar(ScalarType { kind, name: qualified_name(package, name), values: None }))
            }
            None => self.types.add(Type::Any),
        }
    }

    fn define(
        &mut self,
        package: &Package<'static>,
        facts: &StructFacts<'static>,
        id: TypeId,
    ) -> Result<(), FactsError> {
        if scalar_of(package.name, facts.name).is_some() {
            return Ok(());
        }
        if let Some(kind) = union_kind(package.name, facts.name) {
            let (schema, _) = self.resolve(package.name, "JSONSchemaProps", FieldTopology::default())?;
            self.types.replace(id, Type::Union(Union { kind, schema }));
            return Ok(());
        }
        let mut fields = Vec::with_capacity(facts.fields.len() + 1);
        let mut embedded = Vec::new();
        self.flatten(package.name, facts, Some(0), &mut fields, &mut embedded)?;
        let mut built =
            Struct::new(qualified_name(package.name, facts.name), qualified_name(package.model, facts.name), fields);
        built.embedded = embedded;
        built.atomic = facts.atomic;
        self.types.replace(id, Type::Struct(built));
        Ok(())
    }

    /// Adds a struct's fields, with the fields of embedded structs in their place. `message` is the index of the
    /// Protobuf message that contains them, or `None` for a struct that Protobuf does not have (TypeMeta).
    fn flatten(
        &mut self,
        package: &'static str,
        facts: &StructFacts<'static>,
        message: Option<u8>,
        fields: &mut Vec<Field>,
        embedded: &mut Vec<Embedded>,
    ) -> Result<(), FactsError> {
        for field in facts.fields.iter().filter(|f| !f.hidden) {
            if !field.inline {
                let built = self.field(package, field, message)?;
                fields.push(built);
                continue;
            }
            let name = split_name(package, field.ty.trim_start_matches('*'));
            let Some(inner) = self.structs.get(&name).cloned() else {
                // Of the structs of a base, only a struct that Protobuf does not have (TypeMeta) is embedded.
                if let (0, Some(Type::Struct(base))) =
                    (field.number, self.base_struct(name).map(|id| self.types.get(id)))
                {
                    fields.extend(base.fields.iter().map(|field| Field { number: 0, embedded: 0, ..field.clone() }));
                    continue;
                }
                return Err(FactsError::new(0, format!("{package}.{}: no struct {}", facts.name, field.ty)));
            };
            let inner_message = match (message, field.number) {
                (Some(parent), number @ 1..) => {
                    embedded.push(Embedded { name: name.1.into(), parent, number });
                    u8::try_from(embedded.len()).ok()
                }
                _ => None,
            };
            self.flatten(name.0, &inner, inner_message, fields, embedded)?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        package: &'static str,
        facts: &FieldFacts<'static>,
        message: Option<u8>,
    ) -> Result<Field, FactsError> {
        let topology = FieldTopology { list: facts.list, keys: facts.list_keys, map: facts.map };
        let (ty, pointer) = self.resolve(package, facts.ty, topology)?;
        let omit = match (facts.omit_zero, facts.omit_empty) {
            (true, _) => Omit::Zero,
            (_, true) => Omit::Empty,
            _ => Omit::Never,
        };
        let mut patch = PatchMeta { merge_key: Str::const_new(facts.patch_key), ..PatchMeta::default() };
        for strategy in facts.patch.split(',').filter(|s| !s.is_empty()) {
            match strategy {
                "merge" => patch.merge = true,
                "replace" => patch.replace = true,
                "retainKeys" => patch.retain_keys = true,
                _ => return Err(FactsError::new(0, format!("{package} {}: patch strategy {strategy}", facts.name))),
            }
        }
        let default = match facts.default {
            Some(text) => Some(parse_default(text).ok_or_else(|| {
                FactsError::new(
                    0,
                    format!("{package} {}: the default {text} is neither a scalar nor a small object", facts.name),
                )
            })?),
            None => None,
        };
        Ok(Field {
            name: Str::const_new(facts.name),
            ty,
            pointer,
            omit,
            required: facts.required,
            number: message.map_or(0, |_| facts.number),
            embedded: message.unwrap_or(0),
            patch,
            default,
        })
    }

    /// Resolves a Go type expression to its type and whether it is a pointer.
    fn resolve(
        &mut self,
        package: &'static str,
        text: &'static str,
        topology: FieldTopology,
    ) -> Result<(TypeId, bool), FactsError> {
        if let Some(text) = text.strip_prefix('*') {
            return Ok((self.resolve(package, text, topology)?.0, true));
        }
        let id = if text == "[]byte" {
            self.intern_named(("", "[]byte"), |_| Type::Scalar(unnamed_scalar(Scalar::Bytes)))
        } else if let Some(item) = text.strip_prefix("[]") {
            self.list(package, item, topology, Str::default())?
        } else if let Some(rest) = text.strip_prefix("map[") {
            let of = rest.split_once(']').ok_or_else(|| FactsError::new(0, format!("map type {text}")))?;
            self.map(package, of, topology, Str::default())?
        } else if text == "interface{}" {
            self.intern_named(("", "interface{}"), |_| Type::Any)
        } else {
            self.resolve_name(split_name(package, text), topology)?
        };
        Ok((id, false))
    }

    fn intern_named(&mut self, name: TypeName, make: impl FnOnce(&Self) -> Type) -> TypeId {
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        let ty = make(self);
        let id = self.types.add(ty);
        self.ids.insert(name, id);
        id
    }

    /// The struct of the base with a name.
    fn base_struct(&self, (package, name): TypeName) -> Option<TypeId> {
        self.base?.struct_type(&qualified_name(package, name))
    }

    fn resolve_name(&mut self, name: TypeName, topology: FieldTopology) -> Result<TypeId, FactsError> {
        if let Some(kind) = scalar_of(name.0, name.1) {
            return Ok(self.intern_named(name, |_| Type::Scalar(unnamed_scalar(kind))));
        }
        if let (Some(id), Some(facts)) = (self.ids.get(&name).copied(), self.structs.get(&name)) {
            let atomic = match topology.map {
                "" => facts.atomic,
                other => other == "atomic",
            };
            return Ok(if atomic == facts.atomic { id } else { self.variant(id, atomic) });
        }
        let Some(alias) = self.aliases.get(&name).cloned() else {
            if let Some(id) = self.base_struct(name) {
                return Ok(id);
            }
            return Err(FactsError::new(0, format!("no type {}.{}", name.0, name.1)));
        };
        if let Some(item) = alias.ty.strip_prefix("[]") {
            // A named list is a Protobuf message, so only lists that are messages get a name.
            return self.list(
                name.0,
                item,
                topology,
                if alias.message { qualified_name(name.0, name.1) } else { Str::default() },
            );
        }
        if let Some(rest) = alias.ty.strip_prefix("map[") {
            let of = rest.split_once(']').unwrap_or_default();
            return self.map(name.0, of, topology, qualified_name(name.0, name.1));
        }
        if let Some(id) = self.ids.get(&name) {
            return Ok(*id);
        }
        let kind = scalar_of("", alias.ty)
            .ok_or_else(|| FactsError::new(0, format!("{}.{} is a {}", name.0, name.1, alias.ty)))?;
        let values = (!alias.values.is_empty()).then(|| EnumValues {
            values: alias.values.iter().map(|v| Str::const_new(v)).collect(),
            closed: alias.closed,
        });
        Ok(self.intern_named(name, |_| Type::Scalar(ScalarType { kind, name: qualified_name(name.0, name.1), values })))
    }

    fn list(
        &mut self,
        package: &'static str,
        item: &'static str,
        topology: FieldTopology,
        name: Str,
    ) -> Result<TypeId, FactsError> {
        let (item, pointers) = self.resolve(package, item, FieldTopology::default())?;
        let key: ListUse = (item, pointers, topology.list, topology.keys, name.clone());
        if let Some(id) = self.lists.get(&key) {
            return Ok(*id);
        }
        let topology = match topology.list {
            "" => ListTopology::Undeclared,
            "atomic" => ListTopology::Atomic,
            "set" => ListTopology::Set,
            "map" => ListTopology::Map(topology.keys.split(',').map(Str::const_new).collect()),
            other => return Err(FactsError::new(0, format!("list type {other}"))),
        };
        let id = self.types.add(Type::List(List { item, pointers, topology, name }));
        self.lists.insert(key, id);
        Ok(id)
    }

    fn map(
        &mut self,
        package: &'static str,
        (key, value): (&'static str, &'static str),
        topology: FieldTopology,
        name: Str,
    ) -> Result<TypeId, FactsError> {
        let (value, _) = self.resolve(package, value, FieldTopology::default())?;
        let key = match split_name(package, key) {
            ("", _) => Str::default(),
            (package, name) => qualified_name(package, name),
        };
        let map_key = (value, topology.map == "atomic", name, key);
        if let Some(id) = self.maps.get(&map_key) {
            return Ok(*id);
        }
        let (value, atomic, name, key) = map_key.clone();
        let id = self.types.add(Type::Map(Map { value, atomic, name, key }));
        self.maps.insert(map_key, id);
        Ok(id)
    }

    /// Reserves the ID of a copy of a struct with the other topology. It is defined when all structs are.
    fn variant(&mut self, id: TypeId, atomic: bool) -> TypeId {
        if let Some(variant) = self.variants.get(&(id, atomic)) {
            return *variant;
        }
        let variant = self.types.add(Type::Any);
        self.variants.insert((id, atomic), variant);
        variant
    }

    fn finish_variants(&mut self) {
        let variants = std::mem::take(&mut self.variants);
        for ((id, atomic), variant) in variants {
            if let Type::Struct(declared) = self.types.get(id) {
                let mut copy = declared.clone();
                copy.atomic = atomic;
                self.types.replace(variant, Type::Struct(copy));
            }
        }
    }
}

fn unnamed_scalar(kind: Scalar) -> ScalarType {
    ScalarType { kind, name: Str::default(), values: None }
}

/// Splits `core/v1.Pod`. An unqualified name is a basic type or a type of the same package.
fn split_name(package: &'static str, text: &'static str) -> TypeName {
    match text.rsplit_once('.') {
        Some(name) => name,
        None if text.starts_with(|c: char| c.is_ascii_lowercase()) => ("", text),
        None => (package, text),
    }
}

/// Parses a JSON scalar. Defaults are booleans, integers and strings without escapes.
/// Parses a default: a scalar, or an object with at most one field.
fn parse_default(text: &str) -> Option<Value> {
    match text {
        "true" => return Some(Value::Bool(true)),
        "false" => return Some(Value::Bool(false)),
        "{}" => return Some(Value::object()),
        _ => {}
    }
    if let Some(field) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        let (name, value) = field.split_once(": ")?;
        let mut object = Value::object();
        object.set(name.strip_prefix('"')?.strip_suffix('"')?, parse_default(value)?);
        return Some(object);
    }
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(text) if !text.contains(['"', '\\']) => Some(Value::String(Str::from(text))),
        Some(_) => None,
        None => text.parse().ok().map(Value::Int),
    }
}
