//! Numbers of the three numeric types, which compare by value.

use std::cmp::Ordering;

use super::Value;

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// A number of any numeric type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl Number {
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Int(i) => Self::Int(*i),
            Value::Uint(u) => Self::Uint(*u),
            Value::Double(x) => Self::Double(*x),
            _ => return None,
        })
    }

    /// Compares two numbers. Returns `None` if one is NaN.
    pub(crate) fn compare(self, other: Number) -> Option<Ordering> {
        Some(match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(&b),
            (Self::Double(a), Self::Double(b)) => return a.partial_cmp(&b),
            (Self::Int(a), Self::Uint(b)) => i128::from(a).cmp(&i128::from(b)),
            (Self::Uint(a), Self::Int(b)) => i128::from(a).cmp(&i128::from(b)),
            (Self::Int(a), Self::Double(b)) => compare_with_double(b, TWO_TO_63, -TWO_TO_63, a as f64)?,
            (Self::Uint(a), Self::Double(b)) => compare_with_double(b, TWO_TO_64, 0.0, a as f64)?,
            (Self::Double(_), _) => return other.compare(self).map(Ordering::reverse),
        })
    }
}

/// Compares an integer, converted to the nearest double, with a double, as cel-go does.
fn compare_with_double(double: f64, limit: f64, floor: f64, integer: f64) -> Option<Ordering> {
    if double > limit {
        return Some(Ordering::Less);
    }
    if double < floor {
        return Some(Ordering::Greater);
    }
    integer.partial_cmp(&double)
}

/// Truncates a double to an integer, if it is in range.
pub(crate) fn double_to_int(x: f64) -> Option<i64> {
    (x.is_finite() && x > -TWO_TO_63 && x < TWO_TO_63).then_some(x as i64)
}

/// Truncates a double to an unsigned integer, if it is in range.
pub(crate) fn double_to_uint(x: f64) -> Option<u64> {
    (x.is_finite() && (0.0..TWO_TO_64).contains(&x)).then_some(x as u64)
}

/// Formats a double like Go's `%g`, with the shortest digits that parse back to the same value. Numbers below 1e-4 and
/// from 1e6 on have a two-digit exponent.
pub(crate) fn format_double(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{x:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if x != 0.0 && !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    x.to_string()
}
