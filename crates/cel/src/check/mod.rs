//! The type checker: assigns a type to every node and the matching overloads to every call. Error messages match
//! cel-go's (upstream: cel-go `checker`).

mod format;
mod substitution;
mod validate;

use pintle_value::Str;

use crate::env::Env;
use crate::function::{Function, Overload};
use crate::source::{Issues, Source};
use crate::syntax::{Comprehension, EntryExpr, Expr, ExprId, ExprKind, Literal, ParsedExpr, SourceInfo};
use crate::types::{Type, signature};

use substitution::Substitution;
pub(crate) use validate::validate;

/// A type-checked expression.
#[derive(Clone, Debug)]
pub struct CheckedExpr {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) overloads: Vec<Vec<&'static str>>,
    pub(crate) source_info: SourceInfo,
    pub(crate) source: Source,
}

impl CheckedExpr {
    /// The type of the whole expression.
    #[must_use]
    pub fn output_type(&self) -> &Type {
        self.type_of(&self.expr)
    }

    /// The root of the tree, with resolved names and expanded macros.
    #[must_use]
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// True if the expression mentions an identifier, for example `oldSelf` in a transition rule. Iteration variables
    /// count too.
    #[must_use]
    pub fn references(&self, name: &str) -> bool {
        self.expr.mentions(name)
    }

    /// True if the expression selects a field of an identifier, or tests whether the field exists. The index operator
    /// does not count.
    #[must_use]
    pub fn selects(&self, operand: &str, field: &str) -> bool {
        self.expr.selects(operand, field)
    }

    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).unwrap_or(&Type::Error)
    }

    /// The overloads that a call can resolve to at run time.
    pub(crate) fn overloads_of(&self, id: ExprId) -> &[&'static str] {
        self.overloads.get(id as usize).map_or(&[], Vec::as_slice)
    }
}

/// Type-checks a parsed expression.
pub(crate) fn check(env: &Env, source: Source, parsed: ParsedExpr) -> Result<CheckedExpr, Box<Issues>> {
    let ParsedExpr { mut expr, source_info } = parsed;
    let mut checker = Checker {
        env,
        source_info: &source_info,
        issues: Issues::new(source.clone()),
        source: &source,
        scopes: Vec::new(),
        types: vec![Type::Error; source_info.len()],
        overloads: vec![Vec::new(); source_info.len()],
        substitution: Substitution::default(),
    };
    checker.check(&mut expr);
    let Checker { issues, types, overloads, substitution, .. } = checker;
    if !issues.is_empty() {
        return Err(Box::new(issues));
    }
    let types = types.iter().map(|t| substitution.substitute(t, true)).collect();
    Ok(CheckedExpr { expr, types, overloads, source_info, source })
}

struct Checker<'e> {
    env: &'e Env,
    source_info: &'e SourceInfo,
    source: &'e Source,
    issues: Issues,
    /// The variables of the enclosing comprehensions, innermost last.
    scopes: Vec<(Str, Type)>,
    types: Vec<Type>,
    overloads: Vec<Vec<&'static str>>,
    substitution: Substitution,
}

impl Checker<'_> {
    fn report(&mut self, id: ExprId, message: impl Into<String>) {
        self.issues.report(self.source_info.location(id, self.source), message);
    }

    fn set_type(&mut self, id: ExprId, t: Type) {
        self.types[id as usize] = t;
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn substituted(&self, t: &Type) -> Type {
        self.substitution.substitute(t, false)
    }

    fn report_undeclared(&mut self, id: ExprId, name: &str) {
        let container = self.env.container_name();
        self.report(id, format!("undeclared reference to '{name}' (in container '{container}')"));
        self.set_type(id, Type::Error);
    }

    fn report_mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn resolve_name(&self, name: &str) -> Option<(Str, Type)> {
        self.env.candidate_names(name).find_map(|candidate| {
            let local = self.scopes.iter().rev().find(|(variable, _)| *variable == candidate).map(|(_, t)| t.clone());
            let known = local.or_else(|| self.env.find_variable(&candidate).map(|(_, t)| t.clone()));
            let t = known.or_else(|| self.env.find_type(&candidate))?;
            Some((candidate, t))
        })
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Unspecified => self.report(expr.id, "unexpected unspecified type: "),
            ExprKind::Literal(literal) => {
                let t = literal_type(literal);
                self.set_type(expr.id, t);
            }
            ExprKind::Ident(name) => match self.resolve_name(name) {
                Some((resolved, t)) => {
                    self.set_type(expr.id, t);
                    *name = resolved;
                }
                None => {
                    let name = name.clone();
                    self.report_undeclared(expr.id, &name);
                }
            },
            ExprKind::Select { .. } => self.check_select(expr),
            ExprKind::Call { .. } => self.check_call(expr),
            ExprKind::List { .. } => self.check_list(expr),
            ExprKind::Map(_) => self.check_map(expr),
            ExprKind::Struct { .. } => self.check_struct(expr),
            ExprKind::Comprehension(comprehension) => {
                let t = self.check_comprehension(comprehension);
                self.set_type(expr.id, t);
            }
        }
    }

    fn check_select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified_name(expr)
            && let Some((resolved, t)) = self.resolve_name(&name)
        {
            self.set_type(expr.id, t);
            expr.kind = ExprKind::Ident(resolved);
            return;
        }
        let id = expr.id;
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return };
        let t = self.field_type(id, operand, field, false);
        let t = if *test_only { Type::Bool } else { self.substituted(&t) };
        self.set_type(id, t);
    }

    fn field_type(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.substituted(&self.type_of(operand));
        let (target, is_optional) = operand.unwrap_optional();
        let t = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(name) => self.object_field(id, name, field),
            Type::Var(_) | Type::Param(_) => {
                self.substitution.is_assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Any | Type::Error => Type::Dyn,
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
            return match env.resolve_function(function) {
                Some(found) => {
                    *function = found.name.clone();
                    self.resolve(id, found, None, args);
                }
                None => {
                    let name = function.clone();
                    self.report_undeclared(id, &name);
                }
            };
        };
        if let Some(prefix) = qualified_name(receiver)
            && let Some(found) = env.resolve_function(&format!("{prefix}.{function}"))
        {
            *function = found.name.clone();
            *target = None;
            return self.resolve(id, found, None, args);
        }
        self.check(receiver);
        match env.resolve_function(function) {
            Some(found) => self.resolve(id, found, Some(receiver), args),
            None => {
                let name = function.clone();
                self.report_undeclared(id, &name);
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
        let t = self.substituted(&t);
        self.set_type(id, t);
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
        self.set_type(id, t);
    }

    fn resolve_overload(
        &mut self,
        id: ExprId,
        function: &Function,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Option<(Type, Vec<&'static str>)> {
        let mut types: Vec<Type> = target.iter().map(|target| self.type_of(target)).collect();
        types.extend(args.iter().map(|arg| self.type_of(arg)));
        let mut matching: Vec<&'static str> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.member == target.is_some()) {
            if function.name == "_&&_" || function.name == "_||_" {
                return self.check_logic(overload, args, &types);
            }
            let checkpoint = self.substitution.checkpoint();
            let (params, declared) = self.instantiate(overload);
            if !self.substitution.are_assignable(&types, &params) {
                self.substitution.roll_back(checkpoint);
                continue;
            }
            matching.push(overload.id);
            let declared = self.substituted(&declared);
            result = Some(match result {
                None => declared,
                Some(before) if before.is_dynamic() || before == declared => before,
                Some(_) => Type::Dyn,
            });
        }
        if result.is_none() {
            let types: Vec<Type> = types.iter().map(|t| self.substitution.substitute(t, true)).collect();
            let signature = signature(&types, target.is_some());
            let name = &function.name;
            self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
        }
        result.map(|result| (result, matching))
    }

    /// `&&` and `||` report each operand that is not a `bool`.
    fn check_logic(&mut self, overload: &Overload, args: &[Expr], types: &[Type]) -> Option<(Type, Vec<&'static str>)> {
        let mut fits = true;
        for (arg, t) in args.iter().zip(types) {
            if !self.substitution.is_assignable(t, &Type::Bool) {
                self.report_mismatch(arg.id, &Type::Bool, t);
                fits = false;
            }
        }
        fits.then(|| (Type::Bool, vec![overload.id]))
    }

    /// Returns the parameters and the result of an overload, with new type variables for its type parameters.
    fn instantiate(&mut self, overload: &Overload) -> (Vec<Type>, Type) {
        let mut names: Vec<(Str, Type)> = Vec::new();
        let params = overload.params.iter().map(|param| self.substitution.instantiate(param, &mut names)).collect();
        (params, self.substitution.instantiate(&overload.result, &mut names))
    }

    /// Returns the type of an element or value, unwrapped if it was written as optional (`?`).
    fn element_type(&mut self, expr: &Expr, optional: bool) -> Type {
        let t = self.type_of(expr);
        if !optional {
            return t;
        }
        let (inner, is_optional) = t.unwrap_optional();
        let inner = inner.clone();
        if !is_optional && !inner.is_dynamic() {
            self.report_mismatch(expr.id, &Type::optional(inner.clone()), &inner);
        }
        inner
    }

    fn check_list(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::List { elements, optional } = &mut expr.kind else { return };
        let mut joined = None;
        for (i, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let t = self.element_type(element, optional.contains(&i));
            joined = Some(self.join_types(joined, t));
        }
        let element = joined.unwrap_or_else(|| self.substitution.new_var());
        self.set_type(id, Type::list(element));
    }

    fn check_map(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Map(entries) = &mut expr.kind else { return };
        let (mut keys, mut values) = (None, None);
        for EntryExpr { key, value, optional, .. } in entries.iter_mut() {
            self.check(key);
            let t = self.type_of(key);
            keys = Some(self.join_types(keys, t));
            self.check(value);
            let t = self.element_type(value, *optional);
            values = Some(self.join_types(values, t));
        }
        let key = keys.unwrap_or_else(|| self.substitution.new_var());
        let value = values.unwrap_or_else(|| self.substitution.new_var());
        self.set_type(id, Type::map(key, value));
    }

    /// Returns the type that fits both arguments. The checker allows mixed aggregates; `validate` rejects them where
    /// the environment requires homogeneous aggregates.
    fn join_types(&mut self, before: Option<Type>, now: Type) -> Type {
        let Some(before) = before else { return now };
        if self.substitution.is_assignable(&before, &now) {
            return substitution::more_general(before, now);
        }
        Type::Dyn
    }

    fn check_struct(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { name, fields } = &mut expr.kind else { return };
        let Some((resolved, t)) = self.resolve_name(name) else {
            let name = name.clone();
            return self.report_undeclared(id, &name);
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
        self.set_type(id, t);
        for EntryExpr { id, key, value, optional } in fields {
            self.check(value);
            let field = self.object_field(*id, &resolved, key);
            let found = self.element_type(value, *optional);
            if !self.substitution.is_assignable(&field, &found) {
                let message = format!("expected type of field '{key}' is '{field}' but provided type is '{found}'");
                self.report(*id, message);
            }
        }
    }

    fn check_comprehension(&mut self, c: &mut Comprehension) -> Type {
        self.check(&mut c.iter_range);
        self.check(&mut c.accu_init);
        let range = self.substituted(&self.type_of(&c.iter_range));
        let accu = self.type_of(&c.accu_init);
        let outer = self.scopes.len();
        self.scopes.push((c.accu_var.clone(), accu.clone()));
        let (first, second) = match &range {
            Type::List(element) if c.iter_var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (entry.0.clone(), entry.1.clone()),
            Type::Dyn | Type::Error | Type::Var(_) | Type::Param(_) => {
                self.substitution.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let what = "cannot be range of a comprehension (must be list, map, or dynamic)";
                self.report(c.iter_range.id, format!("expression of type '{other}' {what}"));
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((c.iter_var.clone(), first));
        if let Some(var2) = &c.iter_var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&mut c.loop_condition);
        self.assert_type(&c.loop_condition, &Type::Bool);
        self.check(&mut c.loop_step);
        self.assert_type(&c.loop_step, &accu);
        self.scopes.truncate(outer + 1);
        self.check(&mut c.result);
        self.scopes.truncate(outer);
        self.substituted(&self.type_of(&c.result))
    }

    fn assert_type(&mut self, expr: &Expr, t: &Type) {
        let found = self.type_of(expr);
        if !self.substitution.is_assignable(t, &found) {
            self.report_mismatch(expr.id, t, &found);
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

/// Returns `a.b.c` for a chain of field selections that starts at an identifier.
fn qualified_name(expr: &Expr) -> Option<Str> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select { operand, field, test_only: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?).into())
        }
        _ => None,
    }
}
