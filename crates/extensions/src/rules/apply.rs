//! Evaluates the rules of one schema node on one value, and builds the errors of failed rules.

use pintle_cel::{EvalErrorKind, Evaluation, Program, TypeAdapter as _, Value};
use pintle_value::{FieldError, FieldPath, Value as Json};

use super::message;
use super::validator::{CelValidator, Rule};
use super::walker::{NodeContext, OutOfBudget, ValidationWalker, WalkResult};
use crate::schema::Type;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl ValidationWalker {
    /// Reports rules on a node whose type has no CEL declaration.
    pub(super) fn report_untyped_rules(&mut self, context: &NodeContext<'_>) {
        let why = "failed to convert to declType for CEL validation rules";
        self.invalid(context, format!("rule compiler initialization error: {why}"));
    }

    /// Evaluates the rules of one node.
    pub(super) fn apply_rules(&mut self, validator: &CelValidator, context: &NodeContext<'_>) -> WalkResult {
        let Some(shape) = &validator.adapter else { return Ok(()) };
        if self.result.remaining_budget <= 0 {
            return self.stop(context, OUT_OF_BUDGET);
        }
        let this = shape.read(context.new);
        let old = context.old.filter(|old| validator.use_old_self && !old.is_null()).map(|old| shape.read(old));
        let optional = match (validator.rules.iter().any(|rule| rule.optional_old_self), &old) {
            (true, Some(old)) => Some([this.clone(), Value::some(old.clone())]),
            (true, None) => Some([this.clone(), Value::Optional(None)]),
            (false, _) => None,
        };
        let bindings: Vec<Value<'_>> = std::iter::once(this).chain(old).collect();
        for (rule, text) in validator.rules.iter().zip(context.node.rules()) {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(error)) => {
                    self.invalid(context, format!("rule compile error: {error}"));
                    continue;
                }
            };
            if rule.uses_old_self && bindings.len() == 1 && !rule.optional_old_self {
                // A transition rule needs an old value.
                continue;
            }
            // If no rule of the node uses `oldSelf`, neither the plain nor the optional `oldSelf` is bound.
            let own = optional.as_ref().filter(|_| rule.optional_old_self && validator.use_old_self);
            let own = own.map_or(&bindings[..], |optional| &optional[..]);
            let invocation = RuleInvocation { rule, text, program, bindings: own, message_bindings: &bindings };
            self.apply_rule(context, &invocation)?;
        }
        Ok(())
    }

    fn apply_rule(&mut self, context: &NodeContext<'_>, invocation: &RuleInvocation<'_>) -> WalkResult {
        let Evaluation { result, cost } = invocation.program.evaluate(invocation.bindings, self.per_call);
        if !self.charge(cost) {
            return self.stop(context, OUT_OF_BUDGET);
        }
        let error = match result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => return self.report_failed_rule(context, invocation),
            Err(error) => error,
        };
        let shown = message::rule_error_string(invocation.text);
        let text = error.to_string();
        if text.starts_with("no such overload") {
            let detail = format!(
                "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            );
            self.invalid(context, detail);
        } else if *error.kind() == EvalErrorKind::CostLimit {
            let detail = format!(
                "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            );
            return self.stop(context, detail);
        } else {
            self.invalid(context, format!("{text} evaluating rule: {shown}"));
        }
        Ok(())
    }

    /// Adds the error of a failed rule.
    fn report_failed_rule(&mut self, context: &NodeContext<'_>, invocation: &RuleInvocation<'_>) -> WalkResult {
        let rule = invocation.rule;
        let path = rule.field.as_ref().map(|field| context.path.child(field));
        let path = path.as_ref().unwrap_or(context.path);
        let detail = match &rule.message {
            None => None,
            Some(program) => {
                let message_result = message::evaluate_message_expression(
                    program,
                    invocation.text,
                    invocation.message_bindings,
                    self.result.remaining_budget,
                );
                self.result.remaining_budget = message_result.remaining_budget;
                match message_result.message {
                    Ok(detail) => detail,
                    Err(fault) => {
                        let error = FieldError::invalid(&or_nil(path), context.type_name(), fault);
                        self.add(context, rule, error);
                        return Err(OutOfBudget);
                    }
                }
            }
        };
        let detail = detail.unwrap_or_else(|| message::rule_message_or_default(invocation.text));
        let error = context.error(invocation.text.str_at(&["reason"]), path, detail);
        self.add(context, rule, error);
        Ok(())
    }

    fn add(&mut self, context: &NodeContext<'_>, rule: &Rule, error: FieldError) {
        if !rule.uses_old_self && context.ratcheting.should_ratchet() {
            self.result.warnings.push(error.to_string());
        } else {
            self.result.errors.push(error);
        }
    }

    /// Charges a cost to the budget. Returns false if the budget is too small.
    fn charge(&mut self, cost: u64) -> bool {
        let left = i64::try_from(cost).ok().and_then(|cost| self.result.remaining_budget.checked_sub(cost));
        match left.filter(|left| *left >= 0) {
            Some(left) => self.result.remaining_budget = left,
            None => return false,
        }
        true
    }

    fn invalid(&mut self, context: &NodeContext<'_>, detail: impl Into<String>) {
        self.result.errors.push(FieldError::invalid(&or_nil(context.path), context.type_name(), detail));
    }

    fn stop(&mut self, context: &NodeContext<'_>, detail: impl Into<String>) -> WalkResult {
        self.invalid(context, detail);
        self.result.remaining_budget = -1;
        Err(OutOfBudget)
    }
}

/// One rule with its bindings.
struct RuleInvocation<'j> {
    rule: &'j Rule,
    /// The rule as in the schema.
    text: &'j Json,
    program: &'j Program,
    bindings: &'j [Value<'j>],
    /// In message expressions `oldSelf` is never optional.
    message_bindings: &'j [Value<'j>],
}

impl NodeContext<'_> {
    fn type_name(&self) -> &'static str {
        self.node.ty().map_or("", Type::name)
    }

    fn error(&self, reason: &str, path: &FieldPath<'_>, detail: String) -> FieldError {
        let path = &or_nil(path);
        let whole = matches!(self.node.ty(), Some(Type::Object | Type::Array));
        let shown = |error: FieldError| if whole { error.without_value() } else { error };
        match reason {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => shown(FieldError::duplicate(path, self.new.clone())),
            _ => shown(FieldError::invalid(path, self.new.clone(), detail)),
        }
    }
}

/// Upstream has no path for the object as a whole, and prints `<nil>`.
fn or_nil<'a>(path: &'a FieldPath<'a>) -> FieldPath<'a> {
    if path.is_root() { FieldPath::new("<nil>") } else { *path }
}
