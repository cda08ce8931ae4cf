//! Accessors of one node of a structural schema, for all code that walks schemas.

use pintle_kinds::PathSchema;
use pintle_value::{Str, Value};

use super::formats::Format;
use super::model::{
    Flags, IndexRange, Keyword, NameId, NodeData, NodeId, Property, RuleFeatures, StructuralSchema, Type,
};

/// A node of a schema: the schema of the object, of a property, or of the items of a list.
#[derive(Clone, Copy, Debug)]
pub struct SchemaNode<'s> {
    pub(super) schema: &'s StructuralSchema,
    node: &'s NodeData,
}

/// The `additionalProperties` of a node.
#[derive(Clone, Copy, Debug)]
pub enum Additional<'s> {
    /// The keyword is not declared.
    Undeclared,
    /// `false`: other properties are forbidden.
    None,
    /// `true`: other properties have any value.
    Any,
    /// Other properties have this schema.
    Values(SchemaNode<'s>),
}

/// `x-kubernetes-list-type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Items are identified by value.
    Set,
    /// Items are identified by their keys.
    Map,
}

/// Up to this many properties are searched linearly. Comparing names is cheap, because most names differ in length.
const LINEAR_SEARCH_MAX: usize = 16;

static EMPTY_NODE: NodeData = NodeData {
    properties: IndexRange { start: 0, len: 0 },
    keywords: 0,
    items: NodeId::NONE,
    additional: NodeId::NONE,
    flags: Flags::NULLABLE,
    keyword_count: 0,
    ty: None,
};

impl StructuralSchema {
    /// The node of the object itself.
    #[must_use]
    pub fn root(&self) -> SchemaNode<'_> {
        self.node(NodeId::ROOT)
    }

    pub(super) fn node(&self, id: NodeId) -> SchemaNode<'_> {
        SchemaNode { schema: self, node: self.nodes.get(id.0 as usize).unwrap_or(&EMPTY_NODE) }
    }
}

impl<'s> SchemaNode<'s> {
    /// The features of the rules of the schema.
    #[must_use]
    pub fn rule_features(self) -> RuleFeatures {
        self.schema.rule_features
    }

    /// The declared type. It is absent if any value, or an integer or string, is allowed.
    #[must_use]
    pub fn ty(self) -> Option<Type> {
        self.node.ty
    }

    /// True if null is allowed.
    #[must_use]
    pub fn is_nullable(self) -> bool {
        self.has(Flags::NULLABLE)
    }

    /// True if unknown fields are preserved (`x-kubernetes-preserve-unknown-fields`).
    #[must_use]
    pub fn preserves_unknown(self) -> bool {
        self.has(Flags::PRESERVE)
    }

    /// True for an embedded resource (`x-kubernetes-embedded-resource`).
    #[must_use]
    pub fn is_embedded_resource(self) -> bool {
        self.has(Flags::EMBEDDED)
    }

    /// True for an integer or a string (`x-kubernetes-int-or-string`).
    #[must_use]
    pub fn is_int_or_string(self) -> bool {
        self.has(Flags::INT_OR_STRING)
    }

    /// True if server-side apply treats the map as one value (`x-kubernetes-map-type: atomic`).
    #[must_use]
    pub fn is_atomic_map(self) -> bool {
        self.has(Flags::MAP_ATOMIC)
    }

    /// The declared list type.
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

    /// The keys of a list of type map (`x-kubernetes-list-map-keys`).
    pub fn map_keys(self) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        let keys = self.keyword(|keyword| if let Keyword::Keys(range) = keyword { Some(*range) } else { None });
        self.names(keys.unwrap_or_default())
    }

    /// Returns the node of a declared property.
    #[must_use]
    pub fn property(self, name: &str) -> Option<SchemaNode<'s>> {
        let properties = self.own_properties();
        let name_of = |property: &Property| self.schema.name(property.name);
        let found = if properties.len() > LINEAR_SEARCH_MAX {
            properties.binary_search_by(|property| name_of(property).cmp(name)).ok()
        } else {
            properties.iter().position(|property| name_of(property) == name)
        };
        Some(self.schema.node(properties[found?].node))
    }

    /// The declared properties, sorted by name.
    pub fn properties(self) -> impl ExactSizeIterator<Item = (&'s str, SchemaNode<'s>)> {
        self.own_properties().iter().map(move |p| (self.schema.name(p.name), self.schema.node(p.node)))
    }

    /// The `additionalProperties`.
    #[must_use]
    pub fn additional(self) -> Additional<'s> {
        if self.node.additional != NodeId::NONE {
            Additional::Values(self.schema.node(self.node.additional))
        } else if self.has(Flags::ADDITIONAL_ANY) {
            Additional::Any
        } else if self.has(Flags::ADDITIONAL_NONE) {
            Additional::None
        } else {
            Additional::Undeclared
        }
    }

    /// The node of the values of a map.
    #[must_use]
    pub fn values(self) -> Option<SchemaNode<'s>> {
        match self.additional() {
            Additional::Values(values) => Some(values),
            _ => None,
        }
    }

    /// The node of the value under a key, declared or not.
    #[must_use]
    pub fn entry(self, key: &str) -> Option<SchemaNode<'s>> {
        self.property(key).or(self.values())
    }

    /// The node of the list items.
    #[must_use]
    pub fn items(self) -> Option<SchemaNode<'s>> {
        (self.node.items != NodeId::NONE).then(|| self.schema.node(self.node.items))
    }

    /// The default, already pruned.
    #[must_use]
    pub fn default(self) -> Option<&'s Value> {
        let at = self.keyword(|keyword| if let Keyword::Default(at) = keyword { Some(*at) } else { None })?;
        self.schema.values.get(at as usize).filter(|value| !value.is_null())
    }

    /// The CEL rules (`x-kubernetes-validations`), as in the CRD.
    #[must_use]
    pub fn rules(self) -> &'s [Value] {
        let rules = self.keyword(|keyword| if let Keyword::Rules(range) = keyword { Some(*range) } else { None });
        rules.unwrap_or_default().slice(&self.schema.values)
    }

    /// True if there are CEL rules here or below.
    #[must_use]
    pub fn has_rules_within(self) -> bool {
        self.has(Flags::RULES_WITHIN)
    }

    /// The format's name in the schema, and the format if it is known for the type.
    #[must_use]
    pub fn format(self) -> Option<(&'s str, Option<Format>)> {
        self.keyword(|keyword| match keyword {
            Keyword::Format(name, format) => Some((self.schema.name(*name), *format)),
            _ => None,
        })
    }

    /// The enum values, if declared.
    #[must_use]
    pub fn enumeration(self) -> Option<&'s [Value]> {
        let values = self.keyword(|keyword| if let Keyword::Enum(range) = keyword { Some(*range) } else { None })?;
        Some(values.slice(&self.schema.values))
    }

    /// The required properties.
    pub fn required(self) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        let names = self.keyword(|keyword| if let Keyword::Required(range) = keyword { Some(*range) } else { None });
        self.names(names.unwrap_or_default())
    }

    /// The maximum number of characters of a string.
    #[must_use]
    pub fn max_length(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxLength(max) = keyword { Some(*max) } else { None })
    }

    /// The maximum number of items of a list.
    #[must_use]
    pub fn max_items(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxItems(max) = keyword { Some(*max) } else { None })
    }

    /// The maximum number of properties of an object.
    #[must_use]
    pub fn max_properties(self) -> Option<i64> {
        self.keyword(|keyword| if let Keyword::MaxProperties(max) = keyword { Some(*max) } else { None })
    }

    /// The nodes in `allOf`, `anyOf`, `oneOf` and `not`. They only affect validation.
    pub fn junctors(self) -> impl Iterator<Item = SchemaNode<'s>> {
        let branches = self.keywords().iter().flat_map(move |keyword| match keyword {
            Keyword::AnyOf(range) | Keyword::OneOf(range) | Keyword::AllOf(range) => range.slice(&self.schema.branches),
            Keyword::Not(branch) => std::slice::from_ref(branch),
            _ => &[],
        });
        branches.map(move |branch| self.schema.node(*branch))
    }

    pub(super) fn keywords(self) -> &'s [Keyword] {
        IndexRange { start: self.node.keywords, len: u32::from(self.node.keyword_count) }.slice(&self.schema.keywords)
    }

    pub(super) fn keyword<T>(self, pick: impl FnMut(&'s Keyword) -> Option<T>) -> Option<T> {
        self.keywords().iter().find_map(pick)
    }

    pub(super) fn names(self, range: IndexRange) -> impl ExactSizeIterator<Item = &'s str> + Clone {
        range.slice(&self.schema.lists).iter().map(move |id: &NameId| self.schema.name(*id))
    }

    pub(super) fn own_properties(self) -> &'s [Property] {
        self.node.properties.slice(&self.schema.properties)
    }

    pub(super) fn has(self, flag: Flags) -> bool {
        self.node.flags.has(flag)
    }
}

impl PathSchema for SchemaNode<'_> {
    fn has_properties(self) -> bool {
        !self.own_properties().is_empty()
    }

    fn property(self, name: &str) -> Option<Self> {
        SchemaNode::property(self, name)
    }

    fn map_values(self) -> Option<Option<Self>> {
        match self.additional() {
            Additional::Undeclared => None,
            Additional::Values(values) => Some(Some(values)),
            Additional::None | Additional::Any => Some(None),
        }
    }
}

/// Copies names into the form that schemas store.
pub(super) fn owned<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Str> {
    names.into_iter().map(Str::from).collect()
}
