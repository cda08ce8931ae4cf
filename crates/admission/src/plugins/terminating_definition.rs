//! Refuses creates of custom resources whose CRD is terminating (upstream: the handler of custom resources wraps the
//! admission chain in its `forbidCreateAdmission`). It cannot be disabled.

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};

/// The admission plugin `TerminatingDefinition`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminatingDefinition;

impl TerminatingDefinition {
    /// Checks a write.
    ///
    /// # Errors
    /// The write is the create of a custom resource whose CRD is terminating or gone.
    pub fn check(attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        if attributes.operation != AdmissionOperation::Create
            || !attributes.client.is_definition_terminating(attributes.resource)?
        {
            return Ok(());
        }
        Err(ApiError::Forbidden {
            resource: attributes.resource.group_resource(),
            name: attributes.name.into(),
            why: "create not allowed while custom resource definition is terminating".to_owned(),
            causes: Vec::new(),
        })
    }
}

impl AdmissionPlugin for TerminatingDefinition {
    fn name(&self) -> &'static str {
        "TerminatingDefinition"
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Create && attributes.resource.definition.is_some()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        _: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Self::check(attributes) })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Self::check(attributes) })
    }
}
