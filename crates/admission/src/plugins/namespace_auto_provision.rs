//! The plugin `NamespaceAutoProvision` (upstream: `plugin/pkg/admission/namespace/autoprovision`): creates a missing
//! namespace with its first object.

use pintle_registry::{ApiError, BoxFuture, GroupResource, Scope};
use pintle_value::{Value, object};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The admission plugin `NamespaceAutoProvision`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamespaceAutoProvision;

impl NamespaceAutoProvision {
    async fn provide(attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        let (namespaces, name) = (GroupResource::new("", "namespaces"), attributes.namespace);
        if attributes.dry_run || name.is_empty() || attributes.client.read(&namespaces, "", name)?.is_some() {
            return Ok(());
        }
        let namespace = object! {"metadata": object! {"name": name}};
        match attributes.client.create(&namespaces, namespace).await {
            // Another write may have created it.
            Ok(_) | Err(ApiError::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl AdmissionPlugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Mutating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Create && attributes.resource.scope == Scope::Namespaced
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            Self::provide(attributes).await.map_err(|error| match error {
                error @ ApiError::Forbidden { .. } => error,
                error => attributes.forbidden(object, error.to_string()),
            })
        })
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
    fn a_missing_namespace_is_created_unless_it_is_a_dry_run() {
        let created = |scenario: &Scenario, namespace: &str| {
            scenario.check_mutate(&NamespaceAutoProvision, map(namespace), Ok(&map(namespace)));
            scenario.created.lock().iter().map(|object| object.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(created(&scenario(), "new"), ["new"]);
        assert_eq!(created(&scenario(), "known"), [""; 0]);
        assert_eq!(created(&Scenario { dry_run: true, ..scenario() }, "new"), [""; 0]);
        let update = Scenario { old: Some(map("new")), ..Scenario::update("", "configmaps") };
        assert_eq!(created(&update, "new"), [""; 0]);
        assert_eq!(created(&Scenario::create("", "nodes"), ""), [""; 0]);
    }
}
