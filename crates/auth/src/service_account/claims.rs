//! The claims of tokens beside the registered ones.

use pintle_value::Str;
use serde::{Deserialize, Serialize};

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
    /// The time by which a client should have refreshed the token, although it is valid for longer.
    #[serde(rename = "warnafter", skip_serializing_if = "Option::is_none")]
    pub(super) warn_after: Option<NumericDate>,
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
    /// The unique id of the token, or empty.
    pub(super) token_id: Str,
}
