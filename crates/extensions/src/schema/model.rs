//! The model: one arena per schema, in which a node is 28 bytes and says the rest by index. Most nodes of most
//! definitions say their type and nothing else, so that what is rare (limits, patterns, enums) is in a list of keywords.

use std::sync::OnceLock;

use pintle_value::{Str, Value};
use regex::Regex;

use super::formats::Format;

/// The schema of one version of a custom resource, or of any value.
#[derive(Debug, Default)]
pub struct Schema {
    pub(super) nodes: Vec<Node>,
    /// The properties of each node, sorted by name.
    pub(super) properties: Vec<Property>,
    /// The keywords of each node, in the order in which they are judged.
    pub(super) keywords: Vec<Keyword>,
    /// Every name that is used, once.
    pub(super) names: Vec<Str>,
    /// Lists of names: required ones, keys of lists.
    pub(super) lists: Vec<NameId>,
    /// The alternatives of junctors.
    pub(super) branches: Vec<NodeId>,
    /// Defaults, enums, and rules in CEL.
    pub(super) values: Vec<Value>,
    pub(super) patterns: Vec<Pattern>,
}

/// A node's place. The root is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) u32);

impl NodeId {
    pub(super) const ROOT: Self = Self(0);
    /// Nothing: the root is nobody's child.
    pub(super) const NONE: Self = Self(0);
}

/// A name's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameId(pub(super) u32);

/// A stretch of one of the lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    /// What is appended to a list.
    pub(super) fn append<T>(list: &mut Vec<T>, items: impl IntoIterator<Item = T>) -> Self {
        let start = list.len();
        list.extend(items);
        Self { start: index(start), len: index(list.len() - start) }
    }

    pub(super) fn of<T>(self, list: &[T]) -> &[T] {
        let start = self.start as usize;
        list.get(start..start + self.len as usize).unwrap_or_default()
    }
}

/// An index as it is kept. A definition is at most a few megabytes.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// What is said of one value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) properties: Span,
    /// Where the keywords start. A node has a few dozen at most.
    pub(super) keywords: u32,
    pub(super) items: NodeId,
    pub(super) additional: NodeId,
    pub(super) flags: Flags,
    pub(super) keyword_count: u8,
    pub(super) ty: Option<Type>,
}

/// What can be said with one bit.
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
    /// There are lists here or below whose items are unique.
    pub(super) const UNIQUE_WITHIN: Self = Self(1 << 12);
    /// There are rules in CEL here or below.
    pub(super) const RULES_WITHIN: Self = Self(1 << 13);
    /// What a node says of what is below it too.
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

/// A property and its schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Property {
    pub(super) name: NameId,
    pub(super) node: NodeId,
}

/// What is said rarely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keyword {
    AnyOf(Span),
    OneOf(Span),
    AllOf(Span),
    Not(NodeId),
    MaxLength(i64),
    MinLength(i64),
    Pattern(u32),
    /// A format and what it is called; `None` for one that is not known for the type, which is as if it were not there.
    Format(NameId, Option<Format>),
    MultipleOf(f64),
    Minimum(f64, Bound),
    Maximum(f64, Bound),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Enum(Span),
    MinProperties(i64),
    MaxProperties(i64),
    Required(Span),
    /// `x-kubernetes-list-map-keys`
    Keys(Span),
    Default(u32),
    /// `x-kubernetes-validations`
    Rules(Span),
}

/// Whether a limit itself is allowed.
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
    /// A number without a fraction.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
}

impl Type {
    /// The type of a name in schemas.
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

    /// Its name in schemas.
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

/// A regular expression, compiled when it is first used: compiled ones are large, and most are never used.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: Str,
    compiled: OnceLock<Result<Regex, String>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: Str::from(text), compiled: OnceLock::new() }
    }

    /// The expression, or what Go says is wrong with it.
    pub(super) fn compiled(&self) -> Result<&Regex, &str> {
        let compiled = self.compiled.get_or_init(|| pintle_cel::compile_pattern(&self.text));
        compiled.as_ref().map_err(String::as_str)
    }
}

impl Schema {
    pub(super) fn name(&self, id: NameId) -> &str {
        self.names.get(id.0 as usize).map_or("", Str::as_str)
    }

    /// How many nodes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if there is no node; never of one that was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// About how many bytes it takes, without the contents of long names, of values, and of compiled patterns.
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
