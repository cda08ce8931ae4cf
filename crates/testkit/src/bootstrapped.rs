//! A cluster as the binary makes it.

use std::net::{IpAddr, Ipv4Addr};

use pintle::Options;

/// Where clients are told to reach the server: hosts differ in having an address of their own.
const ADVERTISED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Options of a server that furnishes its cluster as the binary does: with what every namespace has, and with what says
/// where the server is. By default, tests find nothing that they have not put there.
#[must_use]
pub fn bootstrapped() -> Options {
    Options { announces: true, fixtures: true, advertise_address: Some(ADVERTISED), ..Options::default() }
}
