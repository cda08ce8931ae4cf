//! The certificates that a node may request for pods. The pod must run on the node, and the request must describe the
//! pod as it is (upstream: `admitPodCertificateRequest`).

use pintle_auth::node::is_mirror_pod;
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::print::quote;

use super::NodeWrite;
use crate::AdmissionOperation;

/// Checks a write of a PodCertificateRequest.
pub(super) fn check(write: &NodeWrite<'_>, enabled: bool) -> Result<(), ApiError> {
    if !enabled {
        return Err(write.refused("PodCertificateRequest feature gate is disabled"));
    }
    let attributes = write.attributes;
    if attributes.operation != AdmissionOperation::Create {
        return Err(write.refused(format!("unexpected operation {}", attributes.operation.text())));
    }
    if !attributes.subresource.is_empty() {
        return Err(write.refused(format!("unexpected subresource {}", attributes.subresource)));
    }
    let namespace = attributes.namespace;
    let spec = |field: &str| write.object.str_at(&["spec", field]);
    let pod_key = quote(&format!("{namespace}/{}", spec("podName")));
    let of_pod = format!("PodCertificateRequest for pod {pod_key}");

    if spec("nodeName") != write.node {
        let (named, node) = (quote(spec("nodeName")), quote(write.node));
        let why = format!("PodCertificateRequest.Spec.NodeName={named}, which is not the requesting node {node}");
        return Err(write.refused(why));
    }
    let node = named(write, "nodes", "node", "", write.node, &format!("node {}", quote(write.node)))?;
    if node.uid() != spec("nodeUID") {
        let (named, found) = (quote(spec("nodeUID")), quote(node.uid()));
        let why = format!("{of_pod} names node UID {named}, inconsistent with the running node ({found})");
        return Err(ApiError::Unclassified(why));
    }

    let pod = named(write, "pods", "pod", namespace, spec("podName"), &format!("pod {pod_key}"))?;
    if spec("podUID") != pod.uid() {
        let (named, found) = (quote(spec("podUID")), quote(pod.uid()));
        let why = format!("{of_pod} contains pod UID ({named}) which differs from running pod {found}");
        return Err(ApiError::Unclassified(why));
    }
    if !write.is_bound_here(&pod) {
        let node = quote(write.node);
        let why = format!("pod {pod_key} is not running on node {node} named in the PodCertificateRequest");
        return Err(write.refused(why));
    }
    if is_mirror_pod(&pod) {
        return Err(write.refused(format!("pod {pod_key} is a mirror pod")));
    }

    let (account, of_running) = (spec("serviceAccountName"), pod.str_at(&["spec", "serviceAccountName"]));
    if account != of_running {
        let (named, found) = (quote(account), quote(of_running));
        let why = format!("{of_pod} contains serviceAccountName ({named}) that differs from running pod ({found})");
        return Err(write.refused(why));
    }
    let what = format!("service account {}", quote(&format!("{namespace}/{account}")));
    let found = named(write, "serviceaccounts", "serviceaccount", namespace, account, &what)?;
    if spec("serviceAccountUID") != found.uid() {
        let (named, found) = (quote(spec("serviceAccountUID")), quote(found.uid()));
        let why = format!(
            "{of_pod} names service account UID {named}, which differs from the running service account ({found})"
        );
        return Err(ApiError::Unclassified(why));
    }
    Ok(())
}

/// A stored object that the request names. If the object does not exist, the error makes kubelets try again, because
/// the cache may be behind.
fn named(
    write: &NodeWrite<'_>,
    plural: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    what: &str,
) -> Result<Value, ApiError> {
    let failed = |error: &ApiError| format!("while retrieving {what} named in the PodCertificateRequest: {error}");
    write.stored("", plural, kind, namespace, name).map_err(|error| match error {
        ApiError::NotFound { .. } => ApiError::Unclassified(failed(&error)),
        error => error,
    })
}
