//! The CEL types of a schema, with size limits for cost estimation (upstream: `SchemaDeclType` of
//! `apiserver/pkg/cel/common`). They are only needed to compile rules, and are dropped afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pintle_cel::{SizeEstimate, SizeEstimator, Type, TypeProvider, escape_field_name, is_reserved};
use pintle_kinds::SchemaStep;
use pintle_value::{Str, Value};

use crate::schema::{Additional, SchemaNode, Type as SchemaType};

/// The maximum size of a request in bytes. It limits the number of elements of lists without `maxItems`.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The maximum length of a timestamp or duration string, with quotes.
const MAX_TIME: u64 = 32;
/// The maximum size of a character in bytes.
const MAX_CHARACTER: u64 = 4;
/// The length of a date string, with quotes.
const DATE: u64 = 12;

/// The CEL declaration of a schema node (upstream: `DeclType`).
#[derive(Debug)]
pub(crate) struct DeclType {
    /// The maximum number of elements, bytes or characters; 0 for types without a size.
    max_elements: u64,
    /// The minimum size of a value in JSON, in bytes.
    min_size: u64,
    kind: DeclKind,
}

#[derive(Debug)]
enum DeclKind {
    Scalar(Type),
    List(Arc<DeclType>),
    /// A map with string keys.
    Map(Arc<DeclType>),
    /// Fields by their escaped names.
    Object(BTreeMap<Str, Arc<DeclType>>),
}

impl DeclType {
    /// Returns the type of a schema node, or `None` if CEL cannot access it. `resource` is true if the node has
    /// `apiVersion`, `kind` and `metadata` even if they are not declared.
    pub(crate) fn of(node: SchemaNode<'_>, resource: bool) -> Option<Arc<Self>> {
        if node.is_int_or_string() {
            let max_elements = max_bytes(node).unwrap_or(MAX_REQUEST - 2);
            return Some(Arc::new(Self { max_elements, min_size: 1, kind: DeclKind::Scalar(Type::Dyn) }));
        }
        let declared = match node.ty()? {
            SchemaType::Array => {
                let item = node.items()?;
                let item = Self::of(item, item.is_embedded_resource())?;
                let limit = node.max_items().map(clamp_to_zero);
                let max_elements = limit.unwrap_or((MAX_REQUEST - 2) / (item.min_size + 1));
                Self { max_elements, min_size: 2, kind: DeclKind::List(item) }
            }
            SchemaType::Object => match node.additional() {
                Additional::Values(values) => {
                    let values = Self::of(values, values.is_embedded_resource())?;
                    let limit = node.max_properties().map(clamp_to_zero);
                    let max_elements = limit.unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
                    Self { max_elements, min_size: 2, kind: DeclKind::Map(values) }
                }
                _ => Self::object(node, resource),
            },
            SchemaType::String => Self::string(node),
            SchemaType::Boolean => Self::scalar(Type::Bool, 4),
            SchemaType::Number => Self::scalar(Type::Double, 1),
            SchemaType::Integer => Self::scalar(Type::Int, 1),
        };
        Some(Arc::new(declared))
    }

    fn scalar(ty: Type, min_size: u64) -> Self {
        Self { max_elements: 0, min_size, kind: DeclKind::Scalar(ty) }
    }

    fn text(ty: Type, min_size: u64, max_elements: u64) -> Self {
        Self { max_elements, min_size, kind: DeclKind::Scalar(ty) }
    }

    fn string(node: SchemaNode<'_>) -> Self {
        let limit = node.max_length().map(clamp_to_zero);
        match node.format().map_or("", |(name, _)| name) {
            "byte" => Self::text(Type::Bytes, 2, limit.unwrap_or(MAX_REQUEST - 2)),
            "duration" => Self::text(Type::Duration, 3, MAX_TIME),
            "date" => Self::text(Type::Timestamp, DATE, DATE),
            "date-time" => Self::text(Type::Timestamp, 21, MAX_TIME),
            _ => {
                let listed = || node.enumeration().map(longest_string);
                Self::text(Type::String, 2, max_bytes(node).or_else(listed).unwrap_or(MAX_REQUEST - 2))
            }
        }
    }

    fn object(node: SchemaNode<'_>, resource: bool) -> Self {
        let adds_meta = resource && !declares_all_meta_fields(node);
        let mut min_size = 2;
        let mut fields = BTreeMap::new();
        let required: BTreeSet<&str> = node.required().collect();
        let mut add = |name: &str, declared: Arc<DeclType>, counts: bool| {
            if counts && required.contains(name) {
                min_size += name.len() as u64 + declared.min_size + 4;
            }
            if let Some(name) = escape_field_name(name) {
                fields.insert(Str::from(&*name), declared);
            }
        };
        for (name, property) in node.properties().filter(|(name, _)| !adds_meta || !is_meta_field(name)) {
            if let Some(declared) = Self::of(property, property.is_embedded_resource()) {
                add(name, declared, property.default().is_none());
            }
        }
        if adds_meta {
            let text = || Arc::new(Self::text(Type::String, 2, MAX_REQUEST - 2));
            let names = META_NAMES.map(|(name, limit)| (Str::from(name), Arc::new(meta_name(node, name, limit))));
            let names = Self { max_elements: 0, min_size: 2, kind: DeclKind::Object(names.into()) };
            add("kind", text(), true);
            add("apiVersion", text(), true);
            add("metadata", Arc::new(names), true);
        }
        Self { max_elements: 0, min_size, kind: DeclKind::Object(fields) }
    }

    /// Returns the type one step further, or `None` if CEL cannot access it from here.
    pub(crate) fn step(&self, step: SchemaStep<'_>) -> Option<&Arc<Self>> {
        match (step, &self.kind) {
            (SchemaStep::Property(name), DeclKind::Object(fields)) => fields.get(&*escape_field_name(name)?),
            (SchemaStep::Items, DeclKind::List(inner)) | (SchemaStep::Values, DeclKind::Map(inner)) => Some(inner),
            _ => None,
        }
    }

    /// True if a CEL expression can name the field.
    pub(super) fn can_name(field: &str) -> bool {
        escape_field_name(field).is_some()
    }

    /// The maximum number of values of this type in one request.
    pub(crate) fn max_cardinality(&self) -> u64 {
        // Two values are separated by at least a comma.
        MAX_REQUEST / (self.min_size + 1)
    }

    /// The type for the checker, named by its path.
    fn as_type(&self, name: &str) -> Type {
        match &self.kind {
            DeclKind::Scalar(ty) => ty.clone(),
            DeclKind::List(item) => Type::list(item.as_type(&format!("{name}.@idx"))),
            DeclKind::Map(value) => Type::map(Type::String, value.as_type(&format!("{name}.@elem"))),
            DeclKind::Object(_) => Type::object(name),
        }
    }
}

/// The fields of metadata that rules can use, and the maximum numbers of their characters.
const META_NAMES: [(&str, u64); 2] = [("name", 253), ("generateName", 252)];

/// The type of a name in the metadata of a resource whose schema does not declare all of them.
fn meta_name(resource: SchemaNode<'_>, name: &str, limit: u64) -> DeclType {
    let declared = || resource.property("metadata")?.property(name)?.max_length().map(clamp_to_zero);
    let max = match resource.rule_features().names_are_short {
        true => declared().unwrap_or(limit).min(limit).saturating_mul(MAX_CHARACTER),
        false => MAX_REQUEST - 2,
    };
    DeclType::text(Type::String, 2, max)
}

/// True for the fields that every resource has even if they are not declared.
pub(super) fn is_meta_field(name: &str) -> bool {
    matches!(name, "kind" | "apiVersion" | "metadata")
}

/// True if a schema declares all fields that every resource has, so that no fields are added.
pub(super) fn declares_all_meta_fields(node: SchemaNode<'_>) -> bool {
    let is =
        |node: SchemaNode<'_>, name: &str, ty| node.property(name).is_some_and(|property| property.ty() == Some(ty));
    let names = |node: SchemaNode<'_>| ["name", "generateName"].iter().all(|name| is(node, name, SchemaType::String));
    is(node, "kind", SchemaType::String)
        && is(node, "apiVersion", SchemaType::String)
        && is(node, "metadata", SchemaType::Object)
        && node.property("metadata").is_some_and(names)
}

fn clamp_to_zero(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(0)
}

/// The maximum number of bytes of a string with `maxLength`.
fn max_bytes(node: SchemaNode<'_>) -> Option<u64> {
    node.max_length().map(|max| clamp_to_zero(max).saturating_mul(MAX_CHARACTER))
}

fn longest_string(values: &[Value]) -> u64 {
    values.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
}

/// Resolves the types of one rule's variables by name. The name of a type is its path from `self` (upstream:
/// `DeclTypeProvider`).
pub(super) struct DeclTypeProvider {
    root: Arc<DeclType>,
}

/// The name of the type of `self`. Upstream appends a varying number, so no rule can depend on it.
const SELF_TYPE: &str = "selfType0";

impl DeclTypeProvider {
    pub(super) fn new(root: &Arc<DeclType>) -> Self {
        Self { root: root.clone() }
    }

    /// The type of `self`.
    pub(super) fn self_type(&self) -> Type {
        self.root.as_type(SELF_TYPE)
    }

    fn fields(&self, type_name: &str) -> Option<&BTreeMap<Str, Arc<DeclType>>> {
        let way = type_name.strip_prefix(SELF_TYPE)?;
        let mut at = &self.root;
        // A path is empty or starts with a dot, so its first segment is empty.
        for (i, step) in way.split('.').enumerate() {
            at = match &at.kind {
                _ if i == 0 && step.is_empty() => at,
                DeclKind::List(item) if step == "@idx" => item,
                DeclKind::Map(value) if step == "@elem" => value,
                DeclKind::Object(fields) if i > 0 => fields.get(step)?,
                _ => return None,
            };
        }
        if let DeclKind::Object(fields) = &at.kind { Some(fields) } else { None }
    }
}

impl TypeProvider for DeclTypeProvider {
    fn has_type(&self, name: &str) -> bool {
        self.fields(name).is_some()
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let fields = self.fields(type_name)?;
        let (field, declared) = match fields.get_key_value(field) {
            // After a dot, reserved words are valid field names.
            None if is_reserved(field) => fields.get_key_value(format!("__{field}__").as_str())?,
            found => found?,
        };
        Some(declared.as_type(&format!("{type_name}.{field}")))
    }
}

impl SizeEstimator for DeclType {
    fn estimate_size(&self, path: &[Str], _: &Type) -> Option<SizeEstimate> {
        let mut at = self;
        let mut steps = path.iter().skip(1).peekable();
        if path.is_empty() {
            return None;
        }
        while let Some(step) = steps.next() {
            at = match (step.as_str(), &at.kind) {
                ("@items" | "@values", DeclKind::List(inner) | DeclKind::Map(inner)) => inner,
                // Keys have no size estimate and count as 0.
                ("@keys", DeclKind::Map(_)) if steps.peek().is_none() => return Some(SizeEstimate::fixed(0)),
                (name, DeclKind::Object(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: at.max_elements })
    }
}
