//! Converts a structural schema to the types of server-side apply, with merge behavior, list map keys and atomic
//! values. Upstream applies kube-openapi's `schemaconv` to the OpenAPI document of the CRD.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::sync::{Arc, OnceLock};

use pintle_catalog::shared;
use pintle_schema::{
    Field, List, ListTopology, Map, Omit, PatchMeta, Scalar, ScalarType, Schema as ApplySchema, Struct,
    Type as ApplyType, TypeId, Types, Union,
};
use pintle_value::{Str, Value, ValueKey};

use super::model::{StructuralSchema, Type};
use super::node::{Additional, ListType, SchemaNode, owned};

/// Converts a schema to types for server-side apply. The metadata of the object and of embedded resources has the
/// built-in type. The result is several times as large as the schema, so build it on the first apply.
#[must_use]
pub fn to_types(schema: &StructuralSchema) -> ApplySchema {
    let shared_types = shared_types();
    let mut builder = Builder {
        types: Types::with_base(shared_types.types.clone()),
        common: shared_types.common,
        known: HashMap::new(),
        hashes: RandomState::new(),
    };
    let root = schema.root();
    let root = builder.object(root, root.preserves_unknown(), true);
    ApplySchema { types: Arc::new(builder.types), root }
}

/// The types that all schemas share.
#[derive(Debug)]
struct SharedTypes {
    types: Arc<Types>,
    common: CommonTypes,
}

#[derive(Clone, Copy, Debug)]
struct CommonTypes {
    object_meta: TypeId,
    string: TypeId,
    number: TypeId,
    boolean: TypeId,
    /// A scalar of any type.
    scalar: TypeId,
    any: TypeId,
}

fn shared_types() -> &'static SharedTypes {
    static SHARED_TYPES: OnceLock<SharedTypes> = OnceLock::new();
    SHARED_TYPES.get_or_init(|| {
        let mut types = Types::default();
        let any = types.add(ApplyType::Any);
        let mut scalar = |kind| types.add(ApplyType::Scalar(ScalarType { kind, name: Str::default(), values: None }));
        let string = scalar(Scalar::String);
        let number = scalar(Scalar::Float64);
        let boolean = scalar(Scalar::Bool);
        // Server-side apply treats this scalar as untyped.
        let untyped = scalar(Scalar::IntOrString);
        let catalog = shared();
        let object_meta = catalog.struct_type("meta/v1.ObjectMeta");
        let object_meta = object_meta.map_or(any, |id| copy(catalog.types(), id, &mut types, &mut HashMap::new()));
        SharedTypes {
            types: Arc::new(types),
            common: CommonTypes { object_meta, string, number, boolean, scalar: untyped, any },
        }
    })
}

/// Copies a type and the types that it refers to into another arena.
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

/// The hashed parts of a type. Types that a CRD can have in large numbers differ in these parts.
struct TypeKey<'t>(&'t ApplyType);

impl Hash for TypeKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            ApplyType::Struct(ty) => {
                for field in &ty.fields {
                    (&field.name, field.ty, field.default.as_ref().map(ValueKey)).hash(state);
                }
            }
            ApplyType::Map(map) => map.value.hash(state),
            ApplyType::List(list) => {
                list.item.hash(state);
                if let ListTopology::Map(keys) = &list.topology {
                    keys.hash(state);
                }
            }
            ApplyType::Scalar(_) | ApplyType::Union(_) | ApplyType::Any => {}
        }
    }
}

struct Builder {
    types: Types,
    common: CommonTypes,
    /// The types built so far, by their hashes.
    known: HashMap<u64, Vec<TypeId>>,
    hashes: RandomState,
}

impl Builder {
    /// Adds a type, or returns an equal existing type. CRDs often repeat the same schema.
    fn add(&mut self, ty: ApplyType) -> TypeId {
        let alike = self.known.entry(self.hashes.hash_one(TypeKey(&ty))).or_default();
        if let Some(same) = alike.iter().find(|id| self.types.get(**id) == &ty) {
            return *same;
        }
        let id = self.types.add(ty);
        alike.push(id);
        id
    }

    /// Converts a node. A node that preserves unknown fields also preserves them in its descendants.
    fn node(&mut self, node: SchemaNode<'_>, preserve: bool) -> TypeId {
        let preserve = preserve || node.preserves_unknown();
        match node.ty() {
            Some(Type::Object) => self.object(node, preserve, node.is_embedded_resource()),
            Some(Type::Array) => self.list(node, preserve),
            Some(Type::String) => match node.format() {
                None | Some(("byte", _)) => self.common.string,
                Some(_) => self.common.scalar,
            },
            Some(Type::Integer | Type::Number) => self.common.number,
            Some(Type::Boolean) => self.common.boolean,
            None if node.own_properties().is_empty() || node.is_int_or_string() => self.common.any,
            // A node without a type accepts any value, but with declared properties it is treated as an object.
            None => self.object(node, preserve, node.is_embedded_resource()),
        }
    }

    fn list(&mut self, node: SchemaNode<'_>, preserve: bool) -> TypeId {
        let item = node.items().map_or(self.common.any, |items| self.node(items, preserve));
        let topology = match node.list_type() {
            None => ListTopology::Undeclared,
            Some(ListType::Atomic) => ListTopology::Atomic,
            Some(ListType::Set) => ListTopology::Set,
            Some(ListType::Map) => ListTopology::Map(owned(node.map_keys())),
        };
        self.add(ApplyType::List(List { item, pointers: false, topology, name: Str::default() }))
    }

    fn object(&mut self, node: SchemaNode<'_>, preserve: bool, resource: bool) -> TypeId {
        let atomic = node.is_atomic_map();
        if node.own_properties().is_empty() && !resource {
            // An object without declared properties accepts any field.
            let value = match node.additional() {
                Additional::Values(values) => self.node(values, preserve),
                Additional::Any | Additional::None | Additional::Undeclared => self.common.any,
            };
            return self.add(ApplyType::Map(Map { value, atomic, name: Str::default(), key: Str::default() }));
        }
        let mut fields = Vec::new();
        if resource {
            let CommonTypes { string, object_meta, .. } = self.common;
            let meta = [("apiVersion", string), ("kind", string), ("metadata", object_meta)];
            fields.extend(meta.map(|(name, ty)| field(name, ty, None)));
        }
        for (name, node) in node.properties() {
            if !(resource && super::prune::META_FIELDS.contains(&name)) {
                let ty = self.node(node, preserve);
                fields.push(field(name, ty, node.default()));
            }
        }
        let mut ty = Struct::new("", "", fields);
        ty.atomic = atomic;
        ty.preserve_unknown = match node.additional() {
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
        patch: PatchMeta::default(),
        default: default.cloned(),
    }
}
