//! The abstract syntax tree (upstream: cel-go `common/ast`).

use pintle_value::Str;

use crate::source::{Location, Source};

/// The id of a node. Ids are assigned in cel-go's order, since some of its messages contain them.
pub type ExprId = u32;

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The id.
    pub id: ExprId,
    /// The kind of the node.
    pub kind: ExprKind,
}

impl Expr {
    /// True if the tree mentions an identifier.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        self.any(&|expr| matches!(&expr.kind, ExprKind::Ident(known) if known == name))
    }

    /// True if the tree selects a field of an identifier: `operand.field`, `operand.?field` or `has(operand.field)`.
    pub(crate) fn selects(&self, operand: &str, field: &str) -> bool {
        let is_operand = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name == operand);
        self.any(&|expr| match &expr.kind {
            ExprKind::Select { operand, field: selected, .. } => selected == field && is_operand(operand),
            ExprKind::Call { target: None, function, args } if function == "_?._" => match &args[..] {
                [operand, Expr { kind: ExprKind::Literal(Literal::String(selected)), .. }] => {
                    *selected == *field && is_operand(operand)
                }
                _ => false,
            },
            _ => false,
        })
    }

    /// True if a node of the tree satisfies a condition.
    fn any(&self, is_found: &dyn Fn(&Expr) -> bool) -> bool {
        let any = |exprs: &[Expr]| exprs.iter().any(|expr| expr.any(is_found));
        if is_found(self) {
            return true;
        }
        match &self.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => false,
            ExprKind::Select { operand, .. } => operand.any(is_found),
            ExprKind::Call { target, args, .. } => {
                target.as_ref().is_some_and(|target| target.any(is_found)) || any(args)
            }
            ExprKind::List { elements, .. } => any(elements),
            ExprKind::Map(entries) => entries.iter().any(|entry| entry.key.any(is_found) || entry.value.any(is_found)),
            ExprKind::Struct { fields, .. } => fields.iter().any(|field| field.value.any(is_found)),
            ExprKind::Comprehension(c) => [&c.iter_range, &c.accu_init, &c.loop_condition, &c.loop_step, &c.result]
                .iter()
                .any(|part| part.any(is_found)),
        }
    }
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A placeholder for a syntax error.
    Unspecified,
    /// A constant.
    Literal(Literal),
    /// An identifier, possibly with a leading dot.
    Ident(Str),
    /// `operand.field`, or the test whether the field is present.
    Select {
        /// The operand.
        operand: Box<Expr>,
        /// The field.
        field: Str,
        /// True for `has(operand.field)`.
        test_only: bool,
    },
    /// A call of a function or an operator.
    Call {
        /// The target of `target.function(args)`.
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
        /// The indices of the optional elements.
        optional: Vec<usize>,
    },
    /// `{a: b, ?c: d}`.
    Map(Vec<EntryExpr<Expr>>),
    /// `Name{a: b, ?c: d}`.
    Struct {
        /// The name of the type.
        name: Str,
        /// The fields.
        fields: Vec<EntryExpr<Str>>,
    },
    /// A comprehension, the result of macro expansion.
    Comprehension(Box<Comprehension>),
}

/// An entry of a map, or a field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryExpr<K> {
    /// The id.
    pub id: ExprId,
    /// The key, or the name of the field.
    pub key: K,
    /// The value.
    pub value: Expr,
    /// True for `?key: value`.
    pub optional: bool,
}

/// A fold over a list or a map (upstream: `ComprehensionExpr`).
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// The list or map to iterate over.
    pub iter_range: Expr,
    /// The iteration variable: an element, a key, or an index.
    pub iter_var: Str,
    /// The second iteration variable, which takes the value.
    pub iter_var2: Option<Str>,
    /// The accumulator variable.
    pub accu_var: Str,
    /// The initial value of the accumulator.
    pub accu_init: Expr,
    /// The loop continues while this is not false.
    pub loop_condition: Expr,
    /// The new value of the accumulator.
    pub loop_step: Expr,
    /// The result, computed from the final accumulator.
    pub result: Expr,
}

impl Comprehension {
    /// True for `cel.bind` and `optMap`: a comprehension without iterations, which only binds a variable.
    #[must_use]
    pub fn is_bind(&self) -> bool {
        matches!(&self.iter_range.kind, ExprKind::List { elements, .. } if elements.is_empty())
            && self.loop_condition.kind == ExprKind::Literal(Literal::Bool(false))
            && self.accu_var != "__result__"
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

/// The source offsets of the nodes (upstream: `ast.SourceInfo`).
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceInfo {
    offsets: Vec<Option<u32>>,
}

impl SourceInfo {
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

    /// The number of assigned ids.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }
}
