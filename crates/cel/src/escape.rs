//! Escaping of property names that are not CEL identifiers (upstream: `Escape` of `apiserver/pkg/cel`).

use std::borrow::Cow;

use crate::syntax::is_reserved;

/// Returns the CEL name of a field, or `None` if it cannot be escaped.
#[must_use]
pub fn escape_field_name(name: &str) -> Option<Cow<'_, str>> {
    let first = name.bytes().next()?;
    let spelled = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/');
    if first.is_ascii_digit() || !name.bytes().all(spelled) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if !name.contains(['-', '.', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        for (name, expect) in [
            ("a", Some("a")),
            ("_a9", Some("_a9")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("___", Some("__underscores___")),
            ("namespace", Some("__namespace__")),
            ("namespaces", Some("namespaces")),
            ("-", Some("__dash__")),
            ("", None),
            ("1a", None),
            ("a b", None),
            ("ä", None),
            ("$ref", None),
        ] {
            assert_eq!(escape_field_name(name).as_deref(), expect, "{name}");
        }
    }
}
