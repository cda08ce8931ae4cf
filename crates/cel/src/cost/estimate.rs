//! What an expression may cost, before it is evaluated. After cel-go's `checker/cost.go`.

use std::collections::HashMap;

use pintle_value::Str;

use super::{CostEstimate, LIST_COST, MAP_COST, PER_CHARACTER, PER_PATTERN_CHARACTER, STRUCT_COST, SizeEstimate};
use crate::check::Checked;
use crate::env::Env;
use crate::syntax::{Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::types::Type;

/// What is known of the sizes of values.
pub trait Sizes {
    /// The size of the value at a path: the name of a variable, then fields, with `@items` for the elements of a
    /// list, `@keys` and `@values` for those of a map. `None` if nothing is known.
    fn size(&self, path: &[Str], t: &Type) -> Option<SizeEstimate>;
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownSizes;

impl Sizes for UnknownSizes {
    fn size(&self, _: &[Str], _: &Type) -> Option<SizeEstimate> {
        None
    }
}

/// What a call may cost, and how large its result may be.
#[derive(Clone, Copy, Debug)]
pub struct CallEstimate {
    /// The cost of the call itself.
    pub cost: CostEstimate,
    /// The size of the result, if that is known.
    pub size: Option<SizeEstimate>,
}

impl CallEstimate {
    /// A cost, and nothing about the size.
    #[must_use]
    pub fn cost(cost: CostEstimate) -> Self {
        Self { cost, size: None }
    }

    /// A cost, and the size of the result.
    #[must_use]
    pub fn sized(cost: CostEstimate, size: SizeEstimate) -> Self {
        Self { cost, size: Some(size) }
    }
}

/// What is known of an argument.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Where its value comes from, if it is part of a variable.
    pub path: Vec<Str>,
    /// Its type.
    pub t: Type,
    /// The integer, if it is a constant one.
    pub int: Option<i64>,
    size: Option<SizeEstimate>,
}

/// What is known of the arguments of a call.
pub struct CallSizes<'c> {
    /// The overload.
    pub overload: &'c str,
    /// What it is called on.
    pub target: Option<&'c Operand>,
    /// The arguments.
    pub args: &'c [Operand],
    sizes: &'c dyn Sizes,
}

impl CallSizes<'_> {
    /// The size that is known without asking, such as that of a constant.
    #[must_use]
    pub fn known(&self, operand: &Operand) -> Option<SizeEstimate> {
        operand.size
    }

    /// How large an argument may be.
    #[must_use]
    pub fn size(&self, operand: &Operand) -> SizeEstimate {
        let known = operand.size.or_else(|| self.sizes.size(&operand.path, &operand.t));
        known.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The elements of an argument, if its type has parameters.
    #[must_use]
    pub fn elements(&self, operand: &Operand) -> Option<Operand> {
        let t = (*operand.t.parameters().first()?).clone();
        let mut path = operand.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        Some(Operand { path, t, int: None, size: None })
    }
}

/// Estimates a checked expression.
pub(crate) fn estimate(env: &Env, checked: &Checked, sizes: &dyn Sizes) -> CostEstimate {
    let mut estimator = Estimator {
        env,
        checked,
        sizes,
        paths: HashMap::new(),
        known: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&checked.expr)
}

/// The sizes of what is in a list or map.
#[derive(Clone, Copy)]
struct EntrySizes {
    is_list: bool,
    key: SizeEstimate,
    value: SizeEstimate,
}

impl EntrySizes {
    fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = (a?, b?);
        Some(Self { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}

struct Local {
    name: Str,
    path: Vec<Str>,
    size: Option<SizeEstimate>,
    entries: Option<EntrySizes>,
}

struct Estimator<'e> {
    env: &'e Env,
    checked: &'e Checked,
    sizes: &'e dyn Sizes,
    paths: HashMap<ExprId, Vec<Str>>,
    known: HashMap<ExprId, SizeEstimate>,
    entries: HashMap<ExprId, EntrySizes>,
    locals: Vec<Local>,
}

const ONE: CostEstimate = CostEstimate::fixed(1);

impl Estimator<'_> {
    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, expr: &Expr) -> Option<&Local> {
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name),
            _ => None,
        }
    }

    fn path(&self, expr: &Expr) -> Vec<Str> {
        match self.local_of(expr) {
            Some(local) => local.path.clone(),
            None => self.paths.get(&expr.id).cloned().unwrap_or_default(),
        }
    }

    fn set_path(&mut self, expr: &Expr, mut path: Vec<Str>, step: &str) {
        path.push(step.into());
        self.paths.insert(expr.id, path);
    }

    fn cost(&mut self, expr: &Expr) -> CostEstimate {
        match &expr.kind {
            ExprKind::Unspecified | ExprKind::Literal(_) => CostEstimate::default(),
            ExprKind::Ident(name) => {
                let path = self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                ONE
            }
            ExprKind::Select { operand, test: true, .. } => self.cost(operand),
            ExprKind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let path = self.path(operand);
                self.set_path(expr, path, field);
                match self.checked.type_of(operand) {
                    Type::Map(_) | Type::Object(_) => cost.plus(ONE),
                    _ => cost,
                }
            }
            ExprKind::Call { target, function, args } => self.call(expr, target.as_deref(), function, args),
            ExprKind::List { elements, .. } => {
                let mut cost = CostEstimate::fixed(LIST_COST);
                let mut value = none_yet(elements.is_empty());
                for element in elements {
                    cost = cost.plus(self.cost(element));
                    value = value.union(self.size_or_unknown(element));
                }
                self.entries.insert(expr.id, EntrySizes { is_list: true, key: SizeEstimate::fixed(1), value });
                cost
            }
            ExprKind::Map(entries) => {
                let mut cost = CostEstimate::fixed(MAP_COST);
                let (mut key, mut value) = (none_yet(entries.is_empty()), none_yet(entries.is_empty()));
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                cost
            }
            ExprKind::Struct { fields, .. } => {
                let cost = CostEstimate::fixed(STRUCT_COST);
                fields.iter().fold(cost, |cost, field| cost.plus(self.cost(&field.value)))
            }
            ExprKind::Comprehension(c) if c.is_bind() => self.bind(expr, c),
            ExprKind::Comprehension(c) => self.comprehension(expr, c),
        }
    }

    fn push_bound(&mut self, name: &Str, init: &Expr) {
        let path = self.path(init);
        let entries = self.entry_sizes(init);
        let size = self.size(init);
        self.locals.push(Local { name: name.clone(), path, size, entries });
    }

    /// Declares a variable for the keys or the values of what a loop goes over.
    fn push_iterator(&mut self, name: &Str, range: &Expr, wanted: Iterated) {
        let entries = self.entry_sizes(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let by_value = match wanted {
            Iterated::Key => false,
            Iterated::Value => true,
            Iterated::Only => is_list,
        };
        let step = match (by_value, is_list) {
            (false, false) => "@keys",
            (false, true) => "@indices",
            (true, false) => "@values",
            (true, true) => "@items",
        };
        let size = entries.map(|entries| if by_value { entries.value } else { entries.key });
        let mut path = self.path(range);
        path.push(step.into());
        self.locals.push(Local { name: name.clone(), path, size, entries: None });
    }

    fn bind(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let cost = self.cost(&c.range).plus(self.cost(&c.init));
        self.push_bound(&c.accu, &c.init);
        let cost = cost.plus(self.cost(&c.result));
        self.locals.pop();
        self.copy_sizes(expr, &c.result);
        cost
    }

    fn comprehension(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let cost = self.cost(&c.range).plus(self.cost(&c.init));
        let outer = self.locals.len();
        self.push_bound(&c.accu, &c.init);
        match &c.var2 {
            None => self.push_iterator(&c.var, &c.range, Iterated::Only),
            Some(var2) => {
                self.push_iterator(&c.var, &c.range, Iterated::Key);
                self.push_iterator(var2, &c.range, Iterated::Value);
            }
        }
        let condition = self.cost(&c.condition);
        let step = self.cost(&c.step);
        self.locals.truncate(outer + 1);
        let cost = cost.plus(self.cost(&c.result));
        self.locals.truncate(outer);
        let rounds = self.size_or_unknown(&c.range);
        match c.init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&c.init);
                self.set_size(expr, size);
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.set_size(expr, Some(rounds));
                let entries = self.entry_sizes(&c.step);
                self.set_entries(expr, entries);
            }
            _ => {}
        }
        cost.plus(rounds.times_cost(step.plus(condition)))
    }

    fn call(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> CostEstimate {
        if let ("dyn", [arg]) = (function, args) {
            let cost = self.cost(arg);
            self.copy_sizes(expr, arg);
            return cost.plus(ONE);
        }
        let mut arg_costs = Vec::with_capacity(args.len());
        let mut operands = Vec::with_capacity(args.len());
        for arg in args {
            arg_costs.push(self.cost(arg));
            operands.push(self.operand(arg));
        }
        let checked = self.checked;
        let overloads = checked.overloads_of(expr.id);
        if overloads.is_empty() {
            return CostEstimate::default();
        }
        let mut cost = CostEstimate::default();
        let target = target.map(|target| {
            cost = self.cost(target);
            self.operand(target)
        });
        let mut call_cost = CostEstimate { min: u64::MAX, max: 0 };
        let mut result: Option<SizeEstimate> = None;
        for overload in overloads {
            let call = Called { expr, overload, target: target.as_ref(), args, operands: &operands };
            let estimate = self.function(function, &call, &arg_costs);
            call_cost = call_cost.union(estimate.cost);
            if let Some(size) = estimate.size {
                result = Some(result.map_or(size, |before| before.union(size)));
            }
            if let ("index_list" | "index_map", Some(container)) = (*overload, args.first()) {
                result = self.entry_sizes(container).map(|entries| entries.value);
                let path = self.path(container);
                self.set_path(expr, path, if *overload == "index_list" { "@items" } else { "@values" });
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        self.set_size(expr, result);
        cost.plus(call_cost)
    }

    fn function(&mut self, function: &str, call: &Called<'_>, arg_costs: &[CostEstimate]) -> CallEstimate {
        let args = arg_costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost));
        let sizes = CallSizes { overload: call.overload, target: call.target, args: call.operands, sizes: self.sizes };
        let declared = self.env.function_named(function);
        let overload = declared.and_then(|f| f.overloads.iter().find(|overload| overload.id == call.overload));
        let by_overload = overload.and_then(|overload| overload.estimate).and_then(|estimate| estimate(&sizes));
        let by_function = || declared.and_then(|f| f.estimate).and_then(|estimate| estimate(&sizes));
        if let Some(estimate) = by_overload.or_else(by_function) {
            return CallEstimate { cost: estimate.cost.plus(args), size: estimate.size };
        }
        self.standard(call, arg_costs, args)
    }

    /// What the functions of the standard library may cost.
    fn standard(&mut self, call: &Called<'_>, arg_costs: &[CostEstimate], args: CostEstimate) -> CallEstimate {
        let known = |operand: &Operand| operand.size.unwrap_or(SizeEstimate::UNKNOWN);
        let of = |i: usize| call.operands.get(i).map_or(SizeEstimate::UNKNOWN, known);
        let walk = |size: SizeEstimate| size.per_unit(PER_CHARACTER).plus(args);
        match (call.overload, call.target, call.operands.len()) {
            ("string_format", Some(target), _) => CallEstimate::cost(walk(known(target))),
            ("string_to_bytes", _, 1) => {
                let size = of(0);
                let result = SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) };
                CallEstimate::sized(walk(size), result)
            }
            ("bytes_to_string", _, 1) => {
                let size = of(0);
                CallEstimate::sized(walk(size), SizeEstimate { min: size.min / 4, max: size.max })
            }
            ("strings_quote", _, 1) => {
                let size = of(0);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                CallEstimate::sized(walk(size), SizeEstimate { min: size.min.wrapping_add(2), max })
            }
            ("starts_with_string" | "ends_with_string", _, 1) => CallEstimate::cost(walk(of(0))),
            ("in_list", _, 2) => CallEstimate::cost(of(1).per_unit(1.0).plus(args)),
            ("matches_string", Some(target), 1) => {
                CallEstimate::cost(regex(known(target), of(0).per_unit(PER_PATTERN_CHARACTER)).plus(args))
            }
            ("contains_string", Some(target), 1) => {
                let (text, part) = (known(target).per_unit(PER_CHARACTER), of(0).per_unit(PER_CHARACTER));
                CallEstimate::cost(text.times(part).plus(args))
            }
            ("logical_or" | "logical_and", _, _) => {
                let [a, b] = arg_costs else { return CallEstimate::cost(args.plus(ONE)) };
                CallEstimate::cost(CostEstimate { min: a.min, max: a.plus(*b).max })
            }
            ("conditional", _, _) => {
                let ([condition, truthy, falsy], [_, a, b]) = (arg_costs, call.args) else {
                    return CallEstimate::cost(args.plus(ONE));
                };
                let entries = EntrySizes::union(self.entry_sizes(a), self.entry_sizes(b));
                self.set_entries(call.expr, entries);
                CallEstimate::sized(condition.plus(truthy.union(*falsy)), of(1).union(of(2)))
            }
            (overload @ ("add_string" | "add_bytes" | "add_list"), _, 2) => {
                let size = of(0).plus(of(1));
                let entries = EntrySizes::union(self.entry_sizes(&call.args[0]), self.entry_sizes(&call.args[1]));
                self.set_entries(call.expr, entries);
                CallEstimate::sized(if overload == "add_list" { args.plus(ONE) } else { walk(size) }, size)
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                _,
            ) => {
                let max = of(0).max.min(of(1).max);
                CallEstimate::cost(walk(SizeEstimate { min: u64::from(max > 0), max }))
            }
            _ => CallEstimate::cost(args.plus(ONE)),
        }
    }

    fn operand(&mut self, expr: &Expr) -> Operand {
        let mut path = self.path(expr);
        if path.first().is_some_and(|root| root == "@result" || root == "__result__") {
            path.clear();
        }
        let int = match &expr.kind {
            ExprKind::Literal(Literal::Int(i)) => Some(*i),
            _ => None,
        };
        Operand { path, t: self.checked.type_of(expr).clone(), int, size: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.known.get(&expr.id).copied().or_else(|| own_size(expr)) {
            return Some(size);
        }
        let t = self.checked.type_of(expr);
        if let Some(size) = self.sizes.size(&self.path(expr), t) {
            self.known.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(t) {
            return Some(SizeEstimate::fixed(1));
        }
        self.local_of(expr).and_then(|local| local.size)
    }

    fn set_size(&mut self, expr: &Expr, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.known.insert(expr.id, size);
        }
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        let known = self.entries.get(&expr.id).copied();
        known.or_else(|| self.local_of(expr).and_then(|local| local.entries))
    }

    fn set_entries(&mut self, expr: &Expr, entries: Option<EntrySizes>) {
        if let Some(entries) = entries {
            self.entries.insert(expr.id, entries);
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        let size = self.size(from);
        self.set_size(to, size);
        let entries = self.entry_sizes(from);
        self.set_entries(to, entries);
    }
}

/// A call that is being estimated.
struct Called<'c> {
    expr: &'c Expr,
    overload: &'c str,
    target: Option<&'c Operand>,
    args: &'c [Expr],
    operands: &'c [Operand],
}

/// What a variable of a loop stands for.
enum Iterated {
    Key,
    Value,
    /// Elements of lists, keys of maps.
    Only,
}

/// The size to begin a union with.
fn none_yet(empty: bool) -> SizeEstimate {
    SizeEstimate { min: if empty { 0 } else { u64::MAX }, max: 0 }
}

/// A regular expression over a text. One is added to the text, since an empty one costs too.
pub(crate) fn regex(text: SizeEstimate, pattern: CostEstimate) -> CostEstimate {
    text.plus(SizeEstimate::fixed(1)).per_unit(PER_CHARACTER).times(pattern)
}

/// The size that shows in the expression itself.
fn own_size(expr: &Expr) -> Option<SizeEstimate> {
    let size = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List { elements, .. } => elements.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(SizeEstimate::fixed(size as u64))
}

fn is_scalar(t: &Type) -> bool {
    match t {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        other => match other.unwrapped() {
            (inner, true) => is_scalar(inner),
            _ => false,
        },
    }
}
