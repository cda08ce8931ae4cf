//! Parsing of requests: request info, query parameters and options, content negotiation, and the deadline. Limits of
//! requests in flight, of bytes of bodies, of the work for writes and of log lines. The recorder of warnings and audit
//! annotations, and the trace of a request's steps. This layer does not depend on the cluster.

pub(crate) mod audit;
pub(crate) mod audit_id;
pub(crate) mod body_budget;
pub(crate) mod deadline;
pub(crate) mod flow;
pub(crate) mod in_flight;
pub(crate) mod info;
pub(crate) mod log_limit;
pub(crate) mod negotiate;
pub(crate) mod observed;
pub(crate) mod query;
pub(crate) mod recorder;
pub(crate) mod trace;
pub(crate) mod work_memory;
