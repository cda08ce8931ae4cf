//! The ConfigMap from which aggregated servers, the scheduler and the controller manager learn how to authenticate
//! requests (upstream: `pkg/controlplane/controller/clusterauthenticationtrust`).

use pintle_auth::AuthenticationTrust;
use pintle_registry::GroupResource;
use pintle_value::{Object, Str, Value, object};

use crate::object_reconciler::{DesiredObject, Diff, NamespaceScope, UpdatePolicy};

/// The ConfigMap `extension-apiserver-authentication` in `kube-system`. Other servers may add to it.
#[must_use]
pub fn authentication_config_map(trust: &AuthenticationTrust) -> DesiredObject {
    // The form that later comparisons leave unchanged.
    let combined = AuthenticationTrust::default().combined(trust);
    let trust = combined.as_ref().unwrap_or(trust);
    DesiredObject {
        resource: GroupResource::new("", "configmaps"),
        namespace_scope: NamespaceScope::Namespace("kube-system"),
        object: object! {
            "metadata": object! { "name": "extension-apiserver-authentication" },
            "data": data(trust),
        },
        compare,
        update_policy: UpdatePolicy::Always,
        yields_to_controller_manager: false,
    }
}

fn data(trust: &AuthenticationTrust) -> Value {
    Value::Object(trust.data().into_iter().map(|(key, text)| (Str::from(key), Value::from(text))).collect::<Object>())
}

fn compare(current: &Value, desired: &Value) -> Diff {
    let read = |object: &Value| AuthenticationTrust::from_data(|key| object.str_at(&["data", key]));
    let combined = read(current).and_then(|current| current.combined(&read(desired)?));
    let combined = match combined {
        Ok(combined) => data(&combined),
        Err(error) => {
            tracing::warn!(%error, "The ConfigMap extension-apiserver-authentication cannot be read, it is left as it is");
            return Diff::UpToDate;
        }
    };
    if current.at(&["data"]).unwrap_or(&Value::Null) == &combined {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    updated.set("data", combined);
    Diff::Update(updated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_added_stays() {
        let trust = |name: &str| AuthenticationTrust {
            request_header_ca: String::new(),
            allowed_names: vec![name.to_owned()],
            ..AuthenticationTrust::default()
        };
        let desired = authentication_config_map(&trust("a")).object;
        assert_eq!(compare(&desired, &desired), Diff::UpToDate);
        let current = object! { "data": object! { "requestheader-allowed-names": "[\"b\"]", "other": "x" } };
        // Without an authority of front proxies, their names mean nothing.
        assert_eq!(compare(&current, &desired), Diff::Update(object! { "data": Value::object() }));
        let broken = object! { "data": object! { "requestheader-allowed-names": "b" } };
        assert_eq!(compare(&broken, &desired), Diff::UpToDate);
    }
}
