//! The plugin `NamespaceExists` (upstream: `plugin/pkg/admission/namespace/exists`): refuses writes in a missing
//! namespace.

use pintle_registry::{ApiError, Scope};
use pintle_value::Value;

use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The admission plugin `NamespaceExists`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamespaceExists;

impl SyncPlugin for NamespaceExists {
    const NAME: &'static str = "NamespaceExists";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation != AdmissionOperation::Connect && attributes.resource.scope == Scope::Namespaced
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, _: &Value) -> Result<(), ApiError> {
        if attributes.namespace.is_empty() {
            return Ok(());
        }
        match attributes.read_namespace() {
            Ok(_) => Ok(()),
            Err(error @ ApiError::NotFound { .. }) => Err(error),
            Err(error) => Err(ApiError::Internal(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    fn scenario() -> Scenario {
        let stored = vec![json(r#"{"kind":"Namespace","metadata":{"name":"known"}}"#)];
        Scenario { stored, ..Scenario::create("", "configmaps") }
    }

    fn map(namespace: &str) -> Value {
        json(&format!(r#"{{"metadata":{{"name":"m","namespace":"{namespace}"}}}}"#))
    }

    #[test]
    fn writes_in_a_missing_namespace_are_refused() {
        let refused = "namespaces \"gone\" not found";
        scenario().check_validate(&NamespaceExists, &map("gone"), Err(refused));
        scenario().check_validate(&NamespaceExists, &map("known"), Ok(()));
        let delete = Scenario { operation: AdmissionOperation::Delete, ..scenario() };
        delete.check_validate(&NamespaceExists, &map("gone"), Err(refused));
        let namespace = json(r#"{"metadata":{"name":"gone"}}"#);
        Scenario::create("", "namespaces").check_validate(&NamespaceExists, &namespace, Ok(()));
    }
}
