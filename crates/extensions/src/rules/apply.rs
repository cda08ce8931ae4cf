//! The rules of one node applied to one value, and what is said of those that are not kept.

use pintle_cel::{Budget, EvalErrorKind, Evaluation, Program, TypeAdapter as _, Value};
use pintle_value::{FieldError, FieldPath, Value as Json};

use super::message;
use super::tree::{Rule, Rules};
use super::walk::{Goes, Over, Spot, Walk};
use crate::schema::Type;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl Walk {
    /// Rules of something that they cannot see.
    pub(super) fn unseen(&mut self, spot: &Spot<'_>) {
        let why = "failed to convert to declType for CEL validation rules";
        self.invalid(spot, format!("rule compiler initialization error: {why}"));
    }

    /// The rules of one node.
    pub(super) fn own(&mut self, rules: &Rules, spot: &Spot<'_>) -> Goes {
        let Some(shape) = &rules.place else { return Ok(()) };
        if self.verdict.budget <= 0 {
            return self.end(spot, OUT_OF_BUDGET);
        }
        let this = shape.read(spot.new);
        let old = spot.old.filter(|old| rules.use_old_self && !old.is_null()).map(|old| shape.read(old));
        let optional = match (rules.own.iter().any(|rule| rule.optional_old_self), &old) {
            (true, Some(old)) => Some([this.clone(), Value::some(old.clone())]),
            (true, None) => Some([this.clone(), Value::Optional(None)]),
            (false, _) => None,
        };
        let bindings: Vec<Value<'_>> = std::iter::once(this).chain(old).collect();
        for (rule, text) in rules.own.iter().zip(spot.part.rules()) {
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(error)) => {
                    self.invalid(spot, format!("rule compile error: {error}"));
                    continue;
                }
            };
            if rule.uses_old_self && bindings.len() == 1 && !rule.optional_old_self {
                // There is nothing to compare to.
                continue;
            }
            // Where no rule of the node asks for the old value, there is none to be optional either.
            let own = optional.as_ref().filter(|_| rule.optional_old_self && rules.use_old_self);
            let own = own.map_or(&bindings[..], |optional| &optional[..]);
            let applied = Applied { rule, text, program, bindings: own, message_bindings: &bindings };
            self.rule(spot, &applied)?;
        }
        Ok(())
    }

    fn rule(&mut self, spot: &Spot<'_>, applied: &Applied<'_>) -> Goes {
        let Evaluation { result, cost } = applied.program.evaluate(applied.bindings, Budget::limit(self.per_call));
        if !self.spend(cost) {
            return self.end(spot, OUT_OF_BUDGET);
        }
        let error = match result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => return self.broken(spot, applied),
            Err(error) => error,
        };
        let shown = message::shown(applied.text);
        let text = error.to_string();
        if text.starts_with("no such overload") {
            let detail = format!(
                "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
            );
            self.invalid(spot, detail);
        } else if *error.kind() == EvalErrorKind::CostLimit {
            let detail = format!(
                "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
            );
            return self.end(spot, detail);
        } else {
            self.invalid(spot, format!("{text} evaluating rule: {shown}"));
        }
        Ok(())
    }

    /// The error of a rule that is not kept.
    fn broken(&mut self, spot: &Spot<'_>, applied: &Applied<'_>) -> Goes {
        let rule = applied.rule;
        let path = rule.field.as_ref().map(|field| spot.path.child(field));
        let path = path.as_ref().unwrap_or(spot.path);
        let detail = match &rule.message {
            None => None,
            Some(program) => {
                let said = message::evaluate(program, applied.text, applied.message_bindings, self.verdict.budget);
                self.verdict.budget = said.budget;
                match said.outcome {
                    Ok(detail) => detail,
                    Err(fault) => {
                        let error = FieldError::invalid(&at(path), spot.type_name(), fault);
                        self.add(spot, rule, error);
                        return Err(Over);
                    }
                }
            }
        };
        let detail = detail.unwrap_or_else(|| message::default(applied.text));
        let error = spot.error(applied.text.str_at(&["reason"]), path, detail);
        self.add(spot, rule, error);
        Ok(())
    }

    fn add(&mut self, spot: &Spot<'_>, rule: &Rule, error: FieldError) {
        if !rule.uses_old_self && spot.ratchet.lets_through() {
            self.verdict.warnings.push(error.to_string());
        } else {
            self.verdict.errors.push(error);
        }
    }

    /// Takes a cost from the budget; false if that is too small.
    fn spend(&mut self, cost: u64) -> bool {
        let left = i64::try_from(cost).ok().and_then(|cost| self.verdict.budget.checked_sub(cost));
        match left.filter(|left| *left >= 0) {
            Some(left) => self.verdict.budget = left,
            None => return false,
        }
        true
    }

    fn invalid(&mut self, spot: &Spot<'_>, detail: impl Into<String>) {
        self.verdict.errors.push(FieldError::invalid(&at(spot.path), spot.type_name(), detail));
    }

    fn end(&mut self, spot: &Spot<'_>, detail: impl Into<String>) -> Goes {
        self.invalid(spot, detail);
        self.verdict.budget = -1;
        Err(Over)
    }
}

/// One rule and what it is asked about.
struct Applied<'j> {
    rule: &'j Rule,
    /// The rule as it is written.
    text: &'j Json,
    program: &'j Program,
    bindings: &'j [Value<'j>],
    /// To messages an old value is never optional.
    message_bindings: &'j [Value<'j>],
}

impl Spot<'_> {
    fn type_name(&self) -> &'static str {
        self.part.ty().map_or("", Type::name)
    }

    fn error(&self, reason: &str, path: &FieldPath<'_>, detail: String) -> FieldError {
        let path = &at(path);
        let whole = matches!(self.part.ty(), Some(Type::Object | Type::Array));
        let shown = |error: FieldError| if whole { error.without_value() } else { error };
        match reason {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => shown(FieldError::duplicate(path, self.new.clone())),
            _ => shown(FieldError::invalid(path, self.new.clone(), detail)),
        }
    }
}

/// Upstream has no path for the object as a whole, and prints that.
fn at<'a>(path: &'a FieldPath<'a>) -> FieldPath<'a> {
    if path.is_root() { FieldPath::new("<nil>") } else { *path }
}
