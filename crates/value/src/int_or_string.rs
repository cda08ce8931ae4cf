//! `intstr.IntOrString`: a field that holds an integer, or a string that is a percentage or a name.

use std::fmt;

use crate::atoi::atoi;
use crate::print::quote;
use crate::{Str, Value, names};

/// A 32-bit integer or a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// An integer.
    Int(i32),
    /// A string, such as `25%` or the name of a port.
    String(Str),
}

/// Why a value cannot be scaled, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value for IntOrString: {0}")]
pub struct IntOrStringError(String);

impl IntOrString {
    /// Converts a tree value. `None` if it is neither a 32-bit integer nor a string.
    #[must_use]
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(i) => i32::try_from(*i).ok().map(Self::Int),
            Value::String(text) => Some(Self::String(text.clone())),
            _ => None,
        }
    }

    /// Parses a text (`intstr.Parse`): an integer if possible, else a string.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::String(Str::from(text)), Self::Int)
    }

    /// The integer, or the integer in the string (the nearest, if it is out of range). 0 for other strings.
    #[must_use]
    pub fn int_value(&self) -> i64 {
        match self {
            Self::Int(i) => i64::from(*i),
            Self::String(text) => atoi(text).unwrap_or_else(|e| e.nearest),
        }
    }

    /// The percentage, if the string is one.
    #[must_use]
    pub fn percent(&self) -> Option<i64> {
        match self {
            Self::String(text) if names::percent(text).is_empty() => {
                text.strip_suffix('%').map(|digits| atoi(digits).unwrap_or_else(|e| e.nearest))
            }
            _ => None,
        }
    }

    /// The integer, or the percentage of a total, rounded up or down (`GetScaledValueFromIntOrPercent`).
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // uses floating point, as upstream does
    pub fn scaled_value(&self, total: i64, round_up: bool) -> Result<i64, IntOrStringError> {
        let text = match self {
            Self::Int(i) => return Ok(i64::from(*i)),
            Self::String(text) => text,
        };
        let Some(digits) = text.strip_suffix('%') else {
            return Err(IntOrStringError("invalid type: string is not a percentage".to_owned()));
        };
        let percent =
            atoi(digits).map_err(|cause| IntOrStringError(format!("invalid value {}: {cause}", quote(text))))?;
        let scaled = percent as f64 * total as f64 / 100.0;
        Ok(if round_up { scaled.ceil() } else { scaled.floor() } as i64)
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(i) => fmt::Display::fmt(i, f),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl From<&IntOrString> for Value {
    fn from(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(i) => Value::from(*i),
            IntOrString::String(text) => Value::from(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_scaled() {
        #[track_caller]
        fn check(value: impl Into<Value>, up: &str, down: &str) {
            let value = IntOrString::from_value(&value.into()).expect("a value");
            let scaled = |up| value.scaled_value(10, up).map_or_else(|e| e.to_string(), |n| n.to_string());
            assert_eq!((scaled(true).as_str(), scaled(false).as_str()), (up, down));
        }
        check(7, "7", "7");
        check("25%", "3", "2");
        check("-25%", "-2", "-3");
        check("100%", "10", "10");
        for (text, cause) in [
            ("7", "invalid type: string is not a percentage"),
            ("x%", "invalid value \"x%\": strconv.Atoi: parsing \"x\": invalid syntax"),
            (
                "99999999999999999999%",
                "invalid value \"99999999999999999999%\": strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
        ] {
            let expect = format!("invalid value for IntOrString: {cause}");
            check(text, &expect, &expect);
        }
    }

    #[test]
    fn strings_and_numbers_are_converted() {
        assert_eq!(IntOrString::parse("80"), IntOrString::Int(80));
        assert_eq!(IntOrString::parse("http"), IntOrString::String("http".into()));
        assert_eq!(IntOrString::parse("2147483648").to_string(), "2147483648");
        assert_eq!(IntOrString::from_value(&Value::from("12")).map(|v| v.int_value()), Some(12));
        assert_eq!(IntOrString::from_value(&Value::Int(1 << 40)), None);
        assert_eq!((IntOrString::parse("5%").percent(), IntOrString::parse("5").percent()), (Some(5), None));
    }
}
