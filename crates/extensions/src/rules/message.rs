//! What is said of a rule that is not kept.

use pintle_cel::{Budget, EvalErrorKind, Evaluation, Program, Value};
use pintle_value::Value as Json;
use pintle_value::print::quote;

/// The most bytes of a message that an expression makes.
const MAX_LENGTH: usize = 5 * 1024;

/// What came of an expression that makes a message.
pub(super) struct Said {
    /// The message; `None` where the expression fails or makes none that can be used, so that another one is needed.
    /// The error says why no more rules are looked at.
    pub(super) outcome: Result<Option<String>, String>,
    /// What is left of the budget.
    pub(super) budget: i64,
}

/// How a rule is called in messages.
pub(super) fn shown(rule: &Json) -> &str {
    let message = rule.str_at(&["message"]);
    if message.is_empty() { rule.str_at(&["rule"]).trim() } else { message.trim() }
}

/// The message that a rule has without an expression.
pub(super) fn default(rule: &Json) -> String {
    let shown = shown(rule);
    if rule.str_at(&["message"]).is_empty() { format!("failed rule: {shown}") } else { shown.to_owned() }
}

/// Evaluates the expression that makes a message.
pub(super) fn evaluate(program: &Program, rule: &Json, bindings: &[Value<'_>], budget: i64) -> Said {
    let Evaluation { result, cost } = program.evaluate(bindings, Budget::limit(Budget::PER_CALL));
    let over = |why: String| Said { outcome: Err(why), budget: -1 };
    let left = i64::try_from(cost).ok().and_then(|cost| budget.checked_sub(cost)).filter(|left| *left >= 0);
    let Some(budget) = left else {
        let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
        return over(why.to_owned());
    };
    let message = match &result {
        Ok(Value::String(text)) => Some(text.trim()),
        Ok(_) => None,
        Err(error) if *error.kind() == EvalErrorKind::CostLimit => {
            let expression = quote(rule.str_at(&["messageExpression"]));
            return over(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {expression}"
            ));
        }
        Err(_) => None,
    };
    let fits = |text: &&str| !text.is_empty() && text.len() <= MAX_LENGTH && !text.contains('\n');
    Said { outcome: Ok(message.filter(fits).map(str::to_owned)), budget }
}
