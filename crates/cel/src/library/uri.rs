//! URLs as Go's `net/url` reads them, with its errors.

use pintle_value::print::quote;

/// A URL that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) escaped_path: String,
    pub(super) query: String,
    /// What tells URLs apart: everything but the scheme, as it was written.
    pub(super) rest: String,
}

/// Reads what `ParseRequestURI` and then `Parse` accept.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    parse_request(text)?;
    let (text_without, fragment) = text.split_once('#').map_or((text, ""), |(before, after)| (before, after));
    unescape(fragment, false).and_then(|_| parse(text_without, false)).map_err(|why| report(text, &why))
}

/// Reads what `ParseRequestURI` accepts.
pub(super) fn parse_request(text: &str) -> Result<Url, String> {
    parse(text, true).map_err(|why| report(text, &why))
}

/// True for what Go's `url.ParseRequestURI` accepts: an absolute URI or an absolute path.
#[must_use]
pub fn is_request_uri(text: &str) -> bool {
    parse_request(text).is_ok()
}

fn report(text: &str, why: &str) -> String {
    format!("parse {}: {why}", quote(text))
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
        url.host = authority(&after[..end])?;
        rest = &after[end..];
    }
    let path = unescape(rest, false)?;
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

/// The host of `user:password@host:port`.
fn authority(text: &str) -> Result<String, String> {
    let (user, host) = text.rsplit_once('@').map_or((None, text), |(user, host)| (Some(user), host));
    let host = parse_host(host)?;
    if let Some(user) = user {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user.chars().all(fits) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        unescape(user, false)?;
    }
    Ok(host)
}

fn parse_host(host: &str) -> Result<String, String> {
    let port = if let Some(inner) = host.strip_prefix('[') {
        let Some((_, port)) = inner.rsplit_once(']') else { return Err("missing ']' in host".to_owned()) };
        Some(port)
    } else {
        host.rfind(':').map(|at| &host[at..])
    };
    if let Some(port) = port
        && !(port.is_empty() || port.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit())))
    {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    unescape(host, true)
}

/// Percent-encoded text as what it stands for. Within hosts only bytes outside of ASCII may be encoded.
fn unescape(text: &str, host: bool) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while let Some(b) = bytes.get(i) {
        match b {
            b'%' => {
                let hex = bytes.get(i + 1..i + 3).and_then(|hex| std::str::from_utf8(hex).ok());
                let code = hex.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let in_zone = host && text.starts_with('[');
                match code.filter(|code| !host || *code >= 0x80 || (in_zone && *code == b'%')) {
                    Some(code) => out.push(code),
                    None => {
                        let shown = String::from_utf8_lossy(&bytes[i..(i + 3).min(bytes.len())]).into_owned();
                        return Err(format!("invalid URL escape {}", quote(&shown)));
                    }
                }
                i += 3;
            }
            b => {
                let fits = b.is_ascii_alphanumeric() || !b.is_ascii() || b"-_.~!$&'()*+,;=:[]<>\"".contains(b);
                if host && !fits {
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

/// True if a path may stay as it was written.
fn is_valid_path(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(&b))
}

fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for b in path.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

impl Url {
    /// The host without its port and without brackets.
    pub(super) fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, or nothing.
    pub(super) fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The parameters in order; those that cannot be read are left out.
    pub(super) fn parameters(&self) -> Vec<(String, String)> {
        let read = |text: &str| unescape(&text.replace('+', " "), false).ok();
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        pairs
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((read(key)?, read(value)?))
            })
            .collect()
    }
}
