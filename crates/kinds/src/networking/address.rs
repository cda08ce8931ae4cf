//! IP addresses and CIDR values as upstream reads them: leniently where objects may predate the strict rules (Go's old
//! `net.ParseIP`, which ignores leading zeros and takes `::ffff:1.2.3.4` for an IPv4 address), strictly where a value is
//! judged (apimachinery `pkg/util/validation/ip.go`, with `StrictIPCIDRValidation` on, as it is in 1.36).

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pintle_value::field::quote;
use pintle_value::{Errors, FieldPath};

/// The name of an address's family, as the API writes it.
pub(crate) const fn family(ip: IpAddr) -> &'static str {
    match ip {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    }
}

/// Reads an address leniently; one that is mapped into IPv6 comes out as the IPv4 address that it is.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    lenient(text).map(unmap)
}

fn unmap(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn lenient(text: &str) -> Option<IpAddr> {
    // Longer text is no address, however many zeros it leads with; the bound keeps hostile input cheap.
    if text.len() > 4096 {
        return None;
    }
    if !text.contains(':') {
        return without_leading_zeros(text, '.').parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let (groups, last) = text.rsplit_once(':')?;
    let last = without_leading_zeros(last, '.');
    format!("{}:{last}", without_leading_zeros(groups, ':')).parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn without_leading_zeros(text: &str, separator: char) -> Cow<'_, str> {
    let zero = |part: &str| part.len() > 1 && part.starts_with('0');
    if !text.split(separator).any(zero) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split(separator).enumerate() {
        if i > 0 {
            out.push(separator);
        }
        let stripped = part.trim_start_matches('0');
        // What follows the zeros may be no digit at all; then one zero is what is left of the number.
        let keeps_a_zero = part.len() > stripped.len() && !stripped.starts_with(|c: char| c.is_ascii_hexdigit());
        if keeps_a_zero {
            out.push('0');
        }
        out.push_str(stripped);
    }
    Cow::Owned(out)
}

/// A network: what a CIDR value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    /// The address as written.
    pub(crate) address: IpAddr,
    /// The address with the bits beyond the prefix cleared.
    pub(crate) network: IpAddr,
    /// The length of the prefix.
    pub(crate) bits: u8,
}

impl Cidr {
    /// Reads a CIDR value leniently.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = lenient(address)?;
        if bits.is_empty() || bits.len() > 64 || !bits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let bits: u8 = without_leading_zeros(bits, '.').parse().ok()?;
        let (network, bits) = match address {
            IpAddr::V4(v4) if bits <= 32 => (IpAddr::V4(mask_v4(v4, bits)), bits),
            IpAddr::V6(v6) if bits <= 128 => {
                let masked = mask_v6(v6, bits);
                match masked.to_ipv4_mapped() {
                    Some(v4) if bits >= 96 => (IpAddr::V4(v4), bits - 96),
                    _ => (IpAddr::V6(masked), bits),
                }
            }
            _ => return None,
        };
        Some(Self { address: unmap(address), network, bits })
    }

    /// The name of its family.
    pub(crate) const fn family(&self) -> &'static str {
        family(self.network)
    }

    /// True if the address is in the network.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        match (self.network, ip) {
            (IpAddr::V4(network), IpAddr::V4(ip)) => mask_v4(ip, self.bits) == network,
            (IpAddr::V6(network), IpAddr::V6(ip)) => mask_v6(ip, self.bits) == network,
            _ => false,
        }
    }

    /// How many bits of an address are free.
    pub(crate) const fn host_bits(&self) -> u32 {
        let length = if self.network.is_ipv4() { 32 } else { 128 };
        length - self.bits as u32
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

fn mask_v4(ip: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    Ipv4Addr::from(u32::from(ip) & mask)
}

fn mask_v6(ip: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from(u128::from(ip) & mask)
}

/// What Go's `netip` makes of an address; it neither takes leading zeros nor forgets that an address is mapped.
fn strict(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

fn is_mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn strict_prefix(text: &str) -> Option<IpAddr> {
    let (address, bits) = text.rsplit_once('/')?;
    let leading_zero = bits.len() > 1 && bits.starts_with('0');
    strict(address).filter(|_| !leading_zero)
}

/// Checks the address of a field that is older than the strict rules (upstream: `IsValidIPForLegacyField`). Addresses
/// that the old object has are accepted as they are.
pub(crate) fn legacy_ip(errors: &mut Errors, path: &FieldPath<'_>, text: &str, existing: &[&str]) {
    if existing.contains(&text) {
        return;
    }
    if lenient(text).is_none() {
        errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return;
    }
    match strict(text) {
        None => errors.invalid(path, text, "must not have leading 0s"),
        Some(ip) if is_mapped(ip) => errors.invalid(path, text, "must not be an IPv4-mapped IPv6 address"),
        Some(_) => {}
    }
}

/// Checks an address, which must be in canonical form (upstream: `IsValidIP`).
pub(crate) fn canonical_ip(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let before = errors.0.len();
    legacy_ip(errors, path, text, &[]);
    if errors.0.len() > before {
        return;
    }
    if let Some(ip) = parse_ip(text).map(|ip| ip.to_string()).filter(|ip| ip != text) {
        errors.invalid(path, text, format!("must be in canonical form ({})", quote(&ip)));
    }
}

/// Checks the CIDR value of a field that is older than the strict rules (upstream: `IsValidCIDRForLegacyField`).
pub(crate) fn legacy_cidr(errors: &mut Errors, path: &FieldPath<'_>, text: &str, existing: &[&str]) {
    if existing.contains(&text) {
        return;
    }
    let Some(cidr) = Cidr::parse(text) else {
        errors.invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return;
    };
    match strict_prefix(text) {
        None => errors.invalid(path, text, "must not have leading 0s in IP or prefix length"),
        Some(ip) if is_mapped(ip) => errors.invalid(path, text, "must not have an IPv4-mapped IPv6 address"),
        Some(ip) if ip != cidr.network => errors.invalid(path, text, "must not have bits set beyond the prefix length"),
        Some(_) => {}
    }
}

/// Checks a CIDR value, which must be in canonical form (upstream: `IsValidCIDR`).
pub(crate) fn canonical_cidr(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
    let before = errors.0.len();
    legacy_cidr(errors, path, text, &[]);
    if errors.0.len() > before {
        return;
    }
    if let Some(cidr) = Cidr::parse(text).map(|cidr| cidr.to_string()).filter(|cidr| cidr != text) {
        errors.invalid(path, text, format!("must be in canonical form ({})", quote(&cidr)));
    }
}

/// Warnings about an address in a form that is not the usual one (upstream: `GetWarningsForIP`).
pub(crate) fn ip_warnings(warnings: &mut Vec<String>, path: &FieldPath<'_>, text: &str) {
    let Some(ip) = parse_ip(text) else { return };
    match strict(text) {
        Some(parsed) if !is_mapped(parsed) => {
            if parsed.is_ipv6() && parsed.to_string() != text {
                let (text, canonical) = (quote(text), quote(&parsed.to_string()));
                warnings
                    .push(format!("{path}: IPv6 address {text} should be in RFC 5952 canonical format ({canonical})"));
            }
        }
        _ => {
            let (text, canonical) = (quote(text), quote(&ip.to_string()));
            warnings.push(format!("{path}: non-standard IP address {text} is invalid: use {canonical}"));
        }
    }
}

/// Warnings about a CIDR value in a form that is not the usual one (upstream: `GetWarningsForCIDR`).
pub(crate) fn cidr_warnings(warnings: &mut Vec<String>, path: &FieldPath<'_>, text: &str) {
    let Some(cidr) = Cidr::parse(text) else { return };
    let (shown, network) = (quote(text), quote(&cidr.to_string()));
    let before = warnings.len();
    if cidr.address != cidr.network {
        let length = if text.contains(':') { 128 } else { 32 };
        let single = quote(&format!("{}/{length}", cidr.address));
        warnings.push(format!(
            "{path}: CIDR value {shown} is ambiguous in this context (should be {network} or {single}?)"
        ));
    }
    match strict_prefix(text) {
        Some(ip) if !is_mapped(ip) => {
            let canonical = format!("{ip}/{}", cidr.bits);
            if warnings.len() == before && ip.is_ipv6() && canonical != text {
                let canonical = quote(&canonical);
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({canonical})"
                ));
            }
        }
        _ => warnings.push(format!("{path}: non-standard CIDR value {shown} is invalid: use {network}")),
    }
}

/// Refuses addresses that make no sense as an endpoint (upstream: `ValidateEndpointIP`).
pub(crate) fn endpoint_ip(errors: &mut Errors, path: &FieldPath<'_>, text: &str) {
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
        // The low half of the second byte is the scope of a multicast address; 2 is the link.
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

    fn said(check: fn(&mut Errors, &FieldPath<'_>, &str), text: &str) -> Vec<String> {
        let mut errors = Errors::new();
        check(&mut errors, &FieldPath::new("f"), text);
        messages(&errors).into_iter().map(|m| m.split(": ").skip(3).collect::<Vec<_>>().join(": ")).collect()
    }

    #[test]
    fn addresses_are_read_leniently() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(parse_ip(text).map(|ip| ip.to_string()).as_deref(), expect, "{text}");
        };
        check("10.0.0.1", Some("10.0.0.1"));
        check("010.000.0.001", Some("10.0.0.1"));
        check("::ffff:10.0.0.1", Some("10.0.0.1"));
        check("2001:DB8:0:0:0:0:0:00001", Some("2001:db8::1"));
        check("::ffff:010.0.0.01", Some("10.0.0.1"));
        check("::", Some("::"));
        check("1:2:3:4:5:6:7::", Some("1:2:3:4:5:6:7:0"));
        for bad in
            ["", "1", "10.0.0", "10.0.0.256", "10.0.0.0x1", "1:2", "fe80::1%eth0", "1::2::3", ":", "0", ".", "é:1"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn addresses_are_judged_strictly() {
        let check = |text: &str, expect: &[&str]| assert_eq!(said(canonical_ip, text), expect, "{text}");
        check("10.0.0.1", &[]);
        check("10.0.0", &["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
        check("10.0.0.01", &["must not have leading 0s"]);
        check("::ffff:1.2.3.4", &["must not be an IPv4-mapped IPv6 address"]);
        check("2001:DB8::1", &["must be in canonical form (\"2001:db8::1\")"]);
        let mut errors = Errors::new();
        legacy_ip(&mut errors, &FieldPath::new("f"), "1.2.3.04", &["1.2.3.04"]);
        legacy_ip(&mut errors, &FieldPath::new("f"), "2001:DB8::1", &[]);
        assert!(errors.is_empty());
    }

    #[test]
    fn cidr_values() {
        let check = |text: &str, expect: &[&str]| assert_eq!(said(canonical_cidr, text), expect, "{text}");
        check("10.0.0.0/24", &[]);
        check("0.0.0.0/0", &[]);
        check("::/0", &[]);
        check("10.0.0.0", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]);
        check("10.0.0.0/33", &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]);
        check("10.0.0.0/024", &["must not have leading 0s in IP or prefix length"]);
        check("10.0.0.1/24", &["must not have bits set beyond the prefix length"]);
        check("::ffff:10.0.0.0/120", &["must not have an IPv4-mapped IPv6 address"]);
        check("2001:DB8::/64", &["must be in canonical form (\"2001:db8::/64\")"]);
        assert_eq!(Cidr::parse("::ffff:10.0.0.1/120").map(|c| c.to_string()).as_deref(), Some("10.0.0.0/24"));
    }

    #[test]
    fn warnings_suggest_the_usual_form() {
        let check = |text: &str, expect: &[&str]| {
            let mut warnings = Vec::new();
            let judge = if text.contains('/') { cidr_warnings } else { ip_warnings };
            judge(&mut warnings, &FieldPath::new("f"), text);
            assert_eq!(warnings, expect, "{text}");
        };
        check("10.0.0.1", &[]);
        check("010.0.0.1", &["f: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\""]);
        check("::ffff:1.2.3.4", &["f: non-standard IP address \"::ffff:1.2.3.4\" is invalid: use \"1.2.3.4\""]);
        check(
            "2001:db8:0::1",
            &["f: IPv6 address \"2001:db8:0::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"],
        );
        check("10.0.0.0/8", &[]);
        check(
            "10.0.0.1/8",
            &[
                "f: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)",
            ],
        );
        check("10.0.0.0/08", &["f: non-standard CIDR value \"10.0.0.0/08\" is invalid: use \"10.0.0.0/8\""]);
        check(
            "2001:DB8::/32",
            &["f: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")"],
        );
    }

    #[test]
    fn endpoints_have_ordinary_addresses() {
        let check = |text: &str, expect: &[&str]| assert_eq!(said(endpoint_ip, text), expect, "{text}");
        check("10.0.0.1", &[]);
        check("0.0.0.0", &["may not be unspecified (0.0.0.0)"]);
        check("127.1.2.3", &["may not be in the loopback range (127.0.0.0/8, ::1/128)"]);
        check("169.254.1.1", &["may not be in the link-local range (169.254.0.0/16, fe80::/10)"]);
        check("224.0.0.9", &["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]);
        check("ff02::1", &["may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"]);
        check("x", &["must be a valid IP address"]);
    }
}
