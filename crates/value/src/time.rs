//! Instants as the API writes them (`metav1.Time`, `metav1.MicroTime`: RFC 3339, UTC), Go durations, and ages for table
//! cells. Parsing follows Go's `time` package, including its errors, which clients see in decoding errors.

use std::fmt::{self, Write as _};
use std::time::{Duration as StdDuration, SystemTime, UNIX_EPOCH};

use crate::Value;

pub use crate::duration::{Duration, human_duration, short_human_duration};

const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";
const LOCAL_TIME: &str = "2006-01-02T15:04:05";
const DATE: &str = "2006-01-02";
const DAY: i64 = 86_400;

/// An instant: seconds and nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the epoch.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// Why a text is not a time, with the message of Go's `time.ParseError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeError(String);

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TimeError {}

impl Time {
    /// Go's zero time, the start of year 1. `metav1.Time` encodes it as null.
    pub const ZERO: Time = Time { seconds: -62_135_596_800, nanos: 0 };

    /// Creates a time from whole seconds since the epoch.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Returns whether this is Go's zero time.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Parses the texts that `metav1.Time` accepts: RFC 3339 with any fraction and any offset. As in Go, some
    /// deviations from the standard are accepted: an hour of one digit, a comma before the fraction.
    pub fn parse_rfc3339(text: &str) -> Result<Self, TimeError> {
        match Self::parse_canonical(text) {
            Some(time) => Ok(time),
            None => LayoutParser { text, rest: text, layout: RFC3339 }.parse(),
        }
    }

    /// Parses the form in which `metav1.Time` is written, `2006-01-02T15:04:05Z`. `None` for all other texts.
    #[must_use]
    pub fn parse_canonical(text: &str) -> Option<Self> {
        let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
        let number = |digits: std::ops::Range<usize>| {
            bytes[digits].iter().try_fold(0, |number, byte| {
                let digit = byte.wrapping_sub(b'0');
                (digit < 10).then_some(number * 10 + i64::from(digit))
            })
        };
        let separators = [bytes[4], bytes[7], bytes[10], bytes[13], bytes[16], bytes[19]];
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        let is_valid = separators == *b"--T::Z"
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        let seconds = hour * 3600 + minute * 60 + second;
        is_valid.then(|| Time { seconds: day_number(year, month, day) * DAY + seconds, nanos: 0 })
    }

    /// Parses a date and time without an offset as UTC.
    pub fn parse_local(text: &str) -> Result<Self, TimeError> {
        LayoutParser { text, rest: text, layout: LOCAL_TIME }.parse()
    }

    /// Parses a date as its start in UTC.
    pub fn parse_date(text: &str) -> Result<Self, TimeError> {
        LayoutParser { text, rest: text, layout: DATE }.parse()
    }

    /// Parses the texts that `metav1.MicroTime` accepts: RFC 3339 with a fraction of exactly six digits.
    pub fn parse_rfc3339_micro(text: &str) -> Result<Self, TimeError> {
        LayoutParser { text, rest: text, layout: RFC3339_MICRO }.parse()
    }

    /// Formats the time as `metav1.Time` does: `2006-01-02T15:04:05Z`.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let mut out = self.date_and_clock();
        out.push('Z');
        out
    }

    /// Formats the time as `metav1.MicroTime` does: `2006-01-02T15:04:05.000000Z`.
    #[must_use]
    pub fn rfc3339_micro(self) -> String {
        let mut out = self.date_and_clock();
        let mut fraction = *b".000000Z";
        write_digits(i64::from(self.nanos / 1000), &mut fraction[1..7]);
        out.push_str(ascii(&fraction));
        out
    }

    /// Formats the time as RFC 3339 without trailing zeros in the fraction (Go's `RFC3339Nano`).
    #[must_use]
    pub fn rfc3339_nano(self) -> String {
        let mut out = self.date_and_clock();
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            out.push('.');
            out.push_str(digits.trim_end_matches('0'));
        }
        out.push('Z');
        out
    }

    /// The formatter would cost ten times as much, and every write formats some times.
    fn date_and_clock(self) -> String {
        let (year, month, day) = civil(self.seconds.div_euclid(DAY));
        let s = self.seconds.rem_euclid(DAY);
        let mut text = *b"0000-00-00T00:00:00";
        for (at, number) in [(5, month), (8, day), (11, s / 3600), (14, s / 60 % 60), (17, s % 60)] {
            write_digits(number, &mut text[at..at + 2]);
        }
        let mut out = String::with_capacity(28);
        if (0..=9999).contains(&year) {
            write_digits(year, &mut text[..4]);
            out.push_str(ascii(&text));
        } else {
            let sign = if year < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{:04}", year.unsigned_abs());
            out.push_str(ascii(&text[4..]));
        }
        out
    }

    /// The time truncated to seconds, as a round trip through `metav1.Time` leaves it.
    #[must_use]
    pub const fn truncate_to_seconds(self) -> Self {
        Self { seconds: self.seconds, nanos: 0 }
    }

    /// The duration since `earlier`, capped as Go's `Time.Sub` caps it.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        let nanos = (i128::from(self.seconds) - i128::from(earlier.seconds)) * 1_000_000_000
            + (i128::from(self.nanos) - i128::from(earlier.nanos));
        Duration(nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }

    /// The time plus `duration`, which may be negative.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.0.rem_euclid(1_000_000_000);
        Self {
            seconds: self
                .seconds
                .saturating_add(duration.0.div_euclid(1_000_000_000))
                .saturating_add(nanos / 1_000_000_000),
            nanos: (nanos % 1_000_000_000) as u32,
        }
    }
}

/// Fills a text with the last digits of a number.
fn write_digits(mut number: i64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn ascii(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}

/// Prints RFC 3339 with whole seconds.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rfc3339())
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let of =
            |d: StdDuration| Time { seconds: i64::try_from(d.as_secs()).unwrap_or(i64::MAX), nanos: d.subsec_nanos() };
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => of(after),
            Err(e) => {
                let before = of(e.duration());
                let borrow = i64::from(before.nanos > 0);
                Time { seconds: -before.seconds - borrow, nanos: (1_000_000_000 - before.nanos) % 1_000_000_000 }
            }
        }
    }
}

/// Encodes the time as `metav1.Time`: null for the zero time.
impl From<Time> for Value {
    fn from(time: Time) -> Self {
        if time.is_zero() { Value::Null } else { Value::from(time.rfc3339()) }
    }
}

/// Reads times from an object. `None` if the field is absent, null or malformed.
impl Value {
    /// The `metav1.Time` (or `MicroTime`) at a path of object keys.
    #[must_use]
    pub fn time_at(&self, path: &[&str]) -> Option<Time> {
        self.at(path).and_then(Value::as_str).and_then(|text| Time::parse_rfc3339(text).ok())
    }
}

/// The age of an object as a table cell: `5m`, or `<unknown>` without a creation timestamp.
#[must_use]
pub fn age(object: &Value, now: Time) -> Value {
    Value::from(since(object.time_at(&["metadata", "creationTimestamp"]), now))
}

/// The time since `then` as a table cell (upstream's `translateTimestampSince`).
#[must_use]
pub fn since(then: Option<Time>, now: Time) -> String {
    match then {
        Some(then) if !then.is_zero() => human_duration(now.since(then)),
        _ => "<unknown>".to_owned(),
    }
}

/// The time until `then` as a table cell (upstream's `translateTimestampUntil`).
#[must_use]
pub fn until(then: Option<Time>, now: Time) -> String {
    match then {
        Some(then) if !then.is_zero() => human_duration(then.since(now)),
        _ => "<unknown>".to_owned(),
    }
}

/// Converts a day since the epoch to a date in the proleptic Gregorian calendar. Years are counted from March, so that
/// the leap day is the last day of the year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Converts a date to a day since the epoch.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let of_era = year.rem_euclid(400);
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * march_month + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses a text by one of the layouts, element by element as Go does. So an error names the first element that does
/// not match.
struct LayoutParser<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> LayoutParser<'a> {
    fn parse(mut self) -> Result<Time, TimeError> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", true)?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.literal("-")?;
        let day = self.number("02", true)?;
        let (second, nanos) = if self.layout == DATE { (0, 0) } else { self.clock()? };
        if !self.rest.is_empty() {
            return Err(self.error(&format!(": extra text: {}", quote(self.rest))));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.out_of_range("day"));
        }
        Ok(Time { seconds: day_number(year, month, day) * DAY + second, nanos })
    }

    /// Parses the time of day: seconds of the day in UTC, and nanoseconds.
    fn clock(&mut self) -> Result<(i64, u32), TimeError> {
        self.literal("T")?;
        let hour = self.number_below("15", false, 24, "hour")?;
        self.literal(":")?;
        let minute = self.number_below("04", true, 60, "minute")?;
        self.literal(":")?;
        let second = self.number_below("05", true, 60, "second")?;
        let nanos = if self.layout == RFC3339_MICRO { self.six_digits()? } else { self.fraction() };
        let offset = if self.layout == LOCAL_TIME { 0 } else { self.offset()? };
        Ok((hour * 3600 + minute * 60 + second - offset, nanos))
    }

    fn error(&self, message: &str) -> TimeError {
        TimeError(format!("parsing time {}{message}", quote(self.text)))
    }

    fn out_of_range(&self, what: &str) -> TimeError {
        self.error(&format!(": {what} out of range"))
    }

    fn layout_error(&self, element: &str) -> TimeError {
        let as_layout = quote(self.layout);
        self.error(&format!(" as {as_layout}: cannot parse {} as {}", quote(self.rest), quote(element)))
    }

    fn digit(&self, at: usize) -> Option<i64> {
        self.rest.as_bytes().get(at).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'))
    }

    /// Parses a literal (Go's `skip`). The error has the remaining text from before the literal.
    fn literal(&mut self, prefix: &str) -> Result<(), TimeError> {
        self.rest = self.rest.strip_prefix(prefix).ok_or_else(|| self.layout_error(prefix))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i64, TimeError> {
        let year = (0..4).try_fold(0, |n, i| Some(n * 10 + self.digit(i)?)).ok_or_else(|| self.layout_error("2006"))?;
        self.rest = &self.rest[4..];
        Ok(year)
    }

    /// Parses one or two digits, or exactly two if `fixed`.
    fn number(&mut self, element: &str, fixed: bool) -> Result<i64, TimeError> {
        let (value, length) = match (self.digit(0), self.digit(1)) {
            (Some(a), Some(b)) => (a * 10 + b, 2),
            (Some(a), None) if !fixed => (a, 1),
            _ => return Err(self.layout_error(element)),
        };
        self.rest = &self.rest[length..];
        Ok(value)
    }

    fn number_below(&mut self, element: &str, fixed: bool, end: i64, what: &str) -> Result<i64, TimeError> {
        let value = self.number(element, fixed)?;
        if value < end { Ok(value) } else { Err(self.out_of_range(what)) }
    }

    /// Parses an optional fraction that is not in the layout: any number of digits, of which nine are used.
    fn fraction(&mut self) -> u32 {
        if !self.rest.starts_with(['.', ',']) || self.digit(1).is_none() {
            return 0;
        }
        let digits = self.rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        let nanos = (1..=9).fold(0, |n, i| n * 10 + if i <= digits { self.digit(i).unwrap_or(0) } else { 0 });
        self.rest = &self.rest[1 + digits..];
        nanos as u32
    }

    /// Parses the fraction of the `MicroTime` layout.
    fn six_digits(&mut self) -> Result<u32, TimeError> {
        let element = ".000000";
        let separated = self.rest.starts_with(['.', ',']);
        // Go parses the six characters as an integer, which may have a sign.
        let sign = self.rest.as_bytes().get(1).copied().filter(|b| matches!(b, b'+' | b'-'));
        let first = if sign.is_some() { 2 } else { 1 };
        let micros = (first..=6).try_fold(0, |n, i| Some(n * 10 + self.digit(i)?)).filter(|_| separated);
        let micros = micros.ok_or_else(|| self.layout_error(element))?;
        if sign == Some(b'-') && micros > 0 {
            return Err(self.out_of_range("fractional second"));
        }
        self.rest = &self.rest[element.len()..];
        Ok(micros as u32 * 1000)
    }

    /// Parses `Z` or an offset such as `+01:00`, in seconds.
    fn offset(&mut self) -> Result<i64, TimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let element = "Z07:00";
        let bytes = self.rest.as_bytes();
        if bytes.len() < 6 || bytes[3] != b':' {
            return Err(self.layout_error(element));
        }
        let two = |at| Some(self.digit(at)? * 10 + self.digit(at + 1)?);
        let sign = match bytes[0] {
            b'+' => Some(1),
            b'-' => Some(-1),
            _ => None,
        };
        // Go checks the ranges even if the sign or the minutes are malformed. It reports the minutes if both are out of
        // range. It accepts 24:00 and 00:60.
        let (hours, minutes) = (two(1), two(4));
        if hours.is_some() && minutes.is_some_and(|m| m > 60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        if hours.is_some_and(|h| h > 24) {
            return Err(self.out_of_range("time zone offset hour"));
        }
        let (Some(hours), Some(minutes), Some(sign)) = (hours, minutes, sign) else {
            return Err(self.layout_error(element));
        };
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// Quotes a string as Go's `time` package does in errors: non-ASCII bytes in hexadecimal.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b' '..=0x7f => out.push(char::from(b)),
            _ => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: Result<Time, TimeError>, expect: &str) {
        assert_eq!(result.map_or_else(|e| e.to_string(), Time::rfc3339_nano), expect);
    }

    #[test]
    fn times_are_parsed_as_in_go() {
        for (text, expect) in [
            ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06Z"),
            ("2026-02-03T04:05:06.120Z", "2026-02-03T04:05:06.12Z"),
            ("2026-02-03T04:05:06,5Z", "2026-02-03T04:05:06.5Z"),
            ("2026-02-03T04:05:06.1234567899Z", "2026-02-03T04:05:06.123456789Z"),
            ("2026-02-03T04:05:06+01:00", "2026-02-03T03:05:06Z"),
            ("2026-01-01T00:00:00+24:60", "2025-12-30T23:00:00Z"),
            ("2026-02-03T4:05:06Z", "2026-02-03T04:05:06Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("2023-02-29T00:00:00Z", "parsing time \"2023-02-29T00:00:00Z\": day out of range"),
            ("2023-13-01T00:00:00Z", "parsing time \"2023-13-01T00:00:00Z\": month out of range"),
            ("2023-12-01T24:00:00Z", "parsing time \"2023-12-01T24:00:00Z\": hour out of range"),
            ("2023-12-01T00:00:60Z", "parsing time \"2023-12-01T00:00:60Z\": second out of range"),
            (
                "2023-12-01T00:00:00+25:00",
                "parsing time \"2023-12-01T00:00:00+25:00\": time zone offset hour out of range",
            ),
            ("2023-12-01T00:00:00Zx", "parsing time \"2023-12-01T00:00:00Zx\": extra text: \"x\""),
            (
                "yesterday",
                "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\"",
            ),
            ("", "parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\""),
            ("2023-12-01", "parsing time \"2023-12-01\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""),
            (
                "2023-12-01T00:00:00.Z",
                "parsing time \"2023-12-01T00:00:00.Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \".Z\" as \"Z07:00\"",
            ),
            (
                "2023-1\u{fc}",
                "parsing time \"2023-1\\xc3\\xbc\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1\\xc3\\xbc\" as \"01\"",
            ),
        ] {
            check(Time::parse_rfc3339(text), expect);
        }
    }

    #[test]
    fn canonical_times_are_those_that_are_written() {
        let general = |text: &'static str| LayoutParser { text, rest: text, layout: RFC3339 }.parse().ok();
        for text in [
            "2026-02-03T04:05:06Z",
            "2024-02-29T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(Time::parse_canonical(text), general(text), "{text}");
            assert_eq!(Time::parse_canonical(text).map(Time::rfc3339).as_deref(), Some(text));
        }
        for text in [
            "",
            "2026-02-03T04:05:06z",
            "2026-02-03 04:05:06Z",
            "2026/02-03T04:05:06Z",
            "2026-02-03T4:05:06.Z",
            "2026-02-03T04:05:06ZZ",
            "2026-02-03T04:05:0:Z",
            "2026-02-03T04:05:0/Z",
            "+026-02-03T04:05:06Z",
            "2026-02-03T24:05:06Z",
            "2026-02-03T04:60:06Z",
            "2026-02-03T04:05:60Z",
            "2026-00-03T04:05:06Z",
            "2026-13-03T04:05:06Z",
            "2026-02-00T04:05:06Z",
            "2026-02-29T04:05:06Z",
        ] {
            assert_eq!(Time::parse_canonical(text), None, "{text}");
        }
    }

    #[test]
    fn micro_times_require_six_digits() {
        for (text, expect) in [
            ("2026-02-03T04:05:06.000120Z", "2026-02-03T04:05:06.00012Z"),
            ("2026-02-03T04:05:06.+00120Z", "2026-02-03T04:05:06.00012Z"),
            (
                "2026-02-03T04:05:06Z",
                "parsing time \"2026-02-03T04:05:06Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
            ),
            (
                "2026-02-03T04:05:06.1234567Z",
                "parsing time \"2026-02-03T04:05:06.1234567Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"7Z\" as \"Z07:00\"",
            ),
        ] {
            check(Time::parse_rfc3339_micro(text), expect);
        }
    }

    #[test]
    fn formatted_dates_round_trip() {
        // From year 0 to year 9999, the range of the layout.
        for seconds in (-62_167_219_200..253_402_300_800).step_by(86_399 * 37) {
            let time = Time { seconds, nanos: 7_000 };
            assert_eq!(Time::parse_rfc3339_micro(&time.rfc3339_micro()), Ok(time));
        }
    }

    #[test]
    fn ages_are_formatted_for_tables() {
        let now = Time::parse_rfc3339("2026-01-01T00:05:00Z").expect("time");
        let mut object = Value::object();
        assert_eq!(age(&object, now), Value::from("<unknown>"));
        object.set_at(&["metadata", "creationTimestamp"], "2026-01-01T00:00:00Z");
        assert_eq!(age(&object, now), Value::from("5m"));
        assert_eq!(until(object.time_at(&["metadata", "creationTimestamp"]), now), "<invalid>");
    }

    #[test]
    fn times_and_durations_are_added_and_subtracted() {
        let t = Time { seconds: 10, nanos: 999_999_999 };
        assert_eq!(t.plus(Duration(1)), Time::from_seconds(11));
        assert_eq!(t.plus(Duration(-11_000_000_000)), Time { seconds: -1, nanos: 999_999_999 });
        assert_eq!(Time::ZERO.since(Time { seconds: i64::MAX, nanos: 0 }), Duration(i64::MIN));
        assert_eq!(Value::from(Time::ZERO), Value::Null);
        assert_eq!(Time::ZERO.rfc3339(), "0001-01-01T00:00:00Z");
    }
}
