//! The API over HTTP: what a request is about, who sends it and whether they may, and the handlers that read from the
//! cache and write through the guaranteed-update loop to the store. [`Cluster`] is one logical cluster with all that
//! belongs to it; [`pipeline`] is the way of a request through the house.

mod cluster;
mod components;
mod controllers;
mod cors;
mod custom;
mod definitions;
mod discovery;
mod documents;
mod health;
pub mod http;
mod metrics;
mod negotiate;
mod object_index;
mod openapi;
pub mod pipeline;
mod query;
mod read;
mod represent;
mod request;
mod status;
mod stored;
mod version;
mod versions;
mod warnings;
mod write;

pub use cluster::{Cluster, ClusterError, Settings};
pub use components::Component;
pub use controllers::{ControllerOptions, service_address};
pub use cors::Cors;
pub use version::version;
