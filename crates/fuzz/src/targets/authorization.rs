//! What authorizers read: objects that nodes refer to, configurations, policies, and the answers of webhooks.

use pintle_auth::AbacAuthorizer;
use pintle_auth::authorization_config;
use pintle_auth::node::{NodeAuthorizer, NodeObject};
use pintle_codec::json;
use pintle_server::fuzzing::decode_review;

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 256 << 10 };

const KINDS: [NodeObject; 4] =
    [NodeObject::Pod, NodeObject::PersistentVolume, NodeObject::VolumeAttachment, NodeObject::ResourceSlice];

const POD: &str = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","serviceAccountName":"s","imagePullSecrets":[{"name":"p"}],"containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"e"}}}]}],"volumes":[{"name":"v","secret":{"secretName":"w"}},{"name":"x","ephemeral":{}}],"resourceClaims":[{"name":"c","resourceClaimTemplateName":"t"}]},"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"d"}]}}"#;
const VOLUME: &str =
    r#"{"spec":{"claimRef":{"namespace":"ns","name":"c"},"csi":{"nodeStageSecretRef":{"namespace":"ns","name":"s"}}}}"#;
const CONFIGURATION: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- type: Webhook\n  name: w\n  webhook: {timeout: 3s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: InClusterConfig}, matchConditions: [{expression: request.user == 'a'}]}\n- {type: RBAC, name: rbac}\n";
const POLICIES: &str = "# policies\n{\"user\":\"a\"}\n{\"apiVersion\":\"abac.authorization.kubernetes.io/v1beta1\",\"kind\":\"Policy\",\"spec\":{\"user\":\"*\",\"nonResourcePath\":\"/a*\"}}\n";
const ANSWER: &str = r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{},"spec":{},"status":{"allowed":true,"denied":false,"reason":"r"}}"#;

/// The graph is empty again when all objects are gone, whatever they were.
pub(super) fn node_object(input: &[u8]) {
    let Some((kind, text)) = input.split_first() else { return };
    let Ok(decoded) = json::decode(text, json::DecodeOptions::default()) else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let authorizer = NodeAuthorizer::default();
    let pod = json::decode(POD.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
    authorizer.set(NodeObject::Pod, "ns", "other", &pod);
    authorizer.set(kind, "ns", "a", &decoded.value);
    authorizer.set(kind, "ns", "a", &pod);
    authorizer.set(kind, "ns", "a", &decoded.value);
    let fields = json::Projection::of(kind.fields().iter().copied());
    let _ = fields.read(text);
    authorizer.remove(kind, "ns", "a");
    authorizer.remove(NodeObject::Pod, "ns", "other");
    assert!(authorizer.is_empty(), "objects are left");
}

pub(super) fn node_object_seeds() -> Vec<Vec<u8>> {
    [(0, POD), (1, VOLUME), (2, POD)].map(|(kind, text)| [&[kind], text.as_bytes()].concat()).to_vec()
}

pub(super) fn authorization_config(input: &[u8]) {
    let load = || authorization_config::load(input, &[], &|_| Ok(true));
    let Ok(configuration) = load() else { return };
    assert_eq!(load(), Ok(configuration));
}

pub(super) fn authorization_config_seeds() -> Vec<Vec<u8>> {
    vec![CONFIGURATION.as_bytes().to_vec()]
}

pub(super) fn policy_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = with_memory_limit(text.len(), LIMIT, || AbacAuthorizer::parse("policies", text));
}

pub(super) fn policy_file_seeds() -> Vec<Vec<u8>> {
    vec![POLICIES.as_bytes().to_vec()]
}

pub(super) fn webhook_answer(input: &[u8]) {
    with_memory_limit(input.len(), LIMIT, || decode_review(input));
}

pub(super) fn webhook_answer_seeds() -> Vec<Vec<u8>> {
    vec![ANSWER.as_bytes().to_vec()]
}
