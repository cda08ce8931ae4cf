//! The certificates that a node may request for pods. The pod must run on the node, and the request must describe the
//! pod as it is (upstream: `admitPodCertificateRequest`).

use pintle_auth::AuthorizationAttributes;
use pintle_auth::node::is_mirror_pod;
use pintle_registry::ApiError;
use pintle_value::Value;
use pintle_value::print::quote;

use super::NodeWrite;
use crate::AdmissionOperation;

/// The verb that allows a node to request certificates from signers that its pods do not name.
const SIGNER_VERB: &str = "request-podcertificate-signer";

/// Checks a write of a PodCertificateRequest.
pub(super) async fn check(write: &NodeWrite<'_>, restricts_signers: bool) -> Result<(), ApiError> {
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
    if restricts_signers { check_signer(write, &pod, spec("signerName")).await } else { Ok(()) }
}

/// Checks a signer: a volume of the pod names it, or the node has the permission to ask it.
async fn check_signer(write: &NodeWrite<'_>, pod: &Value, signer: &str) -> Result<(), ApiError> {
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let mut sources = volumes.flat_map(|volume| volume.items_at(&["projected", "sources"]));
    if sources.any(|source| source.get("podCertificate").is_some_and(|c| c.str_at(&["signerName"]) == signer)) {
        return Ok(());
    }
    let attributes = write.attributes;
    let wanted = AuthorizationAttributes {
        verb: SIGNER_VERB,
        group: &attributes.resource.group,
        version: &attributes.resource.version,
        resource: signer,
        namespace: attributes.namespace,
        name: attributes.name,
        ..AuthorizationAttributes::default()
    };
    let decision = attributes.authorizer.authorize(attributes.user, &wanted).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let (quoted, user) = (quote(signer), &attributes.user.name);
    Err(write.refused(match &decision.error {
        Some(error) => format!(
            "signer name {quoted} not found in pod spec volume, error authorizing {user} to request certificates from this signer: {error}"
        ),
        None => format!(
            "signer name {quoted} not found in pod spec volume, {user} is not authorized to request certificates from this signer"
        ),
    }))
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
