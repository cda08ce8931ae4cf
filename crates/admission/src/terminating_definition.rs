//! Nothing new comes to a kind that goes: its objects are being deleted (upstream: the handler of custom resources wraps
//! the chain of plugins in its `forbidCreateAdmission`).

use pintle_registry::{ApiError, BoxFuture};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};

/// The plugin. It cannot be switched off.
#[derive(Clone, Copy, Debug, Default)]
pub struct TerminatingDefinition;

impl TerminatingDefinition {
    fn check(request: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        if !request.resource.terminating || request.operation != AdmissionOperation::Create {
            return Ok(());
        }
        Err(ApiError::Forbidden {
            resource: request.resource.group_resource(),
            name: request.name.into(),
            why: "create not allowed while custom resource definition is terminating".to_owned(),
            causes: Vec::new(),
        })
    }
}

impl AdmissionPlugin for TerminatingDefinition {
    fn name(&self) -> &'static str {
        "Closing"
    }

    fn mutate<'a>(
        &'a self,
        request: &'a AdmissionAttributes<'a>,
        _: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Self::check(request) })
    }

    fn validate<'a>(
        &'a self,
        request: &'a AdmissionAttributes<'a>,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async { Self::check(request) })
    }
}
