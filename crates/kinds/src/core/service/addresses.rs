//! Allocates cluster IPs by creating an IPAddress object for each, so that two services never share an address, even
//! across servers. The addresses come from the ranges of ServiceCIDR objects. Automatic allocation prefers the upper
//! part of a range, because users choose from the lower part (KEP-1880, KEP-3070; upstream:
//! `pkg/registry/core/service/ipallocator`).

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pintle_registry::{ApiError, GroupResource, ObjectClient};
use pintle_value::{Object, Value};

use crate::networking::address::{Network, family, parse_ip};
use crate::validation::strings_at;

const GROUP: &str = "networking.k8s.io";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Why an address cannot be allocated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(super) enum AddressError {
    /// The address is already allocated.
    #[error("provided IP is already allocated")]
    Allocated,
    /// No range contains the address.
    #[error("the provided network does not match the current range")]
    OutOfRanges,
    /// The range does not contain the address.
    #[error("the provided IP ({0}) is not in the valid range. The range of valid IPs is {1}")]
    OutOfRange(IpAddr, Network),
    /// All addresses are allocated.
    #[error("range is full")]
    Full,
    /// There is no ready range yet.
    #[error("allocator not ready")]
    NotReady,
    /// The IPAddress object cannot be written or read.
    #[error("{0}")]
    Storage(ApiError),
}

/// Returns 64 random bits.
pub(super) fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The allocatable addresses of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    cidr: Network,
    first: u128,
    last: u128,
    /// The number of addresses at the start that are reserved for manual allocation.
    reserved: u128,
}

impl Range {
    /// Returns the range of a network, or `None` if it has no usable address or upstream rejects it.
    fn of(cidr: Network) -> Option<Self> {
        let host_bits = cidr.host_bits();
        let v4 = cidr.address.is_ipv4();
        if host_bits > 64 {
            return None;
        }
        let size = 1_u128 << host_bits;
        let network = number(cidr.address);
        // Exclude the network address and, for IPv4, the broadcast address.
        let (first, last) = (network + 1, network + size - 1 - u128::from(v4));
        // Upstream computes a size of 0 for ranges of nearly all of IPv4.
        let counted = if v4 && host_bits >= 31 { 0 } else { size };
        let reserved = if counted <= 16 { 0 } else { (counted / 16).clamp(16, 256) };
        (host_bits > u32::from(v4) && first + reserved <= last).then_some(Self { cidr, first, last, reserved })
    }

    fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.cidr.address.is_ipv4() && (self.first..=self.last).contains(&number(ip))
    }

    /// Returns the addresses in the order in which they are tried: the dynamic part from a random offset, then the
    /// static part.
    fn candidates(&self, seed: u64) -> impl Iterator<Item = IpAddr> + use<> {
        let v4 = self.cidr.address.is_ipv4();
        let dynamic = self.first + self.reserved;
        let walk = move |start: u128, length: u128| {
            let offset = if length == 0 { 0 } else { u128::from(seed) % length };
            (0..length).map(move |i| start + (offset + i) % length)
        };
        walk(dynamic, self.last - dynamic + 1).chain(walk(self.first, self.reserved)).map(move |n| address(n, v4))
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

fn address(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if v4 => IpAddr::V4(Ipv4Addr::from(number)),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

/// Returns the first address of a range, which belongs to the service `kubernetes`.
pub(super) fn first_address(range: &Network) -> IpAddr {
    address(number(range.address) + 1, range.address.is_ipv4())
}

/// The resource `ipaddresses`.
pub(super) fn ip_addresses() -> GroupResource {
    GroupResource::new(GROUP, "ipaddresses")
}

/// The resource `servicecidrs`.
pub(super) fn service_cidrs() -> GroupResource {
    GroupResource::new(GROUP, "servicecidrs")
}

/// Returns the ready ranges of a family.
fn ranges(objects: &dyn ObjectClient, family: &str) -> Result<Vec<Range>, AddressError> {
    let cidrs = objects.list(&service_cidrs(), "").map_err(AddressError::Storage)?;
    let mut ranges: Vec<Range> = Vec::new();
    for object in cidrs.iter().filter(|object| is_ready(object)) {
        let cidrs = strings_at(object, &["spec", "cidrs"]).into_iter().filter_map(Network::parse);
        for range in cidrs.filter(|cidr| cidr.family() == family).filter_map(Range::of) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    Ok(ranges)
}

/// Returns true unless a ServiceCIDR is terminating or its `Ready` condition is false.
fn is_ready(service_cidr: &Value) -> bool {
    let ready = service_cidr
        .items_at(&["status", "conditions"])
        .iter()
        .find(|condition| condition.str_at(&["type"]) == "Ready");
    !service_cidr.is_terminating() && ready.is_none_or(|condition| condition.str_at(&["status"]) == "True")
}

/// Allocates the address that a service requests. A dry run allocates nothing and does not check whether the address is
/// free.
pub(super) async fn allocate(
    objects: &dyn ObjectClient,
    service: &Value,
    ip: IpAddr,
    dry_run: bool,
) -> Result<(), AddressError> {
    let ranges = ranges(objects, family(ip))?;
    match ranges.first() {
        _ if ranges.iter().any(|range| range.contains(ip)) => {}
        Some(range) if dry_run => return Err(AddressError::OutOfRange(ip, range.cidr)),
        None if dry_run => return Err(AddressError::NotReady),
        _ => return Err(AddressError::OutOfRanges),
    }
    if dry_run { Ok(()) } else { create_ip_address(objects, service, ip).await }
}

/// Allocates any free address of a family. A dry run returns the network address, which no service can have.
pub(super) async fn allocate_next(
    objects: &dyn ObjectClient,
    service: &Value,
    family: &str,
    dry_run: bool,
) -> Result<IpAddr, AddressError> {
    let ranges = ranges(objects, family)?;
    if dry_run {
        return ranges.first().map(|range| range.cidr.address).ok_or(AddressError::NotReady);
    }
    let resource = ip_addresses();
    for range in ranges {
        for ip in range.candidates(random_bits()) {
            let allocated = objects.get(&resource, "", &ip.to_string()).map_err(AddressError::Storage)?;
            if allocated.is_some() {
                continue;
            }
            match create_ip_address(objects, service, ip).await {
                Ok(()) => return Ok(ip),
                // Another service has taken the address meanwhile.
                Err(AddressError::Allocated) => {}
                Err(other) => return Err(other),
            }
        }
    }
    Err(AddressError::Full)
}

/// Creates the IPAddress object for a service.
async fn create_ip_address(objects: &dyn ObjectClient, service: &Value, ip: IpAddr) -> Result<(), AddressError> {
    match objects.create(&ip_addresses(), new_ip_address(service, ip)).await {
        Ok(_) => Ok(()),
        Err(ApiError::AlreadyExists { .. }) => Err(AddressError::Allocated),
        Err(other) => Err(AddressError::Storage(other)),
    }
}

/// Returns the IPAddress object for a service.
#[must_use]
pub fn new_ip_address(service: &Value, ip: IpAddr) -> Value {
    let mut object = Value::object();
    object.set("apiVersion", "networking.k8s.io/v1");
    object.set("kind", "IPAddress");
    object.set_at(&["metadata", "name"], ip.to_string());
    let labels: Object =
        [("ipaddress.kubernetes.io/ip-family", family(ip)), ("ipaddress.kubernetes.io/managed-by", ALLOCATOR)]
            .into_iter()
            .collect();
    object.set_at(&["metadata", "labels"], labels);
    let parent: Object =
        [("resource", "services"), ("namespace", service.namespace()), ("name", service.name())].into_iter().collect();
    object.set_at(&["spec", "parentRef"], parent);
    object
}

/// Releases an address of a service. Ignores an address that no longer exists or belongs to another service.
pub(super) async fn release(objects: &dyn ObjectClient, namespace: &str, service: &str, ip: &str) {
    let Some(name) = parse_ip(ip).map(|ip| ip.to_string()) else { return };
    let Ok(Some(record)) = objects.get(&ip_addresses(), "", &name) else { return };
    let parent = |field: &str| record.str_at(&["spec", "parentRef", field]);
    if (parent("resource"), parent("namespace"), parent("name")) == ("services", namespace, service) {
        let _ = objects.delete(&ip_addresses(), "", &name).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn range(cidr: &str) -> Option<Range> {
        Network::parse(cidr).and_then(Range::of)
    }

    #[test]
    fn ranges_have_a_static_and_a_dynamic_part() {
        let check = |cidr: &str, expect: Option<(&str, &str, &str)>| {
            let found = range(cidr).map(|range| {
                let v4 = range.cidr.address.is_ipv4();
                [range.first, range.first + range.reserved, range.last].map(|n| address(n, v4).to_string())
            });
            assert_eq!(found, expect.map(|(a, b, c)| [a, b, c].map(str::to_owned)), "{cidr}");
        };
        check("10.0.0.0/24", Some(("10.0.0.1", "10.0.0.17", "10.0.0.254")));
        check("10.0.0.0/16", Some(("10.0.0.1", "10.0.1.1", "10.0.255.254")));
        check("10.0.0.0/28", Some(("10.0.0.1", "10.0.0.1", "10.0.0.14")));
        check("10.0.0.0/31", None);
        check("10.0.0.0/32", None);
        check("fd00::/64", Some(("fd00::1", "fd00::101", "fd00::ffff:ffff:ffff:ffff")));
        check("fd00::/48", None);
    }

    #[test]
    fn every_address_is_tried_once() {
        let tried: Vec<String> =
            range("10.0.0.0/26").into_iter().flat_map(|r| r.candidates(40)).map(|ip| ip.to_string()).collect();
        assert_eq!(tried.len(), 62);
        assert_eq!(tried.iter().collect::<std::collections::BTreeSet<_>>().len(), 62);
        // 46 dynamic addresses from 10.0.0.17 on, starting with the 41st; then 16 static ones.
        assert_eq!((tried[0].as_str(), tried[45].as_str(), tried[46].as_str()), ("10.0.0.57", "10.0.0.56", "10.0.0.9"));
    }

    #[test]
    fn ip_address_objects_refer_to_the_service() {
        let service = object(r#"{"metadata":{"namespace":"ns","name":"web"}}"#);
        assert_eq!(
            new_ip_address(&service, IpAddr::from([10, 0, 0, 7])),
            object(
                r#"{"apiVersion":"networking.k8s.io/v1","kind":"IPAddress","metadata":{"name":"10.0.0.7","labels":{
                "ipaddress.kubernetes.io/ip-family":"IPv4","ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}},
                "spec":{"parentRef":{"resource":"services","namespace":"ns","name":"web"}}}"#
            )
        );
    }

    #[test]
    fn ranges_are_ready_unless_a_condition_is_false() {
        let check = |json: &str, expect: bool| assert_eq!(is_ready(&object(json)), expect, "{json}");
        check("{}", true);
        check(r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#, true);
        check(r#"{"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#, false);
        check(r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#, false);
    }
}
