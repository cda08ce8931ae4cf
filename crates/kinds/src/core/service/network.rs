//! The address and port ranges for services: kube-apiserver's flags `--service-cluster-ip-range` and
//! `--service-node-port-range`.

use std::ops::RangeInclusive;

use crate::networking::address::Network;

/// The address ranges and the node port range for the services of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    ranges: Vec<Network>,
    node_ports: RangeInclusive<u16>,
}

/// Why the ranges for services are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// A range is not a valid CIDR.
    #[error("invalid CIDR value {0:?}")]
    Malformed(String),
    /// An IPv6 range is too large, or a range has no allocatable address.
    #[error("range {0} has an unsuitable size: at most /64 for IPv6 and at least two free addresses")]
    Size(String),
    /// There is no range, or there are more than two, or two of the same family.
    #[error("one range, or two of different families, are needed")]
    Count,
    /// The node port range is not a range within 1-65535.
    #[error("invalid range of node ports {0}-{1}")]
    NodePortAllocator(u16, u16),
}

impl ServiceNetwork {
    /// Creates a network from address ranges (one, or one of each family, the default family first) and the node port
    /// range.
    ///
    /// # Errors
    /// Returns an error if a range is malformed or unsuitable.
    pub fn new(ranges: &[&str], node_ports: RangeInclusive<u16>) -> Result<Self, NetworkError> {
        let ranges: Vec<Network> = ranges
            .iter()
            .map(|range| Network::parse(range).ok_or_else(|| NetworkError::Malformed((*range).to_owned())))
            .collect::<Result<_, _>>()?;
        if let Some(odd) = ranges.iter().find(|range| range.host_bits() < 2 || range.host_bits() > 64) {
            return Err(NetworkError::Size(odd.to_string()));
        }
        match ranges.as_slice() {
            [_] => {}
            [first, second] if first.family() != second.family() => {}
            _ => return Err(NetworkError::Count),
        }
        if node_ports.is_empty() || *node_ports.start() == 0 {
            return Err(NetworkError::NodePortAllocator(*node_ports.start(), *node_ports.end()));
        }
        Ok(Self { ranges, node_ports })
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
        Self { ranges: vec![range], node_ports: 30000..=32767 }
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
        check(&[], Err(NetworkError::Count));
        check(&["10.0.0.0/24", "10.0.1.0/24"], Err(NetworkError::Count));
        check(&["10.0.0.0"], Err(NetworkError::Malformed("10.0.0.0".to_owned())));
        check(&["fd00::/48"], Err(NetworkError::Size("fd00::/48".to_owned())));
        assert_eq!(ServiceNetwork::new(&["10.0.0.0/24"], 30000..=32767), Ok(ServiceNetwork::default()));
        assert_eq!(ServiceNetwork::new(&["10.0.0.0/24"], 0..=5), Err(NetworkError::NodePortAllocator(0, 5)));
    }
}
