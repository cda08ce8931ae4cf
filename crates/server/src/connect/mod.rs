//! Connections of clients with pods, services and nodes: logs, exec, attach, port forwarding and proxies (upstream:
//! `registry/core/pod/rest`, and the proxies of services and nodes). Each connector has a row in [`connect`]. Requests
//! for other API servers take the same way ([`to_api_server`]).

mod api_server;
mod copy;
mod forward;
mod headers;
mod location;
mod log_socket;
mod logs;
mod options;
mod proxies;
mod remote_command;
mod rewrite;
mod streams;
mod tunnel;
mod upgrade;
mod websocket;

use std::sync::Arc;

use pintle_registry::{ApiError, Connector, Resource, Subresource};
use pintle_value::Value;

pub(crate) use self::api_server::to_api_server;
use self::location::Location;
use crate::context::RequestContext;
use crate::http::Response;
use crate::request::info::RequestInfo;
use crate::write::admit_connection;

/// Handles a request for a subresource with a connector.
///
/// # Errors
/// The options are malformed, a plugin or the authorizer refuses the connection, or the backend does not exist.
pub(crate) async fn connect(
    request: &Arc<RequestContext>,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    connector: Connector,
) -> Result<Response, ApiError> {
    let admitted = async || admit(request, resource, subresource, connector).await;
    match connector {
        Connector::Logs => logs::respond(request).await,
        Connector::Exec => streams::exec(request, &admitted().await?).await,
        Connector::Attach => streams::attach(request, &admitted().await?).await,
        Connector::PortForward => streams::port_forward(request, &admitted().await?).await,
        Connector::PodProxy => proxies::pod(request, &admitted().await?).await,
        Connector::ServiceProxy => proxies::service(request, &admitted().await?).await,
        Connector::NodeProxy => proxies::node(request, &admitted().await?).await,
    }
}

/// The options of a connection, after admission.
async fn admit(
    request: &RequestContext,
    resource: &Arc<Resource>,
    subresource: &Subresource,
    connector: Connector,
) -> Result<Value, ApiError> {
    if request.query.get("dryRun").is_some() {
        return Err(ApiError::BadRequest("dryRun is not supported".to_owned()));
    }
    let path = connector.has_path().then(|| path_below(&request.info));
    let decoded =
        options::decode_options(&request.cluster.served.catalog, &subresource.kind, &request.query, path.as_deref());
    let mut options = decoded.map_err(ApiError::BadRequest)?;
    admit_connection(request, resource, &mut options).await?;
    *request.long_running.lock() = Some(request.cluster.metrics.begin_long_running(&request.recorded(), resource));
    Ok(options)
}

/// The path below the subresource, with its slashes at both ends.
fn path_below(info: &RequestInfo) -> String {
    let mut path = info.rest.join("/");
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}
