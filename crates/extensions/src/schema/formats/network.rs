//! Host names and network addresses, as `strfmt` defines them.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use pintle_value::ip::{Cidr, parse_sloppy};
use regex::Regex;

/// True for a single label, or for labels and a top-level label of letters. Symbols and letters of all scripts are
/// allowed.
pub(super) fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let fits = match labels.as_slice() {
        [single] => is_single_label(single),
        [before @ .., top] => before.iter().all(|label| is_label(label)) && is_top_level_label(top),
        [] => false,
    };
    fits && text.len() <= 255 && labels.iter().all(|label| label.len() <= 63)
}

/// Upstream's pattern allows a dash only as the second character of a single label, where it may also be the last.
fn is_single_label(label: &str) -> bool {
    let mut characters = label.chars();
    let first = characters.next().is_some_and(is_letter_or_symbol);
    let rest = characters.as_str();
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    first && rest.chars().count() <= 62 && rest.chars().all(is_letter_or_symbol)
}

fn is_label(label: &str) -> bool {
    label.chars().count() <= 63
        && label.chars().all(|c| c == '-' || is_letter_or_symbol(c))
        && !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_top_level_label(label: &str) -> bool {
    (2..=63).contains(&label.chars().count()) && label.chars().all(|c| c.is_ascii_alphabetic() || is_letter(c))
}

fn is_letter_or_symbol(c: char) -> bool {
    static SYMBOL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{S}$").ok());
    c.is_ascii_alphanumeric() || is_letter(c) || is(&SYMBOL, c)
}

fn is_letter(c: char) -> bool {
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
    c.is_ascii_alphabetic() || (!c.is_ascii() && is(&LETTER, c))
}

fn is(class: &LazyLock<Option<Regex>>, c: char) -> bool {
    class.as_ref().is_some_and(|regex| regex.is_match(c.encode_utf8(&mut [0; 4])))
}

pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && parse_sloppy(text).is_some()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    Cidr::parse_sloppy(text).is_some()
}

/// True for 6, 8 or 20 hexadecimal bytes: separated one by one, in pairs separated by dots, or without separators.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (width, separator) = match (bytes.get(2), bytes.get(4)) {
        (Some(separator @ (b':' | b'-')), _) => (2, Some(*separator)),
        (_, Some(b'.')) => (4, Some(b'.')),
        _ => (bytes.len(), None),
    };
    let groups: Vec<&[u8]> = match separator {
        Some(separator) => bytes.split(|b| *b == separator).collect(),
        None => vec![bytes],
    };
    let digits: usize = groups.iter().map(|group| group.len()).sum();
    matches!(digits, 12 | 16 | 40)
        && groups.iter().all(|group| group.len() == width && group.iter().all(u8::is_ascii_hexdigit))
}
