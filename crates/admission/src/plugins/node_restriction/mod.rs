//! The plugin `NodeRestriction` (upstream: `plugin/pkg/admission/noderestriction`): a node changes only itself and the
//! pods that are bound to it, and creates only mirror pods. The node authorizer grants a node access to the objects
//! that its pods refer to. So without this plugin a node could give itself access to everything.
//!
//! - `labels`: the labels that a node may set on itself.
//! - `references`: the objects of the API that a pod refers to.
//! - `tokens`: the tokens that a node may request.
//! - `certificates`: the certificates that a node may request.
//! - `pod_certificates`: the certificates that a node may request for pods.

mod certificates;
mod labels;
mod pod_certificates;
mod references;
mod tokens;

use pintle_auth::node::{MIRROR_POD, is_mirror_pod};
use pintle_auth::user::node_identity;
use pintle_gates::{Change, Feature, Gates};
use pintle_registry::{ApiError, BoxFuture, GroupResource};
use pintle_value::print::quote;
use pintle_value::{Value, same};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The namespace of the leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// The fields of a claim that a node may change.
const CLAIM_STATUS_FIELDS: [[&str; 2]; 6] = [
    ["metadata", "resourceVersion"],
    ["metadata", "managedFields"],
    ["status", "capacity"],
    ["status", "conditions"],
    ["status", "allocatedResources"],
    ["status", "allocatedResourceStatuses"],
];

/// The admission plugin `NodeRestriction`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRestriction {
    /// Audiences of tokens must be audiences of the pod.
    restricts_audiences: bool,
    /// Requests for a node's certificates may have any subject.
    allows_other_subjects: bool,
    /// Nodes request certificates for pods.
    has_pod_certificates: bool,
    /// The signers of these certificates must be signers of the pod.
    restricts_signers: bool,
}

impl NodeRestriction {
    /// The plugin.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self {
            restricts_audiences: gates.is_enabled(Feature::SERVICE_ACCOUNT_NODE_AUDIENCE_RESTRICTION),
            allows_other_subjects: gates.is_enabled(Feature::ALLOW_INSECURE_KUBELET_CERTIFICATE_SIGNING_REQUESTS),
            has_pod_certificates: gates.is_enabled(Feature::POD_CERTIFICATE_REQUEST),
            restricts_signers: gates.has(Change::NODES_REQUEST_SIGNERS_OF_PODS),
        }
    }

    /// Checks a write of a node.
    async fn check(&self, write: &NodeWrite<'_>) -> Result<(), ApiError> {
        let attributes = write.attributes;
        let (resource, operation) = (attributes.resource, attributes.operation);
        match (&*resource.group, &*resource.plural) {
            ("", "pods") => write.check_pod(),
            ("", "nodes") => write.check_node(),
            ("", "persistentvolumeclaims") => write.check_claim(),
            ("", "serviceaccounts") if operation == AdmissionOperation::Create && attributes.subresource == "token" => {
                tokens::check(write, self.restricts_audiences).await
            }
            ("coordination.k8s.io", "leases") => write.check_lease(),
            ("storage.k8s.io", "csinodes") => {
                write.check_name("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => write.check_resource_slice(),
            ("certificates.k8s.io", "certificatesigningrequests") if !self.allows_other_subjects => {
                certificates::check(write)
            }
            ("certificates.k8s.io", "podcertificaterequests") => {
                if !self.has_pod_certificates {
                    return Err(write.refused("PodCertificateRequest feature gate is disabled"));
                }
                pod_certificates::check(write, self.restricts_signers).await
            }
            _ => Ok(()),
        }
    }
}

impl AdmissionPlugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Mutating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation != AdmissionOperation::Connect
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let Some(node) = node_identity(attributes.user) else { return Box::pin(async { Ok(()) }) };
        Box::pin(async move {
            let write = NodeWrite { attributes, node, object };
            if node.is_empty() {
                let user = quote(&attributes.user.name);
                return Err(write.refused(format!("could not determine node from user {user}")));
            }
            self.check(&write).await
        })
    }
}

/// A write by a node.
struct NodeWrite<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    /// The name of the node.
    node: &'a str,
    /// The object that is written; null for a delete.
    object: &'a Value,
}

impl NodeWrite<'_> {
    fn refused(&self, why: impl Into<String>) -> ApiError {
        self.attributes.forbidden(self.object, why)
    }

    /// The error of a rule that begins with the quoted name of the node.
    fn node_refused(&self, why: &str) -> ApiError {
        self.refused(format!("node {} {why}", quote(self.node)))
    }

    fn unexpected_operation(&self) -> ApiError {
        self.refused(format!("unexpected operation {}", quote(self.attributes.operation.text())))
    }

    /// The stored object. If it is missing, the error has the text of upstream's listers, which name the kind.
    fn stored(&self, group: &str, plural: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let resource = GroupResource::new(group, plural);
        let found = self.attributes.client.get(&resource, namespace, name);
        found
            .map_err(|error| self.refused(error.to_string()))?
            .ok_or_else(|| ApiError::NotFound { resource: GroupResource::new(group, kind), name: name.into() })
    }

    fn stored_pod(&self, name: &str) -> Result<Value, ApiError> {
        self.stored("", "pods", "pod", self.attributes.namespace, name)
    }

    fn is_bound_here(&self, pod: &Value) -> bool {
        pod.str_at(&["spec", "nodeName"]) == self.node
    }

    fn check_pod(&self) -> Result<(), ApiError> {
        match (self.attributes.subresource, self.attributes.operation) {
            ("", AdmissionOperation::Create) => self.check_mirror_pod(),
            ("", AdmissionOperation::Delete) => match self.is_bound_here(&self.stored_pod(self.attributes.name)?) {
                true => Ok(()),
                false => Err(self.node_refused("can only delete pods with spec.nodeName set to itself")),
            },
            ("", operation) => Err(self.refused(format!(
                "unexpected operation {}, node {} can only create and delete mirror pods",
                quote(operation.text()),
                quote(self.node)
            ))),
            ("status", AdmissionOperation::Update) => self.check_pod_status(),
            ("status", _) => Err(self.unexpected_operation()),
            ("eviction", AdmissionOperation::Create) => {
                let names = [self.attributes.name, self.object.name()];
                let Some(name) = names.into_iter().find(|name| !name.is_empty()) else {
                    return Err(self.refused("could not determine pod from request data"));
                };
                if self.is_bound_here(&self.stored_pod(name)?) {
                    return Ok(());
                }
                Err(self.refused(format!("node {} can only evict pods with spec.nodeName set to itself", self.node)))
            }
            ("eviction", operation) => Err(self.refused(format!("unexpected operation {}", operation.text()))),
            (other, _) => Err(self.refused(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                quote(other)
            ))),
        }
    }

    /// Checks a new pod: it is a mirror pod of this node, owned by it, and refers to no other object.
    fn check_mirror_pod(&self) -> Result<(), ApiError> {
        let (pod, node) = (self.object, quote(self.node));
        if !is_mirror_pod(pod) {
            let annotation = quote(MIRROR_POD);
            return Err(self.refused(format!(
                "pod does not have {annotation} annotation, node {node} can only create mirror pods"
            )));
        }
        if !self.is_bound_here(pod) {
            return Err(self.node_refused("can only create pods with spec.nodeName set to itself"));
        }
        let owner = match pod.items_at(&["metadata", "ownerReferences"]) {
            [owner] => owner,
            [] => return Err(self.node_refused("can only create pods with an owner reference set to itself")),
            _ => return Err(self.node_refused("can only create pods with a single owner reference set to itself")),
        };
        if owner.api_version() != "v1" || owner.kind() != "Node" || owner.str_at(&["name"]) != self.node {
            return Err(self.node_refused("can only create pods with an owner reference set to itself"));
        }
        if !owner.bool_at(&["controller"]) {
            return Err(self.node_refused("can only create pods with a controller owner reference set to itself"));
        }
        if owner.bool_at(&["blockOwnerDeletion"]) {
            return Err(self.node_refused("must not set blockOwnerDeletion on an owner reference"));
        }
        let stored = self.stored("", "nodes", "node", "", self.node)?;
        let (expected, found) = (owner.str_at(&["uid"]), stored.uid());
        if expected != found {
            return Err(self.refused(format!("node {} UID mismatch: expected {expected} got {found}", self.node)));
        }
        match references::of_pod(pod) {
            Ok(None) => Ok(()),
            Ok(Some(resource)) => Err(self.node_refused(&format!("can not create pods that reference {resource}"))),
            Err(why) => Err(self.refused(why)),
        }
    }

    fn check_pod_status(&self) -> Result<(), ApiError> {
        let old = self.attributes.old.unwrap_or(&Value::Null);
        if !self.is_bound_here(old) {
            return Err(self.node_refused("can only update pod status for pods with spec.nodeName set to itself"));
        }
        if !labels::changed(self.object, old).is_empty() {
            return Err(self.node_refused("cannot update labels through pod status"));
        }
        let status = |field| same(self.object.at(&["status", field]), old.at(&["status", field]));
        if !status("resourceClaimStatuses") {
            return Err(self.node_refused("cannot update resource claim statues"));
        }
        if !status("extendedResourceClaimStatus") {
            return Err(self.node_refused("cannot update extended resource claim status"));
        }
        Ok(())
    }

    fn check_node(&self) -> Result<(), ApiError> {
        let name = self.attributes.name;
        if name != self.node {
            return Err(self.node_refused(&format!("is not allowed to modify node {}", quote(name))));
        }
        let (config_source, taints) = (["spec", "configSource"], ["spec", "taints"]);
        let node = self.object;
        match self.attributes.operation {
            AdmissionOperation::Create => {
                if node.at(&config_source).is_some() {
                    return Err(self.node_refused("is not allowed to create pods with a non-nil configSource"));
                }
                let forbidden = labels::forbidden(labels::changed(node, &Value::Null));
                if !forbidden.is_empty() {
                    let labels = forbidden.join(", ");
                    return Err(self.node_refused(&format!("is not allowed to set the following labels: {labels}")));
                }
            }
            AdmissionOperation::Update => {
                let old = self.attributes.old.unwrap_or(&Value::Null);
                if node.at(&config_source).is_some() && !same(node.at(&config_source), old.at(&config_source)) {
                    return Err(
                        self.node_refused("is not allowed to update configSource to a new non-nil configSource")
                    );
                }
                if !same(node.at(&taints), old.at(&taints)) {
                    return Err(self.node_refused("is not allowed to modify taints"));
                }
                let owners = ["metadata", "ownerReferences"];
                if !same(node.at(&owners), old.at(&owners)) {
                    return Err(self.node_refused("is not allowed to modify ownerReferences"));
                }
                let forbidden = labels::forbidden(labels::changed(node, old));
                if !forbidden.is_empty() {
                    return Err(self.refused(format!("is not allowed to modify labels: {}", forbidden.join(", "))));
                }
            }
            AdmissionOperation::Delete | AdmissionOperation::Connect => {}
        }
        Ok(())
    }

    fn check_claim(&self) -> Result<(), ApiError> {
        if self.attributes.subresource != "status" {
            return Err(self.refused("may only update PVC status"));
        }
        if self.attributes.operation != AdmissionOperation::Update {
            return Err(self.unexpected_operation());
        }
        let [mut old, mut new] = [self.attributes.old.cloned().unwrap_or_default(), self.object.clone()];
        for claim in [&mut old, &mut new] {
            CLAIM_STATUS_FIELDS.iter().for_each(|path| drop(claim.remove_at(path)));
        }
        if same(Some(&old), Some(&new)) {
            return Ok(());
        }
        // Upstream adds the difference in a form that is not stable.
        Err(self.node_refused("is not allowed to update fields other than status.quantity and status.conditions"))
    }

    /// Checks that an object has the name of the node.
    fn check_name(&self, why: &str) -> Result<(), ApiError> {
        let is_create = self.attributes.operation == AdmissionOperation::Create;
        let name = if is_create { self.object.name() } else { self.attributes.name };
        if name == self.node { Ok(()) } else { Err(self.refused(why)) }
    }

    fn check_lease(&self) -> Result<(), ApiError> {
        if self.attributes.namespace != LEASE_NAMESPACE {
            let namespace = quote(LEASE_NAMESPACE);
            return Err(self.refused(format!("can only access leases in the {namespace} system namespace")));
        }
        self.check_name("can only access node lease with the same name as the requesting node")
    }

    fn check_resource_slice(&self) -> Result<(), ApiError> {
        let (slice, what) = match self.attributes.operation {
            AdmissionOperation::Create => (Some(self.object), "create"),
            AdmissionOperation::Delete => (self.attributes.old, "delete"),
            AdmissionOperation::Update | AdmissionOperation::Connect => return Ok(()),
        };
        if slice.is_some_and(|slice| self.is_bound_here(slice)) {
            return Ok(());
        }
        Err(self.refused(format!("can only {what} ResourceSlice with the same NodeName as the requesting node")))
    }
}

#[cfg(test)]
mod tests;
