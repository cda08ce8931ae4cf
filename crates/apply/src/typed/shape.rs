//! What a type says about merging: scalar, list or map, and whether a list or a map is one value or many. Follows what
//! kube-openapi's `schemaconv` makes of the published schemas.

use pintle_schema::{Field, List, ListTopology, Omit, Patch, Scalar, Struct, Type, TypeId, Types};
use pintle_value::{Str, Value};

/// A type, as far as merging is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Place<'t>(Kind<'t>);

#[derive(Clone, Copy, Debug)]
enum Kind<'t> {
    /// A type of an arena, and how a patch treats the field that has it.
    Declared { types: &'t Types, id: TypeId, patch: Option<&'t Patch> },
    /// Whatever it is: maps are merged, lists are atomic.
    Deduced,
    /// Whatever it is, as one value.
    Atomic,
}

/// A scalar, list or map.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'t> {
    Scalar(Leaf),
    List(Items<'t>),
    Map(Entries<'t>),
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaf {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// A list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'t> {
    pub(super) item: Place<'t>,
    pub(super) identity: Identity<'t>,
}

/// What tells the items of a list from each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Identity<'t> {
    /// The list is one value.
    Atomic,
    /// Their values.
    Set,
    /// These fields of theirs.
    Keys(&'t [Str]),
}

/// A struct or a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'t> {
    /// The arena and the struct, where there are declared fields.
    declared: Option<(&'t Types, &'t Struct)>,
    /// The type of what is not declared, if that is allowed.
    other: Option<Place<'t>>,
    /// True if it is one value.
    pub(super) atomic: bool,
}

impl<'t> Place<'t> {
    /// The place of a value without a schema.
    pub const DEDUCED: Place<'static> = Place(Kind::Deduced);
    const ATOMIC: Place<'static> = Place(Kind::Atomic);

    pub(super) const fn declared(types: &'t Types, id: TypeId) -> Self {
        Self(Kind::Declared { types, id, patch: None })
    }

    fn of_field(types: &'t Types, field: &'t Field) -> Self {
        Self(Kind::Declared { types, id: field.ty, patch: Some(&field.patch) })
    }

    /// The shape for a value: where the type leaves it open, the value decides. Null counts as a map there.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape<'t> {
        match self.0 {
            Kind::Declared { types, id, patch } => declared(types, id, patch, value),
            Kind::Deduced => open(value, Place::DEDUCED, false),
            Kind::Atomic => open(value, Place::ATOMIC, true),
        }
    }
}

fn declared<'t>(types: &'t Types, id: TypeId, patch: Option<&'t Patch>, value: Option<&Value>) -> Shape<'t> {
    match types.get(id) {
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::RawExtension => open(value, Place::ATOMIC, true),
            Scalar::FieldsV1 => Shape::Map(Entries { declared: None, other: Some(Place::DEDUCED), atomic: false }),
            Scalar::Json => open(value, Place::DEDUCED, false),
            kind => Shape::Scalar(leaf(kind)),
        },
        Type::Struct(of) => Shape::Map(Entries {
            declared: Some((types, of)),
            // An object schema without properties takes anything.
            other: (of.fields.is_empty() || of.preserve_unknown).then_some(Place::DEDUCED),
            atomic: of.atomic,
        }),
        Type::Map(map) => {
            let other = Some(Place::declared(types, map.value));
            Shape::Map(Entries { declared: None, other, atomic: map.atomic })
        }
        Type::List(list) => {
            Shape::List(Items { item: Place::declared(types, list.item), identity: identity(list, patch) })
        }
        Type::Union(_) | Type::Any => open(value, Place::DEDUCED, false),
    }
}

/// The shape where anything goes. Items of lists are always atomic, also where the maps around them are not.
fn open<'t>(value: Option<&Value>, below: Place<'t>, atomic: bool) -> Shape<'t> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => {
            Shape::Map(Entries { declared: None, other: Some(below), atomic })
        }
        Some(Value::Array(_)) => Shape::List(Items { item: Place::ATOMIC, identity: Identity::Atomic }),
        Some(_) => Shape::Scalar(Leaf::Untyped),
    }
}

const fn leaf(kind: Scalar) -> Leaf {
    match kind {
        Scalar::String | Scalar::Bytes | Scalar::Duration => Leaf::String,
        Scalar::Bool => Leaf::Boolean,
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 | Scalar::Float64 => {
            Leaf::Numeric
        }
        _ => Leaf::Untyped,
    }
}

/// What a list declares, or else what strategic merge patch does with it.
fn identity<'t>(list: &'t List, patch: Option<&'t Patch>) -> Identity<'t> {
    match (&list.topology, patch) {
        (ListTopology::Atomic, _) => Identity::Atomic,
        (ListTopology::Set, _) => Identity::Set,
        (ListTopology::Map(keys), _) => Identity::Keys(keys),
        (ListTopology::Undeclared, Some(patch)) if patch.merge => {
            if patch.merge_key.is_empty() {
                Identity::Set
            } else {
                Identity::Keys(std::slice::from_ref(&patch.merge_key))
            }
        }
        (ListTopology::Undeclared, _) => Identity::Atomic,
    }
}

impl<'t> Entries<'t> {
    /// The declared field of a name.
    pub(super) fn field(&self, name: &str) -> Option<&'t Field> {
        self.declared.and_then(|(_, of)| of.field(name))
    }

    /// The value of a declared field where there is none: its default or, for what Go never leaves out of JSON, the zero
    /// value of its basic type, which published schemas say for a default.
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

    /// The type of the value under a key; `None` where the key may not be.
    pub(super) fn entry(&self, key: &str) -> Option<Place<'t>> {
        self.entry_and_declared(key).map(|(place, _)| place)
    }

    /// The type of the value under a key, and whether the key is declared; `None` where the key may not be.
    pub(super) fn entry_and_declared(&self, key: &str) -> Option<(Place<'t>, bool)> {
        let declared = self.declared.and_then(|(types, of)| of.field(key).map(|field| Place::of_field(types, field)));
        declared.map(|place| (place, true)).or_else(|| self.other.map(|place| (place, false)))
    }

    /// The type of what is not declared.
    pub(super) fn other(&self) -> Option<Place<'t>> {
        self.other
    }

    /// True if nothing is known of what is in it.
    pub(super) fn is_open(&self) -> bool {
        let no_fields = self.declared.is_none_or(|(_, of)| of.fields.is_empty());
        no_fields && self.other.is_some_and(|place| place.is_open())
    }
}

impl Place<'_> {
    fn is_open(self) -> bool {
        match self.0 {
            Kind::Deduced => true,
            Kind::Atomic => false,
            Kind::Declared { types, id, .. } => matches!(types.get(id), Type::Any),
        }
    }
}

impl Shape<'_> {
    /// True if two shapes of the same type are the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}
