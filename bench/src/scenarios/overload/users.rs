//! The users of the scenario. The administrator impersonates them, because flow control classifies a request after
//! impersonation. So no server needs their credentials.

use http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::Result;
use crate::client::{HttpRequest, plain, with_body};
use crate::target::Server;

/// The group that all users of the scenario are members of. It may do everything.
const GROUP: &str = "bench-overload";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/// The group of nodes.
const NODES: &str = "system:nodes";

/// A user that the administrator impersonates.
#[derive(Clone)]
pub(super) struct User {
    name: HeaderValue,
    is_node: bool,
}

impl User {
    /// A user without other groups.
    pub(super) fn named(name: &str) -> Result<Self> {
        Ok(Self { name: HeaderValue::from_str(name)?, is_node: false })
    }

    /// The user of a node's kubelet.
    pub(super) fn of_node(node: &str) -> Result<Self> {
        Ok(Self { is_node: true, ..Self::named(&format!("system:node:{node}"))? })
    }

    /// The request, sent by this user.
    pub(super) fn sends(&self, mut request: HttpRequest) -> HttpRequest {
        let headers = request.headers_mut();
        headers.insert("impersonate-user", self.name.clone());
        headers.insert("impersonate-group", HeaderValue::from_static(GROUP));
        if self.is_node {
            headers.append("impersonate-group", HeaderValue::from_static(NODES));
        }
        request
    }
}

/// Allows the users everything. A server without RBAC, such as the Go API server, allows it anyway.
pub(super) async fn allow_everything(server: &Server) -> Result<()> {
    let binding = json!({
        "metadata": {"name": GROUP},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    });
    let request = with_body(Method::POST, BINDINGS, binding.to_string());
    let code = server.connect().await?.send(request).await?.status();
    match code {
        StatusCode::CREATED | StatusCode::CONFLICT | StatusCode::NOT_FOUND => Ok(()),
        other => Err(format!("create the binding of {GROUP}: {other}").into()),
    }
}

/// Removes the permissions from an existing server.
pub(super) async fn forbid_again(server: &Server) -> Result<()> {
    let request = plain(Method::DELETE, format!("{BINDINGS}/{GROUP}"));
    server.connect().await?.send(request).await?;
    Ok(())
}
