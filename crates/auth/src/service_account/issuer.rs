//! Issues tokens of service accounts.

use pintle_value::Str;
use pintle_value::time::Time;

use super::claims::{
    ADMISSION_REVIEW_GROUPS, IssuedBoundClaims, IssuedClaims, KubernetesClaim, LegacyClaims, ObjectClaim,
};
use super::legacy::LEGACY_ISSUER;
use super::lookup::WebhookConfigurationKind;
use crate::jwt::{Audiences, NumericDate, PublicKey, RegisteredClaims, SigningError, SigningKey};
use crate::user::service_account_user;

/// The object to which a token is bound beside its service account, by name and uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundObject {
    /// A pod, and its node if the pod runs on one. The uid of a node that does not exist is empty.
    Pod {
        /// The pod.
        pod: (Str, Str),
        /// The node.
        node: Option<(Str, Str)>,
    },
    /// A node.
    Node(Str, Str),
    /// A secret.
    Secret(Str, Str),
    /// A configuration of admission webhooks, for an API server that authenticates itself to one of them.
    WebhookConfiguration {
        /// The kind of the configuration.
        kind: WebhookConfigurationKind,
        /// The configuration.
        configuration: (Str, Str),
        /// The API group of the reviews for which the token is, or `*`.
        review_group: Str,
    },
}

/// The content of a bound token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTokenRequest {
    /// The namespace of the service account.
    pub namespace: Str,
    /// The name of the service account.
    pub name: Str,
    /// The uid of the service account.
    pub uid: Str,
    /// The object to which the token is bound beside the account.
    pub bound: Option<BoundObject>,
    /// The audiences of the token.
    pub audiences: Vec<Str>,
    /// The time of issue.
    pub now: Time,
    /// The lifetime in seconds.
    pub expiration_seconds: i64,
    /// The number of seconds after which a client should have refreshed the token. `None` if the token does not live
    /// longer than that.
    pub warn_after_seconds: Option<i64>,
    /// The token's unique id.
    pub id: Str,
}

/// A token that was issued.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedToken(pub String);

impl std::fmt::Debug for IssuedToken {
    /// Does not print the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IssuedToken").finish_non_exhaustive()
    }
}

/// Issues tokens with a key.
#[derive(Debug)]
pub struct TokenIssuer {
    issuer: Str,
    key: SigningKey,
}

impl TokenIssuer {
    /// An issuer with this name.
    #[must_use]
    pub fn new(issuer: Str, key: SigningKey) -> Self {
        Self { issuer, key }
    }

    /// The key that verifies the tokens.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        self.key.public_key()
    }

    /// Issues a bound token.
    ///
    /// # Errors
    /// The token cannot be signed.
    pub fn issue(&self, request: BoundTokenRequest) -> Result<IssuedToken, SigningError> {
        let now = request.now.seconds;
        let object = |(name, uid): (Str, Str)| ObjectClaim { name: name.into(), uid: uid.into() };
        let mut kubernetes = KubernetesClaim {
            namespace: request.namespace.to_string(),
            service_account: object((request.name.clone(), request.uid)),
            warn_after: request.warn_after_seconds.map(|seconds| NumericDate(now.saturating_add(seconds))),
            ..KubernetesClaim::default()
        };
        match request.bound {
            Some(BoundObject::Pod { pod, node }) => {
                (kubernetes.pod, kubernetes.node) = (Some(object(pod)), node.map(object));
            }
            Some(BoundObject::Node(name, uid)) => kubernetes.node = Some(object((name, uid))),
            Some(BoundObject::Secret(name, uid)) => kubernetes.secret = Some(object((name, uid))),
            Some(BoundObject::WebhookConfiguration { kind, configuration, review_group }) => {
                let claim = match kind {
                    WebhookConfigurationKind::Validating => &mut kubernetes.validating,
                    WebhookConfigurationKind::Mutating => &mut kubernetes.mutating,
                };
                *claim = Some(object(configuration));
                kubernetes.attestations.insert(ADMISSION_REVIEW_GROUPS.to_owned(), vec![review_group.into()]);
            }
            None => {}
        }
        let registered = RegisteredClaims {
            issuer: self.issuer.clone(),
            subject: service_account_user(&request.namespace, &request.name),
            audiences: Audiences(request.audiences),
            expiry: Some(NumericDate(now.saturating_add(request.expiration_seconds))),
            not_before: Some(NumericDate(now)),
            issued_at: Some(NumericDate(now)),
            id: request.id,
        };
        self.key.sign(&IssuedClaims { registered, private: IssuedBoundClaims { kubernetes } }).map(IssuedToken)
    }

    /// Issues a legacy token for a service account, which is given by namespace, name and uid. The token is stored in a
    /// secret.
    ///
    /// # Errors
    /// The token cannot be signed.
    pub fn issue_legacy(
        &self,
        (namespace, name, uid): (&str, &str, &str),
        secret: &str,
    ) -> Result<IssuedToken, SigningError> {
        let registered = RegisteredClaims {
            issuer: LEGACY_ISSUER.into(),
            subject: service_account_user(namespace, name),
            ..RegisteredClaims::default()
        };
        let private = LegacyClaims {
            name: name.to_owned(),
            uid: uid.to_owned(),
            secret: secret.to_owned(),
            namespace: namespace.to_owned(),
        };
        self.key.sign(&IssuedClaims { registered, private }).map(IssuedToken)
    }
}
