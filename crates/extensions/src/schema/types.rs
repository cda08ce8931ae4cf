//! A schema as server-side apply sees it: which values merge, how items of lists are told apart, what is one value
//! (upstream: kube-openapi's `schemaconv`, of what the OpenAPI document of the definition says).

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use pintle_catalog::shared;
use pintle_schema::{
    Field, List, ListTopology, Map, Omit, Patch, Scalar, ScalarType, Schema as TypeSchema, Struct, Type as ApplyType,
    TypeId, Types, Union,
};
use pintle_value::{Str, Value};

use super::model::{Schema, Type};
use super::part::{Additional, ListType, Part, owned};

/// The types of a schema, for server-side apply. The metadata of the object and of embedded resources has the built-in
/// type. This is several times as large as the schema: make it when something is first applied.
#[must_use]
pub fn to_types(schema: &Schema) -> TypeSchema {
    let base = base();
    let mut builder = Builder { types: Types::on(base.types.clone()), common: base.common, known: HashMap::new() };
    let root = schema.root();
    let root = builder.object(root, root.preserves_unknown(), true);
    TypeSchema { types: Arc::new(builder.types), root }
}

/// The types that every schema has.
#[derive(Debug)]
struct Base {
    types: Arc<Types>,
    common: Common,
}

#[derive(Clone, Copy, Debug)]
struct Common {
    object_meta: TypeId,
    string: TypeId,
    number: TypeId,
    boolean: TypeId,
    /// A scalar of any type.
    scalar: TypeId,
    any: TypeId,
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut types = Types::default();
        let any = types.add(ApplyType::Any);
        let mut scalar = |kind| types.add(ApplyType::Scalar(ScalarType { kind, name: Str::default(), values: None }));
        let string = scalar(Scalar::String);
        let number = scalar(Scalar::Float64);
        let boolean = scalar(Scalar::Bool);
        // Apply takes this one for a scalar of which it knows nothing.
        let untyped = scalar(Scalar::IntOrString);
        let catalog = shared();
        let object_meta = catalog.struct_type("meta/v1.ObjectMeta");
        let object_meta = object_meta.map_or(any, |id| copy(catalog.types(), id, &mut types, &mut HashMap::new()));
        Base { types: Arc::new(types), common: Common { object_meta, string, number, boolean, scalar: untyped, any } }
    })
}

/// Copies a type and those that it consists of into another arena.
fn copy(from: &Types, id: TypeId, into: &mut Types, done: &mut HashMap<TypeId, TypeId>) -> TypeId {
    if let Some(copied) = done.get(&id) {
        return *copied;
    }
    let place = into.add(ApplyType::Any);
    done.insert(id, place);
    let mut copied = from.get(id).clone();
    match &mut copied {
        ApplyType::Struct(ty) => ty.fields.iter_mut().for_each(|field| field.ty = copy(from, field.ty, into, done)),
        ApplyType::Map(Map { value: below, .. })
        | ApplyType::List(List { item: below, .. })
        | ApplyType::Union(Union { schema: below, .. }) => *below = copy(from, *below, into, done),
        ApplyType::Scalar(_) | ApplyType::Any => {}
    }
    into.replace(place, copied);
    place
}

struct Builder {
    types: Types,
    common: Common,
    /// The types that were made, by those that they consist of.
    known: HashMap<Vec<TypeId>, Vec<TypeId>>,
}

impl Builder {
    /// Adds a type, or finds it: definitions say the same thing in many places.
    fn add(&mut self, ty: ApplyType) -> TypeId {
        let parts = match &ty {
            ApplyType::Struct(ty) => ty.fields.iter().map(|field| field.ty).collect(),
            ApplyType::Map(Map { value: part, .. }) | ApplyType::List(List { item: part, .. }) => vec![*part],
            _ => Vec::new(),
        };
        let alike = self.known.entry(parts).or_default();
        if let Some(same) = alike.iter().find(|id| self.types.get(**id) == &ty) {
            return *same;
        }
        let id = self.types.add(ty);
        alike.push(id);
        id
    }

    /// The type of a part. What preserves unknown fields does so for all that is below it, too.
    fn part(&mut self, part: Part<'_>, preserve: bool) -> TypeId {
        let preserve = preserve || part.preserves_unknown();
        match part.ty() {
            Some(Type::Object) => self.object(part, preserve, part.is_embedded_resource()),
            Some(Type::Array) => self.list(part, preserve),
            Some(Type::String) => match part.format() {
                None | Some(("byte", _)) => self.common.string,
                Some(_) => self.common.scalar,
            },
            Some(Type::Integer | Type::Number) => self.common.number,
            Some(Type::Boolean) => self.common.boolean,
            None if part.own_properties().is_empty() || part.is_int_or_string() => self.common.any,
            // Anything goes where unknown fields are preserved, but mostly it is an object that knows some of them.
            None => self.object(part, preserve, part.is_embedded_resource()),
        }
    }

    fn list(&mut self, part: Part<'_>, preserve: bool) -> TypeId {
        let item = part.items().map_or(self.common.any, |items| self.part(items, preserve));
        let topology = match part.list_type() {
            None => ListTopology::Undeclared,
            Some(ListType::Atomic) => ListTopology::Atomic,
            Some(ListType::Set) => ListTopology::Set,
            Some(ListType::Map) => ListTopology::Map(owned(part.map_keys())),
        };
        self.add(ApplyType::List(List { item, pointers: false, topology, name: Str::default() }))
    }

    fn object(&mut self, part: Part<'_>, preserve: bool, resource: bool) -> TypeId {
        let atomic = part.is_atomic_map();
        if part.own_properties().is_empty() && !resource {
            // An object of which nothing is said takes anything.
            let value = match part.additional() {
                Additional::Values(values) => self.part(values, preserve),
                Additional::Any | Additional::None | Additional::Undeclared => self.common.any,
            };
            return self.add(ApplyType::Map(Map { value, atomic, name: Str::default(), key: Str::default() }));
        }
        let mut fields = Vec::new();
        if resource {
            let Common { string, object_meta, .. } = self.common;
            let meta = [("apiVersion", string), ("kind", string), ("metadata", object_meta)];
            fields.extend(meta.map(|(name, ty)| field(name, ty, None)));
        }
        for (name, part) in part.properties() {
            if !(resource && super::prune::META_FIELDS.contains(&name)) {
                let ty = self.part(part, preserve);
                fields.push(field(name, ty, part.default()));
            }
        }
        let mut ty = Struct::new("", "", fields);
        ty.atomic = atomic;
        ty.preserve_unknown = match part.additional() {
            Additional::Undeclared => preserve,
            Additional::Any | Additional::Values(_) => true,
            Additional::None => false,
        };
        self.add(ApplyType::Struct(ty))
    }
}

fn field(name: &str, ty: TypeId, default: Option<&Value>) -> Field {
    Field {
        name: Str::from(name),
        ty,
        pointer: false,
        omit: Omit::Empty,
        required: false,
        number: 0,
        embedded: 0,
        patch: Patch::default(),
        default: default.cloned(),
    }
}
