//! Types as merging sees them: scalar, list or map, and whether a list or a map is atomic. Follows kube-openapi's
//! `schemaconv` of the published schemas.

use pintle_schema::{Field, List, ListTopology, Omit, PatchMeta, Scalar, Struct, Type, TypeId, Types};
use pintle_value::{Str, Value};

/// A reference to a type, with the operations on its values (upstream: `typed.ParseableType`).
#[derive(Clone, Copy, Debug)]
pub struct TypeRef<'t>(TypeRefKind<'t>);

#[derive(Clone, Copy, Debug)]
enum TypeRefKind<'t> {
    /// A declared type, and the patch strategy of the field that has it.
    Declared { types: &'t Types, id: TypeId, patch: Option<&'t PatchMeta> },
    /// No schema: maps are granular, lists are atomic.
    Deduced,
    /// No schema, as one atomic value.
    Atomic,
}

/// A scalar, list or map (upstream: `schema.Atom`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'t> {
    Scalar(ScalarKind),
    List(ListSchema<'t>),
    Map(MapSchema<'t>),
}

/// The type of a scalar (upstream: `schema.Scalar`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarKind {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list (upstream: `schema.List`).
#[derive(Clone, Copy, Debug)]
pub(super) struct ListSchema<'t> {
    pub(super) item: TypeRef<'t>,
    pub(super) relationship: ElementRelationship<'t>,
}

/// How the items of a list are identified (upstream: `schema.ElementRelationship`).
#[derive(Clone, Copy, Debug)]
pub(super) enum ElementRelationship<'t> {
    /// The list is one value.
    Atomic,
    /// Items are identified by value.
    Set,
    /// Items are identified by these fields.
    Keys(&'t [Str]),
}

/// A struct or a map (upstream: `schema.Map`).
#[derive(Clone, Copy, Debug)]
pub(super) struct MapSchema<'t> {
    /// The declared fields, if any.
    declared: Option<(&'t Types, &'t Struct)>,
    /// The type of undeclared fields, if they are allowed.
    element_type: Option<TypeRef<'t>>,
    /// True if the map is one value.
    pub(super) atomic: bool,
}

impl<'t> TypeRef<'t> {
    /// The type of values without a schema (upstream: `typed.DeducedParseableType`).
    pub const DEDUCED: TypeRef<'static> = TypeRef(TypeRefKind::Deduced);
    const ATOMIC: TypeRef<'static> = TypeRef(TypeRefKind::Atomic);

    pub(super) const fn declared(types: &'t Types, id: TypeId) -> Self {
        Self(TypeRefKind::Declared { types, id, patch: None })
    }

    fn for_field(types: &'t Types, field: &'t Field) -> Self {
        Self(TypeRefKind::Declared { types, id: field.ty, patch: Some(&field.patch) })
    }

    /// A number of the type that is not zero and that no other type has. `None` if it has none.
    pub(super) fn key(self) -> Option<u64> {
        match self.0 {
            TypeRefKind::Declared { types, id, patch: None } => {
                u32::try_from(types.identity()).ok().map(|types| u64::from(types) << 32 | u64::from(id.0))
            }
            _ => None,
        }
    }

    /// Resolves the atom for a value. If the type leaves it open, the value decides; null then counts as a map.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'t> {
        match self.0 {
            TypeRefKind::Declared { types, id, patch } => declared(types, id, patch, value),
            TypeRefKind::Deduced => deduced_atom(value, TypeRef::DEDUCED, false),
            TypeRefKind::Atomic => deduced_atom(value, TypeRef::ATOMIC, true),
        }
    }
}

fn declared<'t>(types: &'t Types, id: TypeId, patch: Option<&'t PatchMeta>, value: Option<&Value>) -> Atom<'t> {
    match types.get(id) {
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::RawExtension => deduced_atom(value, TypeRef::ATOMIC, true),
            Scalar::FieldsV1 => {
                Atom::Map(MapSchema { declared: None, element_type: Some(TypeRef::DEDUCED), atomic: false })
            }
            Scalar::Json => deduced_atom(value, TypeRef::DEDUCED, false),
            kind => Atom::Scalar(leaf(kind)),
        },
        Type::Struct(of) => Atom::Map(MapSchema {
            declared: Some((types, of)),
            // An object schema without properties accepts any field.
            element_type: (of.fields.is_empty() || of.preserve_unknown).then_some(TypeRef::DEDUCED),
            atomic: of.atomic,
        }),
        Type::Map(map) => {
            let element_type = Some(TypeRef::declared(types, map.value));
            Atom::Map(MapSchema { declared: None, element_type, atomic: map.atomic })
        }
        Type::List(list) => Atom::List(ListSchema {
            item: TypeRef::declared(types, list.item),
            relationship: relationship(list, patch),
        }),
        Type::Union(_) | Type::Any => deduced_atom(value, TypeRef::DEDUCED, false),
    }
}

/// The atom of a value without a schema. Lists are always atomic, even inside granular maps.
fn deduced_atom<'t>(value: Option<&Value>, below: TypeRef<'t>, atomic: bool) -> Atom<'t> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => {
            Atom::Map(MapSchema { declared: None, element_type: Some(below), atomic })
        }
        Some(Value::Array(_)) => {
            Atom::List(ListSchema { item: TypeRef::ATOMIC, relationship: ElementRelationship::Atomic })
        }
        Some(_) => Atom::Scalar(ScalarKind::Untyped),
    }
}

const fn leaf(kind: Scalar) -> ScalarKind {
    match kind {
        Scalar::String | Scalar::Bytes | Scalar::Duration => ScalarKind::String,
        Scalar::Bool => ScalarKind::Boolean,
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 | Scalar::Float64 => {
            ScalarKind::Numeric
        }
        _ => ScalarKind::Untyped,
    }
}

/// The declared list type, or else the list type that follows from the patch strategy.
fn relationship<'t>(list: &'t List, patch: Option<&'t PatchMeta>) -> ElementRelationship<'t> {
    match (&list.topology, patch) {
        (ListTopology::Atomic, _) => ElementRelationship::Atomic,
        (ListTopology::Set, _) => ElementRelationship::Set,
        (ListTopology::Map(keys), _) => ElementRelationship::Keys(keys),
        (ListTopology::Undeclared, Some(patch)) if patch.merge => {
            if patch.merge_key.is_empty() {
                ElementRelationship::Set
            } else {
                ElementRelationship::Keys(std::slice::from_ref(&patch.merge_key))
            }
        }
        (ListTopology::Undeclared, _) => ElementRelationship::Atomic,
    }
}

impl<'t> MapSchema<'t> {
    /// The declared field with this name.
    pub(super) fn field(&self, name: &str) -> Option<&'t Field> {
        self.declared.and_then(|(_, of)| of.field(name))
    }

    /// The default of a declared field. If Go never omits the field from JSON, this is the zero value of its basic
    /// type, which published schemas list as the default.
    pub(super) fn default(&self, name: &str) -> Option<Value> {
        let (types, of) = self.declared?;
        let field = of.field(name)?;
        let zero = || match types.get(field.ty) {
            Type::Scalar(scalar) if field.pointer || field.omit != Omit::Never || scalar.kind.is_go_struct() => None,
            Type::Scalar(scalar) => Some(scalar.kind.zero()),
            _ => None,
        };
        field.default.clone().or_else(zero)
    }

    /// The type of the value under a key, or `None` if the key is not allowed.
    pub(super) fn entry(&self, key: &str) -> Option<TypeRef<'t>> {
        self.entry_and_declared(key).map(|(type_ref, _)| type_ref)
    }

    /// The type of the value under a key and whether the key is declared, or `None` if the key is not allowed.
    pub(super) fn entry_and_declared(&self, key: &str) -> Option<(TypeRef<'t>, bool)> {
        let declared =
            self.declared.and_then(|(types, of)| of.field(key).map(|field| TypeRef::for_field(types, field)));
        declared.map(|type_ref| (type_ref, true)).or_else(|| self.element_type.map(|type_ref| (type_ref, false)))
    }

    /// The type of undeclared fields.
    pub(super) fn element_type(&self) -> Option<TypeRef<'t>> {
        self.element_type
    }

    /// True if the content has no schema.
    pub(super) fn is_deduced(&self) -> bool {
        let no_fields = self.declared.is_none_or(|(_, of)| of.fields.is_empty());
        no_fields && self.element_type.is_some_and(|type_ref| type_ref.is_deduced())
    }
}

impl TypeRef<'_> {
    fn is_deduced(self) -> bool {
        match self.0 {
            TypeRefKind::Deduced => true,
            TypeRefKind::Atomic => false,
            TypeRefKind::Declared { types, id, .. } => matches!(types.get(id), Type::Any),
        }
    }
}

impl Atom<'_> {
    /// True if both are scalars, both lists or both maps.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
