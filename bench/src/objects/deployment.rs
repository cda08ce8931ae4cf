//! Deployments of about 2 KiB.

use bytes::Bytes;

use super::pod::pod_template;

/// The collection path of a namespace's Deployments.
pub(crate) fn deployments_path(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

/// A Deployment with `replicas` replicas.
pub(crate) fn deployment(name: &str, replicas: u64, seed: u64) -> Bytes {
    let template = pod_template("", seed);
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"tier":"front"}}}},"template":{{"metadata":{{"labels":{{"app":"web","tier":"front"}}}},"spec":{template}}}}}}}"#
    )
    .into()
}
