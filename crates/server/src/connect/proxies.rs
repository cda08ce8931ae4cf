//! Proxies to the HTTP servers of pods, services and nodes (upstream: `ProxyREST`).

use std::sync::Arc;

use pintle_outbound::Client;
use pintle_registry::ApiError;
use pintle_value::Value;

use super::forward::{ForwardOptions, forward};
use super::location::{self, Location, NodeLocation};
use super::{headers, upgrade};
use crate::context::RequestContext;
use crate::http::Response;

/// Proxies a request to a pod.
///
/// # Errors
/// There is no such pod, or its address is not allowed.
pub(super) async fn pod(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    let location = location::pod_location(&request.cluster, &request.info.namespace, &request.info.name)?;
    let client = request.cluster.outbound.kubelets.proxy_client()?;
    proxy(request, &client, location, options).await
}

/// Proxies a request to an endpoint of a service.
///
/// # Errors
/// There is no such service, or it has no endpoint.
pub(super) async fn service(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    let location = location::service_location(&request.cluster, &request.info.namespace, &request.info.name)?;
    let client = request.cluster.outbound.kubelets.proxy_client()?;
    proxy(request, &client, location, options).await
}

/// Proxies a request to a kubelet or to another port of its node.
///
/// # Errors
/// There is no such node, or its address is not allowed.
pub(super) async fn node(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    let kubelets = &request.cluster.outbound.kubelets;
    let (client, location) = match location::node_location(&request.cluster, &request.info.name).await? {
        NodeLocation::Kubelet(kubelet) => {
            (kubelets.client(&kubelet, false).await?, Location::of_kubelet(&kubelet, String::new(), &[]))
        }
        NodeLocation::Port(location) => (kubelets.proxy_client()?, location),
    };
    proxy(request, &client, location, options).await
}

async fn proxy(
    request: &Arc<RequestContext>,
    client: &Client,
    mut location: Location,
    options: &Value,
) -> Result<Response, ApiError> {
    location.path = join_paths(&location.path, options.str_at(&["path"]));
    if headers::is_upgrade(&request.headers) {
        return upgrade::pass_on(request, client, &location, upgrade::upgrade_headers(request)).await;
    }
    forward(request, client, location, ForwardOptions::of_proxy(request)).await
}

/// Joins two paths and keeps a slash at the end (upstream: `net.JoinPreservingTrailingSlash`).
fn join_paths(base: &str, path: &str) -> String {
    let given: Vec<&str> = [base, path].into_iter().filter(|part| !part.is_empty()).collect();
    let Some(last) = given.last() else { return String::new() };
    let mut joined = clean(&given.join("/"));
    if last.ends_with('/') && !joined.ends_with('/') {
        joined.push('/');
    }
    joined
}

/// The shortest equivalent path (Go: `path.Clean`).
pub(super) fn clean(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if is_rooted => {}
            part => parts.push(part),
        }
    }
    match (is_rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_by_go() {
        for (base, path, expect) in [
            ("", "", ""),
            ("", "/", "/"),
            ("", "/a/b", "/a/b"),
            ("", "/a//b/", "/a/b/"),
            ("", "/a/../../b/./c", "/b/c"),
            ("", "/..", "/"),
            ("/base", "/../a", "/a"),
            ("/base", "a/", "/base/a/"),
        ] {
            assert_eq!(join_paths(base, path), expect, "{base} {path}");
        }
        assert_eq!(clean("a/../.."), "..");
        assert_eq!(clean(""), ".");
    }
}
