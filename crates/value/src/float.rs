//! Floats as Go's `strconv` prints them: with as few digits as are read back as the same float, those closest to it.

use std::fmt::LowerExp;
use std::str::FromStr;

/// From so many digits on, two texts of one length may be equally close to a float: Go takes the even one, Rust the upper.
const TIES: usize = 6;

/// A float in scientific notation, `-1.25e7`; also of 32 bits.
#[must_use]
pub fn scientific<F: LowerExp + FromStr + PartialEq>(x: F) -> String {
    let text = format!("{x:e}");
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    if digits < TIES {
        return text;
    }
    // Below a power of two floats lie closer together, so that the even one may be another's.
    let even = format!("{x:.*e}", digits - 1);
    if even.parse().is_ok_and(|read: F| read == x) { even } else { text }
}

/// A float without an exponent, `-12500000`.
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

    fn check(x: f64, in_science: &str, in_place: &str) {
        assert_eq!((scientific(x).as_str(), positional(x).as_str()), (in_science, in_place));
        assert_eq!(positional(x).parse(), Ok(x));
    }

    #[test]
    fn digits_are_those_of_go() {
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
