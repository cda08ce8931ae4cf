//! The address and port ranges for services: kube-apiserver's flags `--service-cluster-ip-range` and
//! `--service-node-port-range`.

use std::num::IntErrorKind;
use std::ops::RangeInclusive;

use pintle_value::print::quote;

use crate::networking::address::Network;

/// The default range of node ports (upstream: `DefaultServiceNodePortRange`).
const DEFAULT_NODE_PORTS: RangeInclusive<u16> = 30000..=32767;
/// kube-apiserver's default of `--service-cluster-ip-range`.
const DEFAULT_RANGE: &str = "10.0.0.0/24";
/// How many bits of an address the first range must leave free.
const MIN_HOST_BITS: u32 = 3;

/// The address ranges and the node port range for the services of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    ranges: Vec<Network>,
    node_ports: RangeInclusive<u16>,
}

/// Why the ranges for services are invalid, with upstream's texts where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The first range is not a valid CIDR.
    #[error("service-cluster-ip-range[0] is not a valid cidr")]
    MalformedFirst,
    /// The second range is not a valid CIDR.
    #[error("service-cluster-ip-range[1] is not an ip net")]
    MalformedSecond,
    /// The first range is too small.
    #[error(
        "error determining service IP ranges for primary service cidr: the service cluster IP range must be at least 8 \
         IP addresses"
    )]
    TooSmall,
    /// An IPv6 range is too large, or the second range has no address that can be allocated.
    #[error("range {0} has an unsuitable size: at most /64 for IPv6 and at least two free addresses")]
    Size(String),
    /// There are more than two ranges.
    #[error("--service-cluster-ip-range must not contain more than two entries")]
    Count,
    /// Both ranges are of the same family.
    #[error("--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family")]
    Family,
    /// The node port range is malformed.
    #[error("invalid argument {} for \"--service-node-port-range\" flag: {error}", quote(.value))]
    NodePorts {
        /// The value of the flag.
        value: String,
        /// The error in the value.
        error: String,
    },
}

impl ServiceNetwork {
    /// Creates a network from address ranges (one, or one of each family, the default family first) and the node port
    /// range.
    ///
    /// # Errors
    /// Returns an error if a range is malformed or unsuitable.
    pub fn new(ranges: &[&str], node_ports: RangeInclusive<u16>) -> Result<Self, NetworkError> {
        if ranges.len() > 2 {
            return Err(NetworkError::Count);
        }
        let parsed: Vec<Network> = ranges.iter().map_while(|range| Network::parse(range)).collect();
        match (ranges.len(), parsed.as_slice()) {
            (_, []) => return Err(NetworkError::MalformedFirst),
            (2, [_]) => return Err(NetworkError::MalformedSecond),
            (_, [first, ..]) if first.host_bits() < MIN_HOST_BITS => return Err(NetworkError::TooSmall),
            (_, [first, second]) if first.family() == second.family() => return Err(NetworkError::Family),
            _ => {}
        }
        if let Some(odd) = parsed.iter().find(|range| range.host_bits() < 2 || range.host_bits() > 64) {
            return Err(NetworkError::Size(odd.to_string()));
        }
        if node_ports.is_empty() || *node_ports.start() == 0 {
            let value = format!("{}-{}", node_ports.start(), node_ports.end());
            return Err(NetworkError::NodePorts { error: format!("invalid range of node ports {value}"), value });
        }
        Ok(Self { ranges: parsed, node_ports })
    }

    /// Creates a network from the values of `--service-cluster-ip-range`, which may be empty, and
    /// `--service-node-port-range`.
    ///
    /// # Errors
    /// Returns an error if a range is malformed or unsuitable.
    pub fn from_flags(ranges: &str, node_ports: &str) -> Result<Self, NetworkError> {
        let ranges: Vec<&str> = if ranges.is_empty() { vec![DEFAULT_RANGE] } else { ranges.split(',').collect() };
        let malformed = |error| NetworkError::NodePorts { value: node_ports.to_owned(), error };
        Self::new(&ranges, parse_port_range(node_ports).map_err(malformed)?)
    }

    /// Returns the IP families of services, the default one first.
    pub(super) fn families(&self) -> Vec<&'static str> {
        self.ranges.iter().map(Network::family).collect()
    }

    /// Returns the address ranges.
    pub(super) fn ranges(&self) -> &[Network] {
        &self.ranges
    }

    /// Returns the node port range.
    pub(super) fn node_ports(&self) -> RangeInclusive<u16> {
        self.node_ports.clone()
    }
}

impl Default for ServiceNetwork {
    /// kube-apiserver's defaults: `10.0.0.0/24` and 30000-32767.
    fn default() -> Self {
        let range = Network { address: std::net::IpAddr::from([10, 0, 0, 0]), bits: 24 };
        Self { ranges: vec![range], node_ports: DEFAULT_NODE_PORTS }
    }
}

/// Parses a port range: `30000-32767`, `30000+2767`, or one port. An empty text is the default. (Upstream:
/// `PortRange.Set` of `k8s.io/apimachinery/pkg/util/net`.)
fn parse_port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(DEFAULT_NODE_PORTS);
    }
    let number = |text: &str| {
        text.parse::<i64>().map_err(|error| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            format!("strconv.Atoi: parsing {text:?}: {why}")
        })
    };
    let (first, last) = match (text.split_once('-'), text.split_once('+')) {
        (Some((first, last)), None) => (number(first)?, number(last)?),
        (None, Some((first, offset))) => {
            let first = number(first)?;
            (first, first.saturating_add(number(offset)?))
        }
        (None, None) => (number(text)?, number(text)?),
        (Some(_), Some(_)) => return Err(format!("unable to parse port range: {text}")),
    };
    if first > 65535 || last > 65535 {
        return Err(format!("the port range cannot be greater than 65535: {text}"));
    }
    if last < first {
        return Err(format!("end port cannot be less than start port: {text}"));
    }
    match (u16::try_from(first), u16::try_from(last)) {
        (Ok(first), Ok(last)) => Ok(first..=last),
        _ => Err(format!("unable to parse port range: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_ranges_are_rejected() {
        let check = |ranges: &[&str], expect: Result<&[&str], NetworkError>| {
            let network = ServiceNetwork::new(ranges, 30000..=32767);
            assert_eq!(network.map(|n| n.families()), expect.map(<[&str]>::to_vec), "{ranges:?}");
        };
        check(&["10.0.0.0/24"], Ok(&["IPv4"]));
        check(&["fd00::/108", "10.0.0.0/16"], Ok(&["IPv6", "IPv4"]));
        check(&[], Err(NetworkError::MalformedFirst));
        check(&["10.0.0.0/24", "10.0.1.0/24"], Err(NetworkError::Family));
        check(&["10.0.0.0/24", "fd00::/108", "10.1.0.0/24"], Err(NetworkError::Count));
        check(&["10.0.0.0"], Err(NetworkError::MalformedFirst));
        check(&["10.0.0.0/24", "fd00::"], Err(NetworkError::MalformedSecond));
        check(&["10.0.0.0/30"], Err(NetworkError::TooSmall));
        check(&["fd00::/48"], Err(NetworkError::Size("fd00::/48".to_owned())));
        assert_eq!(ServiceNetwork::new(&["10.0.0.0/24"], 30000..=32767), Ok(ServiceNetwork::default()));
        let error = ServiceNetwork::new(&["10.0.0.0/24"], 0..=5).unwrap_err();
        assert!(error.to_string().ends_with("flag: invalid range of node ports 0-5"), "{error}");
    }

    #[test]
    fn flags_without_values_are_the_defaults() {
        assert_eq!(ServiceNetwork::from_flags("", "30000-32767"), Ok(ServiceNetwork::default()));
        let network = ServiceNetwork::from_flags("10.32.0.0/16,fd00:1::/112", "20000+10").unwrap();
        assert_eq!(network.families(), ["IPv4", "IPv6"]);
        assert_eq!(network.kubernetes_address(), Some(std::net::IpAddr::from([10, 32, 0, 1])));
        assert_eq!(network.node_ports(), 20000..=20010);
    }

    #[test]
    fn port_ranges_have_three_forms() {
        for (text, expect) in [
            ("30000-32767", Ok(30000..=32767)),
            (" 30000+767 ", Ok(30000..=30767)),
            ("8080", Ok(8080..=8080)),
            ("1-2+3", Err("unable to parse port range: 1-2+3")),
            ("1-65536", Err("the port range cannot be greater than 65535: 1-65536")),
            ("3-2", Err("end port cannot be less than start port: 3-2")),
            ("", Ok(30000..=32767)),
            ("x", Err("strconv.Atoi: parsing \"x\": invalid syntax")),
            ("99999999999999999999", Err("strconv.Atoi: parsing \"99999999999999999999\": value out of range")),
        ] {
            assert_eq!(parse_port_range(text), expect.map_err(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn a_malformed_port_range_is_an_error_of_its_flag() {
        for (text, expect) in
            [("3-2", "end port cannot be less than start port: 3-2"), ("0-5", "invalid range of node ports 0-5")]
        {
            let error = ServiceNetwork::from_flags("", text).expect_err("a malformed range").to_string();
            assert_eq!(error, format!("invalid argument \"{text}\" for \"--service-node-port-range\" flag: {expect}"));
        }
    }
}
