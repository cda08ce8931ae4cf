//! The keys of extra attributes in the names of headers (upstream: `unescapeExtraKey`).

use percent_encoding::percent_decode_str;
use pintle_value::Str;

/// The key of an extra attribute. It is the rest of a header's name, in which bytes may be escaped. As in upstream, a
/// key with a malformed escape stays as it is. `None` if the key is not UTF-8.
pub(crate) fn unescape_extra_key(escaped: &str) -> Option<Str> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = escaped.as_bytes();
    let escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    let mut escapes = escapes.map(|(at, _)| is_digit(bytes.get(at + 1)) && is_digit(bytes.get(at + 2)));
    if !escapes.all(|is_well_formed| is_well_formed) {
        return Some(escaped.into());
    }
    percent_decode_str(escaped).decode_utf8().ok().map(Str::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_extra_attributes_are_unescaped() {
        for (escaped, expect) in [
            ("scopes", Some("scopes")),
            ("acme.com%2fproject", Some("acme.com/project")),
            ("a%zz%41", Some("a%zz%41")),
            ("a%4", Some("a%4")),
            ("%ff", None),
        ] {
            assert_eq!(unescape_extra_key(escaped).as_deref(), expect, "{escaped}");
        }
    }
}
