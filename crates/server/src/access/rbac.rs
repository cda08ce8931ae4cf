//! The RBAC authorizer over the roles and bindings of a cluster.

use std::sync::Arc;

use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, RulesReview, UserInfo};
use pintle_registry::ApiError;

use crate::cluster::Cluster;

/// Decides by the roles and bindings of a cluster (`--authorization-mode=RBAC`). A change of roles or bindings is in
/// force before the request that made it is answered.
#[derive(Clone, Debug)]
pub struct RbacAuthorizer(Arc<Cluster>);

impl RbacAuthorizer {
    /// Creates the authorizer, and reads the roles and bindings.
    ///
    /// # Errors
    /// The cluster has no roles.
    pub fn new(cluster: &Arc<Cluster>) -> Result<Self, ApiError> {
        cluster.rbac()?;
        Ok(Self(cluster.clone()))
    }
}

impl Authorizer for RbacAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        match self.0.rbac() {
            Ok(index) => index.authorize(user, attributes),
            Err(error) => {
                AuthFuture::ready(Authorization { error: Some(error.to_string()), ..Authorization::NO_OPINION })
            }
        }
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        match self.0.rbac() {
            Ok(index) => index.rules(user, namespace),
            Err(error) => AuthFuture::ready(RulesReview { error: Some(error.to_string()), ..RulesReview::default() }),
        }
    }
}
