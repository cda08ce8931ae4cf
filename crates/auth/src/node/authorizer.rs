//! The decisions of the node authorizer, with upstream's reasons (`node_authorizer.go`).

use std::borrow::Cow;

use pintle_metrics::Histogram;
use pintle_selector::FieldSelector;
use pintle_value::print::quote;
use pintle_value::{Str, Value};

use super::graph::{Graph, NodeObject, VertexKind};
use crate::user::node_identity;
use crate::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, RulesReview, UserInfo};

/// The namespace of the leases of nodes.
const NODE_LEASES: &str = "kube-node-lease";

/// The feature gates that change what nodes may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFeatures {
    /// Kubelets read service accounts for credential providers (`KubeletServiceAccountTokenForCredentialProviders`).
    pub credential_provider_tokens: bool,
    /// Kubelets request certificates for pods (`PodCertificateRequest`).
    pub pod_certificate_requests: bool,
    /// Kubelets read cluster trust bundles (`ClusterTrustBundleProjection`).
    pub cluster_trust_bundles: bool,
    /// Kubelets report the health of storage in the status of their CSINode (`CSIVolumeHealth`).
    pub storage_health: bool,
}

impl Default for NodeFeatures {
    /// The defaults of the gates.
    fn default() -> Self {
        Self {
            credential_provider_tokens: true,
            pod_certificate_requests: false,
            cluster_trust_bundles: false,
            storage_health: false,
        }
    }
}

/// The node authorizer. It has to be fed with all objects of the kinds of [`NodeObject`].
#[derive(Debug, Default)]
pub struct NodeAuthorizer {
    graph: Graph,
    features: NodeFeatures,
}

/// The verbs that all nodes may use on resources whose objects are not told apart.
#[derive(Clone, Copy)]
struct NodeRule {
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
}

/// The rules of upstream's `NodeRules` for resources whose objects are not told apart. No rule mentions a subresource.
const NODE_RULES: [NodeRule; 8] = [
    rule(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
    rule(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews", "localsubjectaccessreviews"]),
    rule(&["get", "list", "watch"], &[""], &["services"]),
    rule(&["create", "update", "patch"], &["", "events.k8s.io"], &["events"]),
    rule(&["get"], &[""], &["endpoints"]),
    rule(&["create", "get", "list", "watch"], &["certificates.k8s.io"], &["certificatesigningrequests"]),
    rule(&["get", "watch", "list"], &["storage.k8s.io"], &["csidrivers"]),
    rule(&["get", "list", "watch"], &["node.k8s.io"], &["runtimeclasses"]),
];

/// The rule of the feature gate `ClusterTrustBundleProjection`.
const CLUSTER_TRUST_BUNDLES: NodeRule =
    rule(&["get", "list", "watch"], &["certificates.k8s.io"], &["clustertrustbundles"]);

const fn rule(
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
) -> NodeRule {
    NodeRule { verbs, groups, resources }
}

impl NodeRule {
    fn allows(&self, request: &AuthorizationAttributes<'_>) -> bool {
        request.subresource.is_empty()
            && self.resources.contains(&request.resource)
            && self.groups.contains(&request.group)
            && self.verbs.contains(&request.verb)
    }
}

/// The decision of the authorizer: to allow, or to leave the decision to others for a reason.
type Outcome = Result<(), Cow<'static, str>>;

/// Leaves the decision to others.
fn pass(reason: &'static str) -> Outcome {
    Err(Cow::Borrowed(reason))
}

impl NodeAuthorizer {
    /// An authorizer that knows no objects.
    #[must_use]
    pub fn new(features: NodeFeatures) -> Self {
        Self { graph: Graph::default(), features }
    }

    /// Adds or replaces an object. The change is in force when this returns.
    pub fn set(&self, kind: NodeObject, namespace: &str, name: &str, object: &Value) {
        self.graph.set(kind, namespace, name, object);
    }

    /// Removes an object. The change is in force when this returns.
    pub fn remove(&self, kind: NodeObject, namespace: &str, name: &str) {
        self.graph.remove(kind, namespace, name);
    }

    /// The namespaces and names of the objects of a kind that lead to another object.
    #[must_use]
    pub fn names(&self, kind: NodeObject) -> Vec<(Str, Str)> {
        self.graph.names(kind)
    }

    /// Reports that the rules of nodes cannot be listed. Other users have no rules here.
    #[must_use]
    pub fn rules_of(user: &UserInfo) -> RulesReview {
        if node_identity(user).is_none() {
            return RulesReview::default();
        }
        let error = Some("node authorizer does not support user rule resolution".to_owned());
        RulesReview { incomplete: true, error, ..RulesReview::default() }
    }

    /// The durations of changes of the graph, by upstream's name of the operation.
    pub fn graph_durations(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        self.graph.durations()
    }

    /// Returns whether no object leads to a node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty()
    }

    /// Decides whether a node may send a request. The authorizer has no opinion on other users.
    #[must_use]
    pub fn decide(&self, user: &UserInfo, request: &AuthorizationAttributes<'_>) -> Authorization {
        let outcome = match node_identity(user) {
            None => pass(""),
            Some("") => Err(format!("unknown node for user {}", quote(&user.name)).into()),
            Some(node) => self.decide_for_node(node, request),
        };
        match outcome {
            Ok(()) => Authorization::ALLOW,
            Err(reason) => Authorization { decision: Decision::NoOpinion, reason, error: None },
        }
    }

    fn decide_for_node(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        match (request.group, request.resource) {
            ("", "secrets") => self.read_namespaced(node, VertexKind::Secret, request),
            ("", "configmaps") => self.read_namespaced(node, VertexKind::ConfigMap, request),
            ("", "persistentvolumeclaims") if request.subresource == "status" => {
                self.update_status(node, VertexKind::Claim, request)
            }
            ("", "persistentvolumeclaims") => self.get(node, VertexKind::Claim, request),
            ("", "persistentvolumes") => self.get(node, VertexKind::PersistentVolume, request),
            ("", "serviceaccounts") => self.service_account(node, request),
            ("", "nodes") => own_node(node, request),
            ("", "pods") => self.pod(node, request),
            ("resource.k8s.io", "resourceclaims") => self.get(node, VertexKind::ResourceClaim, request),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(node, request),
            ("storage.k8s.io", "volumeattachments") => self.get(node, VertexKind::VolumeAttachment, request),
            ("storage.k8s.io", "csinodes") => self.csi_node(node, request),
            ("coordination.k8s.io", "leases") => lease(node, request),
            ("certificates.k8s.io", "podcertificaterequests") if self.features.pod_certificate_requests => {
                self.pod_certificate_request(node, request)
            }
            _ => {
                let bundles = self.features.cluster_trust_bundles && CLUSTER_TRUST_BUNDLES.allows(request);
                let allowed = bundles || NODE_RULES.iter().any(|rule| rule.allows(request));
                if allowed { Ok(()) } else { pass("") }
            }
        }
    }

    /// Decides about an object that has to lead to the node.
    fn related(&self, node: &str, kind: VertexKind, request: &AuthorizationAttributes<'_>) -> Outcome {
        if request.name.is_empty() {
            return pass("No Object name found");
        }
        if self.graph.has_path(kind, request.namespace, request.name, node) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{node}' and this object").into())
    }

    /// Decides about the CSINode of the node. The name of a new CSINode is not known here; the admission plugin
    /// `NodeRestriction` checks it.
    fn csi_node(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        let is_status = request.subresource == "status" && self.features.storage_health;
        if is_status && !matches!(request.verb, "get" | "update" | "patch") {
            return pass("can only get, update, or patch the status of a CSINode");
        }
        if !matches!(request.verb, "get" | "create" | "update" | "patch" | "delete") {
            return pass("can only get, create, update, patch, or delete a CSINode");
        }
        if !is_status && !request.subresource.is_empty() {
            return pass("cannot authorize CSINode subresources");
        }
        if request.verb != "create" && request.name != node {
            return pass("can only access CSINode with the same name as the requesting node");
        }
        Ok(())
    }

    fn get(&self, node: &str, kind: VertexKind, request: &AuthorizationAttributes<'_>) -> Outcome {
        if request.verb != "get" {
            return pass("can only get individual resources of this type");
        }
        if !request.subresource.is_empty() {
            return pass("cannot get subresource");
        }
        self.related(node, kind, request)
    }

    /// Decides about reads of one object. Lists and watches by name are such reads.
    fn read_namespaced(&self, node: &str, kind: VertexKind, request: &AuthorizationAttributes<'_>) -> Outcome {
        if !matches!(request.verb, "get" | "list" | "watch") {
            return pass("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return pass("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return pass("can only read namespaced object of this type");
        }
        self.related(node, kind, request)
    }

    fn update_status(&self, node: &str, kind: VertexKind, request: &AuthorizationAttributes<'_>) -> Outcome {
        if !matches!(request.verb, "update" | "patch") {
            return pass("can only get/update/patch this type");
        }
        self.related(node, kind, request)
    }

    fn service_account(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        if request.verb == "get" && request.subresource.is_empty() {
            let NodeFeatures { credential_provider_tokens, pod_certificate_requests, .. } = self.features;
            if !credential_provider_tokens && !pod_certificate_requests {
                return pass("not allowed to get service accounts");
            }
            return self.read_namespaced(node, VertexKind::ServiceAccount, request);
        }
        if request.verb != "create" || request.name.is_empty() {
            return pass("can only create tokens for individual service accounts");
        }
        if request.subresource != "token" {
            return pass("can only create token subresource of serviceaccount");
        }
        self.related(node, VertexKind::ServiceAccount, request)
    }

    /// Decides about resource slices. The authorizer does not know which slices a node creates; the admission plugin
    /// `NodeRestriction` checks that.
    fn resource_slice(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        if !request.subresource.is_empty() {
            return pass("cannot authorize ResourceSlice subresources");
        }
        match request.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(node, VertexKind::ResourceSlice, request),
            "watch" | "list" | "deletecollection" if selects_node(request, node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                pass("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => pass(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    fn pod_certificate_request(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        if !request.subresource.is_empty() {
            return pass("nodes may not access the status subresource of PodCertificateRequests");
        }
        match request.verb {
            "create" => Ok(()),
            "get" => self.related(node, VertexKind::PodCertificateRequest, request),
            "list" | "watch" if selects_node(request, node) => Ok(()),
            "list" | "watch" => pass("can only list/watch podcertificaterequests with nodeName field selector"),
            verb => Err(format!("nodes may not {verb} podcertificaterequests").into()),
        }
    }

    /// Decides about pods. The authorizer does not know which pods a node writes, or whether it creates mirror pods
    /// only. The admission plugin `NodeRestriction` checks that.
    fn pod(&self, node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
        match (request.subresource, request.verb) {
            ("", "get") => self.related(node, VertexKind::Pod, request),
            ("", "list" | "watch") if selects_node(request, node) => Ok(()),
            ("", "list" | "watch") if request.name.is_empty() => {
                pass("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "list" | "watch") => self.related(node, VertexKind::Pod, request),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => pass(""),
        }
    }
}

/// Returns whether a list or watch selects only objects of a node.
fn selects_node(request: &AuthorizationAttributes<'_>, node: &str) -> bool {
    FieldSelector::text_requires(request.field_selector, "spec.nodeName", node)
}

/// Decides about the node's own object. The object is compared by name, so that a kubelet can read it before it exists.
/// The admission plugin `NodeRestriction` limits writes to it.
fn own_node(node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
    match (request.subresource, request.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match request.name {
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object").into()),
            name if name == node => Ok(()),
            name => Err(format!("node '{node}' cannot read '{name}', only its own Node object").into()),
        },
        _ => pass(""),
    }
}

/// Decides about the lease of the node. The name of a new lease is not known here; the admission plugin
/// `NodeRestriction` checks it.
fn lease(node: &str, request: &AuthorizationAttributes<'_>) -> Outcome {
    if !matches!(request.verb, "get" | "create" | "update" | "patch" | "delete") {
        return pass("can only get, create, update, patch, or delete a node lease");
    }
    if request.namespace != NODE_LEASES {
        return pass("can only access leases in the \"kube-node-lease\" system namespace");
    }
    if request.verb != "create" && request.name != node {
        return pass("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        AuthFuture::ready(self.decide(user, attributes))
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(Self::rules_of(user))
    }
}
