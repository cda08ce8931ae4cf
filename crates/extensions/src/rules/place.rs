//! How the values of custom resources look to expressions: read in place, by their schema (upstream:
//! `UnstructuredToVal` of `apiserver/pkg/cel/common`).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use pintle_cel::{EvalError, List, ListTopology, Map, TypeAdapter, Untyped, Value};
use pintle_kinds::Step;
use pintle_value::print::go_type;
use pintle_value::{Object, Str, Value as Json};

use super::declare::{declares_meta, is_meta};
use super::escape::escape;
use super::texts::{self, Text};
use crate::schema::{Additional, ListType, Part, Type};

/// Up to so many fields are looked through one by one.
const FEW: usize = 8;

/// A place in a resource.
#[derive(Debug)]
pub(super) struct Place {
    kind: Kind,
    nullable: bool,
}

#[derive(Debug)]
enum Kind {
    IntOrString,
    /// Declared fields, sorted by name.
    Object(Box<[(Str, Arc<Place>)]>),
    Map(Arc<Place>),
    /// An object in which nothing is declared.
    Bare,
    List(Arc<Place>, ListKind),
    Leaf(Leaf),
}

#[derive(Debug)]
enum ListKind {
    Atomic,
    Set,
    Map(Box<[Str]>),
}

/// What has no parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    Text(Text),
    Number,
    Integer,
    Boolean,
    /// Anything. Expressions do not see it but compare it.
    Unknown,
}

static LEAVES: LazyLock<Vec<Arc<Place>>> = LazyLock::new(|| {
    let texts = [Text::Plain, Text::Bytes, Text::Duration, Text::Date, Text::DateTime].map(Leaf::Text);
    let kinds = texts.into_iter().chain([Leaf::Number, Leaf::Integer, Leaf::Boolean, Leaf::Unknown]);
    kinds.flat_map(|leaf| [false, true].map(|nullable| Arc::new(Place { kind: Kind::Leaf(leaf), nullable }))).collect()
});

/// A place without parts; there is one of each.
fn leaf(leaf: Leaf, nullable: bool) -> Arc<Place> {
    let same =
        |place: &&Arc<Place>| matches!(place.kind, Kind::Leaf(known) if known == leaf) && place.nullable == nullable;
    LEAVES.iter().find(same).cloned().unwrap_or_else(|| Arc::new(Place { kind: Kind::Leaf(leaf), nullable }))
}

impl Place {
    /// How values of a part are read. `resource` is true for what has `apiVersion`, `kind` and `metadata` whether that is
    /// declared or not.
    pub(super) fn of(part: Part<'_>, resource: bool) -> Arc<Self> {
        let nullable = part.nullable();
        let below = |part: Part<'_>| Self::of(part, part.is_embedded_resource());
        let place = |kind| Arc::new(Self { kind, nullable });
        if part.is_int_or_string() {
            return place(Kind::IntOrString);
        }
        match part.ty() {
            Some(Type::Object) if resource || part.properties().len() > 0 => {
                place(Kind::Object(fields(part, resource)))
            }
            Some(Type::Object) => match part.additional() {
                Additional::Values(values) => place(Kind::Map(below(values))),
                _ => place(Kind::Bare),
            },
            Some(Type::Array) => match part.items() {
                Some(items) => place(Kind::List(below(items), list_kind(part))),
                None => leaf(Leaf::Unknown, nullable),
            },
            Some(Type::String) => leaf(Leaf::Text(Text::of(part)), nullable),
            Some(Type::Number) => leaf(Leaf::Number, nullable),
            Some(Type::Integer) => leaf(Leaf::Integer, nullable),
            Some(Type::Boolean) => leaf(Leaf::Boolean, nullable),
            None => leaf(Leaf::Unknown, nullable),
        }
    }

    /// The place a step further, if it is read the same way when it is looked at by itself.
    pub(super) fn step(&self, step: Step<'_>) -> Option<Arc<Self>> {
        match (step, &self.kind) {
            // What every resource has is read as that within it, and as the schema says otherwise.
            (Step::Property(name), Kind::Object(fields)) if !is_meta(name) => {
                fields.iter().find(|(known, _)| known == name).map(|(_, place)| place.clone())
            }
            (Step::Items, Kind::List(inner, _)) | (Step::Values, Kind::Map(inner)) => Some(inner.clone()),
            _ => None,
        }
    }

    /// The place of a field, by the key in the JSON object.
    fn by_key(&self, key: &str) -> Option<&Place> {
        let Kind::Object(fields) = &self.kind else { return None };
        let at = if fields.len() > FEW {
            fields.binary_search_by(|(name, _)| name.as_str().cmp(key)).ok()
        } else {
            fields.iter().position(|(name, _)| name == key)
        };
        at.map(|at| &*fields[at].1)
    }

    /// A field and its key, by the name in expressions.
    fn by_name<'s: 'k, 'k>(&'s self, name: &'k str) -> Option<(&'k str, &'s Place)> {
        // Only what was escaped has this in its name.
        if !name.contains("__") {
            return self.by_key(name).map(|place| (name, place));
        }
        let Kind::Object(fields) = &self.kind else { return None };
        let found = fields.iter().find(|(key, _)| escape(key).is_some_and(|escaped| escaped == name));
        found.map(|(key, place)| (key.as_str(), &**place))
    }
}

fn fields(part: Part<'_>, resource: bool) -> Box<[(Str, Arc<Place>)]> {
    let adds_meta = resource && !declares_meta(part);
    let mut fields: Vec<(Str, Arc<Place>)> = part
        .properties()
        .filter(|(name, _)| !adds_meta || !is_meta(name))
        .map(|(name, part)| (name.into(), Place::of(part, part.is_embedded_resource())))
        .collect();
    if adds_meta {
        let text = || leaf(Leaf::Text(Text::Plain), false);
        let names = ["generateName", "name"].map(|name| (name.into(), text()));
        let names = Place { kind: Kind::Object(names.into()), nullable: false };
        fields.extend([("kind".into(), text()), ("apiVersion".into(), text()), ("metadata".into(), Arc::new(names))]);
        fields.sort_by(|a, b| a.0.cmp(&b.0));
    }
    fields.into()
}

fn list_kind(part: Part<'_>) -> ListKind {
    match part.list_type() {
        None | Some(ListType::Atomic) => ListKind::Atomic,
        Some(ListType::Set) => ListKind::Set,
        // Upstream looks for keys by their escaped names, and so never finds those that are escaped.
        Some(ListType::Map) => {
            let plain = |key: &&str| escape(key).is_none_or(|escaped| escaped == **key);
            ListKind::Map(part.map_keys().filter(plain).map(Str::from).collect())
        }
    }
}

/// A value that is not what its schema says.
fn invalid<'a>(text: impl Into<Cow<'static, str>>) -> Value<'a> {
    Value::Invalid(EvalError::new(text))
}

static UNTYPED: Untyped = Untyped;

impl Leaf {
    fn read(self, json: &Json) -> Value<'_> {
        let expected = |what: &str| invalid(format!("invalid data, expected {what}, got {}", go_type(json)));
        match (self, json) {
            (Self::Text(text), Json::String(written)) => texts::read(text, written).unwrap_or_else(invalid),
            (Self::Text(_), _) => expected("string"),
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

impl TypeAdapter for Place {
    fn read<'a>(&'a self, json: &'a Json) -> Value<'a> {
        match (&self.kind, json) {
            (_, Json::Null) if self.nullable => Value::Null,
            (_, Json::Null) => invalid("invalid data, got null for schema with nullable=false"),
            (Kind::Leaf(leaf), json) => leaf.read(json),
            (Kind::IntOrString, Json::Int(i)) => Value::Int(*i),
            (Kind::IntOrString, Json::String(text)) => Value::str(text),
            (Kind::IntOrString, _) => {
                invalid("invalid data, expected XIntOrString value to be either a string or integer")
            }
            (Kind::Object(_) | Kind::Map(_) | Kind::Bare, Json::Object(object)) => {
                Value::Map(Map::Json { object, adapter: self })
            }
            (Kind::Object(_) | Kind::Map(_) | Kind::Bare, _) => {
                invalid("invalid data, expected a map for the provided schema with type=object")
            }
            (Kind::List(..), Json::Array(items)) => Value::List(List::Json { items, adapter: self }),
            (Kind::List(..), _) => invalid("invalid data, expected an array for the provided schema with type=array"),
        }
    }

    fn field<'a>(&'a self, object: &'a Object, name: &str) -> Option<Value<'a>> {
        match &self.kind {
            Kind::Object(_) => {
                let (key, place) = self.by_name(name)?;
                let json = object.get(key)?;
                // A field that is null is as good as none.
                (!json.is_null()).then(|| place.read(json))
            }
            Kind::Map(values) => object.get(name).map(|json| values.read(json)),
            _ => None,
        }
    }

    fn has_field(&self, object: &Object, name: &str) -> bool {
        match &self.kind {
            Kind::Object(_) => {
                self.by_name(name).and_then(|(key, _)| object.get(key)).is_some_and(|json| !json.is_null())
            }
            Kind::Map(_) => object.contains_key(name),
            _ => false,
        }
    }

    fn field_name<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        match &self.kind {
            Kind::Object(_) => self.by_key(key).map(|_| escape(key).unwrap_or(Cow::Borrowed(key))),
            Kind::Map(_) => Some(Cow::Borrowed(key)),
            _ => None,
        }
    }

    fn is_typed(&self) -> bool {
        true
    }

    fn element<'a>(&'a self, items: &'a [Json], index: usize) -> Option<Value<'a>> {
        match &self.kind {
            Kind::List(place, _) => items.get(index).map(|json| place.read(json)),
            _ => None,
        }
    }

    fn topology(&self) -> ListTopology<'_> {
        match &self.kind {
            Kind::List(_, ListKind::Set) => ListTopology::Set,
            Kind::List(_, ListKind::Map(keys)) => ListTopology::Map(keys),
            _ => ListTopology::Atomic,
        }
    }
}
