//! kubectl against an in-process cluster: command lines and their output. `cargo xtask prepare` builds kubectl from the
//! published module, at the Kubernetes version that the server implements.

mod aggregation;
mod apply;
mod bootstrapped;
mod client;
mod create;
mod custom_resources;
mod delete;
mod discovery;
mod get;
mod helm;
mod issued_tokens;
mod manifests;
mod metrics;
mod pod_security;
mod server_side_apply;
mod service_accounts;
mod update;
