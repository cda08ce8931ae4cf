//! Dates, times and durations, parsed like `strfmt`.

use std::sync::LazyLock;

use pintle_value::print::quote;
use pintle_value::time::Duration;
use regex::Regex;

/// True for an existing day in the form `2006-01-02`.
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

/// True for a date, `t` or `T`, and a time with an offset. Text after a second `t` is ignored, as in upstream.
pub(super) fn is_date_time(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

/// True for `15:04:05`, an optional fraction after any character, and `z` or any offset.
fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let clock = clock.as_bytes();
    let up_to = |at: usize, most: &[u8; 2]| is_digits(&clock[at..at + 2]) && clock[at..at + 2] <= most[..];
    let is_clock = clock[2] == b':' && clock[5] == b':' && up_to(0, b"23") && up_to(3, b"59") && up_to(6, b"59");
    is_clock && (is_offset(rest) || without_fraction(rest).is_some_and(is_offset))
}

/// Returns the text after a fraction, if there is one.
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

/// Parses a Go duration, or sums up the numbers with units in a text. Returns nanoseconds, or the error of `strfmt`.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new("([0-9]+)[\\t\\n\\x0C\\r ]*([A-Za-z\u{b5}]+)").ok());
    if let Ok(duration) = Duration::parse(text) {
        return Ok(duration.0);
    }
    let mut total = None;
    for node in PART.iter().flat_map(|regex| regex.captures_iter(text)) {
        let Ok(count) = node[1].parse::<i64>() else {
            return Err(format!("strconv.Atoi: parsing {}: value out of range", quote(&node[1])));
        };
        if let Some(unit) = unit(&node[2].to_lowercase()) {
            total = Some(count.wrapping_mul(unit).wrapping_add(total.unwrap_or(0)));
        }
    }
    total.ok_or_else(|| format!("unable to parse {text} as duration"))
}

/// The nanoseconds of a unit.
fn unit(unit: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(i64, &[&str], &str); 8] = [
        (1, &["ns"], "nano"),
        (1_000, &["us", "\u{b5}s"], "micro"),
        (1_000_000, &["ms"], "milli"),
        (SECOND, &["s"], "sec"),
        (60 * SECOND, &["m"], "min"),
        (3_600 * SECOND, &["h", "hr"], "hour"),
        (86_400 * SECOND, &["d"], "day"),
        (7 * 86_400 * SECOND, &["w", "wk"], "week"),
    ];
    UNITS.iter().find(|(_, short, long)| short.contains(&unit) || unit.starts_with(long)).map(|(nanos, ..)| *nanos)
}
