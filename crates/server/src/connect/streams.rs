//! Exec, attach and port forwarding, which kubelets serve (upstream: `ExecREST`, `AttachREST`, `PortForwardREST`).

use std::sync::Arc;

use pintle_gates::Feature;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;

use super::headers::is_upgrade;
use super::location::{self, Location};
use super::upgrade::{pass_on, upgrade_headers};
use super::{remote_command, tunnel};
use crate::cluster::KubeletAddress;
use crate::context::RequestContext;
use crate::http::Response;

/// Runs a command in a container.
///
/// # Errors
/// The user is not authorized, there is no such container, or its kubelet cannot be reached.
pub(super) async fn exec(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    remote_command(request, options, "exec").await
}

/// Attaches to the process of a container.
///
/// # Errors
/// Like [`exec`].
pub(super) async fn attach(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    remote_command(request, options, "attach").await
}

async fn remote_command(
    request: &Arc<RequestContext>,
    options: &Value,
    action: &'static str,
) -> Result<Response, ApiError> {
    check_create(request).await?;
    let pod = location::get(&request.cluster, "pods", &request.info.namespace, &request.info.name)?;
    let container = location::container(&pod, options.str_at(&["container"]))?;
    let kubelet = location::kubelet_of(&request.cluster, &pod)?;
    let path = format!("/{action}/{}/{}/{container}", pod.namespace(), pod.name());
    let commands = options.items_at(&["command"]).iter().filter_map(Value::as_str);
    let mut parameters: Vec<(&str, &str)> = commands.map(|command| ("command", command)).collect();
    // The kubelet's names of the streams.
    for (option, parameter) in [("stderr", "error"), ("stdin", "input"), ("stdout", "output"), ("tty", "tty")] {
        if options.bool_at(&[option]) {
            parameters.push((parameter, "1"));
        }
    }
    let location = Location::of_kubelet(&kubelet, path, &parameters);
    if remote_command::is_wanted(request) {
        let translates = request.cluster.gates().is_enabled(Feature::TRANSLATE_STREAM_CLOSE_WEBSOCKET_REQUESTS);
        if count_websocket(request, action, &kubelet, translates) {
            let client = request.cluster.outbound.kubelets.client(&kubelet, false).await?;
            return remote_command::translate(request, client, location, options);
        }
    }
    serve(request, &kubelet, &location).await
}

/// Counts a WebSocket. True if the kubelet serves no WebSockets, so this server translates it.
fn count_websocket(
    request: &RequestContext,
    subresource: &'static str,
    kubelet: &KubeletAddress,
    translates: bool,
) -> bool {
    if translates || kubelet.serves_websockets {
        request.cluster.metrics.connections().record_websocket(subresource, kubelet.serves_websockets);
    }
    translates && !kubelet.serves_websockets
}

/// Forwards ports of a pod.
///
/// # Errors
/// The user is not authorized, there is no such pod, or its kubelet cannot be reached.
pub(super) async fn port_forward(request: &Arc<RequestContext>, options: &Value) -> Result<Response, ApiError> {
    check_create(request).await?;
    let pod = location::get(&request.cluster, "pods", &request.info.namespace, &request.info.name)?;
    let kubelet = location::kubelet_of(&request.cluster, &pod)?;
    let ports: Vec<String> =
        options.items_at(&["ports"]).iter().filter_map(Value::as_int).map(|port| port.to_string()).collect();
    let ports = ports.join(",");
    let parameters = if ports.is_empty() { &[][..] } else { &[("port", ports.as_str())] };
    let path = format!("/portForward/{}/{}", pod.namespace(), pod.name());
    let location = Location::of_kubelet(&kubelet, path, parameters);
    if tunnel::is_wanted(request) {
        let tunnels = request.cluster.gates().is_enabled(Feature::PORT_FORWARD_WEBSOCKETS);
        if count_websocket(request, "portforward", &kubelet, tunnels) {
            let client = request.cluster.outbound.kubelets.client(&kubelet, false).await?;
            return tunnel::tunnel(request, &client, &location).await;
        }
    }
    serve(request, &kubelet, &location).await
}

/// Checks that the user may also create the subresource: WebSockets begin with a GET, SPDY with a POST (upstream:
/// `ensureAuthorizedForVerb`).
async fn check_create(request: &RequestContext) -> Result<(), ApiError> {
    let gate = Feature::AUTHORIZE_POD_WEBSOCKET_UPGRADE_CREATE_PERMISSION;
    if request.info.verb == "create" || !request.cluster.gates().is_enabled(gate) {
        return Ok(());
    }
    let authorization = request.decide("create").await;
    if authorization.is_allowed() {
        return Ok(());
    }
    if let Some(error) = authorization.error {
        return Err(ApiError::Unclassified(error));
    }
    let info = &request.info;
    Err(ApiError::Forbidden {
        resource: GroupResource::new(info.group.clone(), info.resource.clone()),
        name: info.name.clone(),
        why: authorization.reason.to_string(),
        causes: Vec::new(),
    })
}

/// Passes a connection on to a kubelet.
async fn serve(
    request: &Arc<RequestContext>,
    kubelet: &KubeletAddress,
    location: &Location,
) -> Result<Response, ApiError> {
    if !is_upgrade(&request.headers) {
        return Err(ApiError::BadRequest("Upgrade request required".to_owned()));
    }
    let client = request.cluster.outbound.kubelets.client(kubelet, false).await?;
    pass_on(request, &client, location, upgrade_headers(request)).await
}
