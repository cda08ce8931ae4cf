//! The strategy for ServiceAccount: secret references are reduced to names (upstream:
//! `pkg/registry/core/serviceaccount`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Value, names, object};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// The strategy for ServiceAccount.
pub(crate) struct ServiceAccountStrategy;

impl Strategy for ServiceAccountStrategy {
    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, _: Option<&Value>) {
        reduce_secret_references(object);
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |account: &Value| account.annotation(ENFORCE_MOUNTABLE_SECRETS).is_some();
        if !has(object) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to \
             isolate access to mounted secrets"
        )]
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::service_account_name(name, prefix)
    }
}

fn reduce_secret_references(account: &mut Value) {
    let Some(secrets) = account.at_mut(&["secrets"]).and_then(Value::as_array_mut) else { return };
    for secret in secrets {
        let name = secret.str_at(&["name"]);
        *secret = if name.is_empty() {
            Value::object()
        } else {
            object! { "name": name }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, object};

    #[test]
    fn secret_references_are_reduced_to_names() {
        let mut account = object(r#"{"secrets":[{"name":"a","namespace":"b","uid":"c"},{"kind":"Secret"}]}"#);
        ServiceAccountStrategy.prepare_for_update(&context(), &mut account, &Value::Null);
        assert_eq!(account, object(r#"{"secrets":[{"name":"a"},{}]}"#));
    }

    #[test]
    fn the_deprecated_annotation_warns_once() {
        let with = object(r#"{"metadata":{"annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}}}"#);
        assert_eq!(ServiceAccountStrategy.warnings(&context(), &with, None).len(), 1);
        assert_eq!(ServiceAccountStrategy.warnings(&context(), &with, Some(&with)).len(), 0);
        assert_eq!(ServiceAccountStrategy.warnings(&context(), &Value::object(), None).len(), 0);
    }
}
