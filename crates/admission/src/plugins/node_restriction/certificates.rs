//! The certificates that a node requests for itself.

use pintle_kinds::requested_subject;
use pintle_registry::ApiError;

use super::NodeWrite;
use crate::AdmissionOperation;

/// The signers of the certificates of nodes.
const NODE_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// Checks a request for a certificate of a node: the subject is the node that asks.
pub(super) fn check(write: &NodeWrite<'_>) -> Result<(), ApiError> {
    let is_create = write.attributes.operation == AdmissionOperation::Create;
    if !is_create || !NODE_SIGNERS.contains(&write.object.str_at(&["spec", "signerName"])) {
        return Ok(());
    }
    let subject = requested_subject(write.object);
    let subject = subject.map_err(|why| write.refused(format!("unable to parse csr: {why}")))?;
    let expected = format!("system:node:{}", write.node);
    if subject.common_name == expected {
        return Ok(());
    }
    Err(write.refused(format!("can only create a node CSR with CN={expected}")))
}
