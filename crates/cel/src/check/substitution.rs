//! Assignability of types and inference of type variables (upstream: cel-go `checker/types.go` and
//! `checker/mapping.go`).

use std::sync::Arc;

use pintle_value::Str;

use crate::types::Type;

/// The types that inference has assigned to type variables.
#[derive(Default)]
pub(super) struct Substitution {
    inferred: Vec<Option<Type>>,
    /// The previous type of each variable that was changed, so that a failed attempt can be rolled back.
    undo_log: Vec<(u32, Option<Type>)>,
}

/// A state of a [`Substitution`] to roll back to.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    vars: usize,
    changes: usize,
}

impl Substitution {
    pub(super) fn new_var(&mut self) -> Type {
        self.inferred.push(None);
        Type::Var(self.inferred.len() as u32 - 1)
    }

    /// Replaces the type parameters of a declared type with new type variables. `type_vars` maps the parameters that
    /// already have a variable.
    pub(super) fn instantiate(&mut self, t: &Type, type_vars: &mut Vec<(Str, Type)>) -> Type {
        match t {
            Type::Param(name) => {
                if let Some((_, var)) = type_vars.iter().find(|(known, _)| known == name) {
                    return var.clone();
                }
                let var = self.new_var();
                type_vars.push((name.clone(), var.clone()));
                var
            }
            other => map_parameters(other, &mut |inner| self.instantiate(inner, type_vars)),
        }
    }

    /// Replaces type variables with their inferred types. With `free_to_dyn`, variables without an inferred type become
    /// `dyn`.
    pub(super) fn substitute(&self, t: &Type, free_to_dyn: bool) -> Type {
        match t {
            Type::Var(n) => match &self.inferred[*n as usize] {
                Some(known) => self.substitute(known, free_to_dyn),
                None if free_to_dyn => Type::Dyn,
                None => t.clone(),
            },
            Type::Param(_) if free_to_dyn => Type::Dyn,
            other => map_parameters(other, &mut |inner| self.substitute(inner, free_to_dyn)),
        }
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { vars: self.inferred.len(), changes: self.undo_log.len() }
    }

    /// Discards the assignments that were made and the variables that were created after the checkpoint.
    pub(super) fn roll_back(&mut self, checkpoint: Checkpoint) {
        for (var, before) in self.undo_log.drain(checkpoint.changes..).rev() {
            self.inferred[var as usize] = before;
        }
        self.inferred.truncate(checkpoint.vars);
    }

    fn assign(&mut self, var: u32, t: Type) {
        let before = self.inferred[var as usize].replace(t);
        self.undo_log.push((var, before));
    }

    /// True if `b` can be assigned to `a`. Assigns type variables if so and changes nothing if not.
    pub(super) fn is_assignable(&mut self, a: &Type, b: &Type) -> bool {
        let checkpoint = self.checkpoint();
        let fits = self.unify(a, b);
        if !fits {
            self.roll_back(checkpoint);
        }
        fits
    }

    /// True if every type of `b` can be assigned to the corresponding type of `a`. The caller rolls back on failure.
    pub(super) fn are_assignable(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.unify(a, b))
    }

    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(n) = b {
            let (fits, known) = self.unify_var(a, *n);
            if fits || known {
                return fits;
            }
        }
        if let Type::Var(n) = a {
            return self.unify_var(b, *n).0;
        }
        match (a, b) {
            (Type::Dyn | Type::Any | Type::Error, _) | (_, Type::Dyn | Type::Any | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (Type::Opaque(a, p), Type::Opaque(b, q)) => {
                a == b && p.len() == q.len() && p.iter().zip(q.iter()).all(|(p, q)| self.unify(p, q))
            }
            (a, b) => a == b,
        }
    }

    /// Assigns a type to a type variable. Returns whether the type fits, and whether the variable had a type before.
    fn unify_var(&mut self, t: &Type, var: u32) -> (bool, bool) {
        if *t == Type::Var(var) {
            return (true, true);
        }
        if let Some(known) = self.inferred[var as usize].clone() {
            if *t == known {
                return (true, true);
            }
            if !self.unify(t, &known) {
                return (false, true);
            }
            let wider = more_general(t.clone(), known);
            if !self.mentions_var(&wider, var) {
                self.assign(var, wider);
            }
            return (true, true);
        }
        let free = !self.mentions_var(t, var);
        if free {
            self.assign(var, t.clone());
        }
        (free, false)
    }

    fn mentions_var(&self, t: &Type, var: u32) -> bool {
        match t {
            Type::Var(n) if *n == var => true,
            Type::Var(n) => self.inferred[*n as usize].as_ref().is_some_and(|known| self.mentions_var(known, var)),
            other => other.parameters().into_iter().any(|inner| self.mentions_var(inner, var)),
        }
    }
}

/// True for types that accept `null`.
fn is_nullable(t: &Type) -> bool {
    matches!(t, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
}

fn map_parameters(t: &Type, change: &mut impl FnMut(&Type) -> Type) -> Type {
    match t {
        Type::List(element) => Type::list(change(element)),
        Type::Map(entry) => Type::map(change(&entry.0), change(&entry.1)),
        Type::Type(Some(inner)) => Type::of_type(change(inner)),
        Type::Opaque(name, parameters) if !parameters.is_empty() => {
            Type::Opaque(name.clone(), parameters.iter().map(change).collect::<Arc<[Type]>>())
        }
        other => other.clone(),
    }
}

/// Returns the more general of two assignable types.
pub(super) fn more_general(a: Type, b: Type) -> Type {
    if is_less_specific(&a, &b) { a } else { b }
}

fn is_less_specific(a: &Type, b: &Type) -> bool {
    let open = |t: &Type| t.is_dynamic() || matches!(t, Type::Var(_) | Type::Param(_));
    if open(a) || open(b) {
        return open(a);
    }
    match (a, b) {
        (Type::List(a), Type::List(b)) => is_less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => is_less_specific(&a.0, &b.0) && is_less_specific(&a.1, &b.1),
        (Type::Opaque(a, p), Type::Opaque(b, q)) => {
            a == b && p.len() == q.len() && p.iter().zip(q.iter()).all(|(p, q)| is_less_specific(p, q))
        }
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
