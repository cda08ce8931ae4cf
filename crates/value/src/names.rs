//! Validates names, labels, ports and similar values, after apimachinery's `util/validation`, `api/validate/content`
//! and `api/validation` packages. Each function returns upstream's error messages; an empty result means valid.
//!
//! Formats are matched without regular expressions, because every write validates several of them. The expressions only
//! appear in the messages.

use crate::{Errors, FieldPath};

/// Maximum length in bytes of a DNS label.
pub const DNS_LABEL_MAX: usize = 63;
/// Maximum length in bytes of a DNS subdomain.
pub const DNS_SUBDOMAIN_MAX: usize = 253;
/// Maximum length in bytes of a label value and of the name part of a label key.
pub const LABEL_VALUE_MAX: usize = 63;

macro_rules! dns1123_label_format {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}
macro_rules! dns1123_underscore_label_format {
    () => {
        "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
    };
}
macro_rules! label_key_format {
    () => {
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
    };
}

const DNS1123_SUBDOMAIN_FORMAT: &str = concat!(dns1123_label_format!(), "(\\.", dns1123_label_format!(), ")*");
const DNS1123_SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
     '-' or '.', and must start and end with an alphanumeric character";

/// The message for a value longer than `max`, in the older wording (`MaxLenError`).
#[must_use]
pub fn max_length_text(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The same message in the wording of `api/validate/content`.
fn max_bytes_text(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// The message for a number outside `low..=high` (`InclusiveRangeError`).
#[must_use]
pub fn range_text(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The message for an empty value (`EmptyError`).
pub const EMPTY_TEXT: &str = "must be non-empty";

/// The message for a value that does not match the expression `format` (`RegexError`):
/// `text (e.g. 'a',  or 'b', regex used ...)`.
#[must_use]
pub fn format_text(text: &str, format: &str, examples: &[&str]) -> String {
    let mut out = String::with_capacity(text.len() + format.len() + 64);
    out.push_str(text);
    out.push_str(" (");
    for (i, example) in examples.iter().enumerate() {
        out.push_str(if i == 0 { "e.g. '" } else { " or '" });
        out.push_str(example);
        out.push_str("', ");
    }
    out.push_str("regex used for validation is '");
    out.push_str(format);
    out.push_str("')");
    out
}

/// Returns whether the first byte is in `first`, the last byte in `last`, and all bytes between in `middle`. A single
/// byte need only be in `first`.
fn matches_byte_classes(text: &str, first: fn(u8) -> bool, middle: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => first(*only),
        [start, inner @ .., end] => first(*start) && last(*end) && inner.iter().all(|b| middle(*b)),
    }
}

fn is_lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_alphanumeric(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

fn is_dns1123_label(text: &str) -> bool {
    matches_byte_classes(text, is_lower_alphanumeric, |b| is_lower_alphanumeric(b) || b == b'-', is_lower_alphanumeric)
}

fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

fn is_label_key(text: &str) -> bool {
    matches_byte_classes(
        text,
        is_alphanumeric,
        |b| is_alphanumeric(b) || matches!(b, b'-' | b'_' | b'.'),
        is_alphanumeric,
    )
}

/// Pushes `text` unless `ok`. The valid case does not allocate.
fn push_unless(ok: bool, errors: &mut Vec<String>, text: impl FnOnce() -> String) {
    if !ok {
        errors.push(text());
    }
}

/// Validates a DNS label (RFC 1123), such as the name of a namespace.
#[must_use]
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_LABEL_MAX, &mut errors, || max_length_text(DNS_LABEL_MAX));
    push_unless(is_dns1123_label(value), &mut errors, || {
        if is_dns1123_subdomain(value) {
            return "must not contain dots".to_owned();
        }
        format_text(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
             end with an alphanumeric character",
            dns1123_label_format!(),
            &["my-name", "123-abc"],
        )
    });
    errors
}

fn dns1123_subdomain_text() -> String {
    format_text(DNS1123_SUBDOMAIN_TEXT, DNS1123_SUBDOMAIN_FORMAT, &["example.com"])
}

/// Validates a DNS subdomain (RFC 1123): labels separated by dots.
#[must_use]
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_length_text(DNS_SUBDOMAIN_MAX));
    push_unless(is_dns1123_subdomain(value), &mut errors, dns1123_subdomain_text);
    errors
}

/// Validates a DNS subdomain with the messages of declarative validation (`format=k8s-long-name`), which count bytes.
#[must_use]
pub fn long_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_bytes_text(DNS_SUBDOMAIN_MAX));
    push_unless(is_dns1123_subdomain(value), &mut errors, dns1123_subdomain_text);
    errors
}

/// Validates a DNS subdomain, ignoring case (`format=k8s-long-name-caseless`).
#[must_use]
pub fn long_name_caseless(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_bytes_text(DNS_SUBDOMAIN_MAX));
    push_unless(is_dns1123_subdomain(&value.to_ascii_lowercase()), &mut errors, || {
        format_text(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character",
            DNS1123_SUBDOMAIN_FORMAT,
            &["Example.com"],
        )
    });
    errors
}

/// Validates a DNS label with the messages of declarative validation (`format=k8s-short-name`), which count bytes.
#[must_use]
pub fn short_name(value: &str) -> Vec<String> {
    let mut errors = dns1123_label(value);
    if value.len() > DNS_LABEL_MAX
        && let Some(first) = errors.first_mut()
    {
        *first = max_bytes_text(DNS_LABEL_MAX);
    }
    errors
}

/// Validates a DNS subdomain whose labels may contain underscores.
#[must_use]
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let label = |text: &str| {
        let text = text.strip_prefix('_').unwrap_or(text);
        matches_byte_classes(
            text,
            is_lower_alphanumeric,
            |b| is_lower_alphanumeric(b) || matches!(b, b'-' | b'_'),
            is_lower_alphanumeric,
        )
    };
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_length_text(DNS_SUBDOMAIN_MAX));
    push_unless(value.split('.').all(label), &mut errors, || {
        format_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character",
            concat!(dns1123_underscore_label_format!(), "(\\.", dns1123_underscore_label_format!(), ")*"),
            &["example.com"],
        )
    });
    errors
}

/// Validates a DNS label that starts with a letter (RFC 1035), such as the name of a service.
#[must_use]
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_LABEL_MAX, &mut errors, || max_length_text(DNS_LABEL_MAX));
    let ok = matches_byte_classes(
        value,
        |b| b.is_ascii_lowercase(),
        |b| is_lower_alphanumeric(b) || b == b'-',
        is_lower_alphanumeric,
    );
    push_unless(ok, &mut errors, || {
        format_text(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        )
    });
    errors
}

/// Validates a DNS subdomain after `*.`, as the host of an Ingress may be.
#[must_use]
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_length_text(DNS_SUBDOMAIN_MAX));
    push_unless(value.strip_prefix("*.").is_some_and(is_dns1123_subdomain), &mut errors, || {
        format_text(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
             of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            concat!("\\*\\.", dns1123_label_format!(), "(\\.", dns1123_label_format!(), ")*"),
            &["*.example.com"],
        )
    });
    errors
}

/// Masks the trailing dash of a prefix for a generated name (`maskTrailingDash`): upstream replaces its last two
/// characters.
fn mask_trailing_dash(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            let mut masked = rest.to_owned();
            // Upstream cuts bytes. The rest of a multi-byte character is as invalid as the character itself.
            if masked.ends_with(|c: char| c.is_ascii()) {
                masked.pop();
            }
            masked.push('a');
            masked.into()
        }
        _ => name.into(),
    }
}

/// Validates a name that must be a DNS subdomain (RFC 1123). `prefix` is set for the prefix of a generated name.
#[must_use]
pub fn dns1123_subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&mask_trailing_dash(name, prefix))
}

/// Validates a name that must be a DNS label (RFC 1123). `prefix` is set for the prefix of a generated name.
#[must_use]
pub fn dns1123_label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&mask_trailing_dash(name, prefix))
}

/// Validates a name that must be a DNS label that starts with a letter (RFC 1035).
#[must_use]
pub fn dns1035_label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&mask_trailing_dash(name, prefix))
}

/// Validates the name of a namespace.
#[must_use]
pub fn namespace_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label_name(name, prefix)
}

/// Validates the name of a service account.
#[must_use]
pub fn service_account_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain_name(name, prefix)
}

/// Validates a name that need only be safe as a path segment, such as the name of a role. Upstream does not check its
/// length, nor that it is non-empty.
#[must_use]
pub fn path_segment_name(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|bad| name.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// Validates a qualified name: an optional DNS subdomain and a slash, then a name. Label keys are qualified names.
#[must_use]
pub fn qualified_name(value: &str) -> Vec<String> {
    let text = || {
        format_text(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
             character",
            label_key_format!(),
            &["MyName", "my.name", "123-abc"],
        )
    };
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                text()
            )];
        }
        Some(("", name)) => {
            errors.push(format!("prefix part {EMPTY_TEXT}"));
            name
        }
        Some((prefix, name)) => {
            errors.extend(long_name(prefix).into_iter().map(|e| format!("prefix part {e}")));
            name
        }
    };
    if name.is_empty() {
        errors.push(format!("name part {EMPTY_TEXT}"));
    } else if name.len() > LABEL_VALUE_MAX {
        errors.push(format!("name part {}", max_bytes_text(LABEL_VALUE_MAX)));
    }
    push_unless(is_label_key(name), &mut errors, || format!("name part {}", text()));
    errors
}

/// Validates a label key.
#[must_use]
pub fn label_key(value: &str) -> Vec<String> {
    qualified_name(value)
}

/// Validates a label value.
#[must_use]
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(value.len() <= LABEL_VALUE_MAX, &mut errors, || max_bytes_text(LABEL_VALUE_MAX));
    push_unless(value.is_empty() || is_label_key(value), &mut errors, || {
        format_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            concat!("(", label_key_format!(), ")?"),
            &["MyValue", "my_value", "12345"],
        )
    });
    errors
}

/// Validates a port number.
#[must_use]
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// Validates that a number is within `low..=high`.
#[must_use]
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) { Vec::new() } else { vec![range_text(low, high)] }
}

/// Validates a group ID.
#[must_use]
pub fn group_id(gid: i64) -> Vec<String> {
    in_range(gid, 0, i64::from(i32::MAX))
}

/// Validates a user ID.
#[must_use]
pub fn user_id(uid: i64) -> Vec<String> {
    in_range(uid, 0, i64::from(i32::MAX))
}

/// Validates the name of a port (RFC 6335).
#[must_use]
pub fn port_name(port: &str) -> Vec<String> {
    let bytes = port.as_bytes();
    let mut errors = Vec::new();
    push_unless(port.len() <= 15, &mut errors, || max_length_text(15));
    push_unless(!port.is_empty() && bytes.iter().all(|b| is_lower_alphanumeric(*b) || *b == b'-'), &mut errors, || {
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned()
    });
    push_unless(bytes.iter().any(u8::is_ascii_lowercase), &mut errors, || {
        "must contain at least one letter (a-z)".to_owned()
    });
    push_unless(!port.contains("--"), &mut errors, || "must not contain consecutive hyphens".to_owned());
    push_unless(!port.starts_with('-') && !port.ends_with('-'), &mut errors, || {
        "must not begin or end with a hyphen".to_owned()
    });
    errors
}

/// Validates a percentage such as `25%`.
#[must_use]
pub fn percent(value: &str) -> Vec<String> {
    let ok = value.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let mut errors = Vec::new();
    push_unless(ok, &mut errors, || {
        format_text(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        )
    });
    errors
}

/// Validates the name of an HTTP header.
#[must_use]
pub fn http_header_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(!value.is_empty() && value.bytes().all(|b| is_alphanumeric(b) || b == b'-'), &mut errors, || {
        format_text(
            "a valid HTTP header must consist of alphanumeric characters or '-'",
            "[-A-Za-z0-9]+",
            &["X-Header-Name"],
        )
    });
    errors
}

/// Rejects values that are special in file paths (`hasChDirPrefix`).
fn check_dot_prefix(value: &str, errors: &mut Vec<String>) {
    match value {
        "." => errors.push("must not be '.'".to_owned()),
        ".." => errors.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
}

/// Validates the name of an environment variable, strictly.
#[must_use]
pub fn env_var_name(value: &str) -> Vec<String> {
    let good = |b: u8| is_alphanumeric(b) || matches!(b, b'-' | b'.' | b'_');
    let ok = value.as_bytes().first().is_some_and(|b| !b.is_ascii_digit()) && value.bytes().all(good);
    let mut errors = Vec::new();
    push_unless(ok, &mut errors, || {
        format_text(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and \
             must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        )
    });
    check_dot_prefix(value, &mut errors);
    errors
}

/// Validates the name of an environment variable by the relaxed rule for containers.
#[must_use]
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    push_unless(!value.is_empty(), &mut errors, || format!("environment variable name {EMPTY_TEXT}"));
    push_unless(value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'='), &mut errors, || {
        "a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()
    });
    errors
}

/// Validates a key of a ConfigMap or Secret.
#[must_use]
pub fn config_map_key(value: &str) -> Vec<String> {
    let ok = !value.is_empty() && value.bytes().all(|b| is_alphanumeric(b) || matches!(b, b'-' | b'.' | b'_'));
    let mut errors = Vec::new();
    push_unless(value.len() <= DNS_SUBDOMAIN_MAX, &mut errors, || max_length_text(DNS_SUBDOMAIN_MAX));
    push_unless(ok, &mut errors, || {
        format_text(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        )
    });
    check_dot_prefix(value, &mut errors);
    errors
}

/// Validates a C identifier.
#[must_use]
pub fn c_identifier(value: &str) -> Vec<String> {
    let ok = value.as_bytes().first().is_some_and(|b| !b.is_ascii_digit())
        && value.bytes().all(|b| is_alphanumeric(b) || b == b'_');
    let mut errors = Vec::new();
    push_unless(ok, &mut errors, || {
        format_text(
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
             characters or '_'",
            "[A-Za-z_][A-Za-z0-9_]*",
            &["my_name", "MY_NAME", "MyName"],
        )
    });
    errors
}

/// Validates a decimal integer in canonical form: no leading zero, no plus sign.
#[must_use]
pub fn decimal_integer(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec![EMPTY_TEXT.to_owned()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let ok =
        value == "0" || (!digits.is_empty() && !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()));
    let mut errors = Vec::new();
    push_unless(ok, &mut errors, || "must be a valid decimal integer in canonical form".to_owned());
    errors
}

/// Validates a DNS subdomain of at least three labels, such as the domain of a signer's name.
#[must_use]
pub fn fully_qualified_name(path: &FieldPath<'_>, name: &str) -> Errors {
    let mut errors = Errors::new();
    let messages = dns1123_subdomain(name);
    if name.is_empty() {
        errors.required(path, "");
    } else if !messages.is_empty() {
        errors.invalid(path, name, messages.join(","));
    } else if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
    errors
}

/// Validates a domain of at least two labels of at most 63 bytes each. A trailing dot is allowed.
#[must_use]
pub fn fully_qualified_domain_name(path: &FieldPath<'_>, name: &str) -> Errors {
    let mut errors = Errors::new();
    if name.is_empty() {
        errors.required(path, "");
        return errors;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = dns1123_subdomain(name);
    if !messages.is_empty() {
        errors.invalid(path, name, messages.join(","));
    } else if !name.contains('.') {
        errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    } else if let Some((label, messages)) =
        name.split('.').map(|label| (label, dns1123_label(label))).find(|(_, messages)| !messages.is_empty())
    {
        errors.invalid(path, label, messages.join(","));
    }
    errors
}

/// Validates a domain, a slash and a path, such as `acme.io/foo`.
#[must_use]
pub fn domain_prefixed_path(path: &FieldPath<'_>, value: &str) -> Errors {
    let mut errors = Errors::new();
    if value.is_empty() {
        errors.required(path, "");
        return errors;
    }
    match value.split_once('/') {
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            for text in dns1123_subdomain(host) {
                errors.invalid(path, host, text);
            }
            if !rest.bytes().all(|b| is_alphanumeric(b) || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                let text = format_text("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
                errors.invalid(path, rest, text);
            }
        }
        _ => errors.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    errors
}

/// Validates a label key with a domain, such as `acme.io/foo`.
#[must_use]
pub fn domain_prefixed_key(path: &FieldPath<'_>, key: &str) -> Errors {
    let mut errors = Errors::new();
    if key.is_empty() {
        errors.required(path, "");
        return errors;
    }
    for text in qualified_name(key) {
        errors.invalid(path, key, text);
    }
    if errors.is_empty() && !key.contains('/') {
        errors.invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
    errors
}

#[cfg(test)]
mod tests;
