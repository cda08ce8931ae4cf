//! The real kubectl against a cluster in the test's process: what a person types, and what kubectl says to it. The binary
//! is built by `cargo xtask prepare` from the published module, so that the suite meets the release that is served.

mod apply;
mod bootstrapped;
mod change;
mod client;
mod create;
mod custom;
mod delete;
mod discovery;
mod manifests;
mod read;
mod server_side;
