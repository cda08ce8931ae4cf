//! The node authorizer over the objects of a cluster.

use std::sync::Arc;

use pintle_auth::user::node_identity;
use pintle_auth::{AuthFuture, Authorization, AuthorizationAttributes, Authorizer, RulesReview, UserInfo};

use crate::cluster::Cluster;

/// Decides about nodes by the pods and volumes of a cluster (`--authorization-mode=Node`). A change of pods or volumes
/// is in force before the request that made it is answered. The graph is built for the first request of a node.
#[derive(Clone, Debug)]
pub struct NodeAuthorizer(Arc<Cluster>);

impl NodeAuthorizer {
    /// Creates the authorizer.
    #[must_use]
    pub fn new(cluster: &Arc<Cluster>) -> Self {
        Self(cluster.clone())
    }
}

impl Authorizer for NodeAuthorizer {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        if node_identity(user).is_none() {
            return AuthFuture::ready(Authorization::NO_OPINION);
        }
        match self.0.node_authorizer() {
            Ok(authorizer) => authorizer.authorize(user, attributes),
            Err(error) => {
                AuthFuture::ready(Authorization { error: Some(error.to_string()), ..Authorization::NO_OPINION })
            }
        }
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, _: &'a str) -> AuthFuture<'a, RulesReview> {
        AuthFuture::ready(pintle_auth::node::NodeAuthorizer::rules_of(user))
    }
}
