//! Parsing of requests: request info, query parameters and options, content negotiation, deadline, number of requests
//! and size of bodies in flight, what the work for writes may use, the recorder of warnings and audit annotations, limits of log
//! lines, and the trace of a request's steps.
//! This layer does not depend on the cluster.

pub(crate) mod body_budget;
pub(crate) mod deadline;
pub(crate) mod in_flight;
pub(crate) mod info;
pub(crate) mod log_limit;
pub(crate) mod negotiate;
pub(crate) mod observed;
pub(crate) mod query;
pub(crate) mod recorder;
pub(crate) mod trace;
pub(crate) mod work_memory;
