//! The address that clients in the cluster are told to reach the server at (upstream: `--advertise-address`, and
//! `ResolveBindAddress` of apimachinery).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Addresses that are nobody's (RFC 5737, RFC 3849), to ask the system which way leads out. Nothing is sent there.
const OUTSIDE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The address to tell of: the one that was `given`, or the one that the server is `bound` to, or, where that is none or
/// leads nowhere from elsewhere, the host's own.
///
/// # Errors
/// There is none, or it cannot be told of, with upstream's words.
pub(crate) fn address(given: Option<IpAddr>, bound: IpAddr) -> Result<IpAddr, String> {
    let address = match given.filter(|ip| !ip.is_unspecified()) {
        Some(given) => given,
        None if bound.is_unspecified() || bound.is_loopback() => host_address(bound.is_ipv6()).ok_or(
            "unable to find suitable network address: the host has no way out; try to set --advertise-address",
        )?,
        None => bound,
    };
    match why_not(address) {
        Some(why) => Err(format!("{address}: {why}")),
        None => Ok(address),
    }
}

/// The address that the host has on the way out, of the family that is asked for where there is one.
fn host_address(prefer_ipv6: bool) -> Option<IpAddr> {
    let [first, second] = if prefer_ipv6 { [OUTSIDE[1], OUTSIDE[0]] } else { OUTSIDE };
    let own = |outside: IpAddr| {
        let any: IpAddr = if outside.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((outside, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    own(first).or_else(|| own(second))
}

/// Why endpoints cannot have an address.
fn why_not(address: IpAddr) -> Option<&'static str> {
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
    fn what_is_told() {
        let check = |given: &str, bound: &str, expect: Result<&str, &str>| {
            let address = address(given.parse().ok(), bound.parse().expect("an address"));
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
    fn the_address_of_the_host_leads_there_from_elsewhere() {
        for bound in ["127.0.0.1", "0.0.0.0", "::1"] {
            // A host without a network has none.
            if let Ok(address) = address(None, bound.parse().expect("an address")) {
                assert!(!address.is_loopback() && !address.is_unspecified(), "{address}");
            }
        }
    }
}
