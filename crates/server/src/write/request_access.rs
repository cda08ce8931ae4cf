//! The access of a write's user to other resources, for validations that require more than the write (upstream:
//! authorizers of strategies, and `filters.GetAuthorizerAttributes`).

use pintle_auth::AuthorizationAttributes;
use pintle_registry::{BoxFuture, RequiredAccess, VirtualAccess, WriteAccess};

use crate::access::{attributes, require};
use crate::context::RequestContext;

/// The access of a request's user to the resource of the request. `None` for writes of the server itself.
pub(super) struct RequestAccess<'r>(pub(super) Option<&'r RequestContext>);

impl WriteAccess for RequestAccess<'_> {
    fn verb(&self) -> &str {
        self.0.map_or("update", |request| &request.info.verb)
    }

    fn check<'a>(&'a self, access: RequiredAccess<'a>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(RequestContext { access: control, user, info, query, .. }) = self.0 else { return Ok(()) };
            let RequiredAccess { verb, subresource, namespace, name } = access;
            let required = AuthorizationAttributes { subresource, namespace, name, ..attributes(info, query, verb) };
            require(&*control.authorizer, user, &required).await.map_err(|error| error.to_string())
        })
    }

    fn allows_virtual<'a>(&'a self, VirtualAccess { verb, resource, name }: VirtualAccess<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let Some(RequestContext { access: control, user, info, query, .. }) = self.0 else { return true };
            let group = attributes(info, query, verb).group;
            let required = AuthorizationAttributes {
                verb,
                group,
                version: "*",
                resource,
                name,
                ..AuthorizationAttributes::default()
            };
            control.authorizer.authorize(user, &required).await.is_allowed()
        })
    }
}
