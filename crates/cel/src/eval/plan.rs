//! From a checked tree to nodes.

use pintle_value::Str;

use super::fold::unusable_index;
use super::node::{
    Append, Attribute, Bind, By, Call, Condition, Element, Entry, Fold, Gather, Insert, Membership, Node, Root, Run,
    Step,
};
use crate::check::Checked;
use crate::cost::{charge, traversal};
use crate::env::Env;
use crate::function::{Function, Overload};
use crate::pattern::compile;
use crate::syntax::{ACCUMULATOR, Comprehension, Expr, ExprKind, Literal};
use crate::types::Type;
use crate::value::{Key, Map, OwnedMap, Text, Value};

/// What planning gives: the program's nodes and how many local variables it needs.
pub(crate) struct Planned {
    pub(crate) root: Node,
    pub(crate) binds: Vec<Bind>,
    pub(crate) locals: usize,
}

/// Plans an expression. What shows to fail whatever the data is, such as `int('a')`, is returned as an error.
pub(crate) fn plan(env: &Env, checked: &Checked) -> Result<Planned, String> {
    let mut planner = Planner { env, checked, scopes: Vec::new(), binds: Vec::new(), next: 0, peak: 0, locals: 0 };
    let root = planner.plan(&checked.expr)?;
    Ok(Planned { root, binds: planner.binds, locals: planner.locals })
}

/// Functions that are run beforehand if their argument is constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

type Res = Result<Node, String>;

#[derive(Clone, Copy)]
enum Local {
    Slot(usize),
    Bound(u32),
}

struct Planner<'e> {
    env: &'e Env,
    checked: &'e Checked,
    scopes: Vec<(Str, Local)>,
    binds: Vec<Bind>,
    /// The next free slot, and the highest one of what was planned since someone looked.
    next: usize,
    peak: usize,
    locals: usize,
}

impl Planner<'_> {
    fn slot(&mut self) -> usize {
        let slot = self.next;
        self.next += 1;
        self.peak = self.peak.max(self.next);
        self.locals = self.locals.max(self.next);
        slot
    }

    fn plan(&mut self, expr: &Expr) -> Res {
        match &expr.kind {
            ExprKind::Unspecified => Err("unsupported expr".to_owned()),
            ExprKind::Literal(literal) => Ok(Node::Const(constant(literal))),
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Select { operand, field, test } => {
                let mut attribute = attribute(self.plan(operand)?);
                attribute.steps.push(Step { by: By::Field(field.clone()), optional: false });
                attribute.test = *test;
                attribute.plain &= !test;
                Ok(Node::Attribute(attribute))
            }
            ExprKind::Call { target, function, args } => self.call(expr.id, target.as_deref(), function, args),
            ExprKind::List { elements, optional } => {
                let nodes = elements
                    .iter()
                    .enumerate()
                    .map(|(i, element)| Ok(Element { node: self.plan(element)?, optional: optional.contains(&i) }));
                Ok(fold_list(nodes.collect::<Result<_, String>>()?))
            }
            ExprKind::Map(entries) => {
                let nodes = entries.iter().map(|entry| {
                    let (key, value) = (self.plan(&entry.key)?, self.plan(&entry.value)?);
                    Ok(Entry { key, value, optional: entry.optional })
                });
                Ok(fold_map(nodes.collect::<Result<_, String>>()?))
            }
            ExprKind::Struct { name, fields } => {
                let nodes = fields.iter().map(|field| {
                    let key = Node::Const(Value::string(field.key.as_str()));
                    Ok(Entry { key, value: self.plan(&field.value)?, optional: field.optional })
                });
                let fields = nodes.collect::<Result<_, String>>()?;
                let unknown = (!self.env.provider().constructs(name)).then(|| name.clone());
                Ok(Node::Struct(unknown, fields))
            }
            ExprKind::Comprehension(c) if c.is_bind() => self.bind(c),
            ExprKind::Comprehension(c) => self.fold(c),
        }
    }

    fn ident(&mut self, name: &str) -> Res {
        let local = self.scopes.iter().rev().find(|(known, _)| known == name).map(|(_, local)| *local);
        let root = match local {
            Some(Local::Slot(slot)) => Root::Local(slot as u32),
            Some(Local::Bound(bind)) => Root::Bound(bind),
            None => match self.env.variable_named(name) {
                Some((slot, _)) => Root::Variable(slot as u32),
                None if !self.env.has_type_value(name) => return Err(format!("reference to undefined type: {name}")),
                None => return Ok(Node::Const(Value::Type(name.into()))),
            },
        };
        Ok(Node::Attribute(Box::new(Attribute { root, steps: Vec::new(), test: false, plain: true })))
    }

    fn bind(&mut self, c: &Comprehension) -> Res {
        let first = self.next;
        let slot = self.slot();
        // The value is worked out where it is first asked for, perhaps within the loops of the result, so that what
        // it needs itself must be apart from what they need.
        let peak = std::mem::replace(&mut self.peak, self.next);
        let init = self.plan(&c.init)?;
        self.next = self.peak;
        self.peak = self.peak.max(peak);
        let bind = self.binds.len() as u32;
        self.binds.push(Bind { slot, init });
        self.scopes.push((c.accu.clone(), Local::Bound(bind)));
        let result = self.plan(&c.result)?;
        self.scopes.pop();
        self.next = first;
        Ok(Node::Bind(bind, Box::new(result)))
    }

    fn fold(&mut self, c: &Comprehension) -> Res {
        let range = self.plan(&c.range)?;
        let init = self.plan(&c.init)?;
        let (first, outer) = (self.next, self.scopes.len());
        let accu = self.slot();
        self.scopes.push((c.accu.clone(), Local::Slot(accu)));
        let var = self.slot();
        self.scopes.push((c.var.clone(), Local::Slot(var)));
        let var2 = c.var2.as_ref().map(|name| {
            let slot = self.slot();
            self.scopes.push((name.clone(), Local::Slot(slot)));
            slot
        });
        let condition = self.condition(&c.condition)?;
        let step = if c.accu == ACCUMULATOR { self.step(&c.step, accu)? } else { self.plan(&c.step)? };
        self.scopes.truncate(outer + 1);
        let result = self.plan(&c.result)?;
        self.scopes.truncate(outer);
        self.next = first;
        Ok(Node::Fold(Box::new(Fold { range, var, var2, accu, init, condition, step, result })))
    }

    fn condition(&mut self, expr: &Expr) -> Result<Condition, String> {
        if expr.kind == ExprKind::Literal(Literal::Bool(true)) {
            return Ok(Condition::Always);
        }
        if let ExprKind::Call { function, args, target: None } = &expr.kind
            && let ("@not_strictly_false", [arg]) = (function.as_str(), args.as_slice())
        {
            if is_accumulator(arg) {
                return Ok(Condition::UntilFalse);
            }
            if let ExprKind::Call { function, args, .. } = &arg.kind
                && function == "!_"
                && args.first().is_some_and(is_accumulator)
            {
                return Ok(Condition::UntilTrue);
            }
        }
        self.plan(expr).map(Condition::Node)
    }

    /// The step of a loop. Where it adds to the accumulator, that is changed in place instead of copied.
    fn step(&mut self, expr: &Expr, accu: usize) -> Res {
        let ExprKind::Call { target: None, function, args } = &expr.kind else { return self.plan(expr) };
        match (function.as_str(), args.as_slice()) {
            ("_?_:_", [condition, truthy, falsy]) => {
                let condition = self.plan(condition)?;
                let truthy = self.step(truthy, accu)?;
                let falsy = self.plan(falsy)?;
                Ok(conditional(condition, truthy, falsy))
            }
            ("_&&_" | "_||_", [accumulated, predicate]) if is_accumulator(accumulated) => {
                let predicate = self.plan(predicate)?;
                Ok(Node::Gather(Box::new(Gather { accu, decisive: function == "_||_", predicate })))
            }
            ("_+_", [list, addition])
                if is_accumulator(list)
                    && matches!(addition.kind, ExprKind::List { .. })
                    && self.checked.overloads_of(expr.id) == ["add_list"] =>
            {
                Ok(Node::Append(Box::new(Append { accu, addition: self.plan(addition)? })))
            }
            ("cel.@mapInsert", [map, args @ ..]) if is_accumulator(map) => {
                let args = args.iter().map(|arg| self.plan(arg)).collect::<Result<_, _>>()?;
                Ok(Node::Insert(Box::new(Insert { accu, args })))
            }
            _ => self.plan(expr),
        }
    }

    fn call(&mut self, id: u32, target: Option<&Expr>, name: &str, args: &[Expr]) -> Res {
        let mut nodes = Vec::with_capacity(args.len() + 1);
        for part in target.into_iter().chain(args) {
            nodes.push(self.plan(part)?);
        }
        let overloads = self.checked.overloads_of(id);
        if let ("_[_]" | "_[?_]", Some(Node::Const(index))) = (name, nodes.get(1))
            && Key::new(index.clone()).is_none()
        {
            return Err(unusable_index(index));
        }
        let nodes = match special(name, overloads, nodes) {
            Ok(node) => return Ok(node),
            Err(nodes) => nodes,
        };
        let function = self.env.function_named(name).ok_or_else(|| format!("no such overload: {name}"))?;
        let open = target.into_iter().chain(args).any(|arg| is_open(self.checked.type_of(arg)));
        let call = resolved(function, target.is_some(), overloads, nodes, open)?;
        if let [Node::Const(arg)] = &*call.args
            && CONVERSIONS.contains(&name)
        {
            return run_now(&call, arg).map(Node::Const);
        }
        Ok(Node::Call(Box::new(call)))
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
        Literal::Bytes(bytes) => Value::Bytes(crate::value::Blob::Owned(bytes.as_slice().into())),
    }
}

/// A node as the beginning of a way.
fn attribute(node: Node) -> Box<Attribute> {
    match node {
        Node::Attribute(attribute) => attribute,
        other => Box::new(Attribute { root: Root::Node(other), steps: Vec::new(), test: false, plain: true }),
    }
}

fn conditional(condition: Node, truthy: Node, falsy: Node) -> Node {
    let root = Root::Conditional(Box::new([condition, truthy, falsy]));
    Node::Attribute(Box::new(Attribute { root, steps: Vec::new(), test: false, plain: true }))
}

/// Operators that are more than a function, or the operands back.
fn special(name: &str, overloads: &[&str], mut nodes: Vec<Node>) -> Result<Node, Vec<Node>> {
    let count = nodes.len();
    if name == "_?_:_" && count == 3 {
        let (Some(falsy), Some(truthy), Some(condition)) = (nodes.pop(), nodes.pop(), nodes.pop()) else {
            return Err(nodes);
        };
        return Ok(conditional(condition, truthy, falsy));
    }
    let node: fn(Box<[Node; 2]>) -> Node = match name {
        "_&&_" => Node::And,
        "_||_" => Node::Or,
        "_==_" => Node::Equal,
        "_!=_" => Node::NotEqual,
        "_[_]" => |parts| index(*parts, false),
        "_[?_]" | "_?._" => |parts| index(*parts, true),
        "or" if overloads == ["optional_or_optional"] => Node::OptionalOr,
        "orValue" if overloads == ["optional_orValue_value"] => Node::OptionalOrValue,
        "@in" if overloads == ["in_list"] && constants(nodes.get(1)) => |parts| membership(*parts),
        _ => return Err(nodes),
    };
    let parts: Box<[Node; 2]> = match nodes.try_into() {
        Ok(parts) => Box::new(parts),
        Err(nodes) => return Err(nodes),
    };
    Ok(node(parts))
}

fn index([operand, index]: [Node; 2], optional: bool) -> Node {
    let mut attribute = attribute(operand);
    let by = match index {
        Node::Const(Value::String(Text::Owned(name))) => By::Field(Str::from(&*name)),
        Node::Const(value) => By::Const(value),
        other => By::Node(other),
    };
    attribute.plain &= !optional && matches!(by, By::Field(_));
    attribute.steps.push(Step { by, optional });
    Node::Attribute(attribute)
}

/// True for a constant list of scalars, which `in` looks through without counting.
fn constants(list: Option<&Node>) -> bool {
    let scalar = |value: &Value<'_>| {
        matches!(value, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
    };
    matches!(list, Some(Node::Const(Value::List(list))) if list.iter().all(|element| scalar(&element)))
}

fn membership([value, list]: [Node; 2]) -> Node {
    let Node::Const(Value::List(list)) = &list else { return list };
    if list.is_empty() {
        return Node::Const(Value::Bool(false));
    }
    Node::Membership(Box::new(Membership { value, constants: list.iter().collect() }))
}

/// True if values of a type may turn out to be something else than the type says.
fn is_open(t: &Type) -> bool {
    *t == Type::Dyn || t.parameters().into_iter().any(is_open)
}

fn resolved(
    function: &Function,
    member: bool,
    overloads: &[&str],
    nodes: Vec<Node>,
    open: bool,
) -> Result<Call, String> {
    let one = match overloads {
        [only] => function.overloads.iter().find(|overload| overload.id == *only && overload.member == member),
        _ => None,
    };
    let charge = one.and_then(|overload| overload.charge).or(function.charge).unwrap_or(charge::one);
    let pattern = match (function.regex, nodes.get(1)) {
        (Some(run), Some(Node::Const(Value::String(pattern)))) => Some((compile(pattern)?, run)),
        _ => None,
    };
    let run = match (pattern, function.run, one.and_then(|overload| overload.run)) {
        (Some((regex, run)), _, _) => Run::Regex(Box::new(regex), run),
        (None, None, Some(run)) if open && let Some(overload) = one => Run::Checked(run, Box::new(overload.clone())),
        (None, Some(run), _) | (None, None, Some(run)) => Run::Direct(run),
        (None, None, None) => {
            let fits = |overload: &&Overload| overload.params.len() == nodes.len() && overload.run.is_some();
            Run::Dispatch(function.overloads.iter().filter(fits).cloned().collect())
        }
    };
    let guarded = function.run.is_none() && !matches!(run, Run::Regex(..));
    let in_order = function.in_order || matches!(run, Run::Regex(..));
    let (name, sized_by) = (function.name.clone(), function.sized_by.filter(|_| one.is_some()));
    Ok(Call { name, args: nodes.into(), run, charge, guarded, in_order, sized_by })
}

fn run_now(call: &Call, arg: &Value<'static>) -> Result<Value<'static>, String> {
    let args = [arg.clone()];
    let outcome = match &call.run {
        Run::Checked(run, _) | Run::Direct(run) => run(&args),
        Run::Dispatch(overloads) => match overloads.iter().find(|overload| overload.takes(&args)) {
            Some(Overload { run: Some(run), .. }) => run(&args),
            _ => return Err(format!("no such overload: {}({})", call.name, arg.type_name())),
        },
        Run::Regex(..) => return Err("no such overload".to_owned()),
    };
    outcome.map_err(|error| error.to_string())
}

fn fold_list(elements: Vec<Element>) -> Node {
    if elements.iter().any(|element| element.optional || !matches!(element.node, Node::Const(_))) {
        return Node::List(elements.into());
    }
    let values = elements.into_iter().filter_map(|element| match element.node {
        Node::Const(value) => Some(value),
        _ => None,
    });
    Node::Const(Value::list(values.collect()))
}

fn fold_map(entries: Vec<Entry>) -> Node {
    let mut constants = OwnedMap::new();
    for entry in &entries {
        let (Node::Const(key), Node::Const(value), false) = (&entry.key, &entry.value, entry.optional) else {
            return Node::Map(entries.into());
        };
        let Some(key) = Key::new(key.clone()) else { return Node::Map(entries.into()) };
        constants.insert(key, value.clone());
    }
    Node::Const(Value::Map(Map::Owned(constants.into())))
}

/// What `==` costs: values of libraries one, anything else by the smaller size. `!=` knows no such exception.
pub(super) fn charge_equal(a: &Value<'_>, b: &Value<'_>, positive: bool) -> u64 {
    if positive && matches!(a, Value::Opaque(_)) {
        return 1;
    }
    traversal(charge::size(a).min(charge::size(b)))
}
