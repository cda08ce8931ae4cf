//! Parses IP addresses and prefixes with the errors of Go's `net/netip`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::print::quote;

/// A parse error and the rest of the text where it occurred (upstream: `netip.parseAddrError`).
struct ParseAddrError<'t> {
    message: &'static str,
    at: &'t str,
}

const fn parse_error(message: &'static str) -> ParseAddrError<'static> {
    ParseAddrError { message, at: "" }
}

/// Parses an address. Also returns whether it has a zone.
///
/// # Errors
/// It is no address; the error is Go's.
pub fn parse_address(text: &str) -> Result<(IpAddr, bool), String> {
    let parsed = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => parse_v4(text).map(|octets| (Ipv4Addr::from(octets).into(), false)),
        Some(b':') => parse_v6(text),
        Some(_) => Err(parse_error("missing IPv6 address")),
        None => Err(parse_error("unable to parse IP")),
    };
    parsed.map_err(|ParseAddrError { message, at }| {
        let location = if at.is_empty() { String::new() } else { format!(" (at {})", quote(at)) };
        format!("ParseAddr({}): {message}{location}", quote(text))
    })
}

/// Parses a prefix. Returns the address and the number of bits.
///
/// # Errors
/// It is no prefix; the error is Go's.
pub fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let error = |why: String| format!("netip.ParsePrefix({}): {why}", quote(text));
    let Some((address, bits)) = text.rsplit_once('/') else { return Err(error("no '/'".to_owned())) };
    let (address, zone) = parse_address(address).map_err(error)?;
    if zone {
        return Err(error("IPv6 zones cannot be present in a prefix".to_owned()));
    }
    let is_canonical = bits.bytes().all(|b| b.is_ascii_digit()) && !(bits.len() > 1 && bits.starts_with('0'));
    if bits.is_empty() || !is_canonical || bits.len() > 18 {
        return Err(error(format!("bad bits after slash: {}", quote(bits))));
    }
    let max_bits = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u64>() {
        Ok(bits) if bits <= max_bits => Ok((address, bits as u8)),
        _ => Err(error("prefix length out of range".to_owned())),
    }
}

fn parse_v4(text: &str) -> Result<[u8; 4], ParseAddrError<'_>> {
    let mut octets = [0; 4];
    let (mut position, mut value, mut digits) = (0, 0_u16, 0);
    let bytes = text.as_bytes();
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(parse_error("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u16::from(b - b'0');
                digits += 1;
                if value > 255 {
                    return Err(parse_error("IPv4 field has value >255"));
                }
            }
            b'.' => {
                if digits == 0 || i + 1 == bytes.len() {
                    return Err(ParseAddrError { message: "IPv4 field must have at least one digit", at: &text[i..] });
                }
                if position == 3 {
                    return Err(parse_error("IPv4 address too long"));
                }
                octets[position] = value as u8;
                (position, value, digits) = (position + 1, 0, 0);
            }
            _ => return Err(ParseAddrError { message: "unexpected character", at: text.get(i..).unwrap_or_default() }),
        }
    }
    if position < 3 {
        return Err(parse_error("IPv4 address too short"));
    }
    octets[3] = value as u8;
    Ok(octets)
}

fn parse_v6(text: &str) -> Result<(IpAddr, bool), ParseAddrError<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(parse_error("zone must be a non-empty string")),
        Some((address, _)) => (address, true),
        None => (text, false),
    };
    let mut bytes = [0_u8; 16];
    // The offset of `::`.
    let mut gap = None;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok((Ipv6Addr::UNSPECIFIED.into(), zone));
        }
    }
    let mut filled = 0;
    while filled < 16 {
        let at = |message| ParseAddrError { message, at: rest };
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(at("each group must have 4 or less digits"));
        }
        if digits == 0 {
            return Err(at("each colon-separated field must have at least one digit"));
        }
        if rest[digits..].starts_with('.') {
            if gap.is_none() && filled != 12 {
                return Err(at("embedded IPv4 address must replace the final 2 fields of the address"));
            }
            if filled + 4 > 16 {
                return Err(at("too many hex fields to fit an embedded IPv4 at the end of the address"));
            }
            bytes[filled..filled + 4].copy_from_slice(&parse_v4(rest)?);
            filled += 4;
            rest = "";
            break;
        }
        let value = u16::from_str_radix(&rest[..digits], 16).unwrap_or(0);
        bytes[filled..filled + 2].copy_from_slice(&value.to_be_bytes());
        filled += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(ParseAddrError { message: "unexpected character, want colon", at: rest });
        };
        if after.is_empty() {
            return Err(ParseAddrError { message: "colon must be followed by more characters", at: rest });
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(ParseAddrError { message: "multiple :: in address", at: rest });
            }
            gap = Some(filled);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(ParseAddrError { message: "trailing garbage after address", at: rest });
    }
    match gap {
        None if filled < 16 => return Err(parse_error("address string too short")),
        Some(_) if filled == 16 => return Err(parse_error("the :: must expand to at least one field of zeros")),
        Some(gap) => {
            bytes.copy_within(gap..filled, 16 - (filled - gap));
            bytes[gap..16 - (filled - gap)].fill(0);
        }
        None => {}
    }
    Ok((Ipv6Addr::from(bytes).into(), zone))
}
