//! Go's `time.Duration` as `metav1.Duration` reads and writes it, and the human-readable forms of table cells
//! (apimachinery's `util/duration`).

use std::fmt::{self, Write as _};

use crate::time::quote;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The longest duration in Go, plus one.
const LIMIT: u64 = 1 << 63;

/// A duration in nanoseconds. May be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(
    /// Nanoseconds.
    pub i64,
);

/// Why a text is not a duration, with the message of Go's `time.ParseDuration`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError(String);

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DurationError {}

impl Duration {
    /// Creates a duration from whole seconds, capped at the longest one.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// Parses a signed sequence of decimal numbers with units, such as `300ms` or `-1h30.5m`.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let error = |what: &str| DurationError(format!("time: {what} {}", quote(text)));
        let invalid = || error("invalid duration");
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0_u64;
        while !rest.is_empty() {
            let (whole, after) = digits(rest);
            let mut value = leading_int(whole).ok_or_else(invalid)?;
            let (part, after) = after.strip_prefix('.').map_or(("", after), digits);
            if whole.is_empty() && part.is_empty() {
                return Err(invalid());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(end);
            if unit.is_empty() {
                return Err(error("missing unit in duration"));
            }
            let Some(unit) = unit_length(unit) else {
                return Err(error(&format!("unknown unit {} in duration", quote(unit))));
            };
            if value > LIMIT / unit {
                return Err(invalid());
            }
            value *= unit;
            value += fraction(part, unit);
            if value > LIMIT {
                return Err(invalid());
            }
            // In Go, a sum of twice the limit overflows to zero.
            total = total.wrapping_add(value);
            if total > LIMIT {
                return Err(invalid());
            }
            rest = next;
        }
        if negative {
            return Ok(Self((total as i64).wrapping_neg()));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }

    /// Whole seconds, truncated towards zero.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0 / SECOND as i64
    }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn leading_int(digits: &str) -> Option<u64> {
    digits.bytes().try_fold(0_u64, |x, b| {
        let x = x.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        (x <= LIMIT).then_some(x)
    })
}

/// The fraction in nanoseconds. Digits beyond 63 bits are ignored. Uses floating point, as Go does.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, clippy::cast_possible_truncation)]
fn fraction(digits: &str, unit: u64) -> u64 {
    let (mut x, mut scale) = (0_u64, 1.0_f64);
    for b in digits.bytes() {
        if x > (LIMIT - 1) / 10 {
            break;
        }
        let y = x * 10 + u64::from(b - b'0');
        if y > LIMIT {
            break;
        }
        x = y;
        scale *= 10.0;
    }
    (x as f64 * (unit as f64 / scale)) as u64
}

fn unit_length(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Both the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// Prints the duration as Go does: `1h2m3.5s`, `1.5ms`, `0s`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let u = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_char('-')?;
        }
        let (unit, name) = match u {
            0 => return f.write_str("0s"),
            SECOND.. => (SECOND, "s"),
            MILLISECOND.. => (MILLISECOND, "ms"),
            MICROSECOND.. => (MICROSECOND, "\u{b5}s"),
            _ => (1, "ns"),
        };
        let mut whole = u / unit;
        if unit == SECOND {
            if whole >= 3600 {
                write!(f, "{}h", whole / 3600)?;
            }
            if whole >= 60 {
                write!(f, "{}m", whole / 60 % 60)?;
            }
            whole %= 60;
        }
        write!(f, "{whole}")?;
        let part = u % unit;
        if part > 0 {
            let width = unit.ilog10() as usize;
            write!(f, ".{}", format!("{part:0width$}").trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

/// Formats a duration with two or three significant figures: `5m`, `3d4h`. Negative durations are `<invalid>`, except
/// that less than two seconds are tolerated for clock skew.
#[must_use]
pub fn human_duration(d: Duration) -> String {
    let seconds = d.seconds();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let two = |a: i64, a_unit: char, b: i64, b_unit: char| {
        if b == 0 { format!("{a}{a_unit}") } else { format!("{a}{a_unit}{b}{b_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 24 * 8 => two(hours / 24, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => two(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

/// Formats a duration in the largest unit that fits.
#[must_use]
pub fn short_human_duration(d: Duration) -> String {
    let seconds = d.seconds();
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_printed_as_in_go() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            let found = Duration::parse(text).map_or_else(|e| e.to_string(), |d| d.to_string());
            assert_eq!(found, expect, "{text:?}");
        }
        for (text, expect) in [
            ("0", "0s"),
            ("-0", "0s"),
            ("5m30s", "5m30s"),
            ("1h", "1h0m0s"),
            ("+90m", "1h30m0s"),
            ("-1.5h", "-1h30m0s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1500us", "1.5ms"),
            ("1\u{3bc}s", "1\u{b5}s"),
            ("7ns", "7ns"),
            ("1h2m3.0405s", "1h2m3.0405s"),
            ("0.100000000000000000000h", "6m0s"),
            ("9223372036854775807ns", "2562047h47m16.854775807s"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("3", "time: missing unit in duration \"3\""),
            ("3d", "time: unknown unit \"d\" in duration \"3d\""),
            ("1\u{fc}", "time: unknown unit \"\\xc3\\xbc\" in duration \"1\\xc3\\xbc\""),
            ("300000000h", "time: invalid duration \"300000000h\""),
        ] {
            check(text, expect);
        }
    }

    #[test]
    fn durations_are_formatted_for_tables() {
        for (seconds, long, short) in [
            (-2, "<invalid>", "<invalid>"),
            (-1, "0s", "0s"),
            (0, "0s", "0s"),
            (119, "119s", "1m"),
            (120, "2m", "2m"),
            (599, "9m59s", "9m"),
            (600, "10m", "10m"),
            (179 * 60, "179m", "2h"),
            (180 * 60, "3h", "3h"),
            (3 * 3600 + 60, "3h1m", "3h"),
            (47 * 3600, "47h", "1d"),
            (48 * 3600, "2d", "2d"),
            (49 * 3600, "2d1h", "2d"),
            (8 * 86_400, "8d", "8d"),
            (729 * 86_400, "729d", "1y"),
            (730 * 86_400, "2y", "2y"),
            (731 * 86_400, "2y1d", "2y"),
            (8 * 365 * 86_400 + 86_400, "8y", "8y"),
        ] {
            assert_eq!(human_duration(Duration::from_seconds(seconds)), long, "{seconds}");
            assert_eq!(short_human_duration(Duration::from_seconds(seconds)), short, "{seconds}");
        }
    }
}
