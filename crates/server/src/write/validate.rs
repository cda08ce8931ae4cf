//! Validation and validating admission, the same for creates and updates: the metadata, the kind's strategy, rules in CEL,
//! warnings, canonical form, and at last the plugins (upstream: `rest.BeforeCreate`, `rest.BeforeUpdate`).

use std::sync::Arc;

use pintle_admission::{AdmissionAttributes, PluginChain};
use pintle_registry::{ApiError, CostBudget, Resource, Strategy, SubresourceStrategy};
use pintle_value::{Errors, Value};

use super::metadata;
use super::writer::Writer;

/// Whose rules a write is validated by.
pub(super) struct Rules<'a> {
    /// The resource at the version of the request.
    pub(super) resource: &'a Arc<Resource>,
    /// The record of the hub.
    pub(super) hub: &'a Arc<Resource>,
    /// The rules of the subresource that the write goes through; `None` for those of the object itself.
    pub(super) subresource: Option<&'a dyn SubresourceStrategy>,
}

/// Validates an object at the hub version, then runs the validating admission plugins. `old` is the object before an
/// update.
///
/// # Errors
/// The object is invalid, or a plugin refuses it.
pub(super) async fn validate_and_admit(
    writer: &Writer<'_>,
    rules: &Rules<'_>,
    plugins: &PluginChain,
    attributes: &AdmissionAttributes<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let (context, hub) = (&writer.context, rules.hub);
    let errors = validate(writer, rules, object, old);
    metadata::refuse(rules.resource, attributes.name, errors)?;
    let warnings = match (rules.subresource, old) {
        (Some(rules), Some(old)) => rules.warnings(context, object, old),
        (_, old) => hub.strategy.warnings(context, object, old),
    };
    warnings.into_iter().for_each(|warning| writer.recorder.warn(warning));
    hub.strategy.canonicalize(object);
    plugins.validate(attributes, object).await
}

/// All validation errors, in upstream's order.
fn validate(writer: &Writer<'_>, rules: &Rules<'_>, object: &Value, old: Option<&Value>) -> Errors {
    let (context, hub) = (&writer.context, rules.hub);
    let own_version = rules.resource.strategy.validates_own_version();
    let strategy: &dyn Strategy = if own_version { &*rules.resource.strategy } else { &*hub.strategy };
    let warnings;
    let errors = match old {
        None => {
            let mut errors = metadata::validate(object, hub);
            errors.append(strategy.validate(context, object));
            warnings =
                run_expensive_validation(|budget| hub.strategy.validate_expensive(object, None, &mut errors, budget));
            errors
        }
        Some(old) => {
            let mut errors = metadata::validate_update(object, old, hub);
            let mut found = match rules.subresource {
                Some(subresource) => subresource.validate_update(context, object, old),
                None => strategy.validate_update(context, object, old),
            };
            warnings = run_expensive_validation(|budget| match rules.subresource {
                Some(subresource) => subresource.validate_expensive(object, old, &mut found, budget),
                None => hub.strategy.validate_expensive(object, Some(old), &mut found, budget),
            });
            errors.append(found);
            errors
        }
    };
    warnings.into_iter().for_each(|warning| writer.recorder.warn(warning));
    errors
}

/// Runs a validation whose cost depends on the object. It runs at once with a small budget. If that does not suffice, it
/// runs again without a limit on the blocking pool, so that other requests of this thread do not wait. Returns warnings.
fn run_expensive_validation(mut validate: impl FnMut(CostBudget) -> Option<Vec<String>>) -> Vec<String> {
    validate(CostBudget::Limited)
        .or_else(|| tokio::task::block_in_place(|| validate(CostBudget::Unlimited)))
        .unwrap_or_default()
}
