//! Validation and validating admission for creates and updates: metadata, the kind's strategy, CEL rules, warnings,
//! canonicalization, and finally the plugins (upstream: `rest.BeforeCreate`, `rest.BeforeUpdate`).

use std::sync::Arc;

use pintle_admission::AdmissionAttributes;
use pintle_registry::{ApiError, CostBudget, Resource, Strategy, StrategyContext, SubresourceStrategy, ValidatedWrite};
use pintle_value::{Errors, Value};

use super::declarative;
use super::metadata;
use super::request_access::RequestAccess;
use super::update::SubresourceView;
use super::writer::Writer;
use crate::conversion::from_hub;
use crate::request::trace::Step;
use crate::request::work_memory::budget_error;

/// The rules that validate a write.
pub(super) struct ApplicableRules<'a> {
    /// The resource at the version of the request.
    pub(super) resource: &'a Arc<Resource>,
    /// The resource at the hub version.
    pub(super) hub: &'a Arc<Resource>,
    /// The name of the written subresource; empty for the object itself.
    pub(super) subresource_name: &'a str,
    /// The strategy of the written subresource; `None` for the object itself.
    pub(super) subresource: Option<&'a dyn SubresourceStrategy>,
    /// The view that admission sees instead of the object, if the subresource is a view of the object.
    pub(super) view: Option<&'a dyn SubresourceView>,
    /// The object before an update at the version of the request, if that is not the hub version.
    pub(super) old_at_version: Option<&'a Value>,
}

/// Validates an object at the hub version, then runs the validating admission plugins. `old` is the object before an
/// update, `None` for a create.
///
/// # Errors
/// Returns an error if the object is invalid or a plugin denies it.
pub(super) async fn validate_and_admit(
    writer: &Writer<'_>,
    rules: &ApplicableRules<'_>,
    attributes: &AdmissionAttributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let (context, hub) = (&writer.context, rules.hub);
    let mut errors = validate_in_cluster(writer, rules, attributes, object, old).await;
    let validated = match validate(writer, rules, object, old, CostBudget::Limited) {
        Some(validated) => validated,
        None => {
            writer.recorder.set_large().await;
            // Writes of the server itself are polled by tasks that do not handle large writes, so the thread is marked
            // as blocking here.
            let validate = || validate(writer, rules, object, old, CostBudget::Unlimited);
            tokio::task::block_in_place(validate)
                .ok_or_else(|| ApiError::Internal("a validation without a limit has exceeded it".to_owned()))?
        }
    };
    errors.append(validated);
    if errors.is_empty() && rules.subresource.is_none() {
        errors = writer.check_params(hub, object, old).await;
    }
    check_budget(writer)?;
    metadata::check_errors(rules.resource, object, errors)?;
    let warnings = match (rules.subresource, old) {
        (Some(rules), Some(old)) => rules.warnings(context, object, old),
        (_, old) => hub.strategy.warnings(context, object, old),
    };
    warnings.into_iter().for_each(|warning| writer.recorder.warn(warning));
    hub.strategy.canonicalize(object);
    let admitted = match rules.view {
        Some(view) => {
            let seen = view.of_validated(&from_hub(rules.resource, object.clone()))?;
            writer.plugins.validate(attributes, &seen).await
        }
        None => writer.plugins.validate(attributes, object).await,
    };
    writer.recorder.trace.step(Step::Validated);
    admitted?;
    check_budget(writer)
}

/// Fails if the work for the request was cut short. Then the object may lack defaults, and errors may be missing.
///
/// # Errors
/// The budget is exhausted.
pub(super) fn check_budget(writer: &Writer<'_>) -> Result<(), ApiError> {
    if writer.request.is_none() {
        return Ok(());
    }
    pintle_budget::check().map_err(budget_error)
}

/// Returns the validation errors that depend on the cluster.
async fn validate_in_cluster(
    writer: &Writer<'_>,
    rules: &ApplicableRules<'_>,
    attributes: &AdmissionAttributes<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Errors {
    let validation = match rules.subresource {
        Some(subresource) => subresource.cluster_validation(),
        None => rules.hub.strategy.cluster_validation(),
    };
    let Some(validation) = validation else { return Errors::new() };
    let access = RequestAccess(writer.request);
    let write = ValidatedWrite { context: &writer.context, object, old, client: attributes.client, access: &access };
    validation.validate(write).await
}

/// Returns all other validation errors, in upstream's order. `None` if the budget does not suffice.
fn validate(
    writer: &Writer<'_>,
    rules: &ApplicableRules<'_>,
    object: &Value,
    old: Option<&Value>,
    budget: CostBudget,
) -> Option<Errors> {
    let (context, hub) = (&writer.context, rules.hub);
    let own_version = rules.resource.strategy.validates_own_version();
    let strategy: &dyn Strategy = if own_version { &*rules.resource.strategy } else { &*hub.strategy };
    let warnings;
    let mut errors = match old {
        None => {
            let mut errors = Errors::new();
            if strategy.has_valid_type(object) {
                errors = metadata::validate(&context.gates, object, hub);
            }
            errors.append(strategy.validate(context, object));
            warnings = hub.strategy.validate_expensive(object, None, &mut errors, budget)?;
            errors
        }
        Some(old) => {
            let mut errors =
                metadata::validate_update(&context.gates, object, old, hub, strategy.has_valid_type(object));
            let mut spec_errors = match rules.subresource {
                Some(subresource) => subresource.validate_update(context, object, old),
                None => strategy.validate_update(context, object, old),
            };
            warnings = match rules.subresource {
                Some(subresource) => subresource.validate_expensive(object, old, &mut spec_errors, budget),
                None => hub.strategy.validate_expensive(object, Some(old), &mut spec_errors, budget),
            }?;
            errors.append(spec_errors);
            errors
        }
    };
    declarative::validate(context, rules, &mut errors, object, old);
    warnings.into_iter().for_each(|warning| writer.recorder.warn(warning));
    Some(errors)
}

/// Validates an object from a file, which no request sends. It validates the object's metadata and the rules of its
/// kind.
pub(crate) fn validate_manifest(context: &StrategyContext, resource: &Resource, object: &Value) -> Errors {
    let mut errors = metadata::validate(&context.gates, object, resource);
    errors.append(resource.strategy.validate(context, object));
    resource.strategy.validate_expensive(object, None, &mut errors, CostBudget::Unlimited);
    errors
}
