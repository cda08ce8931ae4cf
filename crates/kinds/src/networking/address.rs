//! Validates IP addresses and CIDRs of objects. A feature gate decides between the legacy and the strict rules
//! (`value::ip`). Endpoint addresses have rules of their own.

use std::collections::BTreeSet;
use std::net::IpAddr;

use pintle_gates::{Feature, Gates};
use pintle_value::{Errors, FieldPath, ip};

pub(crate) use pintle_value::ip::parse_sloppy as parse_ip;

/// Returns the name of an address's IP family.
pub(crate) const fn family(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// An IP network (CIDR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    /// The network address.
    pub(crate) address: IpAddr,
    /// The prefix length.
    pub(crate) bits: u8,
}

impl Network {
    /// Parses a CIDR by the legacy rules.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = ip::Cidr::parse_sloppy(text)?.network();
        Some(Self { address, bits })
    }

    /// Returns the name of the IP family.
    pub(crate) const fn family(&self) -> &'static str {
        family(self.address)
    }

    /// Returns the number of host bits.
    pub(crate) const fn host_bits(&self) -> u32 {
        let length = if self.address.is_ipv4() { 32 } else { 128 };
        length - self.bits as u32
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The rules for the addresses and CIDRs of fields that predate the strict rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AddressRules {
    /// Each address and CIDR has one form.
    #[default]
    Strict,
    /// Leading zeros, IPv4 addresses in IPv6 form, and host bits are accepted.
    Legacy,
}

impl AddressRules {
    /// The rules of a server with these feature gates.
    pub(crate) fn of(gates: &Gates) -> Self {
        if gates.is_enabled(Feature::STRICT_IP_CIDR_VALIDATION) { Self::Strict } else { Self::Legacy }
    }

    /// Validates the address of a field that predates the strict rules. Addresses of the old object are accepted.
    pub(crate) fn validate_ip(self, errors: &mut Errors, path: &FieldPath<'_>, text: &str, existing: &BTreeSet<&str>) {
        errors.append(ip::valid_legacy_ip(path, text, self == Self::Strict, existing));
    }

    /// Validates the CIDR of a field that predates the strict rules. CIDRs of the old object are accepted.
    pub(crate) fn validate_cidr(
        self,
        errors: &mut Errors,
        path: &FieldPath<'_>,
        text: &str,
        existing: &BTreeSet<&str>,
    ) {
        errors.append(ip::valid_legacy_cidr(path, text, self == Self::Strict, existing));
    }
}

/// Adds the warnings about the CIDR of such a field.
pub(crate) fn add_cidr_warnings(warnings: &mut Vec<String>, path: &FieldPath<'_>, text: &str) {
    warnings.extend(ip::cidr_warnings(path, text));
}

/// Rejects addresses that are not usable as endpoints (upstream: `ValidateEndpointIP`).
pub(crate) fn validate_endpoint_ip(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let Some(ip) = parse_ip(text) else {
        errors.invalid(path, text, "must be a valid IP address");
        return;
    };
    if ip.is_unspecified() {
        errors.invalid(path, text, format!("may not be unspecified ({text})"));
    }
    if ip.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        // The low half of the second byte is the scope of a multicast address; 2 means link-local.
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

    fn messages_of(check: fn(&mut Errors, &FieldPath<'_>, &str), text: &str) -> Vec<String> {
        let mut errors = Errors::new();
        check(&mut errors, &FieldPath::new("f"), text);
        messages(&errors).into_iter().map(|m| m.split(": ").skip(3).collect::<Vec<_>>().join(": ")).collect()
    }

    #[test]
    fn special_addresses_are_rejected_as_endpoints() {
        let check = |text: &str, expect: &[&str]| assert_eq!(messages_of(validate_endpoint_ip, text), expect, "{text}");
        check("10.0.0.1", &[]);
        check("0.0.0.0", &["may not be unspecified (0.0.0.0)"]);
        check("127.1.2.3", &["may not be in the loopback range (127.0.0.0/8, ::1/128)"]);
        check("169.254.1.1", &["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]);
        check("224.0.0.9", &["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]);
        check("ff02::1", &["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]);
        check("x", &["must be a valid IP address"]);
    }
}
