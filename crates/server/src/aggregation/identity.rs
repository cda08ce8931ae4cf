//! The headers in which this server names a user to the API server of an APIService (upstream: client-go's
//! `transport.SetAuthProxyHeaders`).

use std::fmt::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_auth::{RequestHeaders, UserInfo};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA_PREFIX: &str = "x-remote-extra-";

/// The user's attributes cannot be sent in headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidIdentity {
    header: HeaderName,
}

impl std::fmt::Display for InvalidIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "net/http: invalid header field value for \"{}\"", go_name(&self.header))
    }
}

/// The name of a header as Go writes it.
fn go_name(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

/// Names a user in headers. Headers of these names that are already there are removed.
///
/// # Errors
/// An attribute of the user has a control character.
pub(crate) fn set_identity(headers: &mut HeaderMap, user: &UserInfo, with_uid: bool) -> Result<(), InvalidIdentity> {
    RequestHeaders::standard().clear(headers);
    add(headers, USER, &user.name)?;
    if with_uid && !user.uid.is_empty() {
        add(headers, UID, &user.uid)?;
    }
    for group in &user.groups {
        add(headers, GROUP, group)?;
    }
    for (key, values) in &user.extra {
        let name = [EXTRA_PREFIX, &escape_key(key)].concat();
        let name = HeaderName::try_from(name).map_err(|_| InvalidIdentity { header: USER })?;
        for value in values {
            add(headers, name.clone(), value)?;
        }
    }
    Ok(())
}

fn add(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), InvalidIdentity> {
    match HeaderValue::from_bytes(value.as_bytes()) {
        Ok(value) => {
            headers.append(name, value);
            Ok(())
        }
        Err(_) => Err(InvalidIdentity { header: name }),
    }
}

/// The key of an extra attribute in the name of a header, with escapes (upstream: `headerKeyEscape`). The receiver gets
/// the key in lower case.
fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~' => {
                escaped.push(char::from(byte));
            }
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(headers: &HeaderMap) -> Vec<String> {
        let mut lines: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_user_is_named_and_nobody_else() {
        let user = UserInfo {
            name: "j\u{fc}rgen".into(),
            uid: "7".into(),
            groups: vec!["dev".into(), "system:authenticated".into()],
            extra: vec![("example.com/Scope%".into(), vec!["a".into(), "b".into()])],
        };
        let mut headers = HeaderMap::new();
        for name in ["x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-role"] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("smuggled"));
        }
        headers.insert("accept", HeaderValue::from_static("*/*"));
        set_identity(&mut headers, &user, false).expect("valid");
        let expect = [
            "accept: */*",
            "x-remote-extra-example.com%2fscope%25: a",
            "x-remote-extra-example.com%2fscope%25: b",
            "x-remote-group: dev",
            "x-remote-group: system:authenticated",
            "x-remote-user: j\u{fc}rgen",
        ];
        assert_eq!(lines(&headers), expect);
        set_identity(&mut headers, &user, true).expect("valid");
        assert!(lines(&headers).contains(&"x-remote-uid: 7".to_owned()));
    }

    #[test]
    fn a_line_break_does_not_end_a_header() {
        let user = UserInfo { name: "a\r\nx-remote-group: system:masters".into(), ..UserInfo::default() };
        let error = set_identity(&mut HeaderMap::new(), &user, true).expect_err("refused");
        assert_eq!(error.to_string(), "net/http: invalid header field value for \"X-Remote-User\"");
    }
}
