//! The in-memory structural schema: one arena per schema with nodes of 28 bytes that refer to the rest by index. Most
//! nodes only have a type, so rare properties (limits, patterns, enums) are in a list of keywords.

use std::sync::OnceLock;

use pintle_gates::Change;
use pintle_value::{Str, Value};
use pintle_versions::{EffectiveVersion, Minor};

use super::enums::EnumIndex;
use super::formats::Format;

/// The structural schema of one version of a custom resource, or of any value (upstream: `schema.Structural`).
#[derive(Debug, Default)]
pub struct StructuralSchema {
    pub(super) nodes: Vec<NodeData>,
    /// The properties of all nodes. The properties of one node are sorted by name.
    pub(super) properties: Vec<Property>,
    /// The keywords of all nodes. The keywords of one node are in validation order.
    pub(super) keywords: Vec<Keyword>,
    /// Every name, once.
    pub(super) names: Vec<Str>,
    /// Lists of names: required fields and list map keys.
    pub(super) lists: Vec<NameId>,
    /// The branches of `allOf`, `anyOf` and `oneOf`.
    pub(super) branches: Vec<NodeId>,
    /// Defaults, enum values and CEL rules.
    pub(super) values: Vec<Value>,
    pub(super) patterns: Vec<Pattern>,
    pub(super) enums: EnumIndex,
    pub(super) rule_features: RuleFeatures,
}

/// How the rules of a schema differ between the versions of Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct RuleFeatures {
    /// The version that compiles the rules.
    pub version: EffectiveVersion,
    /// Whether lists that are sets or maps are compared by their elements as rules see them.
    pub compares_converted_elements: bool,
    /// Whether the lengths of names in metadata are known to be limited.
    pub names_are_short: bool,
}

impl RuleFeatures {
    /// The rules of a version.
    fn of(version: EffectiveVersion) -> Self {
        let has = |change: Change| change.versions().contains(version.binary());
        Self {
            version,
            compares_converted_elements: has(Change::RULES_COMPARE_CONVERTED_ELEMENTS),
            names_are_short: has(Change::RULES_KNOW_LENGTHS_OF_NAMES),
        }
    }
}

impl Default for RuleFeatures {
    fn default() -> Self {
        Self::of(EffectiveVersion::of(Minor::DEFAULT))
    }
}

impl StructuralSchema {
    /// The schema with the rules of a version.
    #[must_use]
    pub fn served_by(mut self, version: EffectiveVersion) -> Self {
        self.rule_features = RuleFeatures::of(version);
        self
    }
}

/// The index of a node. The root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    pub(super) const ROOT: Self = Self(0);
    /// No node. The root is never a child, so its index can stand for a missing node.
    pub(super) const NONE: Self = Self(0);
}

/// The index of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(pub(super) u32);

/// A range of indexes in one of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexRange {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl IndexRange {
    /// Appends items to a list and returns their range.
    pub(super) fn append<T>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) -> Self {
        let start = list.len();
        list.extend(items);
        Self { start: to_index(start), len: to_index(list.len() - start) }
    }

    pub(super) fn slice<T>(self, list: &[T]) -> &[T] {
        let start = self.start as usize;
        list.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// Converts an index to its stored form. A CRD is at most a few megabytes.
pub(super) fn to_index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// One node of the schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeData {
    pub(super) properties: IndexRange,
    /// The index of the first keyword. A node has a few dozen at most.
    pub(super) keywords: u32,
    pub(super) items: NodeId,
    pub(super) additional: NodeId,
    pub(super) flags: Flags,
    pub(super) keyword_count: u8,
    pub(super) ty: Option<Type>,
}

/// The boolean properties of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags(u16);

impl Flags {
    pub(super) const NULLABLE: Self = Self(1);
    /// `x-kubernetes-preserve-unknown-fields`
    pub(super) const PRESERVE: Self = Self(1 << 1);
    /// `x-kubernetes-embedded-resource`
    pub(super) const EMBEDDED: Self = Self(1 << 2);
    /// `x-kubernetes-int-or-string`
    pub(super) const INT_OR_STRING: Self = Self(1 << 3);
    /// `x-kubernetes-list-type`
    pub(super) const LIST_ATOMIC: Self = Self(1 << 4);
    pub(super) const LIST_SET: Self = Self(1 << 5);
    pub(super) const LIST_MAP: Self = Self(1 << 6);
    /// `x-kubernetes-map-type: atomic`
    pub(super) const MAP_ATOMIC: Self = Self(1 << 7);
    /// `additionalProperties: true`
    pub(super) const ADDITIONAL_ANY: Self = Self(1 << 8);
    /// `additionalProperties: false`
    pub(super) const ADDITIONAL_NONE: Self = Self(1 << 9);
    /// There are defaults here or below.
    pub(super) const DEFAULTS_WITHIN: Self = Self(1 << 10);
    /// There are embedded resources here or below.
    pub(super) const EMBEDDED_WITHIN: Self = Self(1 << 11);
    /// There are lists of type set or map here or below.
    pub(super) const UNIQUE_WITHIN: Self = Self(1 << 12);
    /// There are CEL rules here or below.
    pub(super) const RULES_WITHIN: Self = Self(1 << 13);
    /// The flags that a node inherits from its descendants.
    pub(super) const WITHIN: Self =
        Self(Self::DEFAULTS_WITHIN.0 | Self::EMBEDDED_WITHIN.0 | Self::UNIQUE_WITHIN.0 | Self::RULES_WITHIN.0);

    pub(super) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) const fn add(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    pub(super) const fn and(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }
}

/// A property and its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Property {
    pub(super) name: NameId,
    pub(super) node: NodeId,
}

/// A keyword that few nodes have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keyword {
    AnyOf(IndexRange),
    OneOf(IndexRange),
    AllOf(IndexRange),
    Not(NodeId),
    MaxLength(i64),
    MinLength(i64),
    Pattern(u32),
    /// A format and its name. `None` for a format that is unknown for the type; it is ignored.
    Format(NameId, Option<Format>),
    MultipleOf(f64),
    Minimum(f64, Bound),
    Maximum(f64, Bound),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Enum(IndexRange),
    MinProperties(i64),
    MaxProperties(i64),
    Required(IndexRange),
    /// `x-kubernetes-list-map-keys`
    Keys(IndexRange),
    Default(u32),
    /// `x-kubernetes-validations`
    Rules(IndexRange),
}

/// Whether a limit is inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Inclusive,
    Exclusive,
}

/// The types of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// Returns the type with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name in schemas.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// A regular expression, which is compiled on first use. Compiled expressions are large, and most are never used.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: Str,
    compiled: OnceLock<Result<pintle_cel::Pattern, String>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: Str::from(text), compiled: OnceLock::new() }
    }

    /// True if the text has a match. The error is Go's message, or says that the search would take too long.
    pub(super) fn is_match(&self, text: &str) -> Result<bool, String> {
        let compiled = self.compiled.get_or_init(|| pintle_cel::compile_pattern(&self.text));
        Ok(compiled.as_ref().map_err(String::clone)?.searching(text)?.is_match(text))
    }
}

impl StructuralSchema {
    pub(super) fn name(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("", Str::as_str)
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if there are no nodes. A parsed schema always has nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The approximate size in bytes, without the contents of long names, values and compiled patterns.
    #[must_use]
    pub fn size(&self) -> usize {
        fn of<T>(list: &Vec<T>) -> usize {
            list.capacity() * size_of::<T>()
        }
        size_of::<Self>()
            + of(&self.nodes)
            + of(&self.properties)
            + of(&self.keywords)
            + of(&self.names)
            + of(&self.lists)
            + of(&self.branches)
            + of(&self.values)
            + of(&self.patterns)
    }
}
