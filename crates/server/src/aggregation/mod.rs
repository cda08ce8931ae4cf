//! The server's own calls to the API servers of APIServices (upstream: `k8s.io/kube-aggregator`): whether they are
//! available, and which resources they serve. [`crate::connect`] passes the requests of clients on to them.

mod call;
mod controllers;
mod discovery;
mod follow;
mod identity;
mod openapi;

pub(crate) use self::call::probe;
pub(crate) use self::controllers::{follow_remote, remote_resources, request_remote};
pub(crate) use self::discovery::{REMOTE_DISCOVERY_TASK, run_discovery};
pub(crate) use self::identity::set_identity;
pub(crate) use self::openapi::{REMOTE_OPENAPI_TASK, run_openapi};
