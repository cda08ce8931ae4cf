//! Validators that kube-apiserver enables in addition to type checking (upstream: cel-go `cel/validator.go`). Constant
//! durations, timestamps and regular expressions must be valid. Aggregate literals must be homogeneous. Format strings
//! must fit their arguments.

use std::collections::HashSet;

use pintle_value::time::Duration;

use super::CheckedExpr;
use super::format::validate_format;
use crate::regexp::compile;
use crate::source::Issues;
use crate::syntax::{EntryExpr, Expr, ExprId, ExprKind, Literal};
use crate::types::Type;
use crate::value::Timestamp;

/// Runs the validators on a checked expression.
pub(crate) fn validate(checked: &CheckedExpr) -> Result<(), Box<Issues>> {
    let mut validator = Validator { checked, issues: Issues::new(checked.source.clone()), reported: HashSet::new() };
    validator.visit(&checked.expr, false);
    if validator.issues.is_empty() { Ok(()) } else { Err(Box::new(validator.issues)) }
}

struct Validator<'c> {
    checked: &'c CheckedExpr,
    issues: Issues,
    reported: HashSet<(ExprId, String)>,
}

impl Validator<'_> {
    fn report(&mut self, id: ExprId, message: String) {
        if self.reported.insert((id, message.clone())) {
            let location = self.checked.source_info.location(id, &self.checked.source);
            self.issues.report(location, message);
        }
    }

    /// `in_format` is true within the arguments of `format`, where lists may be heterogeneous.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        match &expr.kind {
            ExprKind::Select { operand, .. } => self.visit(operand, in_format),
            ExprKind::Call { target, function, args } => {
                self.validate_call(expr.id, target.as_deref(), function, args);
                let in_format = in_format || function == "format";
                for part in target.as_deref().into_iter().chain(args) {
                    self.visit(part, in_format);
                }
            }
            ExprKind::List { elements, optional } => {
                if !in_format {
                    self.validate_homogeneous(
                        elements.iter().enumerate().map(|(i, e)| (e, optional.contains(&i))),
                        true,
                    );
                }
                for element in elements {
                    self.visit(element, in_format);
                }
            }
            ExprKind::Map(entries) => {
                if !in_format {
                    self.validate_homogeneous(entries.iter().map(|entry| (&entry.key, false)), false);
                    self.validate_homogeneous(entries.iter().map(|entry| (&entry.value, entry.optional)), false);
                }
                for EntryExpr { key, value, .. } in entries {
                    self.visit(key, in_format);
                    self.visit(value, in_format);
                }
            }
            ExprKind::Struct { fields, .. } => {
                for field in fields {
                    self.visit(&field.value, in_format);
                }
            }
            ExprKind::Comprehension(c) => {
                for part in [&c.iter_range, &c.accu_init, &c.loop_condition, &c.loop_step, &c.result] {
                    self.visit(part, in_format);
                }
            }
            ExprKind::Unspecified | ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        }
    }

    fn validate_call(&mut self, id: ExprId, target: Option<&Expr>, function: &str, args: &[Expr]) {
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
            && let Err((at, message)) = validate_format(self.checked, format, elements)
        {
            self.report(at.unwrap_or(id), message);
        }
    }

    fn validate_homogeneous<'x>(&mut self, parts: impl Iterator<Item = (&'x Expr, bool)>, first_only: bool) {
        let mut expected: Option<Type> = None;
        for (part, optional) in parts {
            let t = self.checked.type_of(part);
            let t = if optional { t.unwrap_optional().0 } else { t };
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
