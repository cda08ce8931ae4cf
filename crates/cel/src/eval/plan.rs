//! The planner: turns a checked expression into interpretable nodes (upstream: cel-go `interpreter/planner.go`).

use pintle_value::Str;

use super::fold::invalid_qualifier_message;
use super::node::{
    AppendStep, Attribute, AttributeRoot, Call, CallBinding, ElementNode, EntryNode, Fold, InsertStep, Interpretable,
    LazyBinding, LogicStep, LoopCondition, Plan, Qualifier, QualifierKind, SetMembership,
};
use crate::check::CheckedExpr;
use crate::cost::tracker;
use crate::env::Env;
use crate::function::{Function, Overload};
use crate::regexp::compile;
use crate::syntax::{ACCUMULATOR, Comprehension, Expr, ExprKind, Literal};
use crate::types::Type;
use crate::value::{CelBytes, CelString, Map, MapKey, OwnedMap, Value};

/// Plans an expression. Fails if evaluation would fail for any input, as for `int('a')`.
pub(crate) fn plan(env: &Env, checked: &CheckedExpr) -> Result<Plan, String> {
    let mut planner = Planner {
        env,
        checked,
        scopes: Vec::new(),
        lazy_bindings: Vec::new(),
        next_slot: 0,
        high_water: 0,
        local_slots: 0,
    };
    let root = planner.plan(&checked.expr)?;
    let Planner { lazy_bindings, local_slots, .. } = planner;
    Ok(Plan { root, lazy_bindings: lazy_bindings.into(), local_slots, variable_names: env.variable_names() })
}

/// Functions that are evaluated at plan time if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

type PlanResult = Result<Interpretable, String>;

#[derive(Clone, Copy)]
enum LocalVar {
    Slot(usize),
    Lazy(u32),
}

struct Planner<'e> {
    env: &'e Env,
    checked: &'e CheckedExpr,
    scopes: Vec<(Str, LocalVar)>,
    lazy_bindings: Vec<LazyBinding>,
    /// The next free slot. `high_water` is one past the highest slot allocated since it was last reset.
    next_slot: usize,
    high_water: usize,
    local_slots: usize,
}

impl Planner<'_> {
    fn allocate_slot(&mut self) -> usize {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.high_water = self.high_water.max(self.next_slot);
        self.local_slots = self.local_slots.max(self.next_slot);
        slot
    }

    fn plan(&mut self, expr: &Expr) -> PlanResult {
        match &expr.kind {
            ExprKind::Unspecified => Err("unsupported expr".to_owned()),
            ExprKind::Literal(literal) => Ok(Interpretable::Const(constant(literal))),
            ExprKind::Ident(name) => self.plan_ident(name),
            ExprKind::Select { operand, field, test_only } => {
                let mut attribute = into_attribute(self.plan(operand)?);
                attribute.qualifiers.push(Qualifier { kind: QualifierKind::Field(field.clone()), optional: false });
                attribute.test_only = *test_only;
                attribute.fields_only &= !test_only;
                Ok(Interpretable::Attribute(attribute))
            }
            ExprKind::Call { target, function, args } => self.plan_call(expr.id, target.as_deref(), function, args),
            ExprKind::List { elements, optional } => {
                let nodes = elements
                    .iter()
                    .enumerate()
                    .map(|(i, element)| Ok(ElementNode { node: self.plan(element)?, optional: optional.contains(&i) }));
                Ok(fold_list(nodes.collect::<Result<_, String>>()?))
            }
            ExprKind::Map(entries) => {
                let nodes = entries.iter().map(|entry| {
                    let (key, value) = (self.plan(&entry.key)?, self.plan(&entry.value)?);
                    Ok(EntryNode { key, value, optional: entry.optional })
                });
                Ok(fold_map(nodes.collect::<Result<_, String>>()?))
            }
            ExprKind::Struct { name, fields } => {
                let nodes = fields.iter().map(|field| {
                    let key = Interpretable::Const(Value::string(field.key.as_str()));
                    Ok(EntryNode { key, value: self.plan(&field.value)?, optional: field.optional })
                });
                let fields = nodes.collect::<Result<_, String>>()?;
                let is_known = self.env.provider().can_construct(name);
                Ok(Interpretable::Struct { name: name.clone(), is_known, fields })
            }
            ExprKind::Comprehension(c) if c.is_bind() => self.plan_bind(c),
            ExprKind::Comprehension(c) => self.plan_comprehension(c),
        }
    }

    fn plan_ident(&mut self, name: &str) -> PlanResult {
        let local = self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, local)| *local);
        let root = match local {
            Some(LocalVar::Slot(slot)) => AttributeRoot::Local(slot as u32),
            Some(LocalVar::Lazy(bind)) => AttributeRoot::LazyBinding(bind),
            None => match self.env.find_variable(name) {
                Some((slot, _)) => AttributeRoot::Variable(slot as u32),
                None if !self.env.has_type_value(name) => return Err(format!("reference to undefined type: {name}")),
                None => return Ok(Interpretable::Const(Value::Type(name.into()))),
            },
        };
        Ok(Interpretable::Attribute(Box::new(Attribute {
            root,
            qualifiers: Vec::new(),
            test_only: false,
            fields_only: true,
        })))
    }

    fn plan_bind(&mut self, c: &Comprehension) -> PlanResult {
        let first = self.next_slot;
        let slot = self.allocate_slot();
        // The value is evaluated on first use, possibly within a comprehension of the result. Its own slots must not
        // overlap with the slots of those comprehensions.
        let outer_high_water = std::mem::replace(&mut self.high_water, self.next_slot);
        let init = self.plan(&c.accu_init)?;
        self.next_slot = self.high_water;
        self.high_water = self.high_water.max(outer_high_water);
        let bind = self.lazy_bindings.len() as u32;
        self.lazy_bindings.push(LazyBinding { slot, init });
        self.scopes.push((c.accu_var.clone(), LocalVar::Lazy(bind)));
        let result = self.plan(&c.result)?;
        self.scopes.pop();
        self.next_slot = first;
        Ok(Interpretable::LazyBinding(bind, Box::new(result)))
    }

    fn plan_comprehension(&mut self, c: &Comprehension) -> PlanResult {
        let iter_range = self.plan(&c.iter_range)?;
        let accu_init = self.plan(&c.accu_init)?;
        let (first, outer) = (self.next_slot, self.scopes.len());
        let accu_var = self.allocate_slot();
        self.scopes.push((c.accu_var.clone(), LocalVar::Slot(accu_var)));
        let iter_var = self.allocate_slot();
        self.scopes.push((c.iter_var.clone(), LocalVar::Slot(iter_var)));
        let iter_var2 = c.iter_var2.as_ref().map(|name| {
            let slot = self.allocate_slot();
            self.scopes.push((name.clone(), LocalVar::Slot(slot)));
            slot
        });
        let loop_condition = self.plan_condition(&c.loop_condition)?;
        let loop_step =
            if c.accu_var == ACCUMULATOR { self.plan_step(&c.loop_step, accu_var)? } else { self.plan(&c.loop_step)? };
        self.scopes.truncate(outer + 1);
        let result = self.plan(&c.result)?;
        self.scopes.truncate(outer);
        self.next_slot = first;
        Ok(Interpretable::Fold(Box::new(Fold {
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

    fn plan_condition(&mut self, expr: &Expr) -> Result<LoopCondition, String> {
        if expr.kind == ExprKind::Literal(Literal::Bool(true)) {
            return Ok(LoopCondition::Always);
        }
        if let ExprKind::Call { function, args, target: None } = &expr.kind
            && let ("@not_strictly_false", [arg]) = (function.as_str(), args.as_slice())
        {
            if is_accumulator(arg) {
                return Ok(LoopCondition::UntilFalse);
            }
            if let ExprKind::Call { function, args, .. } = &arg.kind
                && function == "!_"
                && args.first().is_some_and(is_accumulator)
            {
                return Ok(LoopCondition::UntilTrue);
            }
        }
        self.plan(expr).map(LoopCondition::Interpretable)
    }

    /// Plans the loop step of a comprehension. A step that adds to the accumulator modifies it in place instead of
    /// copying it.
    fn plan_step(&mut self, expr: &Expr, accu: usize) -> PlanResult {
        let ExprKind::Call { target: None, function, args } = &expr.kind else { return self.plan(expr) };
        match (function.as_str(), args.as_slice()) {
            ("_?_:_", [condition, truthy, falsy]) => {
                let condition = self.plan(condition)?;
                let truthy = self.plan_step(truthy, accu)?;
                let falsy = self.plan(falsy)?;
                Ok(conditional(condition, truthy, falsy))
            }
            ("_&&_" | "_||_", [accumulated, predicate]) if is_accumulator(accumulated) => {
                let predicate = self.plan(predicate)?;
                Ok(Interpretable::LogicStep(Box::new(LogicStep { accu, decisive: function == "_||_", predicate })))
            }
            ("_+_", [list, addition])
                if is_accumulator(list)
                    && matches!(addition.kind, ExprKind::List { .. })
                    && self.checked.overloads_of(expr.id) == ["add_list"] =>
            {
                Ok(Interpretable::AppendStep(Box::new(AppendStep { accu, addition: self.plan(addition)? })))
            }
            ("cel.@mapInsert", [map, args @ ..]) if is_accumulator(map) => {
                let args = args.iter().map(|arg| self.plan(arg)).collect::<Result<_, _>>()?;
                Ok(Interpretable::InsertStep(Box::new(InsertStep { accu, args })))
            }
            _ => self.plan(expr),
        }
    }

    fn plan_call(&mut self, id: u32, target: Option<&Expr>, name: &str, args: &[Expr]) -> PlanResult {
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for part in target.into_iter().chain(args) {
            nodes.push(self.plan(part)?);
        }
        let overloads = self.checked.overloads_of(id);
        if let ("_[_]" | "_[?_]", Some(Interpretable::Const(index))) = (name, nodes.get(1))
            && MapKey::new(index.clone()).is_none()
        {
            return Err(invalid_qualifier_message(index));
        }
        let nodes = match plan_operator(name, overloads, nodes) {
            Ok(node) => return Ok(node),
            Err(nodes) => nodes,
        };
        let function = self.env.find_function(name).ok_or_else(|| format!("no such overload: {name}"))?;
        let may_be_dyn = target.into_iter().chain(args).any(|arg| contains_dyn(self.checked.type_of(arg)));
        let call = resolve_call(function, target.is_some(), overloads, nodes, may_be_dyn)?;
        if let [Interpretable::Const(arg)] = &*call.args
            && CONVERSIONS.contains(&name)
        {
            return evaluate_constant_call(&call, arg).map(Interpretable::Const);
        }
        Ok(Interpretable::Call(Box::new(call)))
    }
}

fn is_accumulator(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Ident(name) if name == ACCUMULATOR)
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(b) => Value::Bool(*b),
        Literal::Int(i) => Value::Int(*i),
        Literal::Uint(u) => Value::Uint(*u),
        Literal::Double(x) => Value::Double(*x),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(CelBytes::Owned(bytes.as_slice().into())),
    }
}

/// Returns the node as an attribute, to which qualifiers can be added.
fn into_attribute(node: Interpretable) -> Box<Attribute> {
    match node {
        Interpretable::Attribute(attribute) => attribute,
        other => Box::new(Attribute {
            root: AttributeRoot::Interpretable(other),
            qualifiers: Vec::new(),
            test_only: false,
            fields_only: true,
        }),
    }
}

fn conditional(condition: Interpretable, truthy: Interpretable, falsy: Interpretable) -> Interpretable {
    let root = AttributeRoot::Conditional(Box::new([condition, truthy, falsy]));
    Interpretable::Attribute(Box::new(Attribute { root, qualifiers: Vec::new(), test_only: false, fields_only: true }))
}

/// Plans operators that have a node of their own. Returns the operands if the function is not such an operator.
fn plan_operator(
    name: &str,
    overloads: &[&str],
    mut nodes: Vec<Interpretable>,
) -> Result<Interpretable, Vec<Interpretable>> {
    let count = nodes.len();
    if name == "_?_:_" && count == 3 {
        let (Some(falsy), Some(truthy), Some(condition)) = (nodes.pop(), nodes.pop(), nodes.pop()) else {
            return Err(nodes);
        };
        return Ok(conditional(condition, truthy, falsy));
    }
    let node: fn(Box<[Interpretable; 2]>) -> Interpretable = match name {
        "_&&_" => Interpretable::And,
        "_||_" => Interpretable::Or,
        "_==_" => Interpretable::Equal,
        "_!=_" => Interpretable::NotEqual,
        "_[_]" => |parts| plan_index(*parts, false),
        "_[?_]" | "_?._" => |parts| plan_index(*parts, true),
        "or" if overloads == ["optional_or_optional"] => Interpretable::OptionalOr,
        "orValue" if overloads == ["optional_orValue_value"] => Interpretable::OptionalOrValue,
        "@in" if overloads == ["in_list"] && is_scalar_list(nodes.get(1)) => |parts| plan_membership(*parts),
        _ => return Err(nodes),
    };
    let parts: Box<[Interpretable; 2]> = match nodes.try_into() {
        Ok(parts) => Box::new(parts),
        Err(nodes) => return Err(nodes),
    };
    Ok(node(parts))
}

fn plan_index([operand, index]: [Interpretable; 2], optional: bool) -> Interpretable {
    let mut attribute = into_attribute(operand);
    let kind = match index {
        Interpretable::Const(Value::String(CelString::Owned(name))) => QualifierKind::Field(Str::from(&*name)),
        Interpretable::Const(value) => QualifierKind::Const(value),
        other => QualifierKind::Dynamic(other),
    };
    attribute.fields_only &= !optional && matches!(kind, QualifierKind::Field(_));
    attribute.qualifiers.push(Qualifier { kind, optional });
    Interpretable::Attribute(attribute)
}

/// True for a constant list of scalars. `in` searches such a list at no cost, as in cel-go.
fn is_scalar_list(list: Option<&Interpretable>) -> bool {
    let scalar = |value: &Value<'_>| {
        matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
    };
    matches!(list, Some(Interpretable::Const(Value::List(list))) if list.iter().all(|element| scalar(&element)))
}

fn plan_membership([value, list]: [Interpretable; 2]) -> Interpretable {
    let Interpretable::Const(Value::List(list)) = &list else { return list };
    if list.is_empty() {
        return Interpretable::Const(Value::Bool(false));
    }
    Interpretable::SetMembership(Box::new(SetMembership { value, constants: list.iter().collect() }))
}

/// True if values can have another type at run time than the type that the checker assigned.
fn contains_dyn(t: &Type) -> bool {
    *t == Type::Dyn || t.parameters().into_iter().any(contains_dyn)
}

fn resolve_call(
    function: &Function,
    member: bool,
    overloads: &[&str],
    nodes: Vec<Interpretable>,
    may_be_dyn: bool,
) -> Result<Call, String> {
    let single = match overloads {
        [only] => function.overloads.iter().find(|overload| overload.id == *only && overload.member == member),
        _ => None,
    };
    let cost_tracker =
        single.and_then(|overload| overload.cost_tracker).or(function.cost_tracker).unwrap_or(tracker::one);
    let pattern = match (function.regex_binding, nodes.get(1)) {
        (Some(op), Some(Interpretable::Const(Value::String(pattern)))) => Some((compile(pattern)?, op)),
        _ => None,
    };
    let binding = match (pattern, function.binding, single.and_then(|overload| overload.binding)) {
        (Some((regex, op)), _, _) => CallBinding::Regex(Box::new(regex), op),
        (None, None, Some(op)) if may_be_dyn && let Some(overload) = single => {
            CallBinding::TypeChecked(op, Box::new(overload.clone()))
        }
        (None, Some(op), _) | (None, None, Some(op)) => CallBinding::Direct(op),
        (None, None, None) => {
            let fits = |overload: &&Overload| overload.params.len() == nodes.len() && overload.binding.is_some();
            CallBinding::Dynamic(function.overloads.iter().filter(fits).cloned().collect())
        }
    };
    let reports_arg_types = function.binding.is_none() && !matches!(binding, CallBinding::Regex(..));
    let stops_at_first_error = function.stops_at_first_error || matches!(binding, CallBinding::Regex(..));
    let (name, measured_list) = (function.name.clone(), function.measured_list.filter(|_| single.is_some()));
    Ok(Call { name, args: nodes.into(), binding, cost_tracker, reports_arg_types, stops_at_first_error, measured_list })
}

fn evaluate_constant_call(call: &Call, arg: &Value<'static>) -> Result<Value<'static>, String> {
    let args = [arg.clone()];
    let outcome = match &call.binding {
        CallBinding::TypeChecked(op, _) | CallBinding::Direct(op) => op(&args),
        CallBinding::Dynamic(overloads) => match overloads.iter().find(|overload| overload.accepts_args(&args)) {
            Some(Overload { binding: Some(op), .. }) => op(&args),
            _ => return Err(format!("no such overload: {}({})", call.name, arg.type_name())),
        },
        CallBinding::Regex(..) => return Err("no such overload".to_owned()),
    };
    outcome.map_err(|error| error.to_string())
}

fn fold_list(elements: Vec<ElementNode>) -> Interpretable {
    if elements.iter().any(|element| element.optional || !matches!(element.node, Interpretable::Const(_))) {
        return Interpretable::List(elements.into());
    }
    let values = elements.into_iter().filter_map(|element| match element.node {
        Interpretable::Const(value) => Some(value),
        _ => None,
    });
    Interpretable::Const(Value::list(values.collect()))
}

fn fold_map(entries: Vec<EntryNode>) -> Interpretable {
    let mut constants = OwnedMap::new();
    for entry in &entries {
        let (Interpretable::Const(key), Interpretable::Const(value), false) =
            (&entry.key, &entry.value, entry.optional)
        else {
            return Interpretable::Map(entries.into());
        };
        let Some(key) = MapKey::new(key.clone()) else { return Interpretable::Map(entries.into()) };
        constants.insert(key, value.clone());
    }
    Interpretable::Const(Value::Map(Map::Owned(constants.into())))
}
