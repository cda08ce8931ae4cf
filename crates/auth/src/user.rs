//! Well-known users and groups, and the user names of service accounts and nodes (upstream: `authentication/user`,
//! `authentication/serviceaccount`).

use pintle_value::Str;
use pintle_value::names::{dns1123_label, dns1123_subdomain};

use crate::UserInfo;

/// The group whose members may do everything.
pub const SYSTEM_PRIVILEGED_GROUP: &str = "system:masters";
/// The group of all authenticated users.
pub const ALL_AUTHENTICATED: &str = "system:authenticated";
/// The group of users without credentials.
pub const ALL_UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of all nodes.
pub const NODES_GROUP: &str = "system:nodes";
/// The prefix of the user names of nodes.
const NODE_PREFIX: &str = "system:node:";
/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts, and the first part of the groups of their namespaces.
const SERVICE_ACCOUNTS_GROUP: &str = "system:serviceaccounts";

/// The extra attribute that names the credential.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The extra attribute with the name of the node to which a token is bound, or on which its pod runs.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// The extra attribute with the uid of that node.
pub const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// The extra attribute with the name of the pod to which a token is bound.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The extra attribute with the uid of that pod.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The extra attribute with the name of the ValidatingWebhookConfiguration to which a token is bound.
pub const VALIDATING_WEBHOOK_NAME: &str = "authentication.kubernetes.io/validatingwebhookconfiguration-name";
/// The extra attribute with the uid of that configuration.
pub const VALIDATING_WEBHOOK_UID: &str = "authentication.kubernetes.io/validatingwebhookconfiguration-uid";
/// The extra attribute with the name of the MutatingWebhookConfiguration to which a token is bound.
pub const MUTATING_WEBHOOK_NAME: &str = "authentication.kubernetes.io/mutatingwebhookconfiguration-name";
/// The extra attribute with the uid of that configuration.
pub const MUTATING_WEBHOOK_UID: &str = "authentication.kubernetes.io/mutatingwebhookconfiguration-uid";
/// The extra attribute with the API groups about which the user may ask admission webhooks.
pub const ADMISSION_REVIEW_GROUPS: &str = "attestation.authentication.kubernetes.io/admissionReviewAPIGroups";

/// The user name of a service account (`serviceaccount.MakeUsername`).
#[must_use]
pub fn service_account_user(namespace: &str, name: &str) -> Str {
    let mut user = Str::with_capacity(SERVICE_ACCOUNT_PREFIX.len() + namespace.len() + 1 + name.len());
    for part in [SERVICE_ACCOUNT_PREFIX, namespace, ":", name] {
        user.push_str(part);
    }
    user
}

/// The user of a service account, without the attributes from a token (`ServiceAccountInfo.UserInfo`).
#[must_use]
pub fn service_account_info(namespace: &str, name: &str) -> UserInfo {
    let groups = vec![SERVICE_ACCOUNTS_GROUP.into(), format!("{SERVICE_ACCOUNTS_GROUP}:{namespace}").into()];
    UserInfo { name: service_account_user(namespace, name), groups, ..UserInfo::default() }
}

/// The namespace and the name of a service account, given its user name (`serviceaccount.SplitUsername`).
#[must_use]
pub fn split_service_account_user(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()).then_some((namespace, name))
}

/// The groups of a service account in a namespace (`serviceaccount.MakeGroupNames`).
#[must_use]
pub fn service_account_groups(namespace: &str) -> Vec<Str> {
    vec![SERVICE_ACCOUNTS_GROUP.into(), format!("{SERVICE_ACCOUNTS_GROUP}:{namespace}").into()]
}

/// The name of a node, given its user name.
#[must_use]
pub fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE_PREFIX).filter(|name| dns1123_subdomain(name).is_empty())
}

/// The node name of a user who is a node; the name may be empty. `None` for users who are not nodes
/// (`nodeidentifier.NodeIdentity`).
#[must_use]
pub fn node_identity(user: &UserInfo) -> Option<&str> {
    let node = user.name.strip_prefix(NODE_PREFIX)?;
    user.groups.iter().any(|group| group == NODES_GROUP).then_some(node)
}
