//! Serves `/metrics` and `/metrics/slis` in the Prometheus text format (upstream:
//! `component-base/metrics.HandlerWithReset` around client_golang's `promhttp`). DELETE resets them.

use http::header::{CONTENT_TYPE, HeaderValue, VARY};
use http::{HeaderName, Method, StatusCode};

use super::version;
use crate::cluster::Metrics;
use crate::context::RequestContext;
use crate::http::{Response, set_header, text};
use crate::represent::compress_from;
use crate::request::negotiate::exposition_escaping;

/// The header with the start time of the process, in seconds since the Unix epoch.
const PROCESS_START_TIME: HeaderName = HeaderName::from_static("process-start-time-unix");

/// Responds if the path belongs to this file.
pub(crate) fn respond(request: &RequestContext) -> Option<Response> {
    let metrics = &request.cluster.metrics;
    let exposition = match (request.info.path.as_str(), &request.method) {
        ("/metrics", &Method::DELETE) => {
            metrics.reset();
            return Some(text(StatusCode::OK, "metrics reset\n"));
        }
        ("/metrics/slis", &Method::DELETE) => {
            metrics.reset_slis();
            return Some(text(StatusCode::OK, "metrics reset\n"));
        }
        // This reads files. With `block_in_place`, other tasks of this thread do not wait for a slow disk.
        ("/metrics", _) => tokio::task::block_in_place(|| {
            request.cluster.metrics_text(&version(request.cluster.settings.gates.version()))
        }),
        ("/metrics/slis", _) => metrics.slis_text(),
        _ => return None,
    };
    let mut response = compress_from(0, request, text(StatusCode::OK, exposition));
    let headers = response.headers_mut();
    headers.remove(VARY);
    let escaping = exposition_escaping(&request.headers);
    set_header(headers, CONTENT_TYPE, &format!("text/plain; version=0.0.4; charset=utf-8; escaping={escaping}"));
    if let Some(started) = Metrics::process_start_time() {
        headers.insert(PROCESS_START_TIME, HeaderValue::from(started as u64));
    }
    Some(response)
}
