//! The parts of the authorizer chain that know the cluster: authorizers whose decisions are counted, and a chain that a
//! reload replaces.

use std::sync::Arc;

use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, RulesReview, UserInfo};
use pintle_locks::RwLock;
use pintle_value::Str;

use crate::cluster::{AuthorizerLabels, Cluster, Decisions};

/// An authorizer whose decisions metrics count (upstream: `InstrumentedAuthorizer`).
pub struct CountedAuthorizer {
    authorizer: Box<dyn Authorizer>,
    decisions: Arc<Decisions>,
}

impl CountedAuthorizer {
    /// Counts the decisions of an authorizer under its type and name.
    #[must_use]
    pub fn new(cluster: &Cluster, kind: &str, name: &str, authorizer: Box<dyn Authorizer>) -> Self {
        let labels = AuthorizerLabels { kind: Str::from(kind), name: Str::from(name) };
        Self { authorizer, decisions: cluster.metrics.authorization().decisions(&labels) }
    }

    fn counted(&self, authorization: Authorization) -> Authorization {
        self.decisions.record(authorization.decision);
        authorization
    }
}

impl Authorizer for CountedAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        match self.authorizer.authorize(user, attributes) {
            AuthFuture::Ready(decided) => AuthFuture::Ready(decided.map(|authorization| self.counted(authorization))),
            AuthFuture::Boxed(pending) => AuthFuture::boxed(async move { self.counted(pending.await) }),
        }
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        self.authorizer.rules(user, namespace)
    }
}

/// Records a reload of the authorization configuration. `server` is the identity of the server in metrics. `text` is
/// the configuration that is in use now, or `None` if the reload has failed.
pub fn record_authorization_reload(cluster: &Cluster, server: &str, text: Option<&[u8]>) {
    cluster.metrics.authorization().reloads().record(server, text, cluster.now().seconds);
}

/// An authorizer that can be replaced while requests use it. Requests in progress keep the authorizer that they began
/// with.
#[derive(Clone)]
pub struct ReloadableAuthorizer(Arc<RwLock<Arc<CurrentAuthorizer>>>);

struct CurrentAuthorizer {
    authorizer: Arc<dyn Authorizer>,
    asks_webhooks: bool,
}

impl ReloadableAuthorizer {
    /// Creates the value with its first authorizer. `asks_webhooks` says whether a decision may wait for the answer of
    /// a webhook.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>, asks_webhooks: bool) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(CurrentAuthorizer { authorizer, asks_webhooks }))))
    }

    /// Replaces the authorizer.
    pub fn replace(&self, authorizer: Arc<dyn Authorizer>, asks_webhooks: bool) {
        *self.0.write() = Arc::new(CurrentAuthorizer { authorizer, asks_webhooks });
    }

    fn current(&self) -> Arc<CurrentAuthorizer> {
        self.0.read().clone()
    }
}

impl Authorizer for ReloadableAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        let current = self.current();
        // If a decision has to be awaited, it starts again in a future that keeps the authorizer alive. Authorizers
        // that decide from memory need no such future.
        if !current.asks_webhooks
            && let AuthFuture::Ready(Some(authorization)) = current.authorizer.authorize(user, attributes)
        {
            return AuthFuture::ready(authorization);
        }
        AuthFuture::boxed(async move { current.authorizer.authorize(user, attributes).await })
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        let current = self.current();
        AuthFuture::boxed(async move { current.authorizer.rules(user, namespace).await })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use pintle_auth::Decision;

    use super::*;

    /// Counts its decisions. Decisions about alice are not ready at once.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Authorizer for Counting {
        fn authorize<'a>(
            &'a self,
            user: &'a UserInfo,
            _: &'a AuthorizationAttributes<'a>,
        ) -> AuthFuture<'a, Authorization> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let authorization = Authorization { decision: Decision::Allow, ..Authorization::NO_OPINION };
            if user.name == "alice" {
                return AuthFuture::boxed(async { authorization });
            }
            AuthFuture::ready(authorization)
        }

        fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
            AuthFuture::ready(RulesReview::default())
        }
    }

    #[tokio::test]
    async fn decisions_begin_once() {
        let counting = Arc::new(Counting::default());
        let reloadable = ReloadableAuthorizer::new(counting.clone(), true);
        for (user, begun) in [("bob", 1), ("alice", 2), ("alice", 3)] {
            let user = UserInfo { name: user.into(), ..UserInfo::default() };
            let authorization = reloadable.authorize(&user, &AuthorizationAttributes::default()).await;
            assert_eq!((authorization.decision, counting.0.load(Ordering::Relaxed)), (Decision::Allow, begun));
        }
    }
}
