//! Which ranges contain addresses and other ranges (upstream: `pkg/api/servicecidr`).

use std::net::IpAddr;
use std::sync::Arc;

use pintle_cache::KeyRange;
use pintle_value::Value;
use pintle_value::ip::Cidr;

use super::service_cidrs;
use crate::ClusterClient;
use crate::objects::{versioned_tree, watch_cache_of};

/// All ServiceCIDRs, as the watch cache has them now.
pub(crate) fn all_service_cidrs(client: &Arc<dyn ClusterClient>) -> Vec<Value> {
    let watch_cache = watch_cache_of(client, &service_cidrs());
    let objects = watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All));
    objects.filter_map(|object| versioned_tree(&object)).collect()
}

/// The ranges of a ServiceCIDR.
pub(crate) fn ranges_of(service_cidr: &Value) -> impl Iterator<Item = &str> {
    service_cidr.items_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str)
}

/// True if an address can be allocated from a range. The first address, and the last one of an IPv4 range, cannot.
pub(crate) fn is_allocatable(range: &str, ip: IpAddr) -> bool {
    let Some(range) = Cidr::parse_sloppy(range) else { return false };
    let (network, bits) = range.network();
    let is_broadcast = match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => {
            let hosts = u32::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            ip.to_bits() == network.to_bits() | hosts
        }
        _ => false,
    };
    range.contains(ip) && ip != network && !is_broadcast
}

/// True if a ServiceCIDR contains this address.
pub(crate) fn contains_address(service_cidr: &Value, ip: IpAddr) -> bool {
    ranges_of(service_cidr).any(|range| is_allocatable(range, ip))
}

/// True if a ServiceCIDR has a range that equals or contains the given range.
pub(super) fn contains_range(service_cidr: &Value, range: &str) -> bool {
    let Some((network, bits)) = Cidr::parse_sloppy(range).map(|range| range.network()) else { return false };
    let mut ranges = ranges_of(service_cidr).filter_map(Cidr::parse_sloppy);
    ranges.any(|outer| outer.network().1 <= bits && outer.contains(network))
}

/// True if ranges of two ServiceCIDRs overlap.
pub(super) fn overlap(one: &Value, other: &Value) -> bool {
    ranges_of(one).any(|range| contains_range(other, range)) || ranges_of(other).any(|range| contains_range(one, range))
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    fn cidr(ranges: &[&str]) -> Value {
        let ranges: Vec<Value> = ranges.iter().map(|range| Value::from(*range)).collect();
        object! { "spec": object! { "cidrs": ranges } }
    }

    #[test]
    fn the_first_and_the_last_address_of_a_range_cannot_be_allocated() {
        let check = |range: &str, ip: &str, expect: bool| {
            assert_eq!(is_allocatable(range, ip.parse().expect("an address")), expect, "{ip} in {range}");
        };
        for (ip, expect) in
            [("10.0.0.0", false), ("10.0.0.1", true), ("10.0.0.254", true), ("10.0.0.255", false), ("10.0.1.1", false)]
        {
            check("10.0.0.0/24", ip, expect);
        }
        check("fd00::/112", "fd00::", false);
        check("fd00::/112", "fd00::ffff", true);
        check("fd00::/112", "10.0.0.1", false);
        check("x", "10.0.0.1", false);
    }

    #[test]
    fn ranges_contain_smaller_and_equal_ones() {
        let wide = cidr(&["10.0.0.0/16", "fd00::/108"]);
        for (range, expect) in [
            ("10.0.0.0/16", true),
            ("10.0.7.0/24", true),
            ("10.0.0.0/8", false),
            ("fd00::/112", true),
            ("10.1.0.0/16", false),
        ] {
            assert_eq!(contains_range(&wide, range), expect, "{range}");
        }
        assert!(overlap(&wide, &cidr(&["10.0.0.0/8"])) && overlap(&cidr(&["10.0.0.0/8"]), &wide));
        assert!(!overlap(&wide, &cidr(&["10.1.0.0/16", "fd01::/112"])));
    }
}
