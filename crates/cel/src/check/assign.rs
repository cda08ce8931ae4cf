//! Which types may stand for which, and what type variables turn out to be.

use std::sync::Arc;

use pintle_value::Str;

use crate::types::Type;

/// What is known of type variables.
#[derive(Default)]
pub(super) struct Substitution {
    known: Vec<Option<Type>>,
    /// What was known before each change, so that an attempt that fails can be taken back.
    trail: Vec<(u32, Option<Type>)>,
}

/// A state to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    vars: usize,
    changes: usize,
}

impl Substitution {
    pub(super) fn new_var(&mut self) -> Type {
        self.known.push(None);
        Type::Var(self.known.len() as u32 - 1)
    }

    /// A declared type with a new variable for each parameter; `names` holds those that have one already.
    pub(super) fn fresh(&mut self, t: &Type, names: &mut Vec<(Str, Type)>) -> Type {
        match t {
            Type::Param(name) => {
                if let Some((_, var)) = names.iter().find(|(known, _)| known == name) {
                    return var.clone();
                }
                let var = self.new_var();
                names.push((name.clone(), var.clone()));
                var
            }
            other => map_parameters(other, &mut |inner| self.fresh(inner, names)),
        }
    }

    /// A type with what is known put in. In the end what is still open is `dyn`.
    pub(super) fn apply(&self, t: &Type, open_is_dyn: bool) -> Type {
        match t {
            Type::Var(n) => match &self.known[*n as usize] {
                Some(known) => self.apply(known, open_is_dyn),
                None if open_is_dyn => Type::Dyn,
                None => t.clone(),
            },
            Type::Param(_) if open_is_dyn => Type::Dyn,
            other => map_parameters(other, &mut |inner| self.apply(inner, open_is_dyn)),
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { vars: self.known.len(), changes: self.trail.len() }
    }

    /// Forgets what was learnt since the mark, and the variables that were made since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        for (var, before) in self.trail.drain(mark.changes..).rev() {
            self.known[var as usize] = before;
        }
        self.known.truncate(mark.vars);
    }

    fn learn(&mut self, var: u32, t: Type) {
        let before = self.known[var as usize].replace(t);
        self.trail.push((var, before));
    }

    /// True if the types fit; then what that says of variables is kept.
    pub(super) fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        let mark = self.mark();
        let fits = self.unify(a, b);
        if !fits {
            self.back_to(mark);
        }
        fits
    }

    /// True if all of the types fit.
    pub(super) fn all_assignable(&mut self, a: &[Type], b: &[Type]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.unify(a, b))
    }

    fn unify(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(n) = b {
            let (fits, known) = self.bind(a, *n);
            if fits || known {
                return fits;
            }
        }
        if let Type::Var(n) = a {
            return self.bind(b, *n).0;
        }
        match (a, b) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) => self.unify(a, b),
            (Type::Map(a), Type::Map(b)) => self.unify(&a.0, &b.0) && self.unify(&a.1, &b.1),
            (Type::Opaque(a, p), Type::Opaque(b, q)) => {
                a == b && p.len() == q.len() && p.iter().zip(q.iter()).all(|(p, q)| self.unify(p, q))
            }
            (a, b) => a == b,
        }
    }

    /// Lets a variable be a type. Says whether that fits, and whether something was known of the variable.
    fn bind(&mut self, t: &Type, var: u32) -> (bool, bool) {
        if *t == Type::Var(var) {
            return (true, true);
        }
        if let Some(known) = self.known[var as usize].clone() {
            if *t == known {
                return (true, true);
            }
            if !self.unify(t, &known) {
                return (false, true);
            }
            let wider = most_general(t.clone(), known);
            if !self.refers_to(&wider, var) {
                self.learn(var, wider);
            }
            return (true, true);
        }
        let free = !self.refers_to(t, var);
        if free {
            self.learn(var, t.clone());
        }
        (free, false)
    }

    fn refers_to(&self, t: &Type, var: u32) -> bool {
        match t {
            Type::Var(n) if *n == var => true,
            Type::Var(n) => self.known[*n as usize].as_ref().is_some_and(|known| self.refers_to(known, var)),
            other => other.parameters().into_iter().any(|inner| self.refers_to(inner, var)),
        }
    }
}

/// Types that `null` may stand for.
fn nullable(t: &Type) -> bool {
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

/// The one of two types that the other may stand for.
pub(super) fn most_general(a: Type, b: Type) -> Type {
    if less_specific(&a, &b) { a } else { b }
}

fn less_specific(a: &Type, b: &Type) -> bool {
    let open = |t: &Type| matches!(t, Type::Dyn | Type::Var(_) | Type::Param(_));
    if open(a) || open(b) {
        return open(a);
    }
    match (a, b) {
        (Type::List(a), Type::List(b)) => less_specific(a, b),
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Opaque(a, p), Type::Opaque(b, q)) => {
            a == b && p.len() == q.len() && p.iter().zip(q.iter()).all(|(p, q)| less_specific(p, q))
        }
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}
