//! etcd for tests: a process of one member, or a cluster of several behind proxies. Members can be killed, paused and started
//! again, and the connections to them delayed, silenced and cut.
//!
//! The program is `target/tools/etcd`, which `cargo xtask prepare` builds.

mod cluster;
mod port;
mod process;
mod proxy;
mod tls;

pub use cluster::EtcdCluster;
pub use port::ReservedPort;
pub use process::{EtcdProcess, EtcdSettings};
pub use proxy::{Link, Proxy};
pub use tls::EtcdTls;
