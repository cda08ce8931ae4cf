//! Options for a cluster with the objects that the `pintle` binary bootstraps.

use std::net::{IpAddr, Ipv4Addr};

use pintle::{AccessOptions, AuthorizationMode, Options};

/// The advertised address. It is fixed because not every host has an outbound address.
const ADVERTISE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Options of a server that bootstraps its cluster as the binary does. Every namespace has its default service account
/// and `kube-root-ca.crt`, and the usage of quotas is counted. The server publishes the endpoints of the `kubernetes`
/// service and its own lease. The roles of the bootstrap policy decide about access. With the default options, a
/// cluster has none of these, and every user may do everything.
#[must_use]
pub fn bootstrapped() -> Options {
    Options {
        register: true,
        every_namespace_objects: true,
        resource_quotas: true,
        policy_type_checks: true,
        flow_control: true,
        service_cidr_protection: true,
        api_services: true,
        advertise_address: Some(ADVERTISE_ADDRESS),
        access: AccessOptions {
            authorization_modes: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
            ..AccessOptions::default()
        },
        rbac_bootstrap: Some(true),
        ..Options::default()
    }
}
