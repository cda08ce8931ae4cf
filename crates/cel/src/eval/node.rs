//! The nodes of a planned program (upstream: cel-go's `Interpretable` implementations).

use std::sync::Arc;

use pintle_value::Str;

use crate::function::{FunctionOp, FunctionTracker, Overload, RegexFunctionOp};
use crate::regexp::Pattern;
use crate::value::Value;

/// A planned program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Interpretable,
    pub(crate) lazy_bindings: Box<[LazyBinding]>,
    /// The number of slots for local variables.
    pub(crate) local_slots: usize,
    /// The names of the environment's variables, by slot.
    pub(crate) variable_names: Arc<[Str]>,
}

/// A node that can be evaluated.
#[derive(Debug)]
pub(crate) enum Interpretable {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    And(Box<[Interpretable; 2]>),
    Or(Box<[Interpretable; 2]>),
    /// `accumulator && predicate` or `accumulator || predicate` as the loop step of a comprehension.
    LogicStep(Box<LogicStep>),
    Equal(Box<[Interpretable; 2]>),
    NotEqual(Box<[Interpretable; 2]>),
    Call(Box<Call>),
    List(Box<[ElementNode]>),
    Map(Box<[EntryNode]>),
    /// An object of a type. It is an error if the type provider cannot create objects of the type.
    Struct {
        name: Str,
        is_known: bool,
        fields: Box<[EntryNode]>,
    },
    Fold(Box<Fold>),
    /// A node within which a [`LazyBinding`] is visible. The node contains the index of the binding and the result.
    LazyBinding(u32, Box<Interpretable>),
    /// `x in [constants]`
    SetMembership(Box<SetMembership>),
    /// `accumulator + addition` as the loop step of a comprehension. It modifies the accumulator in place.
    AppendStep(Box<AppendStep>),
    /// `cel.@mapInsert(accumulator, …)` as the loop step of a comprehension. It modifies the accumulator in place.
    InsertStep(Box<InsertStep>),
    /// `optional.or(other)`
    OptionalOr(Box<[Interpretable; 2]>),
    /// `optional.orValue(other)`
    OptionalOrValue(Box<[Interpretable; 2]>),
}

/// A root and the qualifiers applied to it: `a.b[c].?d`, or the test whether the last field exists.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: AttributeRoot,
    pub(crate) qualifiers: Vec<Qualifier>,
    pub(crate) test_only: bool,
    /// True if no qualifier is optional and all of them are field names, which is the common case.
    pub(crate) fields_only: bool,
}

/// The root of an attribute.
#[derive(Debug)]
pub(crate) enum AttributeRoot {
    /// A variable of the environment, by its slot.
    Variable(u32),
    /// An iteration variable or accumulator, by its slot.
    Local(u32),
    /// A [`LazyBinding`], by its index.
    LazyBinding(u32),
    /// Any other node.
    Interpretable(Interpretable),
    /// `condition ? a : b`
    Conditional(Box<[Interpretable; 3]>),
}

/// One qualifier of an attribute.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) kind: QualifierKind,
    pub(crate) optional: bool,
}

/// The field or index that a qualifier selects.
#[derive(Debug)]
pub(crate) enum QualifierKind {
    Field(Str),
    Const(Value<'static>),
    Dynamic(Interpretable),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Str,
    pub(crate) args: Box<[Interpretable]>,
    pub(crate) binding: CallBinding,
    pub(crate) cost_tracker: FunctionTracker,
    /// True if the error for unsupported argument types lists the types.
    pub(crate) reports_arg_types: bool,
    /// True if evaluation stops at the first argument that fails; false if the second of two arguments is evaluated
    /// anyway.
    pub(crate) stops_at_first_error: bool,
    /// The list argument that the cost tracker measures. If the argument is an error, the evaluation fails.
    pub(crate) measured_list: Option<usize>,
}

/// The implementation that a call invokes.
#[derive(Debug)]
pub(crate) enum CallBinding {
    Direct(FunctionOp),
    /// One overload. Its argument types are checked at run time, since they are `dyn`.
    TypeChecked(FunctionOp, Box<Overload>),
    Regex(Box<Pattern>, RegexFunctionOp),
    /// The overload is selected at run time by the argument types.
    Dynamic(Box<[Overload]>),
}

/// An element of a list literal.
#[derive(Debug)]
pub(crate) struct ElementNode {
    pub(crate) node: Interpretable,
    pub(crate) optional: bool,
}

/// An entry of a map literal or a field of an object literal.
#[derive(Debug)]
pub(crate) struct EntryNode {
    pub(crate) key: Interpretable,
    pub(crate) value: Interpretable,
    pub(crate) optional: bool,
}

/// A comprehension.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) iter_range: Interpretable,
    pub(crate) iter_var: usize,
    pub(crate) iter_var2: Option<usize>,
    pub(crate) accu_var: usize,
    pub(crate) accu_init: Interpretable,
    pub(crate) loop_condition: LoopCondition,
    pub(crate) loop_step: Interpretable,
    pub(crate) result: Interpretable,
}

/// The loop condition of a comprehension. The conditions of the standard macros are special cases, because they are
/// evaluated in every iteration.
#[derive(Debug)]
pub(crate) enum LoopCondition {
    Always,
    /// `@not_strictly_false(accumulator)`
    UntilFalse,
    /// `@not_strictly_false(!accumulator)`
    UntilTrue,
    Interpretable(Interpretable),
}

/// A variable of `cel.bind`, evaluated on first use.
#[derive(Debug)]
pub(crate) struct LazyBinding {
    pub(crate) slot: usize,
    pub(crate) init: Interpretable,
}

/// `value in [constants]`.
#[derive(Debug)]
pub(crate) struct SetMembership {
    pub(crate) value: Interpretable,
    pub(crate) constants: Vec<Value<'static>>,
}

/// The loop step of `all` and `exists`. `decisive` is the final value of the accumulator: no predicate can change it.
#[derive(Debug)]
pub(crate) struct LogicStep {
    pub(crate) accu: usize,
    pub(crate) decisive: bool,
    pub(crate) predicate: Interpretable,
}

/// The loop step of `map` and `filter`.
#[derive(Debug)]
pub(crate) struct AppendStep {
    pub(crate) accu: usize,
    pub(crate) addition: Interpretable,
}

/// The loop step of `transformMap` and `transformMapEntry`: inserts a key and a value, or the entries of a map.
#[derive(Debug)]
pub(crate) struct InsertStep {
    pub(crate) accu: usize,
    pub(crate) args: Vec<Interpretable>,
}
