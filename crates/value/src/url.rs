//! Parses URLs with the syntax and errors of Go's `net/url`.

use std::borrow::Cow;

use crate::netip::parse_address;
use crate::print::quote;

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// The scheme in lower case, or empty.
    pub scheme: String,
    /// The host with its port.
    pub host: String,
    /// The path as it was written, if it is written correctly.
    pub escaped_path: String,
    /// The query without its question mark.
    pub query: String,
    /// The URL as written, without the scheme. Used for equality.
    pub rest: String,
}

/// Parses a URL that both `url.ParseRequestURI` and `url.Parse` accept. Its fragment is dropped.
///
/// # Errors
/// One of them does not accept it; the error is Go's.
pub fn parse_url(text: &str) -> Result<Url, String> {
    parse_request(text)?;
    parse_reference(text).map(|(url, _)| url)
}

/// Parses a URL or a reference that `url.Parse` accepts. Returns its fragment too.
///
/// # Errors
/// Go does not accept it; the error is Go's.
pub fn parse_reference(text: &str) -> Result<(Url, &str), String> {
    let (text_without, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = parse(text_without, false).map_err(|reason| parse_error(text_without, &reason))?;
    unescape(fragment, Part::Other).map_err(|reason| parse_error(text, &reason))?;
    Ok((url, fragment))
}

/// Parses a URL that `url.ParseRequestURI` accepts.
///
/// # Errors
/// Go does not accept it; the error is Go's.
pub fn parse_request(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|reason| parse_error(text, &reason))
}

/// True if Go's `url.ParseRequestURI` accepts the text: an absolute URI or an absolute path.
#[must_use]
pub fn is_request_uri(text: &str) -> bool {
    parse_request(text).is_ok()
}

fn parse_error(text: &str, reason: &str) -> String {
    format!("parse {}: {reason}", quote(text))
}

fn parse(text: &str, request: bool) -> Result<Url, String> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && request {
        return Err("empty url".to_owned());
    }
    let mut url = Url {
        scheme: String::new(),
        host: String::new(),
        escaped_path: String::new(),
        query: String::new(),
        rest: String::new(),
    };
    if text == "*" {
        url.escaped_path = "*".to_owned();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    rest.clone_into(&mut url.rest);
    let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    query.clone_into(&mut url.query);
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(url);
        }
        if request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if (!scheme.is_empty() || !request && !rest.starts_with("///"))
        && let Some(after) = rest.strip_prefix("//")
    {
        let end = after.find('/').unwrap_or(after.len());
        url.host = parse_authority(&url.scheme, &after[..end])?;
        rest = &after[end..];
    }
    let path = unescape(rest, Part::Other)?;
    url.escaped_path = if is_valid_path(rest) { rest.to_owned() } else { escape_path(&path) };
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

/// Validates `user:password@host:port` and returns the host with its port.
fn parse_authority(scheme: &str, text: &str) -> Result<String, String> {
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    let host = parse_host(scheme, host)?;
    if let Some(user) = user {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(is_allowed) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, Part::Other)?;
    }
    Ok(host)
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => return parse_ip_literal(&host[1..]),
        Some(_) => return Err(NO_LITERAL.to_owned()),
        None => {}
    }
    // Other schemes may have several hosts, each with its port.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    if let Some(at) = colon {
        check_port(&host[at..])?;
    }
    unescape(host, Part::Host)
}

const NO_LITERAL: &str = "invalid IP-literal";

/// Parses the rest of `[address%25zone]:port` after the first bracket. The address has to be an IPv6 address.
fn parse_ip_literal(text: &str) -> Result<String, String> {
    let Some((name, port)) = text.rsplit_once(']') else { return Err("missing ']' in host".to_owned()) };
    check_port(port)?;
    let (address, zone) = name.split_at(name.find("%25").unwrap_or(name.len()));
    let name = unescape(address, Part::Host)? + &unescape(zone, Part::Zone)?;
    match parse_address(&name) {
        Ok((address, _)) if address.is_ipv4() => Err(NO_LITERAL.to_owned()),
        Ok(_) => Ok(format!("[{name}]{port}")),
        Err(error) => Err(format!("invalid host: {error}")),
    }
}

/// Checks that a port consists of a colon and digits, or is missing.
fn check_port(port: &str) -> Result<(), String> {
    let digits = port.strip_prefix(':').unwrap_or(if port.is_empty() { "" } else { "no digit" });
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!("invalid port {} after host", quote(port)))
}

/// The part of a URL that is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    /// The zone of an IPv6 address.
    Zone,
    Other,
}

/// Decodes percent-encoded text. Within hosts, only non-ASCII bytes and the percent sign may be encoded. Within zones,
/// spaces and the bytes of hosts may be encoded.
fn unescape(text: &str, part: Part) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(b) = bytes.get(i) {
        match b {
            b'%' => {
                let hex = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
                let code = hex.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let is_allowed = |code: &u8| match part {
                    Part::Host => *code >= 0x80 || *code == b'%',
                    Part::Zone => matches!(*code, b'%' | b' ') || is_host_byte(*code),
                    Part::Other => true,
                };
                match code.filter(is_allowed) {
                    Some(code) => out.push(code),
                    None => {
                        let shown = String::from_utf8_lossy(&bytes[i..(i + 3).min(bytes.len())]).into_owned();
                        return Err(format!("invalid URL escape {}", quote(&shown)));
                    }
                }
                i += 3;
            }
            b => {
                if part != Part::Other && b.is_ascii() && !is_host_byte(*b) {
                    let shown = quote(&char::from(*b).to_string());
                    return Err(format!("invalid character {shown} in host name"));
                }
                out.push(*b);
                i += 1;
            }
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// True for the ASCII bytes that a host may have.
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// True if the path needs no escaping.
fn is_valid_path(path: &str) -> bool {
    path.bytes().all(|b| is_plain_in_path(b) || matches!(b, b'!' | b'\'' | b'(' | b')' | b'*' | b'[' | b']' | b'%'))
}

/// True for a byte that Go's `URL.EscapedPath` never escapes.
fn is_plain_in_path(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(b, b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@')
}

/// Escapes a path as Go's `URL.EscapedPath` does.
#[must_use]
pub fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for b in path.bytes() {
        if is_plain_in_path(b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// An encoded path as Go shows it again: as it was written if it is written correctly, otherwise encoded anew.
#[must_use]
pub fn escaped_path(path: &str) -> Cow<'_, str> {
    match is_valid_path(path) {
        true => Cow::Borrowed(path),
        false => Cow::Owned(escape_path(&unescape(path, Part::Other).unwrap_or_else(|_| path.to_owned()))),
    }
}

impl Url {
    /// The host without its port and without brackets.
    #[must_use]
    pub fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, or the empty string.
    #[must_use]
    pub fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The query parameters in order. Malformed ones are skipped.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let read = |text: &str| unescape(&text.replace('+', " "), Part::Other).ok();
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((read(key)?, read(value)?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_as_go_does() {
        for (text, expect) in [
            ("https://a:1/b?c#d", Ok(("https", "a:1", "/b", "c", "d"))),
            ("https://a#%41", Ok(("https", "a", "", "", "%41"))),
            ("a/b", Ok(("", "", "a/b", "", ""))),
            ("", Ok(("", "", "", "", ""))),
            ("kubernetes:serviceaccount", Ok(("kubernetes", "", "", "", ""))),
            (":a", Err("parse \":a\": missing protocol scheme")),
            ("a b:c", Err("parse \"a b:c\": first path segment in URL cannot contain colon")),
            ("https://a b", Err("parse \"https://a b\": invalid character \" \" in host name")),
            ("https://a\n", Err("parse \"https://a\\n\": net/url: invalid control character in URL")),
            ("https://a:1:2", Err("parse \"https://a:1:2\": invalid port \":1:2\" after host")),
            ("db://a:1,b:2", Ok(("db", "a:1,b:2", "", "", ""))),
            ("https://a[::1]", Err("parse \"https://a[::1]\": invalid IP-literal")),
            ("https://[127.0.0.1]", Err("parse \"https://[127.0.0.1]\": invalid IP-literal")),
            ("https://[::1", Err("parse \"https://[::1\": missing ']' in host")),
            ("https://[::1]a", Err("parse \"https://[::1]a\": invalid port \"a\" after host")),
            ("https://[::ffff:1.2.3.4]:1", Ok(("https", "[::ffff:1.2.3.4]:1", "", "", ""))),
            ("https://[fe80::1%25a%20b]", Ok(("https", "[fe80::1%a b]", "", "", ""))),
            ("https://[fe80::1%25%0a]", Err("parse \"https://[fe80::1%25%0a]\": invalid URL escape \"%0a\"")),
            ("https://[a]", Err("parse \"https://[a]\": invalid host: ParseAddr(\"a\"): unable to parse IP")),
            ("https://a%25b", Ok(("https", "a%b", "", "", ""))),
            ("https://a b#c", Err("parse \"https://a b\": invalid character \" \" in host name")),
            ("https://a#%", Err("parse \"https://a#%\": invalid URL escape \"%\"")),
        ] {
            let found = parse_reference(text);
            let found = found
                .as_ref()
                .map(|(url, fragment)| (&*url.scheme, &*url.host, &*url.escaped_path, &*url.query, *fragment));
            assert_eq!(found.map_err(String::as_str), expect, "{text}");
        }
    }
}
