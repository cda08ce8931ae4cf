//! The wiring of a server: certificates, kubeconfig, store, cluster and listener put together. The binary is a thin
//! shell around [`Server`]; tests start one in their own process.

mod advertise;
pub mod certificates;
mod kubeconfig;
mod server;

pub use kubeconfig::kubeconfig;
pub use pintle_server::Component;
pub use pintle_store::{Clock, ManualClock, SystemClock, Timestamp};
pub use server::{ENCODING_CACHE_MIB, Engine, Options, Server, StartError};
