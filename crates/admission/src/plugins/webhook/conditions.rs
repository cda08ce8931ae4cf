//! Match conditions of webhooks: whether a request that the rules and selectors match is for a webhook (upstream:
//! `admission/plugin/webhook/matchconditions`).

use std::time::Instant;

use pintle_admission_cel::{EvaluationInput, MatchOutcome};
use pintle_registry::ApiError;
use pintle_value::Value;

use super::metrics::WebhookMetrics;
use super::source::{FailurePolicy, Webhook};
use crate::AdmissionAttributes;
use crate::expressions::ExpressionRequest;
use crate::objects::VersionedObjects;

/// Evaluates the match conditions of a webhook. False if the request is not for it.
///
/// # Errors
/// A condition failed, none is false, and the failure policy is to fail.
pub(super) fn evaluate(
    webhook: &Webhook,
    attributes: &AdmissionAttributes<'_>,
    request: &ExpressionRequest<'_>,
    objects: &VersionedObjects<'_>,
    metrics: &WebhookMetrics,
) -> Result<bool, ApiError> {
    let (started, operation) = (Instant::now(), attributes.operation.text());
    let described = request.at_kind(&objects.kind, webhook.conditions.used_values());
    let outcome = webhook.conditions.evaluate(&EvaluationInput {
        object: &objects.object,
        old_object: &objects.old,
        namespace: &Value::Null,
        request: &described,
        params: &Value::Null,
        authorizer: Some(request.authorizer()),
    });
    if let MatchOutcome::Failed { failures, .. } = outcome {
        metrics.conditions_failed(&webhook.name, operation, failures);
    }
    match outcome {
        MatchOutcome::Matches => return Ok(true),
        MatchOutcome::Failed { error, .. } if webhook.failure_policy == FailurePolicy::Fail => {
            tracing::warn!(webhook = %webhook.name, error, "Failed evaluating match conditions, failing closed");
            metrics.conditions_evaluated(&webhook.name, operation, started.elapsed());
            return Err(ApiError::Forbidden {
                resource: attributes.resource.group_resource(),
                name: attributes.name.into(),
                why: error,
                causes: Vec::new(),
            });
        }
        MatchOutcome::Failed { .. } | MatchOutcome::Excluded(_) => {}
    }
    metrics.conditions_evaluated(&webhook.name, operation, started.elapsed());
    metrics.excluded(&webhook.name, operation);
    Ok(false)
}
