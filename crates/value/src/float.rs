//! Floats as Go's `strconv` prints them: with the fewest digits that parse to the same float, and of several such texts
//! the closest to it.

use std::fmt::LowerExp;
use std::str::FromStr;

/// The number of digits from which two texts of the same length can be equally close to a float. Go then chooses the
/// even one, Rust the larger.
const MIN_TIE_DIGITS: usize = 6;

/// Formats a 64-bit or 32-bit float in scientific notation: `-1.25e7`.
#[must_use]
pub fn scientific<F: LowerExp + FromStr + PartialEq>(x: F) -> String {
    let text = format!("{x:e}");
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    if digits < MIN_TIE_DIGITS {
        return text;
    }
    // Below a power of two, floats are closer together, so the even text may denote another float.
    let even = format!("{x:.*e}", digits - 1);
    if even.parse().is_ok_and(|read: F| read == x) { even } else { text }
}

/// Formats a float without an exponent: `-12500000`.
#[must_use]
pub fn positional(x: f64) -> String {
    let text = scientific(x);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replacen('.', "", 1);
    match usize::try_from(exponent + 1) {
        Ok(0) => format!("{sign}0.{digits}"),
        Ok(point) if point >= digits.len() => format!("{sign}{digits:0<point$}"),
        Ok(point) => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
        Err(_) => format!("{sign}0.{:0>width$}", digits, width = digits.len() + exponent.unsigned_abs() as usize - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(x: f64, expect_scientific: &str, expect_positional: &str) {
        assert_eq!((scientific(x).as_str(), positional(x).as_str()), (expect_scientific, expect_positional));
        assert_eq!(positional(x).parse(), Ok(x));
    }

    #[test]
    fn digits_match_go() {
        check(0.0, "0e0", "0");
        check(-0.0, "-0e0", "-0");
        check(1.0, "1e0", "1");
        check(-12_500_000.0, "-1.25e7", "-12500000");
        check(0.1, "1e-1", "0.1");
        check(-0.001_25, "-1.25e-3", "-0.00125");
        check(123.456, "1.23456e2", "123.456");
        check(1e21, "1e21", "1000000000000000000000");
        // Halfway between two texts.
        check("-2.42188262939453125".parse().unwrap(), "-2.4218826293945312e0", "-2.4218826293945312");
        check(2_f64.powi(-24), "5.960464477539063e-8", "0.00000005960464477539063");
        check(5e-324, "5e-324", &format!("0.{}5", "0".repeat(323)));
        check(f64::MAX, "1.7976931348623157e308", &format!("17976931348623157{}", "0".repeat(292)));
        assert_eq!(scientific(16_777_216_f32), "1.6777216e7");
    }
}
