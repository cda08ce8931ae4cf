//! Dates, times and lengths of time, as `strfmt` reads them.

use std::sync::LazyLock;

use pintle_value::time::Duration;
use regex::Regex;

/// `2006-01-02`, a day that there is.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| -> Option<u32> {
        let digits = text.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A date, a `t` of either case, and a time with an offset; what follows another `t` does not count.
pub(super) fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// `15:04:05`, a fraction behind any character, and `z` or an offset, which may be any.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let clock = clock.as_bytes();
    let up_to = |at: usize, most: &[u8; 2]| is_digits(&clock[at..at + 2]) && clock[at..at + 2] <= most[..];
    let is_clock = clock[2] == b':' && clock[5] == b':' && up_to(0, b"23") && up_to(3, b"59") && up_to(6, b"59");
    is_clock && (is_offset(rest) || without_fraction(rest).is_some_and(is_offset))
}

/// What follows a fraction, if there is one.
fn without_fraction(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    characters.next().filter(|point| *point != '\n')?;
    let rest = characters.as_str().trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < characters.as_str().len()).then_some(rest)
}

fn is_offset(text: &str) -> bool {
    match text.as_bytes() {
        [b'z' | b'Z'] => true,
        [b'+' | b'-', hours @ .., b':', m, n] => hours.len() == 2 && is_digits(hours) && is_digits(&[*m, *n]),
        _ => false,
    }
}

fn is_digits(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_digit)
}

/// What Go reads as a duration, or a text in which there is a number with a unit somewhere.
pub(super) fn is_duration(text: &str) -> bool {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("([0-9]+)[\\t\\n\\x0C\\r ]*([A-Za-z\u{b5}]+)").ok());
    if Duration::parse(text).is_ok() {
        return true;
    }
    let mut found = false;
    for part in PART.iter().flat_map(|regex| regex.captures_iter(text)) {
        if part[1].parse::<i64>().is_err() {
            return false;
        }
        found |= is_unit(&part[2].to_lowercase());
    }
    found
}

fn is_unit(unit: &str) -> bool {
    const SHORT: [&str; 11] = ["ns", "us", "\u{b5}s", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const LONG: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    SHORT.contains(&unit) || LONG.iter().any(|long| unit.starts_with(long))
}
