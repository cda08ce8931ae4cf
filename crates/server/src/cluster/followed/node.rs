//! The graph of the node authorizer.

use pintle_auth::node::{NodeAuthorizer, NodeFeatures, NodeObject};
use pintle_gates::{Feature, Gates};
use pintle_value::{Str, Value};

use super::ObjectIndex;

/// A node authorizer that knows no objects.
pub(in crate::cluster) fn empty_node_authorizer(gates: &Gates) -> NodeAuthorizer {
    NodeAuthorizer::new(NodeFeatures {
        credential_provider_tokens: gates.is_enabled(Feature::KUBELET_SERVICE_ACCOUNT_TOKENS_FOR_CREDENTIAL_PROVIDERS),
        pod_certificate_requests: gates.is_enabled(Feature::POD_CERTIFICATE_REQUEST),
        cluster_trust_bundles: gates.is_enabled(Feature::CLUSTER_TRUST_BUNDLE_PROJECTION),
        storage_health: gates.is_enabled(Feature::CSI_VOLUME_HEALTH),
    })
}

impl ObjectIndex for NodeAuthorizer {
    type Kind = NodeObject;

    const KINDS: &'static [(NodeObject, &'static str, &'static str)] = &[
        (NodeObject::Pod, "", "pods"),
        (NodeObject::PersistentVolume, "", "persistentvolumes"),
        (NodeObject::VolumeAttachment, "storage.k8s.io", "volumeattachments"),
        (NodeObject::ResourceSlice, "resource.k8s.io", "resourceslices"),
        (NodeObject::PodCertificateRequest, "certificates.k8s.io", "podcertificaterequests"),
    ];

    fn fields(kind: NodeObject) -> &'static [&'static str] {
        kind.fields()
    }

    fn set(&self, kind: NodeObject, namespace: &str, name: &str, object: &Value) -> Result<(), String> {
        Self::set(self, kind, namespace, name, object);
        Ok(())
    }

    fn remove(&self, kind: NodeObject, namespace: &str, name: &str) {
        Self::remove(self, kind, namespace, name);
    }

    fn names(&self, kind: NodeObject) -> Vec<(Str, Str)> {
        Self::names(self, kind)
    }
}
