//! The plugins `NamespaceAutoProvision` and `NamespaceExists` (upstream: `plugin/pkg/admission/namespace`). The first
//! plugin creates a missing namespace with its first object. The second plugin refuses writes in a missing namespace.

use pintle_registry::{ApiError, BoxFuture, GroupResource, Scope};
use pintle_value::{Value, object};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

fn namespaces() -> GroupResource {
    GroupResource::new("", "namespaces")
}

/// True if the namespace of a write exists, or if there is none.
fn exists(attributes: &AdmissionAttributes<'_>) -> Result<bool, ApiError> {
    let name = attributes.namespace;
    Ok(name.is_empty() || attributes.client.read(&namespaces(), "", name)?.is_some())
}

/// The admission plugin `NamespaceAutoProvision`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceAutoProvision;

impl NamespaceAutoProvision {
    async fn provide(attributes: &AdmissionAttributes<'_>) -> Result<(), ApiError> {
        if attributes.dry_run || exists(attributes)? {
            return Ok(());
        }
        let namespace = object! {"metadata": object! {"name": attributes.namespace}};
        match attributes.client.create(&namespaces(), namespace).await {
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

/// The admission plugin `NamespaceExists`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamespaceExists;

impl AdmissionPlugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation != AdmissionOperation::Connect && attributes.resource.scope == Scope::Namespaced
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        _: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            match exists(attributes) {
                Ok(true) => Ok(()),
                Ok(false) => Err(ApiError::NotFound { resource: namespaces(), name: attributes.namespace.into() }),
                Err(error) => Err(ApiError::Internal(error.to_string())),
            }
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
