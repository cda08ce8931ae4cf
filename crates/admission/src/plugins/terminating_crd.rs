//! Refuses creates of custom resources whose CRD is terminating (upstream: the handler of custom resources wraps the
//! admission chain in its `forbidCreateAdmission`). It cannot be disabled.

use pintle_registry::ApiError;
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The admission plugin `TerminatingCrd`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminatingCrd;

impl TerminatingCrd {
    /// Checks a write.
    ///
    /// # Errors
    /// The write is the create of a custom resource whose CRD is terminating or gone.
    pub fn check(attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        if attributes.operation != AdmissionOperation::Create
            || !attributes.client.is_crd_terminating(attributes.resource)?
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

impl SyncPlugin for TerminatingCrd {
    const NAME: &'static str = "TerminatingCRD";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Create && attributes.resource.crd.is_some()
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, _: &mut Value) -> Result<(), ApiError> {
        Self::check(attributes)
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, _: &Value) -> Result<(), ApiError> {
        Self::check(attributes)
    }
}
