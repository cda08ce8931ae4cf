//! The type model: an arena of types that refer to each other by id. Recursive types (JSON schemas) need no
//! indirection, and all clusters of a process share the catalog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_value::{Str, Value};

use crate::field_index::FieldIndex;

/// The index of a type in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// An arena of types. Immutable once built.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// The types of a shared arena. They come before the arena's own types.
    base: Option<Arc<Types>>,
    /// The number of shared types.
    offset: u32,
    types: Vec<Type>,
    /// Whether each type has defaults, computed on first use.
    defaulting: OnceLock<Box<[bool]>>,
    /// The number of this arena, assigned on first use.
    identity: OnceLock<u64>,
}

impl Types {
    /// Creates an arena that starts with the types of a shared arena, without copying them.
    #[must_use]
    pub fn with_base(base: Arc<Types>) -> Self {
        let offset = u32::try_from(base.len()).unwrap_or(u32::MAX);
        Self { base: Some(base), offset, ..Self::default() }
    }

    /// Adds a type and returns its id.
    pub fn add(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        self.defaulting.take();
        self.identity.take();
        id
    }

    /// A number that no arena with other types has in this process.
    #[must_use]
    pub fn identity(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        *self.identity.get_or_init(|| NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Replaces a placeholder type, for types that refer to themselves.
    pub fn replace(&mut self, id: TypeId, ty: Type) {
        self.identity.take();
        let index = id.0.checked_sub(self.offset);
        if let Some(slot) = index.and_then(|index| self.types.get_mut(index as usize)) {
            *slot = ty;
        }
        self.defaulting.take();
    }

    /// Returns the type with this id. An id of another arena gives [`Type::Any`].
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        match (id.0.checked_sub(self.offset), &self.base) {
            (Some(index), _) => self.types.get(index as usize).unwrap_or(&Type::Any),
            (None, Some(base)) => base.get(id),
            (None, None) => &Type::Any,
        }
    }

    /// True if a type has static defaults in its own fields or in fields of types that it contains. Most types have
    /// none.
    pub(crate) fn has_defaults(&self, id: TypeId) -> bool {
        let defaulting = self.defaulting.get_or_init(|| self.compute_defaulting());
        defaulting.get(id.0 as usize).is_some_and(|has| *has)
    }

    /// Iterates until nothing changes, because types may refer to themselves.
    fn compute_defaulting(&self) -> Box<[bool]> {
        let mut has_defaults_by_id = vec![false; self.len()].into_boxed_slice();
        loop {
            let before = has_defaults_by_id.iter().filter(|has| **has).count();
            for (index, (_, ty)) in self.iter().enumerate() {
                let has = |id: TypeId| has_defaults_by_id.get(id.0 as usize).is_some_and(|has| *has);
                has_defaults_by_id[index] = match ty {
                    Type::Struct(ty) => ty.fields.iter().any(|field| field.default.is_some() || has(field.ty)),
                    Type::Map(map) => has(map.value),
                    Type::List(list) => has(list.item),
                    Type::Union(union) => has(union.schema),
                    Type::Scalar(_) | Type::Any => false,
                };
            }
            if has_defaults_by_id.iter().filter(|has| **has).count() == before {
                return has_defaults_by_id;
            }
        }
    }

    /// The number of types.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offset as usize + self.types.len()
    }

    /// True if there are no types.
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

/// A type in an arena: the schema of a kind or of a part of one.
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

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A scalar.
    Scalar(ScalarType),
    /// An object with declared fields.
    Struct(Struct),
    /// An object with arbitrary keys.
    Map(Map),
    /// An array.
    List(List),
    /// A union of several JSON types, distinguished by the value.
    Union(Union),
    /// Any JSON value, preserved unchanged.
    Any,
}

/// The type of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarType {
    /// The basic type, which determines decoding, validation and encoding.
    pub kind: Scalar,
    /// The Go type if it is a named type (`core/v1.Protocol`), else empty.
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

/// The scalars: Go's basic types and the types with their own JSON encoding.
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
    /// `metav1.Time`: RFC 3339 with seconds, in UTC; null for the zero time
    Time,
    /// `metav1.MicroTime`: RFC 3339 with microseconds, in UTC; null for the zero time
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
    /// The OpenAPI model name (`io.k8s.api.core.v1.Pod`), or empty.
    pub model: Str,
    /// The JSON fields in declaration order, including fields of inlined structs.
    pub fields: Vec<Field>,
    /// The inlined structs that are separate messages in Protobuf. [`Field::embedded`] refers to this list.
    pub embedded: Vec<Embedded>,
    /// True if server-side apply owns the object as a whole (`+structType=atomic`).
    pub atomic: bool,
    /// True if undeclared fields are preserved (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The fields by name.
    field_index: FieldIndex,
    /// The fields that are encoded even if they are unset, computed on first use.
    always_encoded: AlwaysEncoded,
    /// Indexes into `fields` of the fields with a Protobuf number, sorted by message and number.
    wire: Vec<u16>,
}

impl Struct {
    /// Creates a struct with these fields.
    #[must_use]
    pub fn new(name: impl Into<Str>, model: impl Into<Str>, fields: Vec<Field>) -> Self {
        let field_index = FieldIndex::of(&fields);
        let indexes = 0..u16::try_from(fields.len()).unwrap_or(u16::MAX);
        let mut wire: Vec<u16> = indexes.filter(|i| fields[usize::from(*i)].number > 0).collect();
        wire.sort_by_key(|i| (fields[usize::from(*i)].embedded, fields[usize::from(*i)].number));
        Self {
            name: name.into(),
            model: model.into(),
            fields,
            embedded: Vec::new(),
            atomic: false,
            preserve_unknown: false,
            field_index,
            always_encoded: AlwaysEncoded::default(),
            wire,
        }
    }

    /// The fields that are encoded even if they are unset. `types` must always be the struct's own arena.
    pub(crate) fn always_encoded(&self, types: &Types) -> impl Iterator<Item = &Field> {
        let indexes = self.always_encoded.0.get_or_init(|| {
            let indexes = (0u16..).zip(&self.fields).filter(|(_, field)| types.is_always_encoded(field));
            indexes.map(|(index, _)| index).collect()
        });
        indexes.iter().map(|i| &self.fields[usize::from(*i)])
    }

    /// The fields of one Protobuf message of this struct in the order of their numbers, with their indexes in
    /// [`Struct::fields`]. Message 0 is the struct itself. Message n is the inlined struct n - 1 of
    /// [`Struct::embedded`].
    pub fn message(&self, message: u8) -> impl DoubleEndedIterator<Item = (usize, &Field)> + ExactSizeIterator {
        let of = |i: &u16| self.fields[usize::from(*i)].embedded;
        let start = self.wire.partition_point(|i| of(i) < message);
        let end = self.wire.partition_point(|i| of(i) <= message);
        self.wire[start..end].iter().map(|i| usize::from(*i)).map(|i| (i, &self.fields[i]))
    }

    /// Returns the field with this number in one Protobuf message of this struct, with its index in [`Struct::fields`].
    /// Fields usually come in the order of their numbers, so `hint` stores the position of the last field. The initial
    /// value of `hint` does not matter.
    #[must_use]
    pub fn numbered(&self, message: u8, number: u32, hint: &mut usize) -> Option<(usize, &Field)> {
        let key = |i: &u16| (self.fields[usize::from(*i)].embedded, self.fields[usize::from(*i)].number);
        let is_at = |index: &usize| self.wire.get(*index).is_some_and(|i| key(i) == (message, number));
        let index = match [*hint, hint.saturating_add(1)].iter().find(|index| is_at(index)) {
            Some(index) => *index,
            None => self.wire.binary_search_by_key(&(message, number), key).ok()?,
        };
        *hint = index;
        let index = usize::from(self.wire[index]);
        Some((index, &self.fields[index]))
    }

    /// Returns the field with this JSON name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).map(|i| &self.fields[i])
    }

    /// The bare Go names of the inlined structs that contain a field, outermost first.
    #[must_use]
    pub fn inlined_in(&self, field: &Field) -> Vec<&str> {
        // `apiVersion` and `kind` belong to no message.
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

    /// Returns the index in `fields` of the field with this JSON name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.field_index.index_of(&self.fields, name)
    }
}

/// The indexes of the fields that are always encoded. They derive from the fields, so comparisons of structs ignore
/// them.
#[derive(Clone, Debug, Default)]
struct AlwaysEncoded(OnceLock<Box<[u16]>>);

impl PartialEq for AlwaysEncoded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A struct that is inlined in JSON but a separate message in Protobuf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The bare name of the Go type (`VolumeSource`), which is part of field paths in Go's messages.
    pub name: Str,
    /// The containing message: an index into [`Struct::embedded`] plus one, or 0 for the struct itself.
    pub parent: u8,
    /// The Protobuf field number of the struct in that message.
    pub number: u32,
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The JSON name.
    pub name: Str,
    /// The type of the value.
    pub ty: TypeId,
    /// True for a Go pointer: null is allowed and differs from the zero value.
    pub pointer: bool,
    /// The rule that omits the field from JSON.
    pub omit: Omit,
    /// True if the published schema lists the field as required.
    pub required: bool,
    /// The Protobuf field number, or 0 for a field that Protobuf lacks (`apiVersion`, `kind`).
    pub number: u32,
    /// The Protobuf message that contains the field: an index into [`Struct::embedded`] plus one, or 0 for the struct
    /// itself.
    pub embedded: u8,
    /// The patch strategy.
    pub patch: PatchMeta,
    /// The value of `+default`, in the published schema and in defaulting.
    pub default: Option<Value>,
}

/// The rule that omits a field from JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Omit {
    /// Never: an unset field is encoded as its zero value (null for nil pointers, slices and maps).
    #[default]
    Never,
    /// `omitempty`: false, 0, "", nil, and empty slices and maps; never a struct.
    Empty,
    /// `omitzero`: the zero value, including the zero value of a struct.
    Zero,
}

/// The patch strategy of a field in strategic merge patch (upstream: `strategicpatch.PatchMeta`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchMeta {
    /// `patchStrategy` contains `merge`.
    pub merge: bool,
    /// `patchStrategy` contains `replace`.
    pub replace: bool,
    /// `patchStrategy` contains `retainKeys`.
    pub retain_keys: bool,
    /// `patchMergeKey`, or empty.
    pub merge_key: Str,
}

/// An object with arbitrary keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The type of the values.
    pub value: TypeId,
    /// True if server-side apply owns the map as a whole.
    pub atomic: bool,
    /// The Go type if it is a named type (`core/v1.ResourceList`), else empty.
    pub name: Str,
    /// The Go type of the keys if it is not `string` (`core/v1.ResourceName`), else empty.
    pub key: Str,
}

/// An array.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The type of the items.
    pub item: TypeId,
    /// True if the items are Go pointers.
    pub pointers: bool,
    /// The identity of items in a merge.
    pub topology: ListTopology,
    /// The Go type if it is a named type (`authorization/v1.ExtraValue`), else empty. If such a list is the value of a
    /// map, Protobuf encodes it as a message with the items in field 1.
    pub name: Str,
}

/// The identity of the items of a list in a merge (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ListTopology {
    /// Not declared: the list is merged as one value.
    #[default]
    Undeclared,
    /// Declared `atomic`.
    Atomic,
    /// Items are unique scalars.
    Set,
    /// Items are objects with these keys.
    Map(Vec<Str>),
}

/// A union of several JSON types.
#[derive(Clone, Debug, PartialEq)]
pub struct Union {
    /// The JSON types.
    pub kind: UnionKind,
    /// The type of the union's schemas (`JSONSchemaProps`).
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
