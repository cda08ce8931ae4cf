//! The objects that every namespace has (upstream: `pkg/controller/serviceaccount`,
//! `pkg/controller/certificates/rootcacertpublisher`).

use pintle_registry::GroupResource;
use pintle_value::{Value, object};

use crate::object_reconciler::{DesiredObject, Diff, NamespaceScope, UpdatePolicy};

const DESCRIPTION: &str = "kubernetes.io/description";
/// Upstream's text.
const CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// The service account `default`, and the ConfigMap `kube-root-ca.crt` with the certificate authority of the server, in
/// PEM.
#[must_use]
pub fn every_namespace_objects(root_ca: &str) -> Vec<DesiredObject> {
    let in_every_namespace = |resource: &str, object: Value, compare| DesiredObject {
        resource: GroupResource::new("", resource),
        namespace_scope: NamespaceScope::EveryNamespace,
        object,
        compare,
        update_policy: UpdatePolicy::Always,
        yields_to_controller_manager: true,
    };
    let account = object! { "metadata": object! { "name": "default" } };
    let mut config_map = object! {
        "metadata": object! { "name": "kube-root-ca.crt" },
        "data": object! { "ca.crt": root_ca },
    };
    config_map.set_at(&["metadata", "annotations", DESCRIPTION], CA_DESCRIPTION);
    vec![
        in_every_namespace("serviceaccounts", account, |_, _| Diff::UpToDate),
        in_every_namespace("configmaps", config_map, compare_root_ca),
    ]
}

fn compare_root_ca(current: &Value, desired: &Value) -> Diff {
    let has_description = current.annotation(DESCRIPTION).is_some_and(|text| !text.is_empty());
    if has_description && current.at(&["data"]) == desired.at(&["data"]) {
        return Diff::UpToDate;
    }
    let mut updated = current.clone();
    updated.set("data", desired["data"].clone());
    updated.set_at(&["metadata", "annotations", DESCRIPTION], CA_DESCRIPTION);
    Diff::Update(updated)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_ca_config_map_is_restored() {
        let desired = every_namespace_objects("PEM").pop().expect("the ConfigMap");
        let check = |changed: &[&str], value: Value, expected_description: Option<&str>| {
            let mut current = desired.object.clone();
            current.set_at(&["metadata", "labels", "mine"], "kept");
            current.set_at(changed, value);
            let expect = expected_description.map_or(Diff::UpToDate, |description| {
                let mut updated = desired.object.clone();
                updated.set_at(&["metadata", "labels", "mine"], "kept");
                updated.set_at(&["metadata", "annotations", DESCRIPTION], description);
                Diff::Update(updated)
            });
            assert_eq!((desired.compare)(&current, &desired.object), expect, "{changed:?}");
        };
        check(&["metadata", "labels", "mine"], "kept".into(), None);
        check(&["metadata", "annotations", DESCRIPTION], "another description".into(), None);
        check(&["metadata", "annotations", DESCRIPTION], "".into(), Some(CA_DESCRIPTION));
        check(&["data", "ca.crt"], "another".into(), Some(CA_DESCRIPTION));
        check(&["data", "more"], "another".into(), Some(CA_DESCRIPTION));
        check(&["data"], Value::Null, Some(CA_DESCRIPTION));
    }
}
