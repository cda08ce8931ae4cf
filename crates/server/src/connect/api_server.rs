//! Requests for the versions that other API servers serve, which are passed on to these (upstream: kube-aggregator's
//! `pkg/apiserver/handler_proxy.go`).

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use pintle_gates::Feature;

use super::forward::{ForwardOptions, forward};
use super::location::{Location, encode_query};
use super::{headers, upgrade};
use crate::aggregation::set_identity;
use crate::cluster::{ApiService, RequestTarget, join_host_port};
use crate::context::RequestContext;
use crate::http::{Response, plain_error};
use crate::request::audit_id::AUDIT_ID;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The time limit of a request for the discovery document of a version.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How many proxies a request may have passed. A request that is passed on to this server again would never end.
const MAX_PROXIES: usize = 16;

/// Passes a request on to the API server of an APIService. The user is named in headers. Errors are plain texts, as in
/// upstream.
pub(crate) async fn to_api_server(request: &Arc<RequestContext>, service: &ApiService) -> Response {
    match pass_on(request, service).await {
        Ok(response) => response,
        Err((code, message)) => {
            let recorded = request.recorded();
            let target = RequestTarget::of_api_service(&recorded, &service.version);
            request.cluster.metrics.series(&target).record_termination(code.as_u16());
            plain_error(code, &message)
        }
    }
}

/// Passes a request on. An error is counted as an end of the request by the aggregation layer. As in upstream, errors of
/// the API server's connection are responses.
async fn pass_on(request: &Arc<RequestContext>, service: &ApiService) -> Result<Response, (StatusCode, String)> {
    let unavailable = |message: String| (StatusCode::SERVICE_UNAVAILABLE, message);
    let not_found = || (StatusCode::NOT_FOUND, String::new());
    let remote = service.remote.as_ref().ok_or_else(not_found)?;
    if !service.is_available {
        return Err(unavailable("service unavailable".to_owned()));
    }
    let cluster = &request.cluster;
    let client = cluster.outbound.remote_client(remote);
    let client = client.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error))?;
    let address = remote.dial_address(cluster).map_err(|error| {
        tracing::warn!(name = %service.name, error, "Failed to resolve the service of an APIService");
        unavailable("service unavailable".to_owned())
    })?;
    let location = Location {
        scheme: "https".to_owned(),
        authority: join_host_port(&address.host, &address.port.to_string()),
        path: request.info.path.clone(),
        query: String::new(),
        dial_address: Some(address),
        tls_authority: Some(remote.authority.clone()),
    };
    let query = sorted_query(request);
    // As in upstream, a watch has no seats from here on, because this server does not see the end of its initial events.
    if let Some(flow) = request.flow.as_ref().filter(|_| request.info.verb == "watch") {
        flow.release_seats();
    }
    let answer = if headers::is_upgrade(&request.headers) {
        let mut headers = upgrade::upgrade_headers(request);
        // The client may name other headers here. A proxy before the API server would remove them.
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        identify(request, &mut headers, &location.authority)?;
        let location = Location { query, ..location };
        upgrade::pass_on(request, &client, &location, headers).await
    } else {
        // Headers of the connection are removed first, so the client cannot have the identity removed.
        let mut headers = headers::forwarded(headers::received(request), request.source);
        identify(request, &mut headers, &location.authority)?;
        let options = ForwardOptions {
            headers,
            query,
            names_backend: true,
            refuses_redirects: !cluster.outbound.forwards_redirects(),
            head_timeout: is_discovery(request).then_some(DISCOVERY_TIMEOUT),
        };
        forward(request, &client, location, options).await
    };
    Ok(answer.unwrap_or_else(|error| plain_error(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())))
}

/// Sets the headers that this server is responsible for.
fn identify(request: &RequestContext, headers: &mut HeaderMap, host: &str) -> Result<(), (StatusCode, String)> {
    let unavailable = |message: String| (StatusCode::SERVICE_UNAVAILABLE, message);
    if proxies(headers) > MAX_PROXIES {
        return Err((StatusCode::BAD_GATEWAY, "the request has passed too many proxies".to_owned()));
    }
    let with_uid = request.cluster.settings.gates.is_enabled(Feature::REMOTE_REQUEST_HEADER_UID);
    set_identity(headers, &request.user, with_uid)
        .map_err(|error| unavailable(format!("error trying to reach service: {error}")))?;
    headers.insert(HOST, HeaderValue::from_str(host).map_err(|error| unavailable(error.to_string()))?);
    headers.insert(AUDIT_ID, request.audit_id().clone());
    Ok(())
}

/// The number of proxies that a request has passed.
fn proxies(headers: &HeaderMap) -> usize {
    let hops = headers.get_all(FORWARDED_FOR).iter();
    hops.map(|value| value.as_bytes().split(|byte| *byte == b',').count()).sum()
}

/// The parameters of the query in the order of their names, encoded again (Go: `url.Values.Encode`). As in upstream,
/// parameters that cannot be decoded are left out.
fn sorted_query(request: &RequestContext) -> String {
    let mut parameters: Vec<(&str, &str)> = request.query.pairs().collect();
    parameters.sort_by_key(|(name, _)| *name);
    encode_query(&parameters)
}

/// True for a request for the discovery document of a version.
fn is_discovery(request: &RequestContext) -> bool {
    let info = &request.info;
    !info.is_resource && info.path.trim_matches('/').split('/').count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_counted_in_all_lines() {
        let mut headers = HeaderMap::new();
        assert_eq!(proxies(&headers), 0);
        for line in ["10.0.0.1", "10.0.0.2, 10.0.0.3"] {
            headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
        }
        assert_eq!(proxies(&headers), 3);
    }
}
