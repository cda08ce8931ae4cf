//! Macros: calls that the parser expands, mostly to comprehensions. New nodes get their ids in cel-go's order
//! (upstream: cel-go `parser/macro.go`).

use pintle_value::Str;

use super::ast::{Comprehension, EntryExpr, Expr, ExprId, ExprKind, Literal, SourceInfo};

/// The accumulator variable of standard comprehensions. It is not a valid identifier in source text.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The accumulator's name in earlier versions of cel-go, which is still reserved.
const LEGACY_ACCUMULATOR: &str = "__result__";
/// The iteration variable of a comprehension without iterations.
pub(crate) const UNUSED_ITER_VAR: &str = "#unused";

/// A macro: the calls it applies to and its expander.
#[derive(Clone, Copy, Debug)]
pub struct Macro {
    /// The name of the function.
    pub function: &'static str,
    /// True for member calls.
    pub is_member: bool,
    /// The number of arguments.
    pub arg_count: usize,
    /// The expander.
    pub expand: MacroExpander,
}

/// Expands a call.
pub type MacroExpander = fn(&mut MacroExprFactory<'_>, Option<Expr>, Vec<Expr>) -> Result<MacroExpansion, MacroError>;

impl Macro {
    pub(super) fn find(macros: &[Macro], function: &str, is_member: bool, arg_count: usize) -> Option<MacroExpander> {
        // Libraries that are added later take precedence.
        let found = macros
            .iter()
            .rev()
            .find(|m| m.arg_count == arg_count && m.is_member == is_member && m.function == function);
        found.map(|found| found.expand)
    }
}

/// The result of a macro expander.
pub enum MacroExpansion {
    /// The new expression.
    Expanded(Expr),
    /// The macro does not apply; the call is left as it is.
    NotApplicable {
        /// The target of the call.
        target: Option<Expr>,
        /// The arguments of the call.
        args: Vec<Expr>,
    },
}

/// An error in the arguments of a macro.
pub struct MacroError {
    /// The node that causes the error.
    pub id: ExprId,
    /// The message.
    pub message: String,
}

impl MacroError {
    fn new(node: &Expr, message: impl Into<String>) -> Self {
        Self { id: node.id, message: message.into() }
    }
}

/// Creates nodes. All of them get the location of the macro call (upstream: `cel.MacroExprFactory`).
pub struct MacroExprFactory<'p> {
    source_info: &'p mut SourceInfo,
    next_id: &'p mut ExprId,
    offset: Option<u32>,
}

impl<'p> MacroExprFactory<'p> {
    pub(super) fn new(source_info: &'p mut SourceInfo, next_id: &'p mut ExprId, offset: Option<u32>) -> Self {
        Self { source_info, next_id, offset }
    }

    fn id(&mut self, offset: Option<u32>) -> ExprId {
        let id = *self.next_id;
        self.source_info.set(id, offset);
        *self.next_id += 1;
        id
    }

    fn node(&mut self, kind: ExprKind) -> Expr {
        Expr { id: self.id(self.offset), kind }
    }

    /// Creates a constant.
    pub fn literal(&mut self, literal: Literal) -> Expr {
        self.node(ExprKind::Literal(literal))
    }

    /// Creates an identifier.
    pub fn ident(&mut self, name: &str) -> Expr {
        self.node(ExprKind::Ident(name.into()))
    }

    /// Creates a reference to the accumulator variable.
    pub fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    /// Creates a list.
    pub fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.node(ExprKind::List { elements, optional: Vec::new() })
    }

    /// Creates an empty map.
    pub fn map(&mut self) -> Expr {
        self.node(ExprKind::Map(Vec::new()))
    }

    /// Creates a call of a global function or an operator.
    pub fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call { target: None, function: function.into(), args })
    }

    /// Creates a member call.
    pub fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.node(ExprKind::Call { target: Some(Box::new(target)), function: function.into(), args })
    }

    /// Creates a comprehension.
    pub fn comprehension(&mut self, comprehension: Comprehension) -> Expr {
        self.node(ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// Copies an expression. The copy has new ids and the locations of the original.
    pub fn copy(&mut self, expr: &Expr) -> Expr {
        let id = self.id(self.source_info.offset(expr.id));
        let kind = match &expr.kind {
            ExprKind::Select { operand, field, test_only } => {
                ExprKind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test_only: *test_only }
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
                        let id = self.id(self.offset);
                        let (key, value) = (self.copy(&entry.key), self.copy(&entry.value));
                        EntryExpr { id, key, value, optional: entry.optional }
                    })
                    .collect(),
            ),
            ExprKind::Struct { name, fields } => {
                let fields = fields
                    .iter()
                    .map(|field| {
                        let id = self.id(self.offset);
                        EntryExpr {
                            id,
                            key: field.key.clone(),
                            value: self.copy(&field.value),
                            optional: field.optional,
                        }
                    })
                    .collect();
                ExprKind::Struct { name: name.clone(), fields }
            }
            ExprKind::Comprehension(c) => ExprKind::Comprehension(Box::new(Comprehension {
                iter_range: self.copy(&c.iter_range),
                accu_init: self.copy(&c.accu_init),
                loop_condition: self.copy(&c.loop_condition),
                loop_step: self.copy(&c.loop_step),
                result: self.copy(&c.result),
                iter_var: c.iter_var.clone(),
                iter_var2: c.iter_var2.clone(),
                accu_var: c.accu_var.clone(),
            })),
            other => other.clone(),
        };
        Expr { id, kind }
    }

    /// Creates a call with the accumulator as the first argument.
    fn with_accumulator(&mut self, function: &str, other: Expr) -> Expr {
        let accumulator = self.accumulator();
        self.call(function, vec![accumulator, other])
    }

    /// Creates a comprehension that binds a variable.
    fn bind(&mut self, name: Str, accu_init: Expr, result: Expr) -> Expr {
        let iter_range = self.list(Vec::new());
        let loop_condition = self.literal(Literal::Bool(false));
        let loop_step = self.ident(&name);
        self.comprehension(Comprehension {
            iter_range,
            iter_var: UNUSED_ITER_VAR.into(),
            iter_var2: None,
            accu_var: name,
            accu_init,
            loop_condition,
            loop_step,
            result,
        })
    }
}

/// Returns the name if the expression is an identifier.
pub(crate) fn extract_ident(expr: &Expr) -> Option<&Str> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name),
        _ => None,
    }
}

fn iter_var_name(arg: &Expr, otherwise: &str) -> Result<Str, MacroError> {
    let name = extract_ident(arg).ok_or_else(|| MacroError::new(arg, otherwise))?;
    if name == ACCUMULATOR || name == LEGACY_ACCUMULATOR {
        return Err(MacroError::new(arg, "iteration variable overwrites accumulator variable"));
    }
    Ok(name.clone())
}

type ExpansionResult = Result<MacroExpansion, MacroError>;

/// Converts the arguments to an array. The parser has checked their number.
fn exact_args<const N: usize>(args: Vec<Expr>) -> Result<[Expr; N], MacroError> {
    args.try_into().map_err(|_| MacroError { id: 0, message: "wrong number of arguments".to_owned() })
}

fn required_target(target: Option<Expr>) -> Result<Expr, MacroError> {
    target.ok_or_else(|| MacroError { id: 0, message: "no target".to_owned() })
}

fn has(factory: &mut MacroExprFactory<'_>, _: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    let [arg] = exact_args(args)?;
    match arg.kind {
        ExprKind::Select { operand, field, .. } => {
            Ok(MacroExpansion::Expanded(factory.node(ExprKind::Select { operand, field, test_only: true })))
        }
        _ => Err(MacroError { id: arg.id, message: "invalid argument to has() macro".to_owned() }),
    }
}

/// The parts of a comprehension in which `all`, `exists` and `exists_one` differ.
struct QuantifierLoop {
    accu_init: Expr,
    loop_condition: Expr,
    loop_step: Expr,
    result: Expr,
}

#[derive(Clone, Copy)]
enum QuantifierKind {
    All,
    Exists,
    ExistsOne,
}

impl QuantifierKind {
    fn loop_parts(self, factory: &mut MacroExprFactory<'_>, predicate: Expr) -> QuantifierLoop {
        match self {
            QuantifierKind::All => {
                let accu_init = factory.literal(Literal::Bool(true));
                let accumulator = factory.accumulator();
                let loop_condition = factory.call("@not_strictly_false", vec![accumulator]);
                let loop_step = factory.with_accumulator("_&&_", predicate);
                QuantifierLoop { accu_init, loop_condition, loop_step, result: factory.accumulator() }
            }
            QuantifierKind::Exists => {
                let accu_init = factory.literal(Literal::Bool(false));
                let accumulator = factory.accumulator();
                let not = factory.call("!_", vec![accumulator]);
                let loop_condition = factory.call("@not_strictly_false", vec![not]);
                let loop_step = factory.with_accumulator("_||_", predicate);
                QuantifierLoop { accu_init, loop_condition, loop_step, result: factory.accumulator() }
            }
            QuantifierKind::ExistsOne => {
                let accu_init = factory.literal(Literal::Int(0));
                let loop_condition = factory.literal(Literal::Bool(true));
                let (accumulator, one) = (factory.accumulator(), factory.literal(Literal::Int(1)));
                let more = factory.call("_+_", vec![accumulator, one]);
                let same = factory.accumulator();
                let loop_step = factory.call("_?_:_", vec![predicate, more, same]);
                let (accumulator, one) = (factory.accumulator(), factory.literal(Literal::Int(1)));
                let result = factory.call("_==_", vec![accumulator, one]);
                QuantifierLoop { accu_init, loop_condition, loop_step, result }
            }
        }
    }

    fn expand_one_var(
        self,
        factory: &mut MacroExprFactory<'_>,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> ExpansionResult {
        let [iter_var, predicate] = exact_args(args)?;
        let iter_var = iter_var_name(&iter_var, "argument must be a simple name")?;
        self.expand(factory, target, iter_var, None, predicate)
    }

    fn expand_two_var(
        self,
        factory: &mut MacroExprFactory<'_>,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> ExpansionResult {
        let [first, second, predicate] = exact_args(args)?;
        let (iter_var, iter_var2) = iter_var_names(&first, &second)?;
        self.expand(factory, target, iter_var, Some(iter_var2), predicate)
    }

    fn expand(
        self,
        factory: &mut MacroExprFactory<'_>,
        target: Option<Expr>,
        iter_var: Str,
        iter_var2: Option<Str>,
        predicate: Expr,
    ) -> ExpansionResult {
        let iter_range = required_target(target)?;
        let QuantifierLoop { accu_init, loop_condition, loop_step, result } = self.loop_parts(factory, predicate);
        let accu_var = ACCUMULATOR.into();
        let comprehension =
            Comprehension { iter_range, iter_var, iter_var2, accu_var, accu_init, loop_condition, loop_step, result };
        Ok(MacroExpansion::Expanded(factory.comprehension(comprehension)))
    }
}

/// The names of the two iteration variables.
fn iter_var_names(first: &Expr, second: &Expr) -> Result<(Str, Str), MacroError> {
    const MESSAGE: &str = "argument must be a simple name";
    let a = extract_ident(first).ok_or_else(|| MacroError::new(first, MESSAGE))?;
    let b = extract_ident(second).ok_or_else(|| MacroError::new(second, MESSAGE))?;
    if a == b {
        return Err(MacroError::new(second, format!("duplicate variable name: {a}")));
    }
    Ok((iter_var_name(first, MESSAGE)?, iter_var_name(second, MESSAGE)?))
}

/// Creates a comprehension whose result is the accumulator.
fn accumulate(
    factory: &mut MacroExprFactory<'_>,
    iter_range: Expr,
    (iter_var, iter_var2): (Str, Option<Str>),
    accu_init: Expr,
    loop_condition: Expr,
    loop_step: Expr,
) -> ExpansionResult {
    let result = factory.accumulator();
    let accu_var = ACCUMULATOR.into();
    Ok(MacroExpansion::Expanded(factory.comprehension(Comprehension {
        iter_range,
        iter_var,
        iter_var2,
        accu_var,
        accu_init,
        loop_condition,
        loop_step,
        result,
    })))
}

/// `filter ? step : accumulator`, or the step alone.
fn filtered_step(factory: &mut MacroExprFactory<'_>, filter: Option<Expr>, loop_step: Expr) -> Expr {
    match filter {
        None => loop_step,
        Some(filter) => {
            let same = factory.accumulator();
            factory.call("_?_:_", vec![filter, loop_step, same])
        }
    }
}

/// `target.map(var, transform)` and `target.map(var, filter, transform)`.
pub(crate) fn map(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, mut args: Vec<Expr>) -> ExpansionResult {
    let filter = (args.len() == 3).then(|| args.remove(1));
    let [iter_var, transform] = exact_args(args)?;
    let iter_var = iter_var_name(&iter_var, "argument is not an identifier")?;
    let iter_range = required_target(target)?;
    let accu_init = factory.list(Vec::new());
    let loop_condition = factory.literal(Literal::Bool(true));
    let accumulator = factory.accumulator();
    let one = factory.list(vec![transform]);
    let loop_step = factory.call("_+_", vec![accumulator, one]);
    let loop_step = filtered_step(factory, filter, loop_step);
    accumulate(factory, iter_range, (iter_var, None), accu_init, loop_condition, loop_step)
}

fn filter(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    let [element, predicate] = exact_args(args)?;
    let iter_var = iter_var_name(&element, "argument is not an identifier")?;
    let iter_range = required_target(target)?;
    let accu_init = factory.list(Vec::new());
    let loop_condition = factory.literal(Literal::Bool(true));
    let accumulator = factory.accumulator();
    let one = factory.list(vec![element]);
    let loop_step = factory.call("_+_", vec![accumulator, one]);
    let loop_step = filtered_step(factory, Some(predicate), loop_step);
    accumulate(factory, iter_range, (iter_var, None), accu_init, loop_condition, loop_step)
}

/// Expands `transformList`, `transformMap` and `transformMapEntry`.
fn transform(
    factory: &mut MacroExprFactory<'_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    to_list: bool,
    loop_step: fn(&mut MacroExprFactory<'_>, &Str, Expr) -> Expr,
) -> ExpansionResult {
    let filter = (args.len() == 4).then(|| args.remove(2));
    let [first, second, transform] = exact_args(args)?;
    let (iter_var, iter_var2) = iter_var_names(&first, &second)?;
    let iter_range = required_target(target)?;
    let loop_step = loop_step(factory, &iter_var, transform);
    let loop_step = filtered_step(factory, filter, loop_step);
    let accu_init = if to_list { factory.list(Vec::new()) } else { factory.map() };
    let loop_condition = factory.literal(Literal::Bool(true));
    accumulate(factory, iter_range, (iter_var, Some(iter_var2)), accu_init, loop_condition, loop_step)
}

fn transform_list(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    transform(factory, target, args, true, |factory, _, element| {
        let accumulator = factory.accumulator();
        let one = factory.list(vec![element]);
        factory.call("_+_", vec![accumulator, one])
    })
}

fn transform_map(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    transform(factory, target, args, false, |factory, iter_var, value| {
        let (accumulator, key) = (factory.accumulator(), factory.ident(iter_var));
        factory.call("cel.@mapInsert", vec![accumulator, key, value])
    })
}

fn transform_map_entry(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    transform(factory, target, args, false, |factory, _, entry| factory.with_accumulator("cel.@mapInsert", entry))
}

/// Expands `optMap` and `optFlatMap`: `target.hasValue() ? optional.of(transform) : optional.none()`.
fn opt_map(
    factory: &mut MacroExprFactory<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
    name: &str,
    wrap: bool,
) -> ExpansionResult {
    let [var, transform] = exact_args(args)?;
    let message = || MacroError::new(&var, format!("{name}() variable name must be a simple identifier"));
    let var = extract_ident(&var).ok_or_else(message)?.clone();
    let target = required_target(target)?;
    let again = target.clone();
    let has_value = factory.member_call("hasValue", target, Vec::new());
    // Does not use `bind`, since the order in which the nodes are created determines their ids.
    let iter_range = factory.list(Vec::new());
    let copy = factory.copy(&again);
    let accu_init = factory.member_call("value", copy, Vec::new());
    let loop_condition = factory.literal(Literal::Bool(false));
    let loop_step = factory.ident(&var);
    let bound = factory.comprehension(Comprehension {
        iter_range,
        iter_var: UNUSED_ITER_VAR.into(),
        iter_var2: None,
        accu_var: var,
        accu_init,
        loop_condition,
        loop_step,
        result: transform,
    });
    let some = if wrap { factory.call("optional.of", vec![bound]) } else { bound };
    let none = factory.call("optional.none", Vec::new());
    Ok(MacroExpansion::Expanded(factory.call("_?_:_", vec![has_value, some, none])))
}

fn cel_bind(factory: &mut MacroExprFactory<'_>, target: Option<Expr>, args: Vec<Expr>) -> ExpansionResult {
    if target.as_ref().and_then(extract_ident).is_none_or(|name| name != "cel") {
        return Ok(MacroExpansion::NotApplicable { target, args });
    }
    let [var, init, result] = exact_args(args)?;
    let message = || MacroError::new(&var, "cel.bind() variable names must be simple identifiers");
    let name = extract_ident(&var).ok_or_else(message)?.clone();
    Ok(MacroExpansion::Expanded(factory.bind(name, init, result)))
}

const fn member_macro(function: &'static str, arg_count: usize, expand: MacroExpander) -> Macro {
    Macro { function, is_member: true, arg_count, expand }
}

/// `has`, `all`, `exists`, `exists_one`, `map`, `filter`, and the two-variable macros.
pub(crate) fn standard_macros() -> Vec<Macro> {
    vec![
        Macro { function: "has", is_member: false, arg_count: 1, expand: has },
        member_macro("all", 2, |factory, target, args| QuantifierKind::All.expand_one_var(factory, target, args)),
        member_macro("exists", 2, |factory, target, args| QuantifierKind::Exists.expand_one_var(factory, target, args)),
        member_macro("exists_one", 2, |factory, target, args| {
            QuantifierKind::ExistsOne.expand_one_var(factory, target, args)
        }),
        member_macro("map", 2, map),
        member_macro("map", 3, map),
        member_macro("filter", 2, filter),
        member_macro("all", 3, |factory, target, args| QuantifierKind::All.expand_two_var(factory, target, args)),
        member_macro("exists", 3, |factory, target, args| QuantifierKind::Exists.expand_two_var(factory, target, args)),
        member_macro("exists_one", 3, |factory, target, args| {
            QuantifierKind::ExistsOne.expand_two_var(factory, target, args)
        }),
        member_macro("existsOne", 3, |factory, target, args| {
            QuantifierKind::ExistsOne.expand_two_var(factory, target, args)
        }),
        member_macro("transformList", 3, transform_list),
        member_macro("transformList", 4, transform_list),
        member_macro("transformMap", 3, transform_map),
        member_macro("transformMap", 4, transform_map),
        member_macro("transformMapEntry", 3, transform_map_entry),
        member_macro("transformMapEntry", 4, transform_map_entry),
    ]
}

/// `optMap` and `optFlatMap`.
pub(crate) fn optional_macros() -> Vec<Macro> {
    vec![
        member_macro("optMap", 2, |factory, target, args| opt_map(factory, target, args, "optMap", true)),
        member_macro("optFlatMap", 2, |factory, target, args| opt_map(factory, target, args, "optFlatMap", false)),
    ]
}

/// `cel.bind`, which Kubernetes does not enable.
pub(crate) fn bind_macro() -> Macro {
    member_macro("bind", 3, cel_bind)
}
