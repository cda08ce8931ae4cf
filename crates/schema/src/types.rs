//! The model: an arena of types that refer to each other by id, so that recursive types (JSON schemas) cost nothing and
//! the whole catalog is shared by every cluster of a process.

use std::sync::{Arc, OnceLock};

use pintle_value::{Str, Value};

use crate::names::Names;

/// A type's place in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// An arena of types; immutable once built.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Types that other arenas begin with too.
    base: Option<Arc<Types>>,
    /// How many those are.
    offset: u32,
    types: Vec<Type>,
    /// Which types have defaults, found out at the first use.
    defaulting: OnceLock<Box<[bool]>>,
}

impl Types {
    /// An arena that begins with the types of another one, which is shared and not copied.
    #[must_use]
    pub fn on(base: Arc<Types>) -> Self {
        let offset = u32::try_from(base.len()).unwrap_or(u32::MAX);
        Self { base: Some(base), offset, ..Self::default() }
    }

    /// Adds a type and returns its id.
    pub fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        self.defaulting.take();
        id
    }

    /// Replaces a type that was added as a placeholder, for types that refer to themselves.
    pub fn replace(&mut self, id: TypeId, ty: Type) {
        let place = id.0.checked_sub(self.offset);
        if let Some(slot) = place.and_then(|place| self.types.get_mut(place as usize)) {
            *slot = ty;
        }
        self.defaulting.take();
    }

    /// The type of an id. An id of another arena gives [`Type::Any`].
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        match (id.0.checked_sub(self.offset), &self.base) {
            (Some(place), _) => self.types.get(place as usize).unwrap_or(&Type::Any),
            (None, Some(base)) => base.get(id),
            (None, None) => &Type::Any,
        }
    }

    /// True if a type has static defaults, in fields of its own or in those of what it consists of. Most have none.
    pub(crate) fn has_defaults(&self, id: TypeId) -> bool {
        let defaulting = self.defaulting.get_or_init(|| self.find_defaults());
        defaulting.get(id.0 as usize).is_some_and(|has| *has)
    }

    /// Goes over all types until no more are found: they may refer to themselves.
    fn find_defaults(&self) -> Box<[bool]> {
        let mut found = vec![false; self.len()].into_boxed_slice();
        loop {
            let before = found.iter().filter(|has| **has).count();
            for (at, (_, ty)) in self.iter().enumerate() {
                let has = |id: TypeId| found.get(id.0 as usize).is_some_and(|has| *has);
                found[at] = match ty {
                    Type::Struct(ty) => ty.fields.iter().any(|field| field.default.is_some() || has(field.ty)),
                    Type::Map(map) => has(map.value),
                    Type::List(list) => has(list.item),
                    Type::Union(union) => has(union.schema),
                    Type::Scalar(_) | Type::Any => false,
                };
            }
            if found.iter().filter(|has| **has).count() == before {
                return found;
            }
        }
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offset as usize + self.types.len()
    }

    /// True if there is no type.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All types with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        let all = 0..u32::try_from(self.len()).unwrap_or(u32::MAX);
        all.map(|id| (TypeId(id), self.get(TypeId(id))))
    }
}

/// A type in an arena: the schema of one kind (or of any part of one).
#[derive(Clone, Debug)]
pub struct Schema {
    /// The arena.
    pub types: Arc<Types>,
    /// The type of the object itself.
    pub root: TypeId,
}

impl Schema {
    /// The type of the object itself.
    #[must_use]
    pub fn root(&self) -> &Type {
        self.types.get(self.root)
    }
}

/// What a value may be.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A leaf.
    Scalar(ScalarType),
    /// An object with declared fields.
    Struct(Struct),
    /// An object with free keys.
    Map(Map),
    /// An array.
    List(List),
    /// One of several JSON shapes, told apart by what is there.
    Union(Union),
    /// Any JSON, kept as it is.
    Any,
}

/// A leaf's type.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarType {
    /// How it is read, checked and written.
    pub kind: Scalar,
    /// The name of its Go type where that is not the basic one (`core/v1.Protocol`), else empty.
    pub name: Str,
    /// The known values of a string.
    pub values: Option<EnumValues>,
}

/// The known values of a string type.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumValues {
    /// The values in declaration order.
    pub values: Vec<Str>,
    /// True if the published schema lists them as an `enum`.
    pub closed: bool,
}

/// The leaves that there are: Go's basic types and the types with JSON of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `string`
    String,
    /// `bool`
    Bool,
    /// `int32`, also `int16`, `rune`
    Int32,
    /// `int64`, also `int`
    Int64,
    /// `uint32`, also `uint16`
    Uint32,
    /// `uint64`, also `uint`
    Uint64,
    /// `uint8`
    Uint8,
    /// `float64`
    Float64,
    /// `[]byte`: base64 in JSON, raw in Protobuf
    Bytes,
    /// `metav1.Time`: RFC 3339 with seconds, in UTC; null where it is zero
    Time,
    /// `metav1.MicroTime`: RFC 3339 with microseconds, in UTC; null where it is zero
    MicroTime,
    /// `metav1.Duration`: Go's duration text
    Duration,
    /// `resource.Quantity`
    Quantity,
    /// `intstr.IntOrString`
    IntOrString,
    /// `runtime.RawExtension`: an embedded object of any kind
    RawExtension,
    /// `metav1.FieldsV1`: an embedded JSON object
    FieldsV1,
    /// `apiextensions.JSON`: any JSON value
    Json,
}

/// An object with declared fields: a Go struct, or an object schema with properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Struct {
    /// The Go type (`core/v1.Pod`), or empty.
    pub name: Str,
    /// The name in OpenAPI documents (`io.k8s.api.core.v1.Pod`), or empty.
    pub model: Str,
    /// The fields as JSON has them, those of inlined structs in their place, in declaration order.
    pub fields: Vec<Field>,
    /// The structs inlined into this one that are messages of their own in Protobuf. [`Field::embedded`] points here.
    pub embedded: Vec<Embedded>,
    /// True if server-side apply owns the object as a whole (`+structType=atomic`).
    pub atomic: bool,
    /// True if fields that are not declared are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// Where the fields are, by name.
    names: Names,
    /// Which fields are written even when they are not set, found out at the first use.
    appearing: Appearing,
    /// Indexes into `fields` of those that Protobuf has, sorted by message and number.
    wire: Vec<u16>,
}

impl Struct {
    /// A struct of these fields.
    #[must_use]
    pub fn new(name: impl Into<Str>, model: impl Into<Str>, fields: Vec<Field>) -> Self {
        let names = Names::of(&fields);
        let places = 0..u16::try_from(fields.len()).unwrap_or(u16::MAX);
        let mut wire: Vec<u16> = places.filter(|i| fields[usize::from(*i)].number > 0).collect();
        wire.sort_by_key(|i| (fields[usize::from(*i)].embedded, fields[usize::from(*i)].number));
        Self {
            name: name.into(),
            model: model.into(),
            fields,
            embedded: Vec::new(),
            atomic: false,
            preserve_unknown: false,
            names,
            appearing: Appearing::default(),
            wire,
        }
    }

    /// The fields that are written even when they are not set. All calls must be with the struct's own arena.
    pub(crate) fn appearing(&self, types: &Types) -> impl Iterator<Item = &Field> {
        let places = self.appearing.0.get_or_init(|| {
            let places = (0u16..).zip(&self.fields).filter(|(_, field)| types.appears(field));
            places.map(|(place, _)| place).collect()
        });
        places.iter().map(|i| &self.fields[usize::from(*i)])
    }

    /// The fields of one Protobuf message of this struct, in the order of their numbers: 0 is the struct itself, n the
    /// inlined struct n - 1 of [`Struct::embedded`]. They come with their places in [`Struct::fields`].
    pub fn message(&self, message: u8) -> impl DoubleEndedIterator<Item = (usize, &Field)> + ExactSizeIterator {
        let of = |i: &u16| self.fields[usize::from(*i)].embedded;
        let start = self.wire.partition_point(|i| of(i) < message);
        let end = self.wire.partition_point(|i| of(i) <= message);
        self.wire[start..end].iter().map(|i| usize::from(*i)).map(|i| (i, &self.fields[i]))
    }

    /// The field with this number in one Protobuf message of this struct, with its place in [`Struct::fields`]. Fields come
    /// in the order of their numbers, as a rule: `near` is where the last one was found, whatever it is at first.
    #[must_use]
    pub fn numbered(&self, message: u8, number: u32, near: &mut usize) -> Option<(usize, &Field)> {
        let key = |i: &u16| (self.fields[usize::from(*i)].embedded, self.fields[usize::from(*i)].number);
        let is_at = |at: &usize| self.wire.get(*at).is_some_and(|i| key(i) == (message, number));
        let at = match [*near, near.saturating_add(1)].iter().find(|at| is_at(at)) {
            Some(at) => *at,
            None => self.wire.binary_search_by_key(&(message, number), key).ok()?,
        };
        *near = at;
        let place = usize::from(self.wire[at]);
        Some((place, &self.fields[place]))
    }

    /// The field with this JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|i| &self.fields[i])
    }

    /// The bare Go names of the inlined structs that a field is in, outermost first.
    #[must_use]
    pub fn inlined_in(&self, field: &Field) -> Vec<&str> {
        // `apiVersion` and `kind` are not part of any message.
        if field.number == 0 && matches!(field.name.as_str(), "apiVersion" | "kind") {
            return vec!["TypeMeta"];
        }
        let mut names = Vec::new();
        let mut message = field.embedded;
        while let Some(embedded) = usize::from(message).checked_sub(1).and_then(|i| self.embedded.get(i)) {
            names.push(embedded.name.as_str());
            message = embedded.parent.min(message - 1);
        }
        names.reverse();
        names
    }

    /// The index in `fields` of the field with this JSON name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.names.place(&self.fields, name)
    }
}

/// Derived from the other fields of a struct, so that it makes no two of them differ.
#[derive(Clone, Debug, Default)]
struct Appearing(OnceLock<Box<[u16]>>);

impl PartialEq for Appearing {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A struct that is inlined in JSON but a message of its own in Protobuf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The bare name of its Go type (`VolumeSource`), which Go's messages have in the paths of its fields.
    pub name: Str,
    /// The message that it is a field of: an index into [`Struct::embedded`] plus one, or 0 for the struct itself.
    pub parent: u8,
    /// Its Protobuf field number there.
    pub number: u32,
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The JSON name.
    pub name: Str,
    /// The type of the value.
    pub ty: TypeId,
    /// True for a Go pointer: null is possible and differs from the zero value.
    pub pointer: bool,
    /// When encoding leaves it out.
    pub omit: Omit,
    /// True if the published schema lists it as required.
    pub required: bool,
    /// The Protobuf field number, or 0 for a field that is not in the message (`apiVersion`, `kind`).
    pub number: u32,
    /// The Protobuf message that it is in: an index into [`Struct::embedded`] plus one, or 0 for the struct itself.
    pub embedded: u8,
    /// How strategic merge patch treats it.
    pub patch: Patch,
    /// The value of `+default`: what the published schema says and what defaulting sets.
    pub default: Option<Value>,
}

/// When a field is left out of JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Omit {
    /// Never: it is written as its zero value (null for nil pointers, slices and maps).
    #[default]
    Never,
    /// `omitempty`: false, 0, "", nil, and empty slices and maps; never a struct.
    Empty,
    /// `omitzero`: the zero value, also of a struct.
    Zero,
}

/// How strategic merge patch treats a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    /// `patchStrategy` contains `merge`.
    pub merge: bool,
    /// `patchStrategy` contains `replace`.
    pub replace: bool,
    /// `patchStrategy` contains `retainKeys`.
    pub retain_keys: bool,
    /// `patchMergeKey`, or empty.
    pub merge_key: Str,
}

/// An object with free keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The type of the values.
    pub value: TypeId,
    /// True if server-side apply owns the map as a whole.
    pub atomic: bool,
    /// The Go type where it is a named one (`core/v1.ResourceList`), else empty.
    pub name: Str,
    /// The Go type of its keys where that is not `string` itself (`core/v1.ResourceName`), else empty.
    pub key: Str,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The type of the items.
    pub item: TypeId,
    /// True if the items are Go pointers.
    pub pointers: bool,
    /// How its items are identified when merging.
    pub topology: ListTopology,
    /// The Go type where it is a named one (`authorization/v1.ExtraValue`), else empty. In Protobuf such a list as the
    /// value of a map is a message with the items in field 1.
    pub name: Str,
}

/// How items of a list are identified when merging (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ListTopology {
    /// Nothing is declared: merged as one value.
    #[default]
    Undeclared,
    /// Declared `atomic`.
    Atomic,
    /// Items are unique scalars.
    Set,
    /// Items are objects with these keys.
    Map(Vec<Str>),
}

/// One of several JSON shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// Which shapes.
    pub kind: UnionKind,
    /// The type of the schema in it (`JSONSchemaProps`).
    pub schema: TypeId,
}

/// The unions of the apiextensions types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnionKind {
    /// A schema or an array of schemas (`JSONSchemaPropsOrArray`).
    SchemaOrArray,
    /// A schema or a boolean (`JSONSchemaPropsOrBool`).
    SchemaOrBool,
    /// A schema or an array of strings (`JSONSchemaPropsOrStringArray`).
    SchemaOrStringArray,
}
