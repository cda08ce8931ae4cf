//! A schema seen from one of its nodes: what everything that walks a schema asks it.

use pintle_kinds::PathSchema;
use pintle_value::{Str, Value};

use super::formats::Format;
use super::model::{Flags, Keyword, NameId, Node, NodeId, Property, Schema, Span, Type};

/// A part of a schema: that of the object, of a property, of the items of a list.
#[derive(Clone, Copy, Debug)]
pub struct Part<'s> {
    pub(super) schema: &'s Schema,
    node: &'s Node,
}

/// What is said of the properties that are not declared.
#[derive(Clone, Copy, Debug)]
pub enum Additional<'s> {
    /// Nothing.
    Undeclared,
    /// `false`: there may be none.
    None,
    /// `true`: they may be anything.
    Any,
    /// They have a schema.
    Values(Part<'s>),
}

/// `x-kubernetes-list-type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Items are told apart by their values.
    Set,
    /// Items are told apart by some of their fields.
    Map,
}

/// Up to so many properties are looked through one by one: most names differ in length, which shows at once.
const FEW: usize = 16;

static NOTHING: Node = Node {
    properties: Span { start: 0, len: 0 },
    keywords: 0,
    items: NodeId::NONE,
    additional: NodeId::NONE,
    flags: Flags::NULLABLE,
    keyword_count: 0,
    ty: None,
};

impl Schema {
    /// The schema of the object itself.
    #[must_use]
    pub fn root(&self) -> Part<'_> {
        self.part(NodeId::ROOT)
    }

    pub(super) fn part(&self, id: NodeId) -> Part<'_> {
        Part { schema: self, node: self.nodes.get(id.0 as usize).unwrap_or(&NOTHING) }
    }
}

impl<'s> Part<'s> {
    /// The type that is declared. There is none where anything goes, or where numbers and strings do.
    #[must_use]
    pub fn ty(self) -> Option<Type> {
        self.node.ty
    }

    /// True if null is a value.
    #[must_use]
    pub fn nullable(self) -> bool {
        self.has(Flags::NULLABLE)
    }

    /// True if what is not declared is kept (`x-kubernetes-preserve-unknown-fields`).
    #[must_use]
    pub fn preserves_unknown(self) -> bool {
        self.has(Flags::PRESERVE)
    }

    /// True if it is an object of any kind (`x-kubernetes-embedded-resource`).
    #[must_use]
    pub fn is_embedded_resource(self) -> bool {
        self.has(Flags::EMBEDDED)
    }

    /// True if it is an integer or a string (`x-kubernetes-int-or-string`).
    #[must_use]
    pub fn is_int_or_string(self) -> bool {
        self.has(Flags::INT_OR_STRING)
    }

    /// True if a map is one value to server-side apply (`x-kubernetes-map-type: atomic`).
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.has(Flags::MAP_ATOMIC)
    }

    /// How the items of a list are told apart, where that is declared.
    #[must_use]
    pub fn list_type(self) -> Option<ListType> {
        if self.has(Flags::LIST_MAP) {
            Some(ListType::Map)
        } else if self.has(Flags::LIST_SET) {
            Some(ListType::Set)
        } else {
            self.has(Flags::LIST_ATOMIC).then_some(ListType::Atomic)
        }
    }

    /// The fields that tell the items of a list apart (`x-kubernetes-list-map-keys`).
    pub fn map_keys(self) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        let keys = self.keyword(|keyword| if let Keyword::Keys(span) = keyword { Some(*span) } else { None });
        self.names(keys.unwrap_or_default())
    }

    /// The schema of a declared property.
    #[must_use]
    pub fn property(self, name: &str) -> Option<Part<'s>> {
        let properties = self.own_properties();
        let name_of = |property: &Property| self.schema.name(property.name);
        let found = if properties.len() > FEW {
            properties.binary_search_by(|property| name_of(property).cmp(name)).ok()
        } else {
            properties.iter().position(|property| name_of(property) == name)
        };
        Some(self.schema.part(properties[found?].node))
    }

    /// The declared properties, sorted by name.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'s str, Part<'s>)> {
        self.own_properties().iter().map(move |p| (self.schema.name(p.name), self.schema.part(p.node)))
    }

    /// What is said of other properties.
    #[must_use]
    pub fn additional(self) -> Additional<'s> {
        if self.node.additional != NodeId::NONE {
            Additional::Values(self.schema.part(self.node.additional))
        } else if self.has(Flags::ADDITIONAL_ANY) {
            Additional::Any
        } else if self.has(Flags::ADDITIONAL_NONE) {
            Additional::None
        } else {
            Additional::Undeclared
        }
    }

    /// The schema of the values of a map.
    #[must_use]
    pub fn values(self) -> Option<Part<'s>> {
        match self.additional() {
            Additional::Values(values) => Some(values),
            _ => None,
        }
    }

    /// The schema of the value under a key, declared or not.
    #[must_use]
    pub fn entry(self, key: &str) -> Option<Part<'s>> {
        self.property(key).or(self.values())
    }

    /// The schema of the items.
    #[must_use]
    pub fn items(self) -> Option<Part<'s>> {
        (self.node.items != NodeId::NONE).then(|| self.schema.part(self.node.items))
    }

    /// What is set where there is nothing. It is pruned already.
    #[must_use]
    pub fn default(self) -> Option<&'s Value> {
        let at = self.keyword(|keyword| if let Keyword::Default(at) = keyword { Some(*at) } else { None })?;
        self.schema.values.get(at as usize).filter(|value| !value.is_null())
    }

    /// The rules in CEL (`x-kubernetes-validations`), as they are written.
    #[must_use]
    pub fn rules(self) -> &'s [Value] {
        let rules = self.keyword(|keyword| if let Keyword::Rules(span) = keyword { Some(*span) } else { None });
        rules.unwrap_or_default().of(&self.schema.values)
    }

    /// True if there are rules in CEL here or below.
    #[must_use]
    pub fn has_rules_within(self) -> bool {
        self.has(Flags::RULES_WITHIN)
    }

    /// The format as it is written, and which it is if it is known for the type.
    #[must_use]
    pub fn format(self) -> Option<(&'s str, Option<Format>)> {
        self.keyword(|keyword| match keyword {
            Keyword::Format(name, format) => Some((self.schema.name(*name), *format)),
            _ => None,
        })
    }

    /// The values that it may have, if they are listed.
    #[must_use]
    pub fn enumeration(self) -> Option<&'s [Value]> {
        let values = self.keyword(|keyword| if let Keyword::Enum(span) = keyword { Some(*span) } else { None })?;
        Some(values.of(&self.schema.values))
    }

    /// The properties that must be there.
    pub fn required(self) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        let names = self.keyword(|keyword| if let Keyword::Required(span) = keyword { Some(*span) } else { None });
        self.names(names.unwrap_or_default())
    }

    /// The most characters of a string.
    #[must_use]
    pub fn max_length(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxLength(max) = keyword { Some(*max) } else { None })
    }

    /// The most items of a list.
    #[must_use]
    pub fn max_items(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxItems(max) = keyword { Some(*max) } else { None })
    }

    /// The most properties of an object.
    #[must_use]
    pub fn max_properties(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxProperties(max) = keyword { Some(*max) } else { None })
    }

    /// The schemas in `allOf`, `anyOf`, `oneOf` and `not`: they judge values and have no say in anything else.
    pub fn junctors(self) -> impl Iterator<Item = Part<'s>> {
        let branches = self.keywords().iter().flat_map(move |keyword| match keyword {
            Keyword::AnyOf(span) | Keyword::OneOf(span) | Keyword::AllOf(span) => span.of(&self.schema.branches),
            Keyword::Not(branch) => std::slice::from_ref(branch),
            _ => &[],
        });
        branches.map(move |branch| self.schema.part(*branch))
    }

    pub(super) fn keywords(self) -> &'s [Keyword] {
        Span { start: self.node.keywords, len: u32::from(self.node.keyword_count) }.of(&self.schema.keywords)
    }

    pub(super) fn keyword<T>(self, pick: impl FnMut(&'s Keyword) -> Option<T>) -> Option<T> {
        self.keywords().iter().find_map(pick)
    }

    pub(super) fn names(self, span: Span) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        span.of(&self.schema.lists).iter().map(move |id: &NameId| self.schema.name(*id))
    }

    pub(super) fn own_properties(self) -> &'s [Property] {
        self.node.properties.of(&self.schema.properties)
    }

    pub(super) fn has(self, flag: Flags) -> bool {
        self.node.flags.has(flag)
    }
}

impl PathSchema for Part<'_> {
    fn has_properties(self) -> bool {
        !self.own_properties().is_empty()
    }

    fn property(self, name: &str) -> Option<Self> {
        Part::property(self, name)
    }

    fn map_values(self) -> Option<Option<Self>> {
        match self.additional() {
            Additional::Undeclared => None,
            Additional::Values(values) => Some(Some(values)),
            Additional::None | Additional::Any => Some(None),
        }
    }
}

/// Names as a schema keeps them.
pub(super) fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Str> {
    names.into_iter().map(Str::from).collect()
}
