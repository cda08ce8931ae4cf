//! Macros: calls that are rewritten while parsing, mostly to loops. Numbers are given to the new nodes in cel-go's
//! order.

use pintle_value::Str;

use super::ast::{Comprehension, Entry, Expr, ExprId, ExprKind, Literal, Positions};

/// The name of the variable that loops gather their result in. No expression can write it.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The name that it had in earlier versions, which stays forbidden.
const OLD_ACCUMULATOR: &str = "__result__";
/// The variable of a loop that is never entered.
pub(crate) const UNUSED: &str = "#unused";

/// A macro: which calls it takes, and how it rewrites them.
#[derive(Clone, Copy, Debug)]
pub struct Macro {
    /// The name of the function.
    pub function: &'static str,
    /// True for calls on a target.
    pub receiver: bool,
    /// How many arguments the call has.
    pub arity: usize,
    /// What it becomes.
    pub expand: Expander,
}

/// Rewrites a call.
pub type Expander = fn(&mut MacroContext<'_>, Option<Expr>, Vec<Expr>) -> Result<Expansion, MacroError>;

impl Macro {
    pub(super) fn find(macros: &[Macro], function: &str, receiver: bool, arity: usize) -> Option<Expander> {
        // Libraries that are added later take precedence.
        let found = macros.iter().rev().find(|m| m.arity == arity && m.receiver == receiver && m.function == function);
        found.map(|found| found.expand)
    }
}

/// What a macro made of a call.
pub enum Expansion {
    /// The new tree.
    Done(Expr),
    /// The call is not meant for the macro and stays as it is.
    Declined {
        /// What it was called on.
        target: Option<Expr>,
        /// Its arguments.
        args: Vec<Expr>,
    },
}

/// Why a call cannot be rewritten.
pub struct MacroError {
    /// The node that is at fault.
    pub id: ExprId,
    /// What is wrong.
    pub message: String,
}

impl MacroError {
    fn new(at: &Expr, message: impl Into<String>) -> Self {
        Self { id: at.id, message: message.into() }
    }
}

/// Makes nodes; all of them get the place of the call.
pub struct MacroContext<'p> {
    positions: &'p mut Positions,
    next_id: &'p mut ExprId,
    at: Option<u32>,
}

impl<'p> MacroContext<'p> {
    pub(super) fn new(positions: &'p mut Positions, next_id: &'p mut ExprId, at: Option<u32>) -> Self {
        Self { positions, next_id, at }
    }

    fn id(&mut self, at: Option<u32>) -> ExprId {
        let id = *self.next_id;
        self.positions.set(id, at);
        *self.next_id += 1;
        id
    }

    fn node(&mut self, kind: ExprKind) -> Expr {
        Expr { id: self.id(self.at), kind }
    }

    /// A constant.
    pub fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    /// A variable.
    pub fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    /// The variable in which a loop gathers its result.
    pub fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    /// A list of given elements.
    pub fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(ExprKind::List { elements, optional: Vec::new() })
    }

    /// An empty map.
    pub fn map(&mut self) -> Expr {
        self.node(ExprKind::Map(Vec::new()))
    }

    /// A call of a global function or an operator.
    pub fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call { target: None, function: function.into(), args })
    }

    /// A call on a target.
    pub fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call { target: Some(Box::new(target)), function: function.into(), args })
    }

    /// A loop.
    pub fn comprehension(&mut self, comprehension: Comprehension) -> Expr {
        self.node(ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// A copy with numbers of its own and the places of the original.
    pub fn copy(&mut self, expr: &Expr) -> Expr {
        let id = self.id(self.positions.offset(expr.id));
        let kind = match &expr.kind {
            ExprKind::Select { operand, field, test } => {
                ExprKind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test: *test }
            }
            ExprKind::Call { target, function, args } => {
                let args = args.iter().map(|arg| self.copy(arg)).collect();
                let target = target.as_ref().map(|target| Box::new(self.copy(target)));
                ExprKind::Call { target, function: function.clone(), args }
            }
            ExprKind::List { elements, optional } => {
                let elements = elements.iter().map(|element| self.copy(element)).collect();
                ExprKind::List { elements, optional: optional.clone() }
            }
            ExprKind::Map(entries) => ExprKind::Map(
                entries
                    .iter()
                    .map(|entry| {
                        let id = self.id(self.at);
                        let (key, value) = (self.copy(&entry.key), self.copy(&entry.value));
                        Entry { id, key, value, optional: entry.optional }
                    })
                    .collect(),
            ),
            ExprKind::Struct { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|field| {
                        let id = self.id(self.at);
                        Entry { id, key: field.key.clone(), value: self.copy(&field.value), optional: field.optional }
                    })
                    .collect();
                ExprKind::Struct { name: name.clone(), fields }
            }
            ExprKind::Comprehension(c) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&c.range),
                init: self.copy(&c.init),
                condition: self.copy(&c.condition),
                step: self.copy(&c.step),
                result: self.copy(&c.result),
                var: c.var.clone(),
                var2: c.var2.clone(),
                accu: c.accu.clone(),
            })),
            other => other.clone(),
        };
        Expr { id, kind }
    }

    /// `accumulator + 1 == …`, `accumulator && …` and so on.
    fn with_accumulator(&mut self, function: &str, other: Expr) -> Expr {
        let accumulator = self.accumulator();
        self.call(function, vec![accumulator, other])
    }

    /// A value under a name.
    fn bind(&mut self, name: Str, init: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        self.comprehension(Comprehension {
            range,
            var: UNUSED.into(),
            var2: None,
            accu: name,
            init,
            condition,
            step,
            result,
        })
    }
}

/// The name, if the node is one.
pub(crate) fn extract_ident(expr: &Expr) -> Option<&Str> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name),
        _ => None,
    }
}

fn variable(arg: &Expr, otherwise: &str) -> Result<Str, MacroError> {
    let name = extract_ident(arg).ok_or_else(|| MacroError::new(arg, otherwise))?;
    if name == ACCUMULATOR || name == OLD_ACCUMULATOR {
        return Err(MacroError::new(arg, "iteration variable overwrites accumulator variable"));
    }
    Ok(name.clone())
}

type Made = Result<Expansion, MacroError>;

/// The arguments of a macro, whose number was checked before.
fn take<const N: usize>(args: Vec<Expr>) -> Result<[Expr; N], MacroError> {
    args.try_into().map_err(|_| MacroError { id: 0, message: "wrong number of arguments".to_owned() })
}

fn target_of(target: Option<Expr>) -> Result<Expr, MacroError> {
    target.ok_or_else(|| MacroError { id: 0, message: "no target".to_owned() })
}

fn has(ctx: &mut MacroContext<'_>, _: Option<Expr>, args: Vec<Expr>) -> Made {
    let [arg] = take(args)?;
    match arg.kind {
        ExprKind::Select { operand, field, .. } => {
            Ok(Expansion::Done(ctx.node(ExprKind::Select { operand, field, test: true })))
        }
        _ => Err(MacroError { id: arg.id, message: "invalid argument to has() macro".to_owned() }),
    }
}

/// What the three macros that test elements have in common.
struct Quantifier {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

#[derive(Clone, Copy)]
enum Tests {
    All,
    Exists,
    ExistsOne,
}

impl Tests {
    fn loop_of(self, ctx: &mut MacroContext<'_>, predicate: Expr) -> Quantifier {
        match self {
            Tests::All => {
                let init = ctx.literal(Literal::Bool(true));
                let accumulator = ctx.accumulator();
                let condition = ctx.call("@not_strictly_false", vec![accumulator]);
                let step = ctx.with_accumulator("_&&_", predicate);
                Quantifier { init, condition, step, result: ctx.accumulator() }
            }
            Tests::Exists => {
                let init = ctx.literal(Literal::Bool(false));
                let accumulator = ctx.accumulator();
                let not = ctx.call("!_", vec![accumulator]);
                let condition = ctx.call("@not_strictly_false", vec![not]);
                let step = ctx.with_accumulator("_||_", predicate);
                Quantifier { init, condition, step, result: ctx.accumulator() }
            }
            Tests::ExistsOne => {
                let init = ctx.literal(Literal::Int(0));
                let condition = ctx.literal(Literal::Bool(true));
                let (accumulator, one) = (ctx.accumulator(), ctx.literal(Literal::Int(1)));
                let more = ctx.call("_+_", vec![accumulator, one]);
                let same = ctx.accumulator();
                let step = ctx.call("_?_:_", vec![predicate, more, same]);
                let (accumulator, one) = (ctx.accumulator(), ctx.literal(Literal::Int(1)));
                let result = ctx.call("_==_", vec![accumulator, one]);
                Quantifier { init, condition, step, result }
            }
        }
    }

    fn over_one(self, ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
        let [var, predicate] = take(args)?;
        let var = variable(&var, "argument must be a simple name")?;
        self.expand(ctx, target, var, None, predicate)
    }

    fn over_two(self, ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
        let [first, second, predicate] = take(args)?;
        let (var, var2) = variables(&first, &second)?;
        self.expand(ctx, target, var, Some(var2), predicate)
    }

    fn expand(
        self,
        ctx: &mut MacroContext<'_>,
        target: Option<Expr>,
        var: Str,
        var2: Option<Str>,
        predicate: Expr,
    ) -> Made {
        let range = target_of(target)?;
        let Quantifier { init, condition, step, result } = self.loop_of(ctx, predicate);
        let accu = ACCUMULATOR.into();
        let comprehension = Comprehension { range, var, var2, accu, init, condition, step, result };
        Ok(Expansion::Done(ctx.comprehension(comprehension)))
    }
}

/// The two variables of a loop over keys and values.
fn variables(first: &Expr, second: &Expr) -> Result<(Str, Str), MacroError> {
    const SIMPLE: &str = "argument must be a simple name";
    let a = extract_ident(first).ok_or_else(|| MacroError::new(first, SIMPLE))?;
    let b = extract_ident(second).ok_or_else(|| MacroError::new(second, SIMPLE))?;
    if a == b {
        return Err(MacroError::new(second, format!("duplicate variable name: {a}")));
    }
    Ok((variable(first, SIMPLE)?, variable(second, SIMPLE)?))
}

/// A loop that goes over everything, from an empty list or map.
fn gather(
    ctx: &mut MacroContext<'_>,
    range: Expr,
    (var, var2): (Str, Option<Str>),
    init: Expr,
    condition: Expr,
    step: Expr,
) -> Made {
    let result = ctx.accumulator();
    let accu = ACCUMULATOR.into();
    Ok(Expansion::Done(ctx.comprehension(Comprehension { range, var, var2, accu, init, condition, step, result })))
}

/// `filter ? step : accumulator`, or the step alone.
fn filtered(ctx: &mut MacroContext<'_>, filter: Option<Expr>, step: Expr) -> Expr {
    match filter {
        None => step,
        Some(filter) => {
            let same = ctx.accumulator();
            ctx.call("_?_:_", vec![filter, step, same])
        }
    }
}

/// `target.map(var, transform)` and `target.map(var, filter, transform)`.
pub(crate) fn map(ctx: &mut MacroContext<'_>, target: Option<Expr>, mut args: Vec<Expr>) -> Made {
    let filter = (args.len() == 3).then(|| args.remove(1));
    let [var, transform] = take(args)?;
    let var = variable(&var, "argument is not an identifier")?;
    let range = target_of(target)?;
    let init = ctx.list(Vec::new());
    let condition = ctx.literal(Literal::Bool(true));
    let accumulator = ctx.accumulator();
    let one = ctx.list(vec![transform]);
    let step = ctx.call("_+_", vec![accumulator, one]);
    let step = filtered(ctx, filter, step);
    gather(ctx, range, (var, None), init, condition, step)
}

fn filter(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
    let [element, predicate] = take(args)?;
    let var = variable(&element, "argument is not an identifier")?;
    let range = target_of(target)?;
    let init = ctx.list(Vec::new());
    let condition = ctx.literal(Literal::Bool(true));
    let accumulator = ctx.accumulator();
    let one = ctx.list(vec![element]);
    let step = ctx.call("_+_", vec![accumulator, one]);
    let step = filtered(ctx, Some(predicate), step);
    gather(ctx, range, (var, None), init, condition, step)
}

/// What `transformList`, `transformMap` and `transformMapEntry` have in common.
fn transform(
    ctx: &mut MacroContext<'_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    to_list: bool,
    step: fn(&mut MacroContext<'_>, &Str, Expr) -> Expr,
) -> Made {
    let filter = (args.len() == 4).then(|| args.remove(2));
    let [first, second, transform] = take(args)?;
    let (var, var2) = variables(&first, &second)?;
    let range = target_of(target)?;
    let step = step(ctx, &var, transform);
    let step = filtered(ctx, filter, step);
    let init = if to_list { ctx.list(Vec::new()) } else { ctx.map() };
    let condition = ctx.literal(Literal::Bool(true));
    gather(ctx, range, (var, Some(var2)), init, condition, step)
}

fn transform_list(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
    transform(ctx, target, args, true, |ctx, _, element| {
        let accumulator = ctx.accumulator();
        let one = ctx.list(vec![element]);
        ctx.call("_+_", vec![accumulator, one])
    })
}

fn transform_map(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
    transform(ctx, target, args, false, |ctx, var, value| {
        let (accumulator, key) = (ctx.accumulator(), ctx.ident(var));
        ctx.call("cel.@mapInsert", vec![accumulator, key, value])
    })
}

fn transform_map_entry(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
    transform(ctx, target, args, false, |ctx, _, entry| ctx.with_accumulator("cel.@mapInsert", entry))
}

/// `if target has a value: make(value under the name), else none`.
fn opt_map(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>, name: &str, wrap: bool) -> Made {
    let [var, transform] = take(args)?;
    let message = || MacroError::new(&var, format!("{name}() variable name must be a simple identifier"));
    let var = extract_ident(&var).ok_or_else(message)?.clone();
    let target = target_of(target)?;
    let again = target.clone();
    let has_value = ctx.member_call("hasValue", target, Vec::new());
    // The loop around nothing is made by hand, since the order of the parts decides their numbers.
    let range = ctx.list(Vec::new());
    let copy = ctx.copy(&again);
    let init = ctx.member_call("value", copy, Vec::new());
    let condition = ctx.literal(Literal::Bool(false));
    let step = ctx.ident(&var);
    let bound = ctx.comprehension(Comprehension {
        range,
        var: UNUSED.into(),
        var2: None,
        accu: var,
        init,
        condition,
        step,
        result: transform,
    });
    let some = if wrap { ctx.call("optional.of", vec![bound]) } else { bound };
    let none = ctx.call("optional.none", Vec::new());
    Ok(Expansion::Done(ctx.call("_?_:_", vec![has_value, some, none])))
}

fn cel_bind(ctx: &mut MacroContext<'_>, target: Option<Expr>, args: Vec<Expr>) -> Made {
    if target.as_ref().and_then(extract_ident).is_none_or(|name| name != "cel") {
        return Ok(Expansion::Declined { target, args });
    }
    let [var, init, result] = take(args)?;
    let message = || MacroError::new(&var, "cel.bind() variable names must be simple identifiers");
    let name = extract_ident(&var).ok_or_else(message)?.clone();
    Ok(Expansion::Done(ctx.bind(name, init, result)))
}

const fn receiver(function: &'static str, arity: usize, expand: Expander) -> Macro {
    Macro { function, receiver: true, arity, expand }
}

/// `has`, `all`, `exists`, `exists_one`, `map`, `filter`, and those with two variables.
pub(crate) fn standard_macros() -> Vec<Macro> {
    vec![
        Macro { function: "has", receiver: false, arity: 1, expand: has },
        receiver("all", 2, |ctx, target, args| Tests::All.over_one(ctx, target, args)),
        receiver("exists", 2, |ctx, target, args| Tests::Exists.over_one(ctx, target, args)),
        receiver("exists_one", 2, |ctx, target, args| Tests::ExistsOne.over_one(ctx, target, args)),
        receiver("map", 2, map),
        receiver("map", 3, map),
        receiver("filter", 2, filter),
        receiver("all", 3, |ctx, target, args| Tests::All.over_two(ctx, target, args)),
        receiver("exists", 3, |ctx, target, args| Tests::Exists.over_two(ctx, target, args)),
        receiver("exists_one", 3, |ctx, target, args| Tests::ExistsOne.over_two(ctx, target, args)),
        receiver("existsOne", 3, |ctx, target, args| Tests::ExistsOne.over_two(ctx, target, args)),
        receiver("transformList", 3, transform_list),
        receiver("transformList", 4, transform_list),
        receiver("transformMap", 3, transform_map),
        receiver("transformMap", 4, transform_map),
        receiver("transformMapEntry", 3, transform_map_entry),
        receiver("transformMapEntry", 4, transform_map_entry),
    ]
}

/// `optMap` and `optFlatMap`.
pub(crate) fn optional_macros() -> Vec<Macro> {
    vec![
        receiver("optMap", 2, |ctx, target, args| opt_map(ctx, target, args, "optMap", true)),
        receiver("optFlatMap", 2, |ctx, target, args| opt_map(ctx, target, args, "optFlatMap", false)),
    ]
}

/// `cel.bind`, which Kubernetes does not enable.
pub(crate) fn bind_macro() -> Macro {
    receiver("bind", 3, cel_bind)
}
