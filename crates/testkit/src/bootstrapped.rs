//! Options for a cluster with the objects that the `pintle` binary bootstraps.

use std::net::{IpAddr, Ipv4Addr};

use pintle::Options;

/// The advertised address. It is fixed because not every host has an outbound address.
const ADVERTISE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Options of a server that bootstraps its cluster as the binary does: every namespace has its default service account
/// and `kube-root-ca.crt`, and the server publishes the `kubernetes` service's endpoints and its own lease. With the
/// default options, a cluster has none of these.
#[must_use]
pub fn bootstrapped() -> Options {
    Options {
        register: true,
        every_namespace_objects: true,
        advertise_address: Some(ADVERTISE_ADDRESS),
        ..Options::default()
    }
}
