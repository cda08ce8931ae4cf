//! The parts of the chain of authorizers that know the cluster: authorizers whose decisions are counted, and a chain that
//! a reload replaces.

use std::sync::Arc;

use parking_lot::RwLock;
use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, RulesReview, UserInfo};
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

/// Records a reload of the configuration of the chain by a server with a name: the text that is in use now, or none if
/// the reload has failed.
pub fn record_authorization_reload(cluster: &Cluster, server: &str, text: Option<&[u8]>) {
    cluster.metrics.authorization().reloads().record(server, text, cluster.now().seconds);
}

/// An authorizer that can be replaced while requests use it. Requests in progress keep the one that they began with.
#[derive(Clone)]
pub struct ReloadableAuthorizer(Arc<RwLock<Arc<dyn Authorizer>>>);

impl ReloadableAuthorizer {
    /// Begins with an authorizer.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self(Arc::new(RwLock::new(authorizer)))
    }

    /// Replaces the authorizer.
    pub fn replace(&self, authorizer: Arc<dyn Authorizer>) {
        *self.0.write() = authorizer;
    }

    fn current(&self) -> Arc<dyn Authorizer> {
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
        // A decision that has to be waited for is begun again, in a future that keeps the authorizer.
        if let AuthFuture::Ready(Some(authorization)) = current.authorize(user, attributes) {
            return AuthFuture::ready(authorization);
        }
        AuthFuture::boxed(async move { current.authorize(user, attributes).await })
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        let current = self.current();
        AuthFuture::boxed(async move { current.rules(user, namespace).await })
    }
}
