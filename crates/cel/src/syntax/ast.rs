//! The tree of an expression.

use pintle_value::Str;

use crate::source::{Location, Source};

/// The number of a node. Numbers are given out in cel-go's order, since a few of its messages show them.
pub type ExprId = u32;

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its number.
    pub id: ExprId,
    /// What it is.
    pub kind: ExprKind,
}

impl Expr {
    /// True if a name stands in the tree.
    pub(crate) fn names(&self, name: &str) -> bool {
        let any = |exprs: &[Expr]| exprs.iter().any(|expr| expr.names(name));
        match &self.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => false,
            ExprKind::Ident(known) => known == name,
            ExprKind::Select { operand, .. } => operand.names(name),
            ExprKind::Call { target, args, .. } => {
                target.as_ref().is_some_and(|target| target.names(name)) || any(args)
            }
            ExprKind::List { elements, .. } => any(elements),
            ExprKind::Map(entries) => entries.iter().any(|entry| entry.key.names(name) || entry.value.names(name)),
            ExprKind::Struct { fields, .. } => fields.iter().any(|field| field.value.names(name)),
            ExprKind::Comprehension(c) => {
                [&c.range, &c.init, &c.condition, &c.step, &c.result].iter().any(|part| part.names(name))
            }
        }
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// What stands where an error was.
    Unspecified,
    /// A constant.
    Literal(Literal),
    /// A name, perhaps with a leading dot.
    Ident(Str),
    /// `operand.field`, or the test whether it is there.
    Select {
        /// What is selected from.
        operand: Box<Expr>,
        /// The field.
        field: Str,
        /// True for `has(operand.field)`.
        test: bool,
    },
    /// A call of a function or an operator.
    Call {
        /// What it is called on, for `target.function(args)`.
        target: Option<Box<Expr>>,
        /// The name, such as `size` or `_+_`.
        function: Str,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`.
    List {
        /// The elements.
        elements: Vec<Expr>,
        /// Which of them are optional.
        optional: Vec<usize>,
    },
    /// `{a: b, ?c: d}`.
    Map(Vec<Entry<Expr>>),
    /// `Name{a: b, ?c: d}`.
    Struct {
        /// The name of the type.
        name: Str,
        /// The fields.
        fields: Vec<Entry<Str>>,
    },
    /// A loop, which macros expand to.
    Comprehension(Box<Comprehension>),
}

/// An entry of a map, or a field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<K> {
    /// Its number.
    pub id: ExprId,
    /// The key or the name of the field.
    pub key: K,
    /// The value.
    pub value: Expr,
    /// True for `?key: value`.
    pub optional: bool,
}

/// A fold over a list or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// What is walked over.
    pub range: Expr,
    /// The variable for an element, a key, or an index.
    pub var: Str,
    /// The variable for the value, where there are two.
    pub var2: Option<Str>,
    /// The variable that carries the result from step to step.
    pub accu: Str,
    /// What that begins with.
    pub init: Expr,
    /// Goes on while this is not false.
    pub condition: Expr,
    /// What becomes of the accumulator.
    pub step: Expr,
    /// What comes out in the end.
    pub result: Expr,
}

impl Comprehension {
    /// True for `cel.bind` and its like: a loop over nothing, which gives a value a name.
    #[must_use]
    pub fn is_bind(&self) -> bool {
        matches!(&self.range.kind, ExprKind::List { elements, .. } if elements.is_empty())
            && self.condition.kind == ExprKind::Literal(Literal::Bool(false))
            && self.accu != "__result__"
    }
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'a'`
    String(Str),
    /// `b'a'`
    Bytes(Vec<u8>),
}

/// Where each node begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    offsets: Vec<Option<u32>>,
}

impl Positions {
    pub(super) fn set(&mut self, id: ExprId, offset: Option<u32>) {
        let index = id as usize;
        if self.offsets.len() <= index {
            self.offsets.resize(index + 1, None);
        }
        self.offsets[index] = offset;
    }

    /// The offset of a node, in code points.
    pub(crate) fn offset(&self, id: ExprId) -> Option<u32> {
        self.offsets.get(id as usize).copied().flatten()
    }

    /// The line and column of a node.
    pub(crate) fn location(&self, id: ExprId, source: &Source) -> Location {
        self.offset(id).map_or(Location::NONE, |offset| source.location(offset))
    }

    /// How many numbers were given out.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }
}
