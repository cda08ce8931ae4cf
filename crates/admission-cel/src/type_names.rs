//! The types of nested objects of a mutation must be named by the fields that they are in: `Object.spec` in the field
//! `spec`. Fields are dynamic, so that the type checker does not see it (upstream: `CheckTypeNamesMatchFieldPathNames`, which
//! looks at the result of an expression).

use pintle_cel::{CheckedExpr, Expr, ExprKind};
use pintle_value::print::quote;

use crate::types::OBJECT;

/// What is wrong with the names of types in an expression that makes objects.
pub(crate) fn mismatch(checked: &CheckedExpr) -> Option<String> {
    let mut found = Vec::new();
    walk(checked.expr(), None, &mut found);
    (!found.is_empty()).then(|| format!("type mismatch: {}", found.join("\n")))
}

fn is_object(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Walks what an expression can evaluate to. Lists and maps have the name of the field that they are in.
fn walk(expr: &Expr, expected: Option<&str>, found: &mut Vec<String>) {
    match &expr.kind {
        ExprKind::Struct { name, fields } => {
            let path = expected.unwrap_or(name);
            if name != path && is_object(name) {
                found.push(format!(
                    "unexpected type name {}, expected {}, which matches field name path from root Object type",
                    quote(name),
                    quote(path)
                ));
            }
            for field in fields {
                let below = is_object(name).then(|| format!("{path}.{}", field.key));
                walk(&field.value, below.as_deref(), found);
            }
        }
        ExprKind::List { elements, .. } => elements.iter().for_each(|element| walk(element, expected, found)),
        ExprKind::Map(entries) => entries.iter().for_each(|entry| walk(&entry.value, expected, found)),
        ExprKind::Call { target: None, function, args } => match (function.as_str(), &args[..]) {
            ("_?_:_", [_, first, second]) | ("_+_", [first, second]) => {
                walk(first, expected, found);
                walk(second, expected, found);
            }
            _ => {}
        },
        ExprKind::Comprehension(fold) => {
            [&fold.accu_init, &fold.loop_step, &fold.result].into_iter().for_each(|part| walk(part, expected, found));
        }
        _ => {}
    }
}
