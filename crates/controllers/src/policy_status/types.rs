//! The schemas of kinds as types of CEL (upstream: `SchemaDeclType` of `apiserver/pkg/cel/common`, for the published
//! schemas).

use pintle_cel::{Type as CelType, TypeProvider, escape_field_name, is_reserved};
use pintle_schema::{Field, Scalar, Schema, Struct, Type, TypeId};

/// The types of some kinds. The name of a type is the name of its kind's type and the path to it.
#[derive(Default)]
pub(super) struct SchemaTypes(Vec<(String, Schema)>);

/// A step to the items of a list, as upstream names it.
const ITEMS: &str = "@idx";
/// A step to the values of a map.
const VALUES: &str = "@elem";

impl SchemaTypes {
    /// Adds a kind and returns its type; dynamic if its schema is no object's schema.
    pub(super) fn add(&mut self, kind: &str, schema: &Schema) -> CelType {
        // Upstream appends a random number, too.
        let name = format!("{kind}{}", self.0.len());
        self.0.push((name.clone(), schema.clone()));
        cel_type(schema, schema.root, &name).unwrap_or(CelType::Dyn)
    }

    /// The schema that a type belongs to, and its id there.
    fn find(&self, name: &str) -> Option<(&Schema, TypeId)> {
        let (root, path) = name.split_once('.').map_or((name, None), |(root, path)| (root, Some(path)));
        let (_, schema) = self.0.iter().find(|(own, _)| own == root)?;
        let mut id = schema.root;
        for step in path.into_iter().flat_map(|path| path.split('.')) {
            id = match (schema.types.get(id), step) {
                (Type::List(list), ITEMS) => list.item,
                (Type::Map(map), VALUES) => map.value,
                (Type::Struct(ty), step) => field(ty, step)?.ty,
                _ => return None,
            };
        }
        Some((schema, id))
    }
}

/// The field with this name in expressions. A keyword needs no escaping.
fn field<'s>(ty: &'s Struct, name: &str) -> Option<&'s Field> {
    let is_named = |field: &&Field| escape_field_name(&field.name).is_some_and(|escaped| escaped == name);
    ty.fields.iter().find(is_named).or_else(|| ty.field(name).filter(|_| is_reserved(name)))
}

/// The type of a part of a schema; `None` if the published schema does not give it one, so that expressions cannot name
/// it.
fn cel_type(schema: &Schema, id: TypeId, name: &str) -> Option<CelType> {
    Some(match schema.types.get(id) {
        Type::Struct(_) => CelType::object(name),
        Type::Map(map) => CelType::map(CelType::String, cel_type(schema, map.value, &format!("{name}.{VALUES}"))?),
        Type::List(list) => CelType::list(cel_type(schema, list.item, &format!("{name}.{ITEMS}"))?),
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::String | Scalar::Duration => CelType::String,
            Scalar::Bool => CelType::Bool,
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => CelType::Int,
            Scalar::Float64 => CelType::Double,
            Scalar::Bytes => CelType::Bytes,
            Scalar::Time | Scalar::MicroTime => CelType::Timestamp,
            Scalar::IntOrString => CelType::Dyn,
            // Published as objects without fields.
            Scalar::RawExtension | Scalar::FieldsV1 => CelType::object(name),
            // Published as a choice of types.
            Scalar::Quantity | Scalar::Json => return None,
        },
        Type::Union(_) | Type::Any => return None,
    })
}

impl TypeProvider for SchemaTypes {
    fn has_type(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn field(&self, type_name: &str, name: &str) -> Option<CelType> {
        let (schema, id) = self.find(type_name)?;
        let Type::Struct(ty) = schema.types.get(id) else { return None };
        let field = field(ty, name)?;
        let step = escape_field_name(&field.name)?;
        cel_type(schema, field.ty, &format!("{type_name}.{step}"))
    }
}
