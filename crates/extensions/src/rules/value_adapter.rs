//! CEL values over custom resources, which are read in place by their schema (upstream: `UnstructuredToVal` of
//! `apiserver/pkg/cel/common`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use pintle_cel::{EvalError, List, ListTopology, Map, TypeAdapter, Untyped, Value, escape_field_name};
use pintle_kinds::SchemaStep;
use pintle_value::print::go_type;
use pintle_value::{Object, Str, Value as Json};

use super::decl_type::{declares_all_meta_fields, is_meta_field};
use super::string_values::{self, StringKind};
use crate::schema::{Additional, ListType, SchemaNode, Type};

/// Up to this many fields are searched linearly.
const LINEAR_SEARCH_MAX: usize = 8;

/// Reads the values of one schema node.
#[derive(Debug)]
pub(super) struct ValueAdapter {
    kind: AdapterKind,
    nullable: bool,
}

#[derive(Debug)]
enum AdapterKind {
    IntOrString,
    /// Declared fields, sorted by name.
    Object(Box<[(Str, Arc<ValueAdapter>)]>),
    Map(Arc<ValueAdapter>),
    /// An object without declared fields.
    OpenObject,
    List(Arc<ValueAdapter>, ListKind, Equality),
    Scalar(ScalarKind),
}

#[derive(Debug)]
enum ListKind {
    Atomic,
    Set,
    Map(Box<[Str]>),
}

/// How sets and maps are compared: see [`TypeAdapter::compares_converted_elements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Equality {
    OfJson,
    OfConvertedElements,
}

impl Equality {
    fn of(node: SchemaNode<'_>) -> Self {
        if node.rule_features().compares_converted_elements { Self::OfConvertedElements } else { Self::OfJson }
    }
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScalarKind {
    String(StringKind),
    Number,
    Integer,
    Boolean,
    /// Any value. CEL cannot access it, but can compare it.
    Unknown,
}

static SCALAR_ADAPTERS: LazyLock<Vec<Arc<ValueAdapter>>> = LazyLock::new(|| {
    let strings = [StringKind::Plain, StringKind::Bytes, StringKind::Duration, StringKind::Date, StringKind::DateTime]
        .map(ScalarKind::String);
    let kinds =
        strings.into_iter().chain([ScalarKind::Number, ScalarKind::Integer, ScalarKind::Boolean, ScalarKind::Unknown]);
    kinds
        .flat_map(|scalar| {
            [false, true].map(|nullable| Arc::new(ValueAdapter { kind: AdapterKind::Scalar(scalar), nullable }))
        })
        .collect()
});

/// Returns the shared adapter of a scalar.
fn scalar_adapter(scalar: ScalarKind, nullable: bool) -> Arc<ValueAdapter> {
    let same = |adapter: &&Arc<ValueAdapter>| {
        matches!(adapter.kind, AdapterKind::Scalar(known) if known == scalar) && adapter.nullable == nullable
    };
    SCALAR_ADAPTERS
        .iter()
        .find(same)
        .cloned()
        .unwrap_or_else(|| Arc::new(ValueAdapter { kind: AdapterKind::Scalar(scalar), nullable }))
}

impl ValueAdapter {
    /// Returns the adapter of a schema node. `resource` is true if the node has `apiVersion`, `kind` and `metadata`
    /// even if they are not declared.
    pub(super) fn of(node: SchemaNode<'_>, resource: bool) -> Arc<Self> {
        let nullable = node.is_nullable();
        let below = |node: SchemaNode<'_>| Self::of(node, node.is_embedded_resource());
        let adapter = |kind| Arc::new(Self { kind, nullable });
        if node.is_int_or_string() {
            return adapter(AdapterKind::IntOrString);
        }
        match node.ty() {
            Some(Type::Object) if resource || node.properties().len() > 0 => {
                adapter(AdapterKind::Object(fields(node, resource)))
            }
            Some(Type::Object) => match node.additional() {
                Additional::Values(values) => adapter(AdapterKind::Map(below(values))),
                _ => adapter(AdapterKind::OpenObject),
            },
            Some(Type::Array) => match node.items() {
                Some(items) => adapter(AdapterKind::List(below(items), list_kind(node), Equality::of(node))),
                None => scalar_adapter(ScalarKind::Unknown, nullable),
            },
            Some(Type::String) => scalar_adapter(ScalarKind::String(StringKind::of(node)), nullable),
            Some(Type::Number) => scalar_adapter(ScalarKind::Number, nullable),
            Some(Type::Integer) => scalar_adapter(ScalarKind::Integer, nullable),
            Some(Type::Boolean) => scalar_adapter(ScalarKind::Boolean, nullable),
            None => scalar_adapter(ScalarKind::Unknown, nullable),
        }
    }

    /// Returns the adapter one step further, if it equals the adapter that the node would have alone.
    pub(super) fn step(&self, step: SchemaStep<'_>) -> Option<Arc<Self>> {
        match (step, &self.kind) {
            // Meta fields have fixed types within a resource, and the types of the schema otherwise.
            (SchemaStep::Property(name), AdapterKind::Object(fields)) if !is_meta_field(name) => {
                fields.iter().find(|(known, _)| known == name).map(|(_, adapter)| adapter.clone())
            }
            (SchemaStep::Items, AdapterKind::List(inner, ..)) | (SchemaStep::Values, AdapterKind::Map(inner)) => {
                Some(inner.clone())
            }
            _ => None,
        }
    }

    /// Returns the adapter of a field by its JSON key.
    fn by_key(&self, key: &str) -> Option<&ValueAdapter> {
        let AdapterKind::Object(fields) = &self.kind else { return None };
        let at = if fields.len() > LINEAR_SEARCH_MAX {
            fields.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()
        } else {
            fields.iter().position(|(name, _)| name == key)
        };
        at.map(|at| &*fields[at].1)
    }

    /// Returns the JSON key and the adapter of a field by its CEL name.
    fn by_name<'s: 'k, 'k>(&'s self, name: &'k str) -> Option<(&'k str, &'s ValueAdapter)> {
        // Only escaped names contain two underscores.
        if !name.contains("__") {
            return self.by_key(name).map(|adapter| (name, adapter));
        }
        let AdapterKind::Object(fields) = &self.kind else { return None };
        let found = fields.iter().find(|(key, _)| escape_field_name(key).is_some_and(|escaped| escaped == name));
        found.map(|(key, adapter)| (key.as_str(), &**adapter))
    }
}

fn fields(node: SchemaNode<'_>, resource: bool) -> Box<[(Str, Arc<ValueAdapter>)]> {
    let adds_meta = resource && !declares_all_meta_fields(node);
    let mut fields: Vec<(Str, Arc<ValueAdapter>)> = node
        .properties()
        .filter(|(name, _)| !adds_meta || !is_meta_field(name))
        .map(|(name, node)| (name.into(), ValueAdapter::of(node, node.is_embedded_resource())))
        .collect();
    if adds_meta {
        let text = || scalar_adapter(ScalarKind::String(StringKind::Plain), false);
        let names = ["generateName", "name"].map(|name| (name.into(), text()));
        let names = ValueAdapter { kind: AdapterKind::Object(names.into()), nullable: false };
        fields.extend([("kind".into(), text()), ("apiVersion".into(), text()), ("metadata".into(), Arc::new(names))]);
        fields.sort_by(|a, b| a.0.cmp(&b.0));
    }
    fields.into()
}

fn list_kind(node: SchemaNode<'_>) -> ListKind {
    match node.list_type() {
        None | Some(ListType::Atomic) => ListKind::Atomic,
        Some(ListType::Set) => ListKind::Set,
        // Upstream looks up keys by their escaped names, and so never finds keys that need escaping.
        Some(ListType::Map) => {
            let plain = |key: &&str| escape_field_name(key).is_none_or(|escaped| escaped == **key);
            ListKind::Map(node.map_keys().filter(plain).map(Str::from).collect())
        }
    }
}

/// An error value for data that does not match its schema.
fn invalid<'a>(text: impl Into<Cow<'static, str>>) -> Value<'a> {
    Value::Invalid(EvalError::new(text))
}

static UNTYPED: Untyped = Untyped;

impl ScalarKind {
    fn read(self, json: &Json) -> Value<'_> {
        let expected = |what: &str| invalid(format!("invalid data, expected {what}, got {}", go_type(json)));
        match (self, json) {
            (Self::String(text), Json::String(written)) => string_values::read(text, written).unwrap_or_else(invalid),
            (Self::String(_), _) => expected("string"),
            #[allow(clippy::cast_precision_loss, reason = "so does upstream")]
            (Self::Number, Json::Int(i)) => Value::Double(*i as f64),
            (Self::Number, Json::Float(x)) => Value::Double(*x),
            (Self::Number, _) => expected("float"),
            (Self::Integer, Json::Int(i)) => Value::Int(*i),
            (Self::Integer, _) => expected("int"),
            (Self::Boolean, Json::Bool(b)) => Value::Bool(*b),
            (Self::Boolean, _) => expected("bool"),
            (Self::Unknown, json) => UNTYPED.read(json),
        }
    }
}

impl TypeAdapter for ValueAdapter {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match (&self.kind, json) {
            (_, Json::Null) if self.nullable => Value::Null,
            (_, Json::Null) => invalid("invalid data, got null for schema with nullable=false"),
            (AdapterKind::Scalar(scalar), json) => scalar.read(json),
            (AdapterKind::IntOrString, Json::Int(i)) => Value::Int(*i),
            (AdapterKind::IntOrString, Json::String(text)) => Value::str(text),
            (AdapterKind::IntOrString, _) => {
                invalid("invalid data, expected XIntOrString value to be either a string or integer")
            }
            (AdapterKind::Object(_) | AdapterKind::Map(_) | AdapterKind::OpenObject, Json::Object(object)) => {
                Value::Map(Map::Json { object, adapter: self })
            }
            (AdapterKind::Object(_) | AdapterKind::Map(_) | AdapterKind::OpenObject, _) => {
                invalid("invalid data, expected a map for the provided schema with type=object")
            }
            (AdapterKind::List(..), Json::Array(items)) => Value::List(List::Json { items, adapter: self }),
            (AdapterKind::List(..), _) => {
                invalid("invalid data, expected an array for the provided schema with type=array")
            }
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        match &self.kind {
            AdapterKind::Object(_) => {
                let (key, adapter) = self.by_name(name)?;
                let json = object.get(key)?;
                // A null field counts as absent.
                (!json.is_null()).then(|| adapter.read(json))
            }
            AdapterKind::Map(values) => object.get(name).map(|json| values.read(json)),
            _ => None,
        }
    }

    fn has_field(&self, object: &Object, name: &str) -> bool {
        match &self.kind {
            AdapterKind::Object(_) => {
                self.by_name(name).and_then(|(key, _)| object.get(key)).is_some_and(|json| !json.is_null())
            }
            AdapterKind::Map(_) => object.contains_key(name),
            _ => false,
        }
    }

    fn field_name<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        match &self.kind {
            AdapterKind::Object(_) => self.by_key(key).map(|_| escape_field_name(key).unwrap_or(Cow::Borrowed(key))),
            AdapterKind::Map(_) => Some(Cow::Borrowed(key)),
            _ => None,
        }
    }

    fn is_typed(&self) -> bool {
        true
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        match &self.kind {
            AdapterKind::List(adapter, ..) => items.get(index).map(|json| adapter.read(json)),
            _ => None,
        }
    }

    fn topology(&self) -> ListTopology<'_> {
        match &self.kind {
            AdapterKind::List(_, ListKind::Set, _) => ListTopology::Set,
            AdapterKind::List(_, ListKind::Map(keys), _) => ListTopology::Map(keys),
            _ => ListTopology::Atomic,
        }
    }

    fn compares_converted_elements(&self) -> bool {
        matches!(self.kind, AdapterKind::List(_, _, Equality::OfConvertedElements))
    }
}
