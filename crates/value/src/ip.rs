//! Validates IP addresses and CIDRs (upstream: apimachinery's `util/validation/ip.go`). There are legacy formats (Go's
//! old lenient parsing) and strict formats of newer fields (`net/netip`, canonical form). Warnings tell the
//! differences.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{Errors, FieldPath};

/// A parsed address that remembers how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParsedIp {
    /// The address. An IPv4-mapped IPv6 address (`::ffff:1.2.3.4`) stays one.
    addr: IpAddr,
    /// Whether the text has leading zeros, which only the legacy format allows.
    has_leading_zeros: bool,
}

impl ParsedIp {
    fn parse(text: &str) -> Option<Self> {
        let mut has_leading_zeros = false;
        let addr = match text.bytes().find(|b| matches!(b, b'.' | b':'))? {
            b'.' => IpAddr::V4(parse_v4(text, &mut has_leading_zeros)?),
            _ => IpAddr::V6(parse_v6(text, &mut has_leading_zeros)?),
        };
        Some(Self { addr, has_leading_zeros })
    }

    fn is_mapped(self) -> bool {
        matches!(self.addr, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
    }

    /// The address as Go's `net.IP` prints it: IPv4-mapped addresses as IPv4.
    fn canonical(self) -> IpAddr {
        self.addr.to_canonical()
    }
}

/// Parses a number as Go's `dtoi` and `xtoi` do: from the start of the text, with leading zeros allowed.
fn leading_number(text: &str, radix: u32) -> Option<(u32, usize)> {
    let mut value = 0;
    let mut length = 0;
    for c in text.chars() {
        let Some(digit) = c.to_digit(radix) else { break };
        value = value * radix + digit;
        length += 1;
        if value >= 0xFF_FFFF {
            return None;
        }
    }
    (length > 0).then_some((value, length))
}

fn parse_v4(text: &str, has_leading_zeros: &mut bool) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let (value, length) = leading_number(part, 10)?;
        if length < part.len() {
            return None;
        }
        *octet = u8::try_from(value).ok()?;
        *has_leading_zeros |= length > 1 && part.starts_with('0');
    }
    parts.next().is_none().then(|| octets.into())
}

fn parse_v6(text: &str, has_leading_zeros: &mut bool) -> Option<Ipv6Addr> {
    let mut groups = [0_u16; 8];
    let mut count = 0;
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
    }
    while count < 8 && !(rest.is_empty() && gap == Some(count)) {
        let (value, length) = leading_number(rest, 16)?;
        let group = u16::try_from(value).ok()?;
        if rest[length..].starts_with('.') {
            if count > 6 || (gap.is_none() && count != 6) {
                return None;
            }
            let [a, b, c, d] = parse_v4(rest, has_leading_zeros)?.octets();
            groups[count] = u16::from_be_bytes([a, b]);
            groups[count + 1] = u16::from_be_bytes([c, d]);
            count += 2;
            rest = "";
            break;
        }
        *has_leading_zeros |= length > 4;
        groups[count] = group;
        count += 1;
        rest = &rest[length..];
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(':').filter(|r| !r.is_empty())?;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.replace(count).is_some() {
                return None;
            }
            rest = after;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    match gap {
        // `::` must stand for at least one group.
        Some(gap) if count < 8 => {
            groups[gap..].rotate_right(8 - count);
            Some(groups.into())
        }
        None if count == 8 => Some(groups.into()),
        _ => None,
    }
}

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: ParsedIp,
    /// The prefix length. It is out of 32 or 128 bits, depending on how the address was written.
    bits: u8,
    /// Whether the prefix length has leading zeros, which only the legacy format allows.
    has_leading_zeros: bool,
}

impl Cidr {
    /// Parses a CIDR in the legacy format (`ParseCIDRSloppy`).
    #[must_use]
    pub fn parse_sloppy(text: &str) -> Option<Self> {
        let (address, mask) = text.split_once('/')?;
        let address = ParsedIp::parse(address)?;
        let (bits, length) = leading_number(mask, 10)?;
        let width = if address.addr.is_ipv4() { 32 } else { 128 };
        if length < mask.len() || bits > width {
            return None;
        }
        Some(Self { address, bits: bits as u8, has_leading_zeros: length > 1 && mask.starts_with('0') })
    }

    /// The address. Bits beyond the prefix length may be set.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address.canonical()
    }

    fn width(&self) -> u8 {
        if self.address.addr.is_ipv4() { 32 } else { 128 }
    }

    fn masked(&self) -> IpAddr {
        match self.address.addr {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((v4.to_bits() & mask).into())
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((v6.to_bits() & mask).into())
            }
        }
    }

    /// The network's first address and its prefix length.
    #[must_use]
    pub fn network(&self) -> (IpAddr, u8) {
        let masked = self.masked();
        let network = masked.to_canonical();
        let mapped = masked.is_ipv6() && network.is_ipv4();
        (network, if mapped { self.bits - 96 } else { self.bits })
    }

    /// Returns whether the network contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, bits) = self.network();
        match (network, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits),
            _ => false,
        }
    }
}

/// Prints the network in canonical form.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (network, bits) = self.network();
        write!(f, "{network}/{bits}")
    }
}

/// Parses an address in the legacy format (`ParseIPSloppy`). IPv4-mapped addresses become IPv4.
#[must_use]
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    ParsedIp::parse(text).map(ParsedIp::canonical)
}

fn parse_and_check_ip(path: &FieldPath<'_>, value: &str, strict: bool, errors: &mut Errors) -> Option<ParsedIp> {
    let Some(ip) = ParsedIp::parse(value) else {
        errors.invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
        return None;
    };
    if strict && ip.has_leading_zeros {
        errors.invalid(path, value, "must not have leading 0s");
    } else if strict && ip.is_mapped() {
        errors.invalid(path, value, "must not be an IPv4-mapped IPv6 address");
    }
    Some(ip)
}

/// Validates an address strictly and in canonical form, for newer fields (`IsValidIP`).
#[must_use]
pub fn valid_ip(path: &FieldPath<'_>, value: &str) -> Errors {
    let mut errors = Errors::new();
    if let Some(ip) = parse_and_check_ip(path, value, true, &mut errors)
        && errors.is_empty()
    {
        let canonical = ip.canonical().to_string();
        if value != canonical {
            errors.invalid(path, value, format!("must be in canonical form (\"{canonical}\")"));
        }
    }
    errors
}

/// Validates an address in a legacy field (`IsValidIPForLegacyField`). Values of the old object are always valid.
#[must_use]
pub fn valid_legacy_ip(path: &FieldPath<'_>, value: &str, strict: bool, old: &BTreeSet<&str>) -> Errors {
    let mut errors = Errors::new();
    if !old.contains(value) {
        parse_and_check_ip(path, value, strict, &mut errors);
    }
    errors
}

/// Warnings for an address in a legacy field (`GetWarningsForIP`).
#[must_use]
pub fn ip_warnings(path: &FieldPath<'_>, value: &str) -> Vec<String> {
    let Some(ip) = ParsedIp::parse(value) else { return Vec::new() };
    if ip.addr.is_ipv4() && !ip.has_leading_zeros {
        return Vec::new();
    }
    let canonical = ip.canonical().to_string();
    if ip.has_leading_zeros || ip.is_mapped() {
        return vec![format!("{path}: non-standard IP address \"{value}\" is invalid: use \"{canonical}\"")];
    }
    if value != canonical {
        return vec![format!(
            "{path}: IPv6 address \"{value}\" should be in RFC 5952 canonical format (\"{canonical}\")"
        )];
    }
    Vec::new()
}

fn parse_and_check_cidr(path: &FieldPath<'_>, value: &str, strict: bool, errors: &mut Errors) -> Option<Cidr> {
    let Some(cidr) = Cidr::parse_sloppy(value) else {
        errors.invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        return None;
    };
    if strict {
        if cidr.has_leading_zeros || cidr.address.has_leading_zeros {
            errors.invalid(path, value, "must not have leading 0s in IP or prefix length");
        } else if cidr.address.is_mapped() {
            errors.invalid(path, value, "must not have an IPv4-mapped IPv6 address");
        } else if cidr.masked() != cidr.address.addr {
            errors.invalid(path, value, "must not have bits set beyond the prefix length");
        }
    }
    Some(cidr)
}

/// Validates a CIDR strictly and in canonical form, for newer fields (`IsValidCIDR`).
#[must_use]
pub fn valid_cidr(path: &FieldPath<'_>, value: &str) -> Errors {
    let mut errors = Errors::new();
    if let Some(cidr) = parse_and_check_cidr(path, value, true, &mut errors)
        && errors.is_empty()
    {
        let canonical = cidr.to_string();
        if value != canonical {
            errors.invalid(path, value, format!("must be in canonical form (\"{canonical}\")"));
        }
    }
    errors
}

/// Validates a CIDR in a legacy field (`IsValidCIDRForLegacyField`). Values of the old object are always valid.
#[must_use]
pub fn valid_legacy_cidr(path: &FieldPath<'_>, value: &str, strict: bool, old: &BTreeSet<&str>) -> Errors {
    let mut errors = Errors::new();
    if !old.contains(value) {
        parse_and_check_cidr(path, value, strict, &mut errors);
    }
    errors
}

/// Validates an address with its subnet's prefix length in canonical form (`IsValidInterfaceAddress`).
#[must_use]
pub fn valid_interface_address(path: &FieldPath<'_>, value: &str) -> Errors {
    let mut errors = Errors::new();
    let Some(cidr) = Cidr::parse_sloppy(value) else {
        errors.invalid(path, value, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)");
        return errors;
    };
    // Upstream's difference is negative if the prefix is shorter than the 96 bits of IPv4-mapped addresses.
    let mapped = cidr.address.is_mapped() && cidr.bits > 32;
    let bits = i16::from(cidr.bits) - if mapped { 96 } else { 0 };
    let canonical = format!("{}/{bits}", cidr.address());
    if value != canonical {
        errors.invalid(path, value, format!("must be in canonical form (\"{canonical}\")"));
    }
    errors
}

/// Warnings for a CIDR in a legacy field (`GetWarningsForCIDR`).
#[must_use]
pub fn cidr_warnings(path: &FieldPath<'_>, value: &str) -> Vec<String> {
    let Some(cidr) = Cidr::parse_sloppy(value) else { return Vec::new() };
    let mut warnings = Vec::new();
    if cidr.address() != cidr.network().0 {
        warnings.push(format!(
            "{path}: CIDR value \"{value}\" is ambiguous in this context (should be \"{cidr}\" or \"{}/{}\"?)",
            cidr.address(),
            cidr.width()
        ));
    }
    if cidr.has_leading_zeros || cidr.address.has_leading_zeros || cidr.address.is_mapped() {
        warnings.push(format!("{path}: non-standard CIDR value \"{value}\" is invalid: use \"{cidr}\""));
    }
    if warnings.is_empty() && cidr.address.addr.is_ipv6() {
        let canonical = format!("{}/{}", cidr.address(), cidr.bits);
        if value != canonical {
            warnings.push(format!(
                "{path}: IPv6 CIDR value \"{value}\" should be in RFC 5952 canonical format (\"{canonical}\")"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: impl IntoIterator<Item = impl ToString>, expect: &[&str]) {
        assert_eq!(found.into_iter().map(|e| e.to_string()).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn addresses_are_parsed_and_validated() {
        let path = FieldPath::new("ip");
        for good in ["1.2.3.4", "::", "::1", "2001:db8::1", "1:2:3:4:5:6:7:8", "64:ff9b::102:304"] {
            check(valid_ip(&path, good).iter(), &[]);
        }
        for bad in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", ":::", "1::2::3", "1:2:3:4:5:6:7:8::", "fe80::1%eth0", "g::"]
        {
            let expect =
                format!("ip: Invalid value: \"{bad}\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
            check(valid_ip(&path, bad).iter(), &[&expect]);
        }
        check(valid_ip(&path, "01.2.3.4").iter(), &["ip: Invalid value: \"01.2.3.4\": must not have leading 0s"]);
        check(
            valid_ip(&path, "::ffff:1.2.3.4").iter(),
            &["ip: Invalid value: \"::ffff:1.2.3.4\": must not be an IPv4-mapped IPv6 address"],
        );
        check(
            valid_ip(&path, "2001:DB8:0::1").iter(),
            &["ip: Invalid value: \"2001:DB8:0::1\": must be in canonical form (\"2001:db8::1\")"],
        );
        check(valid_legacy_ip(&path, "2001:DB8::1", true, &BTreeSet::new()).iter(), &[]);
        check(valid_legacy_ip(&path, "01.2.3.4", false, &BTreeSet::new()).iter(), &[]);
        check(valid_legacy_ip(&path, "any", true, &["any"].into()).iter(), &[]);
        check(
            ip_warnings(&path, "01.2.3.4"),
            &["ip: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\""],
        );
    }

    #[test]
    fn cidrs_are_parsed_and_validated() {
        let path = FieldPath::new("cidr");
        check(valid_cidr(&path, "10.0.0.0/8").iter(), &[]);
        check(valid_cidr(&path, "::/0").iter(), &[]);
        check(
            valid_cidr(&path, "10.0.0.1/8").iter(),
            &["cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length"],
        );
        check(
            valid_cidr(&path, "10.0.0.0/08").iter(),
            &["cidr: Invalid value: \"10.0.0.0/08\": must not have leading 0s in IP or prefix length"],
        );
        check(
            valid_cidr(&path, "10.0.0.0/33").iter(),
            &["cidr: Invalid value: \"10.0.0.0/33\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"],
        );
        check(valid_interface_address(&path, "192.168.1.5/24").iter(), &[]);
        check(
            cidr_warnings(&path, "::ffff:1.2.3.4/120"),
            &[
                "cidr: CIDR value \"::ffff:1.2.3.4/120\" is ambiguous in this context (should be \"1.2.3.0/24\" or \"1.2.3.4/128\"?)",
                "cidr: non-standard CIDR value \"::ffff:1.2.3.4/120\" is invalid: use \"1.2.3.0/24\"",
            ],
        );
        let cidr = Cidr::parse_sloppy("10.96.0.0/12").expect("a network");
        assert!(cidr.contains(IpAddr::from([10, 111, 255, 255])) && !cidr.contains(IpAddr::from([10, 112, 0, 0])));
    }
}
