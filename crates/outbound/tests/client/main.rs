//! The client against servers on the loopback interface.

mod bounded;
mod credentials;
mod http2;
mod http2_errors;
mod http2_server;
mod limits;
mod proxies;
mod streams;
mod support;
mod upgrades;
