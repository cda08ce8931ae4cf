//! The address that the server advertises to members of the cluster (upstream: `--advertise-address` and apimachinery's
//! `net.ResolveBindAddress`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Documentation addresses (RFC 5737, RFC 3849). The route to them shows the host's outbound address; nothing is sent.
const EXTERNAL_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The address to advertise: the `given` address, or else the address to which the server is `bound`. For a loopback or
/// wildcard address it is the host's outbound address instead.
///
/// # Errors
/// Returns upstream's message if there is no address, or if endpoints cannot have this address.
pub(crate) fn advertised_address(given: Option<IpAddr>, bound: IpAddr) -> Result<IpAddr, String> {
    let address = match given.filter(|ip| !ip.is_unspecified()) {
        Some(given) => given,
        None if bound.is_unspecified() || bound.is_loopback() => outbound_address(bound.is_ipv6()).ok_or(
            "unable to find suitable network address: the host has no outbound address; try to set --advertise-address",
        )?,
        None => bound,
    };
    match endpoint_ip_error(address) {
        Some(why) => Err(format!("{address}: {why}")),
        None => Ok(address),
    }
}

/// The host's outbound address, of the preferred family if possible.
fn outbound_address(prefer_ipv6: bool) -> Option<IpAddr> {
    let [first, second] = if prefer_ipv6 { [EXTERNAL_ADDRESSES[1], EXTERNAL_ADDRESSES[0]] } else { EXTERNAL_ADDRESSES };
    let source_address = |external: IpAddr| {
        let any: IpAddr = if external.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((external, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    source_address(first).or_else(|| source_address(second))
}

/// The reason why endpoints cannot have an address (upstream: `ValidateEndpointIP`).
fn endpoint_ip_error(address: IpAddr) -> Option<&'static str> {
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    } else if link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    } else if link_local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_address_precedes_the_bound_one() {
        let check = |given: &str, bound: &str, expect: Result<&str, &str>| {
            let address = advertised_address(given.parse().ok(), bound.parse().expect("an address"));
            assert_eq!(address.map(|ip| ip.to_string()), expect.map(str::to_owned).map_err(str::to_owned));
        };
        check("192.0.2.7", "0.0.0.0", Ok("192.0.2.7"));
        check("", "192.0.2.8", Ok("192.0.2.8"));
        check("0.0.0.0", "192.0.2.8", Ok("192.0.2.8"));
        check("2001:db8::7", "::", Ok("2001:db8::7"));
        let loopback = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        check("127.0.0.1", "0.0.0.0", Err(&format!("127.0.0.1: {loopback}")));
        check("::1", "0.0.0.0", Err(&format!("::1: {loopback}")));
        let link_local = "169.254.0.9: may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        check("", "169.254.0.9", Err(link_local));
    }

    #[test]
    fn the_outbound_address_is_reachable_from_other_hosts() {
        for bound in ["127.0.0.1", "0.0.0.0", "::1"] {
            // A host without a network has no outbound address.
            if let Ok(address) = advertised_address(None, bound.parse().expect("an address")) {
                assert!(!address.is_loopback() && !address.is_unspecified(), "{address}");
            }
        }
    }
}
