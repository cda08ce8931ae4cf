//! Messages of failed rules.

use pintle_cel::{EvalErrorKind, Evaluation, PER_CALL_COST_LIMIT, Program, Value};
use pintle_value::Value as Json;
use pintle_value::print::quote;

/// The maximum length of the result of a message expression, in bytes.
const MAX_LENGTH: usize = 5 * 1024;

/// The result of a message expression.
pub(super) struct MessageResult {
    /// The message. `None` if the expression fails or its result is unusable; then the default message is used. An
    /// error ends the evaluation of rules.
    pub(super) message: Result<Option<String>, String>,
    /// The remaining cost budget.
    pub(super) remaining_budget: i64,
}

/// The name of a rule in error messages: its message, or its text (upstream: `ruleErrorString`).
pub(super) fn rule_error_string(rule: &Json) -> &str {
    let message = rule.str_at(&["message"]);
    if message.is_empty() { rule.str_at(&["rule"]).trim() } else { message.trim() }
}

/// The message of a failed rule without an expression (upstream: `ruleMessageOrDefault`).
pub(super) fn rule_message_or_default(rule: &Json) -> String {
    let rule_error_string = rule_error_string(rule);
    if rule.str_at(&["message"]).is_empty() {
        format!("failed rule: {rule_error_string}")
    } else {
        rule_error_string.to_owned()
    }
}

/// Evaluates a message expression.
pub(super) fn evaluate_message_expression(
    program: &Program,
    rule: &Json,
    bindings: &[Value<'_>],
    budget: i64,
) -> MessageResult {
    let Evaluation { result, cost } = program.evaluate(bindings, PER_CALL_COST_LIMIT);
    let over = |why: String| MessageResult { message: Err(why), remaining_budget: -1 };
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
    MessageResult { message: Ok(message.filter(fits).map(str::to_owned)), remaining_budget: budget }
}
