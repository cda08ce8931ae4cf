//! Integers of flags, with the prefixes and underscores of Go's literals (upstream: `strconv.ParseInt` and `ParseUint`
//! with base 0).

use pintle_value::print::quote;

/// Parses the integer of a flag with a type such as `int32`. Errors are Go's.
pub(super) fn parse(text: &str, value_type: &str) -> Result<i128, String> {
    let function = if value_type.starts_with('u') { "ParseUint" } else { "ParseInt" };
    let error = |why: &str| format!("strconv.{function}: parsing {}: {why}", quote(text));
    let is_signed = function == "ParseInt";
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') if is_signed => (true, &text[1..]),
        Some(b'+') if is_signed => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = magnitude(digits).ok_or_else(|| error("invalid syntax"))?;
    let bits = if value_type.ends_with("32") { 32 } else { 64 };
    let (least, most) = match is_signed {
        true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        false => (0, (1_i128 << bits) - 1),
    };
    let number = magnitude.map(|number| if is_negative { -number } else { number });
    number.filter(|number| (least..=most).contains(number)).ok_or_else(|| error("value out of range"))
}

/// Whether a type is an integer type.
pub(super) fn is_integer(value_type: &str) -> bool {
    matches!(value_type, "int" | "int32" | "int64" | "uint" | "uint32" | "uint64")
}

/// The number without a sign: `None` if it is malformed, `Some(None)` if it is too large.
fn magnitude(text: &str) -> Option<Option<i128>> {
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match (lower.get(..2), lower.len()) {
        (Some("0x"), 3..) => (16, &lower[2..]),
        (Some("0o"), 3..) => (8, &lower[2..]),
        (Some("0b"), 3..) => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Underscores are allowed between digits, and between a prefix and a digit.
    let has_prefix = digits.len() < lower.len();
    if digits.is_empty() || digits.ends_with('_') || digits.contains("__") || (digits.starts_with('_') && !has_prefix) {
        return None;
    }
    let mut number = Some(0_i128);
    for c in digits.chars().filter(|c| *c != '_') {
        let digit = c.to_digit(radix)?;
        number = number.and_then(|number| number.checked_mul(radix.into())?.checked_add(digit.into()));
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_the_forms_of_go() {
        for (text, expect) in [
            ("0", Some(0)),
            ("42", Some(42)),
            ("+42", Some(42)),
            ("-0x2A", Some(-42)),
            ("0X2a", Some(42)),
            ("0o52", Some(42)),
            ("052", Some(42)),
            ("0b10_1010", Some(42)),
            ("0x_2a", Some(42)),
            ("0_52", Some(42)),
            ("1_000", Some(1000)),
            ("", None),
            ("-", None),
            ("0x", None),
            ("08", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("1e3", None),
            ("--1", None),
            (" 1", None),
            ("é", None),
        ] {
            let expect = expect.ok_or_else(|| format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
            assert_eq!(parse(text, "int"), expect, "{text}");
        }
    }

    #[test]
    fn integers_have_the_range_of_their_type() {
        for (text, value_type, fits) in [
            ("2147483647", "int32", true),
            ("2147483648", "int32", false),
            ("-2147483648", "int32", true),
            ("0x7fffffffffffffff", "int", true),
            ("0x8000000000000000", "int64", false),
            ("4294967295", "uint32", true),
            ("4294967296", "uint32", false),
            ("18446744073709551615", "uint64", true),
            ("999999999999999999999999999999999999999999999", "uint", false),
        ] {
            let found = parse(text, value_type);
            assert_eq!(found.is_ok(), fits, "{text} {value_type}");
            assert!(found.err().is_none_or(|error| error.ends_with("value out of range")), "{text} {value_type}");
        }
        assert_eq!(parse("-1", "uint").unwrap_err(), "strconv.ParseUint: parsing \"-1\": invalid syntax");
    }
}
