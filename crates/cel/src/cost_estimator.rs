//! Estimates the cost of an expression before it is evaluated (upstream: cel-go `checker/cost.go`).

use std::collections::HashMap;

use pintle_value::Str;

use crate::check::CheckedExpr;
use crate::cost::{
    AstNode, CallEstimate, CostEstimate, EstimatedCall, LIST_CREATE_BASE_COST, MAP_CREATE_BASE_COST,
    REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR, STRUCT_CREATE_BASE_COST, SizeEstimate,
    SizeEstimator, regex_cost_estimate,
};
use crate::env::Env;
use crate::syntax::{Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::types::Type;

/// Estimates the cost of a checked expression.
pub(crate) fn estimate_cost(env: &Env, checked: &CheckedExpr, sizes: &dyn SizeEstimator) -> CostEstimate {
    let mut estimator = Estimator {
        env,
        checked,
        sizes,
        paths: HashMap::new(),
        computed_sizes: HashMap::new(),
        computed_entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&checked.expr)
}

/// The sizes of the keys and values of a list or map.
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

struct LocalVar {
    name: Str,
    path: Vec<Str>,
    size: Option<SizeEstimate>,
    entries: Option<EntrySizes>,
}

struct Estimator<'e> {
    env: &'e Env,
    checked: &'e CheckedExpr,
    sizes: &'e dyn SizeEstimator,
    paths: HashMap<ExprId, Vec<Str>>,
    computed_sizes: HashMap<ExprId, SizeEstimate>,
    computed_entries: HashMap<ExprId, EntrySizes>,
    locals: Vec<LocalVar>,
}

const ONE: CostEstimate = CostEstimate::fixed(1);

impl Estimator<'_> {
    fn local(&self, name: &str) -> Option<&LocalVar> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn local_of(&self, expr: &Expr) -> Option<&LocalVar> {
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

    fn record_path(&mut self, expr: &Expr, mut path: Vec<Str>, step: &str) {
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
            ExprKind::Select { operand, test_only: true, .. } => self.cost(operand),
            ExprKind::Select { operand, field, .. } => {
                let cost = self.cost(operand);
                let path = self.path(operand);
                self.record_path(expr, path, field);
                match self.checked.type_of(operand) {
                    Type::Map(_) | Type::Object(_) => cost.plus(ONE),
                    _ => cost,
                }
            }
            ExprKind::Call { target, function, args } => self.call_cost(expr, target.as_deref(), function, args),
            ExprKind::List { elements, .. } => {
                let mut cost = CostEstimate::fixed(LIST_CREATE_BASE_COST);
                let mut value = union_start(elements.is_empty());
                for element in elements {
                    cost = cost.plus(self.cost(element));
                    value = value.union(self.size_or_unknown(element));
                }
                self.computed_entries.insert(expr.id, EntrySizes { is_list: true, key: SizeEstimate::fixed(1), value });
                cost
            }
            ExprKind::Map(entries) => {
                let mut cost = CostEstimate::fixed(MAP_CREATE_BASE_COST);
                let (mut key, mut value) = (union_start(entries.is_empty()), union_start(entries.is_empty()));
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.computed_entries.insert(expr.id, EntrySizes { is_list: false, key, value });
                cost
            }
            ExprKind::Struct { fields, .. } => {
                let cost = CostEstimate::fixed(STRUCT_CREATE_BASE_COST);
                fields.iter().fold(cost, |cost, field| cost.plus(self.cost(&field.value)))
            }
            ExprKind::Comprehension(c) if c.is_bind() => self.bind_cost(expr, c),
            ExprKind::Comprehension(c) => self.comprehension_cost(expr, c),
        }
    }

    fn push_variable(&mut self, name: &Str, init: &Expr) {
        let path = self.path(init);
        let entries = self.entry_sizes(init);
        let size = self.size(init);
        self.locals.push(LocalVar { name: name.clone(), path, size, entries });
    }

    /// Declares an iteration variable of a comprehension.
    fn push_iter_var(&mut self, name: &Str, range: &Expr, kind: IterVarKind) {
        let entries = self.entry_sizes(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let by_value = match kind {
            IterVarKind::Key => false,
            IterVarKind::Value => true,
            IterVarKind::Single => is_list,
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
        self.locals.push(LocalVar { name: name.clone(), path, size, entries: None });
    }

    fn bind_cost(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let cost = self.cost(&c.iter_range).plus(self.cost(&c.accu_init));
        self.push_variable(&c.accu_var, &c.accu_init);
        let cost = cost.plus(self.cost(&c.result));
        self.locals.pop();
        self.copy_sizes(expr, &c.result);
        cost
    }

    fn comprehension_cost(&mut self, expr: &Expr, c: &Comprehension) -> CostEstimate {
        let cost = self.cost(&c.iter_range).plus(self.cost(&c.accu_init));
        let outer = self.locals.len();
        self.push_variable(&c.accu_var, &c.accu_init);
        match &c.iter_var2 {
            None => self.push_iter_var(&c.iter_var, &c.iter_range, IterVarKind::Single),
            Some(var2) => {
                self.push_iter_var(&c.iter_var, &c.iter_range, IterVarKind::Key);
                self.push_iter_var(var2, &c.iter_range, IterVarKind::Value);
            }
        }
        let condition = self.cost(&c.loop_condition);
        let step = self.cost(&c.loop_step);
        self.locals.truncate(outer + 1);
        let cost = cost.plus(self.cost(&c.result));
        self.locals.truncate(outer);
        let iterations = self.size_or_unknown(&c.iter_range);
        match c.accu_init.kind {
            ExprKind::Literal(_) => {
                let size = self.size(&c.accu_init);
                self.record_size(expr, size);
            }
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.record_size(expr, Some(iterations));
                let entries = self.entry_sizes(&c.loop_step);
                self.record_entries(expr, entries);
            }
            _ => {}
        }
        cost.plus(iterations.times_cost(step.plus(condition)))
    }

    fn call_cost(&mut self, expr: &Expr, target: Option<&Expr>, function: &str, args: &[Expr]) -> CostEstimate {
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
            let call = CallSite { expr, overload, target: target.as_ref(), args, operands: &operands };
            let estimate = self.function_cost(function, &call, &arg_costs);
            call_cost = call_cost.union(estimate.cost);
            if let Some(size) = estimate.size {
                result = Some(result.map_or(size, |before| before.union(size)));
            }
            if let ("index_list" | "index_map", Some(container)) = (*overload, args.first()) {
                result = self.entry_sizes(container).map(|entries| entries.value);
                let path = self.path(container);
                self.record_path(expr, path, if *overload == "index_list" { "@items" } else { "@values" });
            }
            if result.is_none() {
                result = self.size(expr);
            }
        }
        self.record_size(expr, result);
        cost.plus(call_cost)
    }

    fn function_cost(&mut self, function: &str, call: &CallSite<'_>, arg_costs: &[CostEstimate]) -> CallEstimate {
        let args = arg_costs.iter().fold(CostEstimate::default(), |sum, cost| sum.plus(*cost));
        let sizes =
            EstimatedCall { overload: call.overload, target: call.target, args: call.operands, sizes: self.sizes };
        let declared = self.env.find_function(function);
        let overload = declared.and_then(|f| f.overloads.iter().find(|overload| overload.id == call.overload));
        let by_overload = overload.and_then(|overload| overload.cost_estimator).and_then(|estimate| estimate(&sizes));
        let by_function = || declared.and_then(|f| f.cost_estimator).and_then(|estimate| estimate(&sizes));
        if let Some(estimate) = by_overload.or_else(by_function) {
            return CallEstimate { cost: estimate.cost.plus(args), size: estimate.size };
        }
        self.standard_function_cost(call, arg_costs, args)
    }

    /// The cost of the functions of the standard library.
    fn standard_function_cost(
        &mut self,
        call: &CallSite<'_>,
        arg_costs: &[CostEstimate],
        args: CostEstimate,
    ) -> CallEstimate {
        let computed_size = |operand: &AstNode| operand.size.unwrap_or(SizeEstimate::UNKNOWN);
        let of = |i: usize| call.operands.get(i).map_or(SizeEstimate::UNKNOWN, computed_size);
        let traverse = |size: SizeEstimate| size.times_factor(STRING_TRAVERSAL_COST_FACTOR).plus(args);
        match (call.overload, call.target, call.operands.len()) {
            ("string_format", Some(target), _) => CallEstimate::cost(traverse(computed_size(target))),
            ("string_to_bytes", _, 1) => {
                let size = of(0);
                let result = SizeEstimate { min: size.min, max: size.max.wrapping_mul(4) };
                CallEstimate::sized(traverse(size), result)
            }
            ("bytes_to_string", _, 1) => {
                let size = of(0);
                CallEstimate::sized(traverse(size), SizeEstimate { min: size.min / 4, max: size.max })
            }
            ("strings_quote", _, 1) => {
                let size = of(0);
                let max = size.max.wrapping_mul(2).wrapping_add(2);
                CallEstimate::sized(traverse(size), SizeEstimate { min: size.min.wrapping_add(2), max })
            }
            ("starts_with_string" | "ends_with_string", _, 1) => CallEstimate::cost(traverse(of(0))),
            ("in_list", _, 2) => CallEstimate::cost(of(1).times_factor(1.0).plus(args)),
            ("matches_string", Some(target), 1) => CallEstimate::cost(
                regex_cost_estimate(computed_size(target), of(0).times_factor(REGEX_STRING_LENGTH_COST_FACTOR))
                    .plus(args),
            ),
            ("contains_string", Some(target), 1) => {
                let (text, part) = (
                    computed_size(target).times_factor(STRING_TRAVERSAL_COST_FACTOR),
                    of(0).times_factor(STRING_TRAVERSAL_COST_FACTOR),
                );
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
                self.record_entries(call.expr, entries);
                CallEstimate::sized(condition.plus(truthy.union(*falsy)), of(1).union(of(2)))
            }
            (overload @ ("add_string" | "add_bytes" | "add_list"), _, 2) => {
                let size = of(0).plus(of(1));
                let entries = EntrySizes::union(self.entry_sizes(&call.args[0]), self.entry_sizes(&call.args[1]));
                self.record_entries(call.expr, entries);
                CallEstimate::sized(if overload == "add_list" { args.plus(ONE) } else { traverse(size) }, size)
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
                CallEstimate::cost(traverse(SizeEstimate { min: u64::from(max > 0), max }))
            }
            _ => CallEstimate::cost(args.plus(ONE)),
        }
    }

    fn operand(&mut self, expr: &Expr) -> AstNode {
        let mut path = self.path(expr);
        if path.first().is_some_and(|root| root == "@result" || root == "__result__") {
            path.clear();
        }
        let int = match &expr.kind {
            ExprKind::Literal(Literal::Int(i)) => Some(*i),
            _ => None,
        };
        AstNode { path, ty: self.checked.type_of(expr).clone(), int, size: self.size(expr) }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> SizeEstimate {
        self.size(expr).unwrap_or(SizeEstimate::UNKNOWN)
    }

    fn size(&mut self, expr: &Expr) -> Option<SizeEstimate> {
        if let Some(size) = self.computed_sizes.get(&expr.id).copied().or_else(|| literal_size(expr)) {
            return Some(size);
        }
        let t = self.checked.type_of(expr);
        if let Some(size) = self.sizes.estimate_size(&self.path(expr), t) {
            self.computed_sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(t) {
            return Some(SizeEstimate::fixed(1));
        }
        self.local_of(expr).and_then(|local| local.size)
    }

    fn record_size(&mut self, expr: &Expr, size: Option<SizeEstimate>) {
        if let Some(size) = size {
            self.computed_sizes.insert(expr.id, size);
        }
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        let known = self.computed_entries.get(&expr.id).copied();
        known.or_else(|| self.local_of(expr).and_then(|local| local.entries))
    }

    fn record_entries(&mut self, expr: &Expr, entries: Option<EntrySizes>) {
        if let Some(entries) = entries {
            self.computed_entries.insert(expr.id, entries);
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        let size = self.size(from);
        self.record_size(to, size);
        let entries = self.entry_sizes(from);
        self.record_entries(to, entries);
    }
}

/// A call and its operands, while its overloads are estimated.
struct CallSite<'c> {
    expr: &'c Expr,
    overload: &'c str,
    target: Option<&'c AstNode>,
    args: &'c [Expr],
    operands: &'c [AstNode],
}

/// The part of the iteration range that an iteration variable takes.
enum IterVarKind {
    Key,
    Value,
    /// The only iteration variable: elements of lists, keys of maps.
    Single,
}

/// The start value of a union over the entries of a literal.
fn union_start(empty: bool) -> SizeEstimate {
    SizeEstimate { min: if empty { 0 } else { u64::MAX }, max: 0 }
}

/// The size of a literal.
fn literal_size(expr: &Expr) -> Option<SizeEstimate> {
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
        other => match other.unwrap_optional() {
            (inner, true) => is_scalar(inner),
            _ => false,
        },
    }
}
