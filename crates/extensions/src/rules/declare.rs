//! The types that expressions see of a schema, with how large values may become (upstream: `SchemaDeclType` of
//! `apiserver/pkg/cel/common`). They are needed to compile, and not kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_cel::{SizeEstimate, SizeEstimator, Type, TypeProvider, is_reserved};
use pintle_kinds::Step;
use pintle_value::{Str, Value};

use super::escape::escape;
use crate::schema::{Additional, Part, Type as SchemaType};

/// The most bytes of a request, from which the most elements of a list without a limit follow.
pub(super) const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The most characters of what is read as a time or a length of time, with quotes.
const MAX_TIME: u64 = 32;
/// The characters of a date, with quotes.
const DATE: u64 = 12;

/// A type that expressions see.
#[derive(Debug)]
pub(crate) struct Declared {
    /// The most elements, bytes or characters; 0 for what has none.
    max_elements: u64,
    /// The fewest bytes that a value takes in JSON.
    min_size: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(Type),
    List(Arc<Declared>),
    /// A map from strings.
    Map(Arc<Declared>),
    /// Fields by the names that expressions have for them.
    Object(BTreeMap<Str, Arc<Declared>>),
}

impl Declared {
    /// The type of a part; `None` if expressions do not see it. `resource` is true for what has `apiVersion`, `kind` and
    /// `metadata` whether that is declared or not.
    pub(crate) fn of(part: Part<'_>, resource: bool) -> Option<Arc<Self>> {
        if part.is_int_or_string() {
            let max_elements = max_bytes(part).unwrap_or(MAX_REQUEST - 2);
            return Some(Arc::new(Self { max_elements, min_size: 1, kind: Kind::Scalar(Type::Dyn) }));
        }
        let declared = match part.ty()? {
            SchemaType::Array => {
                let item = part.items()?;
                let item = Self::of(item, item.is_embedded_resource())?;
                let limit = part.max_items().map(not_negative);
                let max_elements = limit.unwrap_or((MAX_REQUEST - 2) / (item.min_size + 1));
                Self { max_elements, min_size: 2, kind: Kind::List(item) }
            }
            SchemaType::Object => match part.additional() {
                Additional::Values(values) => {
                    let values = Self::of(values, values.is_embedded_resource())?;
                    let limit = part.max_properties().map(not_negative);
                    let max_elements = limit.unwrap_or((MAX_REQUEST - 2) / (values.min_size + 6));
                    Self { max_elements, min_size: 2, kind: Kind::Map(values) }
                }
                _ => Self::object(part, resource),
            },
            SchemaType::String => Self::string(part),
            SchemaType::Boolean => Self::scalar(Type::Bool, 4),
            SchemaType::Number => Self::scalar(Type::Double, 1),
            SchemaType::Integer => Self::scalar(Type::Int, 1),
        };
        Some(Arc::new(declared))
    }

    fn scalar(ty: Type, min_size: u64) -> Self {
        Self { max_elements: 0, min_size, kind: Kind::Scalar(ty) }
    }

    fn text(ty: Type, min_size: u64, max_elements: u64) -> Self {
        Self { max_elements, min_size, kind: Kind::Scalar(ty) }
    }

    fn string(part: Part<'_>) -> Self {
        let limit = part.max_length().map(not_negative);
        match part.format().map_or("", |(name, _)| name) {
            "byte" => Self::text(Type::Bytes, 2, limit.unwrap_or(MAX_REQUEST - 2)),
            "duration" => Self::text(Type::Duration, 3, MAX_TIME),
            "date" => Self::text(Type::Timestamp, DATE, DATE),
            "date-time" => Self::text(Type::Timestamp, 21, MAX_TIME),
            _ => {
                let listed = || part.enumeration().map(longest);
                Self::text(Type::String, 2, max_bytes(part).or_else(listed).unwrap_or(MAX_REQUEST - 2))
            }
        }
    }

    fn object(part: Part<'_>, resource: bool) -> Self {
        let adds_meta = resource && !declares_meta(part);
        let mut min_size = 2;
        let mut fields = BTreeMap::new();
        let mut add = |name: &str, declared: Arc<Declared>, counts: bool| {
            if counts && part.required().any(|required| required == name) {
                min_size += name.len() as u64 + declared.min_size + 4;
            }
            if let Some(name) = escape(name) {
                fields.insert(Str::from(&*name), declared);
            }
        };
        for (name, property) in part.properties().filter(|(name, _)| !adds_meta || !is_meta(name)) {
            if let Some(declared) = Self::of(property, property.is_embedded_resource()) {
                add(name, declared, property.default().is_none());
            }
        }
        if adds_meta {
            let text = || Arc::new(Self::text(Type::String, 2, MAX_REQUEST - 2));
            let names = ["name", "generateName"].map(|name| (Str::from(name), text()));
            let names = Self { max_elements: 0, min_size: 2, kind: Kind::Object(names.into()) };
            add("kind", text(), true);
            add("apiVersion", text(), true);
            add("metadata", Arc::new(names), true);
        }
        Self { max_elements: 0, min_size, kind: Kind::Object(fields) }
    }

    /// The type a step further; `None` if expressions do not see it from here.
    pub(crate) fn step(&self, step: Step<'_>) -> Option<&Arc<Self>> {
        match (step, &self.kind) {
            (Step::Property(name), Kind::Object(fields)) => fields.get(&*escape(name)?),
            (Step::Items, Kind::List(inner)) | (Step::Values, Kind::Map(inner)) => Some(inner),
            _ => None,
        }
    }

    /// True if expressions can name a field.
    pub(super) fn can_name(field: &str) -> bool {
        escape(field).is_some()
    }

    /// How often a value of this type can stand in one request.
    pub(crate) fn max_cardinality(&self) -> u64 {
        // At least a comma is between two of them.
        MAX_REQUEST / (self.min_size + 1)
    }

    /// The type as the checker has it, called by where it is.
    fn as_type(&self, name: &str) -> Type {
        match &self.kind {
            Kind::Scalar(ty) => ty.clone(),
            Kind::List(item) => Type::list(item.as_type(&format!("{name}.@idx"))),
            Kind::Map(value) => Type::map(Type::String, value.as_type(&format!("{name}.@elem"))),
            Kind::Object(_) => Type::object(name),
        }
    }
}

/// True if an object without these fields has them nevertheless, in every resource.
pub(super) fn is_meta(name: &str) -> bool {
    matches!(name, "kind" | "apiVersion" | "metadata")
}

/// True if a schema declares all that every resource has, so that nothing needs to be added.
pub(super) fn declares_meta(part: Part<'_>) -> bool {
    let is = |part: Part<'_>, name: &str, ty| part.property(name).is_some_and(|property| property.ty() == Some(ty));
    let names = |part: Part<'_>| ["name", "generateName"].iter().all(|name| is(part, name, SchemaType::String));
    is(part, "kind", SchemaType::String)
        && is(part, "apiVersion", SchemaType::String)
        && is(part, "metadata", SchemaType::Object)
        && part.property("metadata").is_some_and(names)
}

fn not_negative(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(0)
}

/// The most bytes of a string whose characters are limited.
fn max_bytes(part: Part<'_>) -> Option<u64> {
    part.max_length().map(|max| not_negative(max).saturating_mul(4))
}

fn longest(values: &[Value]) -> u64 {
    values.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0)
}

/// The types of one rule's variables, found by their names. A type is called by the way from `self`.
pub(super) struct Types {
    own: Arc<Declared>,
}

/// The name of the type of `self`. Upstream's has another number from time to time, so that no rule depends on it.
const SELF_TYPE: &str = "selfType0";

impl Types {
    pub(super) fn new(own: &Arc<Declared>) -> Self {
        Self { own: own.clone() }
    }

    /// The type of `self`.
    pub(super) fn self_type(&self) -> Type {
        self.own.as_type(SELF_TYPE)
    }

    fn fields(&self, type_name: &str) -> Option<&BTreeMap<Str, Arc<Declared>>> {
        let way = type_name.strip_prefix(SELF_TYPE)?;
        let mut at = &self.own;
        // A name begins with a dot or is empty, so that what is before the first dot is nothing.
        for (i, step) in way.split('.').enumerate() {
            at = match &at.kind {
                _ if i == 0 && step.is_empty() => at,
                Kind::List(item) if step == "@idx" => item,
                Kind::Map(value) if step == "@elem" => value,
                Kind::Object(fields) if i > 0 => fields.get(step)?,
                _ => return None,
            };
        }
        if let Kind::Object(fields) = &at.kind { Some(fields) } else { None }
    }
}

impl TypeProvider for Types {
    fn has_type(&self, name: &str) -> bool {
        self.fields(name).is_some()
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let fields = self.fields(type_name)?;
        let (field, declared) = match fields.get_key_value(field) {
            // After a dot, words that CEL keeps for itself are as good as any.
            None if is_reserved(field) => fields.get_key_value(format!("__{field}__").as_str())?,
            found => found?,
        };
        Some(declared.as_type(&format!("{type_name}.{field}")))
    }
}

impl SizeEstimator for Declared {
    fn estimate_size(&self, path: &[Str], _: &Type) -> Option<SizeEstimate> {
        let mut at = self;
        let mut steps = path.iter().skip(1).peekable();
        if path.is_empty() {
            return None;
        }
        while let Some(step) = steps.next() {
            at = match (step.as_str(), &at.kind) {
                ("@items" | "@values", Kind::List(inner) | Kind::Map(inner)) => inner,
                // Nothing is known of keys, which counts as nothing.
                ("@keys", Kind::Map(_)) if steps.peek().is_none() => return Some(SizeEstimate::fixed(0)),
                (name, Kind::Object(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: at.max_elements })
    }
}
