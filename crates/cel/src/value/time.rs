//! Timestamps from year 1 to 9999, with the UTC offset of their text.

use std::fmt;

use pintle_value::time::Time;

use super::zone::Zone;
use super::{EvalResult, Value};
use crate::error::EvalError;

/// The first and the last valid second.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;
const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    /// The UTC offset in seconds. It affects the text only.
    offset: i32,
}

/// A component of a date or a time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimestampPart {
    Year,
    Month,
    DayOfYear,
    DayOfMonth,
    Date,
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

fn overflow() -> EvalError {
    EvalError::new("timestamp overflow")
}

impl Timestamp {
    /// Creates a timestamp in UTC. Fails outside of the years 1 to 9999.
    pub fn new(seconds: i64, nanos: u32) -> EvalResult<Self> {
        if !(FIRST..=LAST).contains(&seconds) {
            return Err(overflow());
        }
        Ok(Self { seconds, nanos, offset: 0 })
    }

    /// Parses an RFC 3339 timestamp. Returns `None` if the text is malformed.
    pub fn parse(text: &str) -> Option<EvalResult<Self>> {
        let time = Time::parse_rfc3339(text).ok()?;
        let offset = if text.ends_with('Z') { 0 } else { offset_of(text)? };
        Some(Self::new(time.seconds, time.nanos).map(|parsed| Self { offset, ..parsed }))
    }

    /// Seconds and nanoseconds since the epoch.
    #[must_use]
    pub fn instant(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.instant() == (FIRST, 0)
    }

    /// Adds nanoseconds.
    pub(crate) fn plus(self, nanos: i64) -> EvalResult<Self> {
        let total = i128::from(self.nanos) + i128::from(nanos);
        let seconds = i128::from(self.seconds) + total.div_euclid(i128::from(NANOS));
        let nanos = u32::try_from(total.rem_euclid(i128::from(NANOS))).unwrap_or(0);
        let seconds = i64::try_from(seconds).map_err(|_| EvalError::new("integer overflow"))?;
        Ok(Self { offset: self.offset, ..Self::new(seconds, nanos)? })
    }

    /// The nanoseconds elapsed since another timestamp.
    pub(crate) fn since(self, other: Timestamp) -> EvalResult<i64> {
        let seconds = self.seconds - other.seconds;
        let nanos = i64::from(self.nanos) - i64::from(other.nanos);
        let total = seconds.checked_mul(NANOS).and_then(|n| n.checked_add(nanos));
        total.ok_or_else(|| EvalError::new("integer overflow"))
    }

    /// A component of the date or time of day in a time zone, given as a name or an offset such as `+02:00`.
    pub(crate) fn part(self, part: TimestampPart, zone: &str) -> EvalResult<Value<'static>> {
        let offset = Zone::parse(zone)?.offset_at(self.seconds);
        Ok(Value::Int(CivilTime::new(self.seconds + offset).part(part, self.nanos)))
    }
}

fn offset_of(text: &str) -> Option<i32> {
    let tail = text.get(text.len().checked_sub(6)?..)?;
    let sign = if tail.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = (tail.get(1..3)?.parse::<i32>().ok()?, tail.get(4..6)?.parse::<i32>().ok()?);
    Some(sign * (hours * 3600 + minutes * 60))
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with the necessary number of fractional digits, in the offset of the timestamp.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = CivilTime::new(self.seconds + i64::from(self.offset));
        write!(f, "{:04}-{:02}-{:02}T", c.year, c.month, c.day)?;
        write!(f, "{:02}:{:02}:{:02}", c.second / 3600, c.second / 60 % 60, c.second % 60)?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let minutes = offset.abs() / 60;
                let sign = if offset < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

/// A calendar date and a time of day.
struct CivilTime {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    weekday: i64,
    second: i64,
}

impl CivilTime {
    /// Converts seconds since the epoch (Howard Hinnant's `civil_from_days`).
    fn new(seconds: i64) -> Self {
        let days = seconds.div_euclid(DAY);
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let m = (5 * from_march + 2) / 153;
        let month = if m < 10 { m + 3 } else { m - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month > 2 { from_march + 59 + i64::from(leap) } else { from_march - 306 };
        Self {
            year,
            month,
            day: from_march - (153 * m + 2) / 5 + 1,
            day_of_year,
            weekday: (days + 4).rem_euclid(7),
            second: seconds.rem_euclid(DAY),
        }
    }

    fn part(&self, part: TimestampPart, nanos: u32) -> i64 {
        match part {
            TimestampPart::Year => self.year,
            TimestampPart::Month => self.month - 1,
            TimestampPart::DayOfYear => self.day_of_year,
            TimestampPart::DayOfMonth => self.day - 1,
            TimestampPart::Date => self.day,
            TimestampPart::DayOfWeek => self.weekday,
            TimestampPart::Hours => self.second / 3600,
            TimestampPart::Minutes => self.second / 60 % 60,
            TimestampPart::Seconds => self.second % 60,
            TimestampPart::Milliseconds => i64::from(nanos / 1_000_000),
        }
    }
}

/// Formats a duration as CEL does: seconds, with the necessary number of decimals.
pub(crate) fn format_duration(nanos: i64) -> String {
    // Go also adds the whole and the fractional seconds as doubles.
    let seconds = (nanos / NANOS) as f64 + (nanos % NANOS) as f64 / NANOS as f64;
    format!("{seconds}s")
}
