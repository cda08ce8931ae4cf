//! UUIDs, ISBNs, card numbers, colors and base64, as `strfmt` and `govalidator` define them.

use std::sync::LazyLock;

use regex::Regex;

type Pattern = LazyLock<Option<Regex>>;

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// True for a UUID. Each dash is optional.
pub(super) fn is_uuid(text: &str, version: Option<char>) -> bool {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut rest = text;
    for (i, length) in GROUPS.into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else { return false };
        let first = group.chars().next().unwrap_or_default();
        let fits = match (i, version) {
            (2, Some(version)) => first == version,
            (3, Some('4' | '5')) => matches!(first, '8' | '9' | 'a' | 'b' | 'A' | 'B'),
            _ => true,
        };
        if !fits || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// The digits of an ISBN, without spaces and dashes.
fn isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|b| !matches!(b, b'\t' | b'\n' | 0x0c | b'\r' | b' ' | b'-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = isbn(text);
    let [first @ .., last] = digits.as_slice() else { return false };
    if first.len() != 9 || !first.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(first).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights.zip(&digits).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    sum.is_multiple_of(10)
}

/// True for a number of a known card issuer with a valid check digit (Luhn).
pub(super) fn is_credit_card(text: &str) -> bool {
    static CARD: Pattern = LazyLock::new(|| {
        let kinds = [
            "4[0-9]{12}(?:[0-9]{3})?",
            "5[1-5][0-9]{14}",
            "6(?:011|5[0-9][0-9])[0-9]{12}",
            "3[47][0-9]{13}",
            "3(?:0[0-5]|[68][0-9])[0-9]{11}",
            "(?:2131|1800|35[0-9]{3})[0-9]{11}",
        ];
        Regex::new(&format!("^(?:{})$", kinds.join("|"))).ok()
    });
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |digit: u32| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let digit_values = digits.bytes().rev().map(|b| u32::from(b - b'0')).enumerate();
    let sum: u32 = digit_values.map(|(i, digit)| if i % 2 == 1 { doubled(digit) } else { digit }).sum();
    matches(&CARD, &digits) && sum.is_multiple_of(10)
}

pub(super) fn is_ssn(text: &str) -> bool {
    static SSN: Pattern = LazyLock::new(|| Regex::new("^[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}$").ok());
    matches(&SSN, text)
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn is_rgb_color(text: &str) -> bool {
    static RGB: Pattern = LazyLock::new(|| {
        let byte = "[\\t\\n\\x0C\\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\\t\\n\\x0C\\r ]*";
        Regex::new(&format!("^rgb\\({byte},{byte},{byte}\\)$")).ok()
    });
    matches(&RGB, text)
}

/// True for non-empty base64 with padding.
pub(super) fn is_base64(text: &str) -> bool {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    let digits = &text.as_bytes()[..text.len() - padding];
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !digits.is_empty() && padding <= 2 && text.len().is_multiple_of(4) && digits.iter().all(is_digit)
}
