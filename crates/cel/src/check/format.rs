//! Validates constant format strings against the types of their arguments (upstream: `stringFormatValidator` of
//! cel-go's `ext/formatting.go`).

use super::CheckedExpr;
use crate::format_string::{Clause, expand};
use crate::syntax::{Expr, ExprId, ExprKind};
use crate::types::Type;

/// Checks the arguments of one call of `format`.
///
/// # Errors
/// The message, and the node that it applies to, if that is not the whole call.
pub(super) fn validate_format(
    checked: &CheckedExpr,
    format: &str,
    args: &[Expr],
) -> Result<(), (Option<ExprId>, String)> {
    let mut used = 0;
    let mut at = None;
    let outcome = expand(format, args.len(), |index, clause| {
        used = index + 1;
        match mismatched_arg(checked, &args[index], clause) {
            None => Ok(String::new()),
            Some(id) => {
                at = Some(id);
                Err(clause.type_error(&checked.types[id as usize].name()))
            }
        }
    });
    outcome.map_err(|message| (at, message))?;
    if args.len() > used {
        let got = args.len();
        let message = format!("too many arguments supplied to string.format (expected {used}, got {got})");
        return Err((None, message));
    }
    Ok(())
}

/// Returns the node whose type the clause does not accept.
fn mismatched_arg(checked: &CheckedExpr, arg: &Expr, clause: Clause) -> Option<ExprId> {
    let t = checked.type_of(arg);
    let fits = *t == Type::Dyn
        || match clause {
            Clause::String => return mismatched_string_arg(checked, arg),
            Clause::Decimal | Clause::Octal => matches!(t, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(t, Type::Double | Type::String),
            Clause::Binary => matches!(t, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex { .. } => matches!(t, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
    (!fits).then_some(arg.id)
}

fn mismatched_string_arg(checked: &CheckedExpr, arg: &Expr) -> Option<ExprId> {
    if matches!(checked.type_of(arg), Type::Any | Type::Object(_) | Type::Opaque(..) | Type::Error) {
        return Some(arg.id);
    }
    match &arg.kind {
        ExprKind::List { elements, .. } => elements.iter().find_map(|element| mismatched_string_arg(checked, element)),
        ExprKind::Map(entries) => entries.iter().find_map(|entry| {
            mismatched_string_arg(checked, &entry.key).or_else(|| mismatched_string_arg(checked, &entry.value))
        }),
        _ => None,
    }
}
