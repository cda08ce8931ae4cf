//! The nodes of a program.

use pintle_value::Str;
use regex::Regex;

use crate::function::{Charge, Eval, Overload, RegexEval};
use crate::value::Value;

/// A step of a program.
#[derive(Debug)]
pub(crate) enum Node {
    Const(Value<'static>),
    Attribute(Box<Attribute>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// `accumulator && predicate` or `accumulator || predicate` as the step of a loop.
    Gather(Box<Gather>),
    Equal(Box<[Node; 2]>),
    NotEqual(Box<[Node; 2]>),
    Call(Box<Call>),
    List(Box<[Element]>),
    Map(Box<[Entry]>),
    /// An object; the name of its type if there are no objects of that.
    Struct(Option<Str>, Box<[Entry]>),
    Fold(Box<Fold>),
    /// A value with a name: see [`Bind`]. The node is what comes out.
    Bind(u32, Box<Node>),
    /// `x in [constants]`
    Membership(Box<Membership>),
    /// `accumulator + addition` as the step of a fold: the accumulator is changed in place.
    Append(Box<Append>),
    /// `cel.@mapInsert(accumulator, …)` as the step of a fold.
    Insert(Box<Insert>),
    /// `optional.or(other)`
    OptionalOr(Box<[Node; 2]>),
    /// `optional.orValue(other)`
    OptionalOrValue(Box<[Node; 2]>),
}

/// A root and the way from there: `a.b[c].?d`, or the test whether the end of the way is there.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
    pub(crate) test: bool,
    /// True if nothing is optional and all steps go by name, which is the usual case.
    pub(crate) plain: bool,
}

/// Where an attribute begins.
#[derive(Debug)]
pub(crate) enum Root {
    /// A variable of the environment.
    Variable(u32),
    /// A variable of a loop.
    Local(u32),
    /// A value with a name, worked out when first asked for.
    Bound(u32),
    /// Any other node.
    Node(Node),
    /// `condition ? a : b`
    Conditional(Box<[Node; 3]>),
}

/// One step of an attribute.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) by: By,
    pub(crate) optional: bool,
}

/// What a step goes by.
#[derive(Debug)]
pub(crate) enum By {
    Field(Str),
    Const(Value<'static>),
    Node(Node),
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Str,
    pub(crate) args: Box<[Node]>,
    pub(crate) run: Run,
    pub(crate) charge: Charge,
    /// True if arguments of other types are reported with their types.
    pub(crate) guarded: bool,
    /// True if arguments are looked at until one fails, false if both of two are.
    pub(crate) in_order: bool,
    /// The argument without which the cost cannot be counted.
    pub(crate) sized_by: Option<usize>,
}

/// What a call does.
#[derive(Debug)]
pub(crate) enum Run {
    Direct(Eval),
    /// An overload whose arguments may turn out to have other types.
    Checked(Eval, Box<Overload>),
    Regex(Box<Regex>, RegexEval),
    /// Which overload it is shows at run time.
    Dispatch(Box<[Overload]>),
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) node: Node,
    pub(crate) optional: bool,
}

/// An entry of a map or a field of an object.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) var: usize,
    pub(crate) var2: Option<usize>,
    pub(crate) accu: usize,
    pub(crate) init: Node,
    pub(crate) condition: Condition,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// Whether a loop goes on. The forms that the macros make are told apart, since they are looked at in every round.
#[derive(Debug)]
pub(crate) enum Condition {
    Always,
    /// `@not_strictly_false(accumulator)`
    UntilFalse,
    /// `@not_strictly_false(!accumulator)`
    UntilTrue,
    Node(Node),
}

/// A value with a name.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) slot: usize,
    pub(crate) init: Node,
}

/// Whether a value is one of some constants.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) value: Node,
    pub(crate) constants: Vec<Value<'static>>,
}

/// A truth value that grows; `decisive` is the one that no predicate changes any more.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) accu: usize,
    pub(crate) decisive: bool,
    pub(crate) predicate: Node,
}

/// A list that grows.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) accu: usize,
    pub(crate) addition: Node,
}

/// A map that grows by a key and a value, or by a map.
#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) accu: usize,
    pub(crate) args: Vec<Node>,
}
