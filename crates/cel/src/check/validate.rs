//! What Kubernetes demands of expressions beyond their types: constants that are read as durations, times or regular
//! expressions must be valid, aggregates must hold one type, format strings must fit their arguments.

use std::collections::HashSet;

use pintle_value::time::Duration;

use super::Checked;
use super::format::check_format;
use crate::pattern::compile;
use crate::source::Issues;
use crate::syntax::{Entry, Expr, ExprId, ExprKind, Literal};
use crate::types::Type;
use crate::value::Timestamp;

/// Checks an expression whose types are known.
pub(crate) fn validate(checked: &Checked) -> Result<(), Box<Issues>> {
    let mut validator = Validator { checked, issues: Issues::new(checked.source.clone()), reported: HashSet::new() };
    validator.walk(&checked.expr, false);
    if validator.issues.is_empty() { Ok(()) } else { Err(Box::new(validator.issues)) }
}

struct Validator<'c> {
    checked: &'c Checked,
    issues: Issues,
    reported: HashSet<(ExprId, String)>,
}

impl Validator<'_> {
    fn report(&mut self, id: ExprId, message: String) {
        if self.reported.insert((id, message.clone())) {
            let location = self.checked.positions.location(id, &self.checked.source);
            self.issues.report(location, message);
        }
    }

    /// `formatted` is true within the arguments of `format`, where lists may hold anything.
    fn walk(&mut self, expr: &Expr, formatted: bool) {
        match &expr.kind {
            ExprKind::Select { operand, .. } => self.walk(operand, formatted),
            ExprKind::Call { target, function, args } => {
                self.call(expr.id, target.as_deref(), function, args);
                let formatted = formatted || function == "format";
                for part in target.as_deref().into_iter().chain(args) {
                    self.walk(part, formatted);
                }
            }
            ExprKind::List { elements, optional } => {
                if !formatted {
                    self.one_type(elements.iter().enumerate().map(|(i, e)| (e, optional.contains(&i))), true);
                }
                for element in elements {
                    self.walk(element, formatted);
                }
            }
            ExprKind::Map(entries) => {
                if !formatted {
                    self.one_type(entries.iter().map(|entry| (&entry.key, false)), false);
                    self.one_type(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                }
                for Entry { key, value, .. } in entries {
                    self.walk(key, formatted);
                    self.walk(value, formatted);
                }
            }
            ExprKind::Struct { fields, .. } => {
                for field in fields {
                    self.walk(&field.value, formatted);
                }
            }
            ExprKind::Comprehension(c) => {
                for part in [&c.range, &c.init, &c.condition, &c.step, &c.result] {
                    self.walk(part, formatted);
                }
            }
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        }
    }

    fn call(&mut self, id: ExprId, target: Option<&Expr>, function: &str, args: &[Expr]) {
        let first = args.first().and_then(|arg| match &arg.kind {
            ExprKind::Literal(literal) => Some((arg.id, literal)),
            _ => None,
        });
        let valid = match (function, first) {
            ("duration", Some((_, Literal::String(text)))) => Duration::parse(text).is_ok(),
            ("duration", Some((_, Literal::Int(_)))) => false,
            ("timestamp", Some((_, Literal::String(text)))) => matches!(Timestamp::parse(text), Some(Ok(_))),
            ("timestamp", Some((_, Literal::Int(seconds)))) => Timestamp::new(*seconds, 0).is_ok(),
            ("matches", Some((_, Literal::String(pattern)))) => compile(pattern).is_ok(),
            _ => true,
        };
        if let Some((arg, _)) = first.filter(|_| !valid) {
            self.report(arg, format!("invalid {function} argument"));
        }
        if function == "format"
            && let Some(Expr { kind: ExprKind::Literal(Literal::String(format)), .. }) = target
            && let [Expr { kind: ExprKind::List { elements, .. }, .. }] = args
            && let Err((at, message)) = check_format(self.checked, format, elements)
        {
            self.report(at.unwrap_or(id), message);
        }
    }

    fn one_type<'x>(&mut self, parts: impl Iterator<Item = (&'x Expr, bool)>, first_only: bool) {
        let mut expected: Option<Type> = None;
        for (part, optional) in parts {
            let t = self.checked.type_of(part);
            let t = if optional { t.unwrapped().0 } else { t };
            match &expected {
                None => expected = Some(t.clone()),
                Some(before) if before == t => {}
                Some(before) => {
                    self.report(part.id, format!("expected type '{before}' but found '{t}'"));
                    if first_only {
                        return;
                    }
                }
            }
        }
    }
}
