//! The second layer: every node gets a type, every call its overloads. After cel-go's checker, whose messages it gives.

mod assign;
mod format;
mod validate;

use pintle_value::Str;

use crate::env::Env;
use crate::function::{Function, Overload};
use crate::source::{Issues, Source};
use crate::syntax::{Comprehension, Entry, Expr, ExprId, ExprKind, Literal, Parsed, Positions};
use crate::types::{Type, signature};

use assign::Substitution;
pub(crate) use validate::validate;

/// An expression whose types are known.
#[derive(Clone, Debug)]
pub struct Checked {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) overloads: Vec<Vec<&'static str>>,
    pub(crate) positions: Positions,
    pub(crate) source: Source,
}

impl Checked {
    /// The type of the whole expression.
    #[must_use]
    pub fn result(&self) -> &Type {
        self.type_of(&self.expr)
    }

    /// True if the expression uses a name, as those do that compare an object to what it was before. Variables of its
    /// own loops count too.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.expr.names(name)
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).unwrap_or(&Type::Error)
    }

    /// The overloads that a call may end up with.
    pub(crate) fn overloads_of(&self, id: ExprId) -> &[&'static str] {
        self.overloads.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// Checks a parsed expression.
pub(crate) fn check(env: &Env, source: Source, parsed: Parsed) -> Result<Checked, Box<Issues>> {
    let Parsed { mut expr, positions } = parsed;
    let mut checker = Checker {
        env,
        positions: &positions,
        issues: Issues::new(source.clone()),
        source: &source,
        scopes: Vec::new(),
        types: vec![Type::Error; positions.len()],
        overloads: vec![Vec::new(); positions.len()],
        substitution: Substitution::default(),
    };
    checker.check(&mut expr);
    let Checker { issues, types, overloads, substitution, .. } = checker;
    if !issues.is_empty() {
        return Err(Box::new(issues));
    }
    let types = types.iter().map(|t| substitution.apply(t, true)).collect();
    Ok(Checked { expr, types, overloads, positions, source })
}

struct Checker<'e> {
    env: &'e Env,
    positions: &'e Positions,
    source: &'e Source,
    issues: Issues,
    /// The variables of the loops around, innermost last.
    scopes: Vec<(Str, Type)>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    substitution: Substitution,
}

impl Checker<'_> {
    fn report(&mut self, id: ExprId, message: impl Into<String>) {
        self.issues.report(self.positions.location(id, self.source), message);
    }

    fn set(&mut self, id: ExprId, t: Type) {
        self.types[id as usize] = t;
    }

    fn of(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn resolved(&self, t: &Type) -> Type {
        self.substitution.apply(t, false)
    }

    fn undeclared(&mut self, id: ExprId, name: &str) {
        let container = self.env.container_name();
        self.report(id, format!("undeclared reference to '{name}' (in container '{container}')"));
        self.set(id, Type::Error);
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn lookup(&self, name: &str) -> Option<(Str, Type)> {
        self.env.candidates(name).find_map(|candidate| {
            let local = self.scopes.iter().rev().find(|(variable, _)| *variable == candidate).map(|(_, t)| t.clone());
            let known = local.or_else(|| self.env.variable_named(&candidate).map(|(_, t)| t.clone()));
            let t = known.or_else(|| self.env.type_named(&candidate))?;
            Some((candidate, t))
        })
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Unspecified => self.report(expr.id, "unexpected unspecified type: "),
            ExprKind::Literal(literal) => {
                let t = literal_type(literal);
                self.set(expr.id, t);
            }
            ExprKind::Ident(name) => match self.lookup(name) {
                Some((resolved, t)) => {
                    self.set(expr.id, t);
                    *name = resolved;
                }
                None => {
                    let name = name.clone();
                    self.undeclared(expr.id, &name);
                }
            },
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call { .. } => self.check_call(expr),
            ExprKind::List { .. } => self.check_list(expr),
            ExprKind::Map(_) => self.check_map(expr),
            ExprKind::Struct { .. } => self.check_struct(expr),
            ExprKind::Comprehension(comprehension) => {
                let t = self.check_comprehension(comprehension);
                self.set(expr.id, t);
            }
        }
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified_name(expr)
            && let Some((resolved, t)) = self.lookup(&name)
        {
            self.set(expr.id, t);
            expr.kind = ExprKind::Ident(resolved);
            return;
        }
        let id = expr.id;
        let ExprKind::Select { operand, field, test } = &mut expr.kind else { return };
        let t = self.field_type(id, operand, field, false);
        let t = if *test { Type::Bool } else { self.resolved(&t) };
        self.set(id, t);
    }

    fn field_type(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.resolved(&self.of(operand));
        let (target, is_optional) = operand.unwrapped();
        let t = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.object_field(id, name, field),
            Type::Var(_) | Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(t) } else { t }
    }

    fn object_field(&mut self, id: ExprId, object: &str, field: &str) -> Type {
        let provider = self.env.provider();
        if let Some(t) = provider.field(object, field) {
            return t;
        }
        if provider.has_type(object) {
            self.report(id, format!("undefined field '{field}'"));
        } else {
            self.report(id, format!("unexpected failed resolution of '{object}'"));
        }
        Type::Error
    }

    fn check_call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call { target, function, args } = &mut expr.kind else { return };
        if function == "_?._" {
            return self.check_optional_select(expr);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let env = self.env;
        let Some(receiver) = target else {
            return match env.function(function) {
                Some(found) => {
                    *function = found.name.clone();
                    self.resolve(id, found, None, args);
                }
                None => {
                    let name = function.clone();
                    self.undeclared(id, &name);
                }
            };
        };
        if let Some(prefix) = qualified_name(receiver)
            && let Some(found) = env.function(&format!("{prefix}.{function}"))
        {
            *function = found.name.clone();
            *target = None;
            return self.resolve(id, found, None, args);
        }
        self.check(receiver);
        match env.function(function) {
            Some(found) => self.resolve(id, found, Some(receiver), args),
            None => {
                let name = function.clone();
                self.undeclared(id, &name);
            }
        }
    }

    fn check_optional_select(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call { args, .. } = &mut expr.kind else { return };
        let [operand, field] = args.as_mut_slice() else { return };
        let ExprKind::Literal(Literal::String(name)) = &field.kind else {
            return self.report(field.id, "unsupported optional field selection");
        };
        let name = name.clone();
        let t = self.field_type(id, operand, &name, true);
        let t = self.resolved(&t);
        self.set(id, t);
        self.overloads[id as usize] = vec!["select_optional_field"];
    }

    fn resolve(&mut self, id: ExprId, function: &Function, target: Option<&Expr>, args: &[Expr]) {
        let t = match self.resolve_overload(id, function, target, args) {
            Some((t, overloads)) => {
                self.overloads[id as usize] = overloads;
                t
            }
            None => Type::Error,
        };
        self.set(id, t);
    }

    fn resolve_overload(
        &mut self,
        id: ExprId,
        function: &Function,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Option<(Type, Vec<&'static str>)> {
        let mut types: Vec<Type> = target.iter().map(|target| self.of(target)).collect();
        types.extend(args.iter().map(|arg| self.of(arg)));
        let mut found: Vec<&'static str> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            if function.name == "_&&_" || function.name == "_||_" {
                return self.check_logic(overload, args, &types);
            }
            let mark = self.substitution.mark();
            let (params, declared) = self.instance(overload);
            if !self.substitution.all_assignable(&types, &params) {
                self.substitution.back_to(mark);
                continue;
            }
            found.push(overload.id);
            let declared = self.resolved(&declared);
            result = Some(match result {
                None => declared,
                Some(before) if before == Type::Dyn || before == declared => before,
                Some(_) => Type::Dyn,
            });
        }
        if result.is_none() {
            let types: Vec<Type> = types.iter().map(|t| self.substitution.apply(t, true)).collect();
            let signature = signature(&types, target.is_some());
            let name = &function.name;
            self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
        }
        result.map(|result| (result, found))
    }

    /// `&&` and `||` report each term that is no truth value.
    fn check_logic(&mut self, overload: &Overload, args: &[Expr], types: &[Type]) -> Option<(Type, Vec<&'static str>)> {
        let mut fits = true;
        for (arg, t) in args.iter().zip(types) {
            if !self.substitution.assignable(t, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, t);
                fits = false;
            }
        }
        fits.then(|| (Type::Bool, vec![overload.id]))
    }

    /// The parameters and the result of an overload, with new variables for its type parameters.
    fn instance(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let mut names: Vec<(Str, Type)> = Vec::new();
        let params = overload.params.iter().map(|param| self.substitution.fresh(param, &mut names)).collect();
        (params, self.substitution.fresh(&overload.result, &mut names))
    }

    /// The type of an optional element: what is in it.
    fn unwrap(&mut self, expr: &Expr, optional: bool) -> Type {
        let t = self.of(expr);
        if !optional {
            return t;
        }
        let (inner, is_optional) = t.unwrapped();
        let inner = inner.clone();
        if !is_optional && inner != Type::Dyn {
            self.mismatch(expr.id, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    fn check_list(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::List { elements, optional } = &mut expr.kind else { return };
        let mut joined = None;
        for (i, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let t = self.unwrap(element, optional.contains(&i));
            joined = Some(self.join(joined, t));
        }
        let element = joined.unwrap_or_else(|| self.substitution.new_var());
        self.set(id, Type::list(element));
    }

    fn check_map(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Map(entries) = &mut expr.kind else { return };
        let (mut keys, mut values) = (None, None);
        for Entry { key, value, optional, .. } in entries.iter_mut() {
            self.check(key);
            let t = self.of(key);
            keys = Some(self.join(keys, t));
            self.check(value);
            let t = self.unwrap(value, *optional);
            values = Some(self.join(values, t));
        }
        let key = keys.unwrap_or_else(|| self.substitution.new_var());
        let value = values.unwrap_or_else(|| self.substitution.new_var());
        self.set(id, Type::map(key, value));
    }

    /// The type that fits what was before and what comes now. Where aggregates must hold one type, the validation that
    /// comes later says so.
    fn join(&mut self, before: Option<Type>, now: Type) -> Type {
        let Some(before) = before else { return now };
        if self.substitution.assignable(&before, &now) {
            return assign::most_general(before, now);
        }
        Type::Dyn
    }

    fn check_struct(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { name, fields } = &mut expr.kind else { return };
        let Some((resolved, t)) = self.lookup(name) else {
            let name = name.clone();
            return self.undeclared(id, &name);
        };
        name.clone_from(&resolved);
        let t = match t {
            Type::Error => Type::Error,
            Type::Type(Some(inner)) => match &*inner {
                Type::Object(_) => (*inner).clone(),
                other => {
                    self.report(id, format!("'{}' is not a message type", other.name()));
                    Type::Error
                }
            },
            other => {
                self.report(id, format!("'{}' is not a type", other.name()));
                Type::Error
            }
        };
        self.set(id, t);
        for Entry { id, key, value, optional } in fields {
            self.check(value);
            let field = self.object_field(*id, &resolved, key);
            let found = self.unwrap(value, *optional);
            if !self.substitution.assignable(&field, &found) {
                let message = format!("expected type of field '{key}' is '{field}' but provided type is '{found}'");
                self.report(*id, message);
            }
        }
    }

    fn check_comprehension(&mut self, c: &mut Comprehension) -> Type {
        self.check(&mut c.range);
        self.check(&mut c.init);
        let range = self.resolved(&self.of(&c.range));
        let accu = self.of(&c.init);
        let outer = self.scopes.len();
        self.scopes.push((c.accu.clone(), accu.clone()));
        let (first, second) = match &range {
            Type::List(element) if c.var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) | Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.report(c.range.id, format!("expression of type '{other}' {what}"));
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((c.var.clone(), first));
        if let Some(var2) = &c.var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&mut c.condition);
        self.assert(&c.condition, &Type::Bool);
        self.check(&mut c.step);
        self.assert(&c.step, &accu);
        self.scopes.truncate(outer + 1);
        self.check(&mut c.result);
        self.scopes.truncate(outer);
        self.resolved(&self.of(&c.result))
    }

    fn assert(&mut self, expr: &Expr, t: &Type) {
        let found = self.of(expr);
        if !self.substitution.assignable(t, &found) {
            self.mismatch(expr.id, t, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `a.b.c`, if the node is nothing but names.
fn qualified_name(expr: &Expr) -> Option<Str> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select { operand, field, test: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?).into())
        }
        _ => None,
    }
}
