//! A compiled policy and its evaluation (upstream: `policy/validating/validator.go`).

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use pintle_admission_cel::{
    Declarations, EvaluationInput, ExpressionKind, Expressions, MatchConditions, OutOfBudget, POLICY_BUDGET, UsedValues,
};
use pintle_cel::Value as CelValue;
use pintle_value::{Str, Value};

use crate::plugins::policy::definition::{Definition, StoredPolicy, compiler};

/// The maximum length of the result of a message expression (upstream: `MaxEvaluatedMessageExpressionSizeBytes`).
const MAX_MESSAGE: usize = 5 * 1024;

/// A stored ValidatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(super) definition: Definition,
    spec: Value,
    /// The programs, compiled for the first request that matches.
    programs: OnceLock<Programs>,
}

/// The compiled expressions of a policy.
#[derive(Debug)]
struct Programs {
    conditions: MatchConditions,
    validations: Expressions,
    messages: Expressions,
    annotations: Expressions,
    used: UsedValues,
}

/// The result of a validation that did not simply succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedValidation {
    /// The index of the validation.
    pub(super) index: usize,
    pub(super) message: String,
    /// The reason that the policy gives; `None` for errors.
    pub(super) reason: Option<Str>,
    /// True if an error is ignored, so that the request is admitted.
    pub(super) is_ignored: bool,
    pub(super) elapsed: Duration,
}

/// The value of an audit annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditAnnotation {
    pub(super) key: Str,
    /// The value, or the error that denies the request.
    pub(super) value: Result<String, String>,
    pub(super) elapsed: Duration,
}

/// The result of a policy for a request. Validations that succeeded are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PolicyResult {
    pub(super) failed: Vec<FailedValidation>,
    pub(super) annotations: Vec<AuditAnnotation>,
}

/// The result of one validation.
enum Outcome {
    Admitted,
    Denied,
    Error(String),
}

impl StoredPolicy for Policy {
    fn of(object: &Value) -> Self {
        let spec = object["spec"].clone();
        Self { definition: Definition::of(object), spec, programs: OnceLock::new() }
    }

    fn definition(&self) -> &Definition {
        &self.definition
    }
}

impl Policy {
    fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| Programs::compile(&self.spec))
    }

    /// The values that the expressions use.
    pub(super) fn used_values(&self) -> UsedValues {
        self.programs().used
    }

    /// The validations of the policy.
    fn validation(&self, index: usize) -> &Value {
        self.spec.items_at(&["validations"]).get(index).unwrap_or(&Value::Null)
    }

    /// Evaluates the policy for a request, which match conditions see as `condition_request`.
    pub(super) fn evaluate(&self, input: &EvaluationInput<'_>, condition_request: &Value) -> PolicyResult {
        let programs = self.programs();
        match self.definition.matches(&programs.conditions, &EvaluationInput { request: condition_request, ..*input }) {
            Ok(true) => {}
            Ok(false) => return PolicyResult::default(),
            Err(error) => return self.failed(error),
        }
        let mut outcomes = Vec::with_capacity(self.spec.items_at(&["validations"]).len());
        let mut last = Instant::now();
        let evaluated = programs.validations.evaluate(input, POLICY_BUDGET, |_, result| {
            let outcome = match result {
                Ok(CelValue::Bool(true)) => Outcome::Admitted,
                Ok(_) => Outcome::Denied,
                Err(error) => Outcome::Error(error.to_string()),
            };
            let now = Instant::now();
            outcomes.push((outcome, now - last));
            last = now;
        });
        let remaining = match evaluated {
            Ok(remaining) => remaining,
            Err(error) => return self.failed(error.to_string()),
        };
        let (messages, out_of_budget) = self.messages(input, remaining, &outcomes);
        let mut failed = Vec::new();
        for (index, ((outcome, elapsed), message)) in outcomes.into_iter().zip(messages).enumerate() {
            let error = match (&outcome, out_of_budget) {
                (Outcome::Error(error), _) => Some(error.clone()),
                (_, Some(error)) => Some(format!("failed messageExpression: {error}")),
                (_, None) => None,
            };
            failed.push(match (error, outcome) {
                (Some(message), _) => FailedValidation {
                    index,
                    message,
                    reason: None,
                    is_ignored: self.definition.ignores_failures,
                    elapsed,
                },
                (None, Outcome::Denied) => {
                    let message = message.unwrap_or_else(|| self.default_message(index));
                    let reason = self.validation(index).get("reason").and_then(Value::as_str);
                    let reason = Some(reason.unwrap_or("Invalid").into());
                    FailedValidation { index, message, reason, is_ignored: false, elapsed }
                }
                (None, _) => continue,
            });
        }
        match self.annotations(input) {
            Ok(annotations) => PolicyResult { failed, annotations },
            Err(error) => self.failed(error.to_string()),
        }
    }

    /// The result of an error that does not belong to a single validation.
    fn failed(&self, message: String) -> PolicyResult {
        let is_ignored = self.definition.ignores_failures;
        let failed = FailedValidation { index: 0, message, reason: None, is_ignored, elapsed: Duration::ZERO };
        PolicyResult { failed: vec![failed], annotations: Vec::new() }
    }

    /// The results of the message expressions that can be used. They are evaluated if a validation fails. They are also
    /// evaluated if they could exceed the budget, which is an error of every validation.
    fn messages(
        &self,
        input: &EvaluationInput<'_>,
        remaining: i64,
        outcomes: &[(Outcome, Duration)],
    ) -> (Vec<Option<String>>, Option<OutOfBudget>) {
        let expressions = &self.programs().messages;
        let mut messages = vec![None; outcomes.len()];
        let is_needed = outcomes.iter().any(|(outcome, _)| matches!(outcome, Outcome::Denied));
        if expressions.is_empty() || !is_needed && expressions.fits(remaining) {
            return (messages, None);
        }
        let input = EvaluationInput { authorizer: None, ..*input };
        let evaluated = expressions.evaluate(&input, remaining, |i, result| {
            if let (Ok(CelValue::String(text)), Some(slot)) = (result, messages.get_mut(i)) {
                let text = text.trim();
                let is_usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                *slot = is_usable.then(|| text.to_owned());
            }
        });
        (messages, evaluated.err())
    }

    fn default_message(&self, index: usize) -> String {
        let validation = self.validation(index);
        match validation.str_at(&["message"]).trim() {
            "" => format!("failed expression: {}", validation.str_at(&["expression"]).trim()),
            message => message.to_owned(),
        }
    }

    fn annotations(&self, input: &EvaluationInput<'_>) -> Result<Vec<AuditAnnotation>, OutOfBudget> {
        let input = EvaluationInput { authorizer: None, ..*input };
        let specs = self.spec.items_at(&["auditAnnotations"]);
        let mut annotations = Vec::new();
        let mut last = Instant::now();
        self.programs().annotations.evaluate(&input, POLICY_BUDGET, |i, result| {
            let now = Instant::now();
            let elapsed = now - last;
            last = now;
            let spec = specs.get(i).unwrap_or(&Value::Null);
            let value = match result {
                Ok(CelValue::Null) => return,
                Ok(CelValue::String(text)) => match text.trim() {
                    "" => return,
                    text => Ok(text.to_owned()),
                },
                Ok(other) => Err(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    spec.str_at(&["valueExpression"]),
                    other.type_name()
                )),
                Err(_) if self.definition.ignores_failures => return,
                Err(error) => Err(error.to_string()),
            };
            annotations.push(AuditAnnotation { key: spec.str_at(&["key"]).into(), value, elapsed });
        })?;
        Ok(annotations)
    }
}

impl Programs {
    fn compile(spec: &Value) -> Self {
        let (compiler, declarations) = compiler(spec);
        let compile = |list: &str, field: &str, kind, declarations| {
            let expressions = spec.items_at(&[list]).iter().map(|item| {
                let text = item.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())?;
                Some(compiler.compile(text, kind, declarations))
            });
            Expressions::new(&compiler, expressions.collect())
        };
        let conditions = MatchConditions::compile(spec.items_at(&["matchConditions"]), &compiler, declarations);
        let validations = compile("validations", "expression", ExpressionKind::Condition, declarations);
        let without_authorizer = Declarations { authorizer: false, ..declarations };
        let messages = compile("validations", "messageExpression", ExpressionKind::Message, without_authorizer);
        let annotations = compile("auditAnnotations", "valueExpression", ExpressionKind::AuditAnnotation, declarations);
        let used = [&validations, &messages, &annotations].map(Expressions::used_values);
        let used = used.into_iter().fold(conditions.used_values(), UsedValues::or);
        Self { conditions, validations, messages, annotations, used }
    }
}
