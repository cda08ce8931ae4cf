//! The tests run the program `pintle` as its users do.

mod access_flags;
mod audit;
mod client_keys;
mod credentials;
mod encryption;
mod envtest;
mod etcd;
mod examples;
mod from;
mod idle;
mod key_rotation;
mod keys;
mod logging;
mod lost_changes;
mod memory_limit;
mod migrate;
mod overrides;
mod runtime_config;
mod server;
mod store;

/// The path of the program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_pintle");
