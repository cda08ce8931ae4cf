//! Constant format strings against the types of their arguments.

use super::Checked;
use crate::library::string_format::{Clause, interpolate};
use crate::syntax::{Expr, ExprId, ExprKind};
use crate::types::Type;

/// What is wrong, and at which node if it is not the call as a whole.
pub(super) fn check_format(checked: &Checked, format: &str, args: &[Expr]) -> Result<(), (Option<ExprId>, String)> {
    let mut used = 0;
    let mut at = None;
    let outcome = interpolate(format, args.len(), |index, clause| {
        used = index + 1;
        match unfit(checked, &args[index], clause) {
            None => Ok(String::new()),
            Some(id) => {
                at = Some(id);
                Err(clause.refusal(&checked.types[id as usize].name()))
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

/// The node whose type a clause does not take.
fn unfit(checked: &Checked, arg: &Expr, clause: Clause) -> Option<ExprId> {
    let t = checked.type_of(arg);
    let fits = *t == Type::Dyn
        || match clause {
            Clause::String => return unfit_string(checked, arg),
            Clause::Decimal | Clause::Octal => matches!(t, Type::Int | Type::Uint),
            Clause::Fixed(_) | Clause::Scientific(_) => matches!(t, Type::Double | Type::String),
            Clause::Binary => matches!(t, Type::Int | Type::Uint | Type::Bool),
            Clause::Hex { .. } => matches!(t, Type::Int | Type::Uint | Type::String | Type::Bytes),
        };
    (!fits).then_some(arg.id)
}

fn unfit_string(checked: &Checked, arg: &Expr) -> Option<ExprId> {
    if matches!(checked.type_of(arg), Type::Object(_) | Type::Opaque(..) | Type::Error) {
        return Some(arg.id);
    }
    match &arg.kind {
        ExprKind::List { elements, .. } => elements.iter().find_map(|element| unfit_string(checked, element)),
        ExprKind::Map(entries) => entries
            .iter()
            .find_map(|entry| unfit_string(checked, &entry.key).or_else(|| unfit_string(checked, &entry.value))),
        _ => None,
    }
}
