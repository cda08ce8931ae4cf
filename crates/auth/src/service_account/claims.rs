//! The claims of tokens beside the registered ones.

use std::collections::BTreeMap;

use pintle_value::Str;
use serde::{Deserialize, Serialize};

use super::lookup::WebhookConfigurationKind;
use crate::jwt::{NumericDate, RegisteredClaims};

/// The claims of a bound token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct BoundClaims {
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: KubernetesClaim,
}

/// The objects to which a token is bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct KubernetesClaim {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(rename = "serviceaccount")]
    pub(super) service_account: ObjectClaim,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<ObjectClaim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<ObjectClaim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<ObjectClaim>,
    #[serde(rename = "validatingwebhookconfiguration", skip_serializing_if = "Option::is_none")]
    pub(super) validating: Option<ObjectClaim>,
    #[serde(rename = "mutatingwebhookconfiguration", skip_serializing_if = "Option::is_none")]
    pub(super) mutating: Option<ObjectClaim>,
    /// The attestations of the server, by well-known keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attestations: BTreeMap<String, Vec<String>>,
    /// The time by which a client should have refreshed the token, although it is valid for longer.
    #[serde(rename = "warnafter", skip_serializing_if = "Option::is_none")]
    pub(super) warn_after: Option<NumericDate>,
}

/// The attestation with the API groups about which the bearer of a token may ask admission webhooks.
pub(super) const ADMISSION_REVIEW_GROUPS: &str = "admissionReviewAPIGroups";

impl KubernetesClaim {
    /// The configurations of webhooks to which the token is bound.
    pub(super) fn webhook_configurations(&self) -> impl Iterator<Item = (WebhookConfigurationKind, &ObjectClaim)> {
        let validating = self.validating.iter().map(|claim| (WebhookConfigurationKind::Validating, claim));
        validating.chain(self.mutating.iter().map(|claim| (WebhookConfigurationKind::Mutating, claim)))
    }
}

/// An object, by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ObjectClaim {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
}

/// The claims of a legacy token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LegacyClaims {
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    pub(super) name: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    pub(super) uid: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    pub(super) secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    pub(super) namespace: String,
}

/// All claims of a token that is issued.
#[derive(Serialize)]
pub(super) struct IssuedClaims<C> {
    #[serde(flatten)]
    pub(super) registered: RegisteredClaims,
    #[serde(flatten)]
    pub(super) private: C,
}

/// The private claims of a bound token that is issued.
#[derive(Serialize)]
pub(super) struct IssuedBoundClaims {
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: KubernetesClaim,
}

/// The validated owner of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenOwner {
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) uid: Str,
    pub(super) pod: Option<ObjectClaim>,
    pub(super) node: Option<ObjectClaim>,
    pub(super) validating: Option<ObjectClaim>,
    pub(super) mutating: Option<ObjectClaim>,
    /// The API groups about which the owner may ask admission webhooks.
    pub(super) admission_review_groups: Vec<String>,
    /// The unique id of the token, or empty.
    pub(super) token_id: Str,
}
