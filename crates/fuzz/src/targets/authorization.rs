//! The inputs of authorizers: objects that nodes refer to, configurations and policies.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pintle_auth::authorization_config::{self, AuthorizationConfiguration, AuthorizerConfig, MatchConditions};
use pintle_auth::node::{NodeAuthorizer, NodeObject};
use pintle_auth::user::ALL_AUTHENTICATED;
use pintle_auth::{AbacAuthorizer, AuthorizationAttributes, Authorizer, UserInfo};
use pintle_codec::json;
use pintle_value::{FieldPath, Str, Value, object};

use crate::{MemoryLimit, with_memory_limit};

const LIMIT: MemoryLimit = MemoryLimit { per_byte: 600, base: 256 << 10 };

const KINDS: [NodeObject; 4] =
    [NodeObject::Pod, NodeObject::PersistentVolume, NodeObject::VolumeAttachment, NodeObject::ResourceSlice];

const POD: &str = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","serviceAccountName":"s","imagePullSecrets":[{"name":"p"}],"containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"e"}}}]}],"volumes":[{"name":"v","secret":{"secretName":"w"}},{"name":"x","ephemeral":{}}],"resourceClaims":[{"name":"c","resourceClaimTemplateName":"t"}]},"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"d"}]}}"#;
const VOLUME: &str =
    r#"{"spec":{"claimRef":{"namespace":"ns","name":"c"},"csi":{"nodeStageSecretRef":{"namespace":"ns","name":"s"}}}}"#;
const CONFIGURATION: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n- type: Webhook\n  name: w\n  webhook: {timeout: 3s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, connectionInfo: {type: InClusterConfig}, matchConditions: [{expression: request.user == 'a'}]}\n- {type: RBAC, name: rbac}\n";
const POLICIES: &str = "# policies\n{\"user\":\"a\"}\n{\"apiVersion\":\"abac.authorization.kubernetes.io/v1beta1\",\"kind\":\"Policy\",\"spec\":{\"user\":\"*\",\"nonResourcePath\":\"/a*\"}}\n";
const MORE_POLICIES: &str = "{\"user\":\"alice\",\"resource\":\"pods\",\"namespace\":\"ns\",\"readonly\":true}\r\n\n{\"apiVersion\":\"abac.authorization.kubernetes.io/v1beta1\",\"kind\":\"Policy\",\"spec\":{\"group\":\"dev\",\"resource\":\"*\",\"namespace\":\"ns\",\"apiGroup\":\"apps\"}}";

/// The graph is empty again when all objects are gone, whatever objects they were.
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

/// Encoding a configuration and loading it again gives the same configuration. The match conditions of a valid
/// configuration can be evaluated.
pub(super) fn authorization_config(input: &[u8]) {
    let load = |text: &[u8]| authorization_config::load(text, &[], &|_| Ok(true));
    let Ok(configuration) = load(input) else { return };
    assert_eq!(load(&json::encode(&written(&configuration))).as_ref(), Ok(&configuration));
    assert!(!configuration.authorizers.is_empty());
    for webhook in configuration.authorizers.iter().filter_map(|authorizer| authorizer.webhook.as_ref()) {
        let (conditions, errors) = MatchConditions::compile(&FieldPath::new("webhook"), &webhook.match_conditions);
        assert!(errors.is_empty(), "{errors:?}");
        let attributes = object! {"verb": "get", "resource": "pods", "namespace": "ns"};
        let matches = conditions.matches(&object! {"user": "a", "resourceAttributes": attributes});
        assert!(!conditions.is_empty() || matches == Ok(true), "a webhook without conditions is not asked");
    }
}

/// A configuration as the content of its file.
fn written(configuration: &AuthorizationConfiguration) -> Value {
    let authorizer = |config: &AuthorizerConfig| {
        let webhook = config.webhook.as_ref().map_or(Value::Null, |webhook| {
            let file = webhook.kubeconfig_file.clone().map_or(Value::Null, Value::from);
            let conditions = webhook.match_conditions.iter().map(|text| object! {"expression": text.clone()});
            object! {
                "authorizedTTL": webhook.authorized_ttl.to_string(),
                "cacheAuthorizedRequests": webhook.cache_authorized,
                "unauthorizedTTL": webhook.unauthorized_ttl.to_string(),
                "cacheUnauthorizedRequests": webhook.cache_unauthorized,
                "timeout": webhook.timeout.to_string(),
                "subjectAccessReviewVersion": webhook.review_version.clone(),
                "matchConditionSubjectAccessReviewVersion": webhook.match_condition_version.clone(),
                "failurePolicy": webhook.failure_policy.clone(),
                "connectionInfo": object! {"type": webhook.connection_type.clone(), "kubeConfigFile": file},
                "matchConditions": Value::Array(conditions.collect()),
            }
        });
        object! {"type": config.kind.clone(), "name": config.name.clone(), "webhook": webhook}
    };
    object! {
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": Value::Array(configuration.authorizers.iter().map(authorizer).collect()),
    }
}

pub(super) fn authorization_config_seeds() -> Vec<Vec<u8>> {
    vec![CONFIGURATION.as_bytes().to_vec()]
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing has to be waited for"),
    }
}

/// Policies allow the requests that their rules list, and nothing to users who are not authenticated. A longer file
/// allows no less.
pub(super) fn policy_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parsed = with_memory_limit(text.len(), LIMIT, || AbacAuthorizer::parse("policies", text));
    let Ok(policies) = parsed else { return };
    let with_comments = format!("# comment\n\n{text}\n \t# comment\n");
    assert_eq!(AbacAuthorizer::parse("policies", &with_comments).as_ref(), Ok(&policies));
    let more = format!("{MORE_POLICIES}\n{text}");
    let more = AbacAuthorizer::parse("policies", &more).expect("more policies");
    let allows = |policies: &AbacAuthorizer, user: &UserInfo, attributes: &AuthorizationAttributes<'_>| {
        now(policies.authorize(user, attributes)).is_allowed()
    };
    let nobody = UserInfo::default();
    let groups = vec![Str::from("dev"), ALL_AUTHENTICATED.into()];
    let alice = UserInfo { name: "alice".into(), groups, ..UserInfo::default() };
    // A rule for everything is tried with one example.
    let concrete = |text: &Str| if text == "*" { Str::from("x") } else { text.clone() };
    let check = |attributes: AuthorizationAttributes<'_>| {
        assert!(allows(&policies, &alice, &attributes), "{attributes:?} is listed");
        assert!(allows(&more, &alice, &attributes), "{attributes:?} is not allowed any more");
        assert!(!allows(&policies, &nobody, &attributes), "{attributes:?} is allowed to anybody");
    };
    let review = now(policies.rules(&alice, "ns"));
    for rule in &review.resource_rules {
        let (group, resource) = (concrete(&rule.groups[0]), concrete(&rule.resources[0]));
        let (group, resource) = (&*group, &*resource);
        check(AuthorizationAttributes { verb: "get", group, resource, namespace: "ns", ..Default::default() });
    }
    for rule in &review.non_resource_rules {
        // A path is never empty.
        let path = rule.paths[0].trim_end_matches('*');
        let path = if path.is_empty() { "/x" } else { path };
        check(AuthorizationAttributes { verb: "get", path, ..Default::default() });
    }
}

pub(super) fn policy_file_seeds() -> Vec<Vec<u8>> {
    [POLICIES, MORE_POLICIES].map(|text| text.as_bytes().to_vec()).to_vec()
}
