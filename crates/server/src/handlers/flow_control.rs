//! The state of flow control as text (upstream: `apf_controller_debug.go`).

use http::StatusCode;

use crate::context::RequestContext;
use crate::http::{Response, text};

/// The path before the names of the dumps.
const PREFIX: &str = "/debug/api_priority_and_fairness/";

/// Responds if the path belongs to this file.
pub(crate) fn respond(request: &RequestContext) -> Option<Response> {
    let name = request.info.path.strip_prefix(PREFIX)?;
    let controller = request.cluster.flow_control.as_ref()?.current(&request.cluster);
    let dump = match name {
        "dump_priority_levels" => controller.dump_priority_levels(),
        "dump_queues" => controller.dump_queues(),
        "dump_requests" => {
            let details = request.query.get("includeRequestDetails").is_some_and(|value| !value.is_empty());
            controller.dump_requests(details)
        }
        // Upstream does not know what the flows have really used.
        "dump_flows" => controller.dump_flows(),
        _ => return None,
    };
    Some(text(StatusCode::OK, dump))
}
