//! Lookups in the watch caches of the cluster: the objects to which tokens of service accounts are bound, and the
//! secrets of bootstrap tokens.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_auth::service_account::{
    INVALID_SINCE_LABEL, LAST_USED_LABEL, ObjectIdentity, SecretToken, ServiceAccountLookup, TokenUse,
    WebhookConfigurationKind,
};
use pintle_auth::{AuthFuture, BOOTSTRAP_TOKEN_NAMESPACE, BootstrapTokenLookup, TokenCacheObserver};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;
use pintle_value::time::Time;

use crate::cluster::Cluster;
use crate::write::InternalClient;

/// The key of the token in a secret.
const TOKEN_KEY: &str = "token";

/// Finds the objects to which tokens of service accounts are bound in a cluster.
#[must_use]
pub fn service_account_lookup(cluster: &Arc<Cluster>) -> Arc<dyn ServiceAccountLookup> {
    Arc::new(ClusterLookup(cluster.clone()))
}

/// Finds the secrets of bootstrap tokens in a cluster.
#[must_use]
pub fn bootstrap_token_lookup(cluster: &Arc<Cluster>) -> Arc<dyn BootstrapTokenLookup> {
    Arc::new(ClusterLookup(cluster.clone()))
}

/// Records the events of a token cache in the metrics of a cluster.
#[must_use]
pub fn token_cache_observer(cluster: &Arc<Cluster>) -> Box<dyn TokenCacheObserver> {
    Box::new(ClusterObserver(cluster.clone()))
}

struct ClusterLookup(Arc<Cluster>);

impl ClusterLookup {
    /// Returns an object of the core group.
    fn find(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        if name.is_empty() {
            return Ok(None);
        }
        self.0.get_object(&GroupResource::new("", resource), namespace, name)
    }

    fn identity(&self, resource: &str, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.find(resource, namespace, name).ok().flatten().as_ref().map(identity)
    }
}

fn identity(object: &Value) -> ObjectIdentity {
    ObjectIdentity { uid: object.uid().into(), deleted_at: object.time_at(&["metadata", "deletionTimestamp"]) }
}

impl ServiceAccountLookup for ClusterLookup {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn service_account(&self, namespace: &str, name: &str) -> Result<ObjectIdentity, String> {
        let not_found =
            || ApiError::NotFound { resource: GroupResource::new("", "serviceaccounts"), name: name.into() };
        match self.find("serviceaccounts", namespace, name) {
            Ok(Some(account)) => Ok(identity(&account)),
            Ok(None) => Err(not_found().to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.identity("pods", namespace, name)
    }

    fn node(&self, name: &str) -> Option<ObjectIdentity> {
        self.identity("nodes", "", name)
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<ObjectIdentity> {
        self.identity("secrets", namespace, name)
    }

    fn webhook_configuration(&self, kind: WebhookConfigurationKind, name: &str) -> Option<ObjectIdentity> {
        let resource = GroupResource::new("admissionregistration.k8s.io", kind.plural());
        self.0.get_object(&resource, "", name).ok().flatten().as_ref().map(identity)
    }

    fn secret_token(&self, namespace: &str, name: &str, account: &str) -> Option<SecretToken> {
        let secret = self.find("secrets", namespace, name).ok().flatten()?;
        let account = self.find("serviceaccounts", namespace, account).ok().flatten();
        let is_reference = |reference: &Value| reference.str_at(&["name"]) == name;
        let label = |key: &str| secret.str_at(&["metadata", "labels", key]).into();
        Some(SecretToken {
            identity: identity(&secret),
            token: STANDARD.decode(secret.str_at(&["data", TOKEN_KEY])).unwrap_or_default(),
            last_used: label(LAST_USED_LABEL),
            invalid_since: label(INVALID_SINCE_LABEL),
            is_referenced: account.is_some_and(|account| account.items_at(&["secrets"]).iter().any(is_reference)),
        })
    }

    fn set_last_used<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        uid: &'a str,
        date: String,
    ) -> AuthFuture<'a, ()> {
        let client = InternalClient(self.0.clone());
        let (uid, target) = (uid.to_owned(), (namespace.to_owned(), name.to_owned()));
        AuthFuture::boxed(async move {
            let (for_namespace, for_name) = target.clone();
            let written = self.0.spawn_write(async move {
                let label = |secret: &Value| {
                    let mut secret = secret.clone();
                    if secret.uid() == uid {
                        secret.set_at(&["metadata", "labels", LAST_USED_LABEL], date.as_str());
                    }
                    secret
                };
                client.update_subresource(&GroupResource::new("", "secrets"), "", (&target.0, &target.1), label).await
            });
            let error = match written.await {
                Ok(Ok(_)) => return,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::warn!(
                namespace = for_namespace,
                name = for_name,
                error,
                "Failed to label legacy service account token with last-used date"
            );
        })
    }

    fn record_use(&self, used: TokenUse) {
        self.0.metrics.tokens().record_use(used);
    }
}

impl BootstrapTokenLookup for ClusterLookup {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn secret(&self, name: &str) -> Result<Option<Value>, String> {
        self.find("secrets", BOOTSTRAP_TOKEN_NAMESPACE, name).map_err(|error| error.to_string())
    }
}

struct ClusterObserver(Arc<Cluster>);

impl TokenCacheObserver for ClusterObserver {
    fn authenticated(&self, hit: bool, took: Duration) {
        self.0.metrics.tokens().record_authentication(hit, took);
    }

    fn blocked(&self, difference: i64) {
        self.0.metrics.tokens().add_blocked(difference);
    }

    fn fetch_started(&self) {
        self.0.metrics.tokens().begin_fetch();
    }

    fn fetch_ended(&self, ok: Option<bool>) {
        self.0.metrics.tokens().end_fetch(ok);
    }
}
