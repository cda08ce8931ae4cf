//! Formats floats as Go's `strconv.FormatFloat(f, 'g', -1, ...)` does.

use pintle_value::float::scientific;

/// Formats a float in Go's shortest `g` format, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn format_g(f: f64) -> String {
    format_digits(f, &scientific(f))
}

/// The same with the precision of a 32-bit float, which goyaml uses for keys.
#[allow(clippy::cast_possible_truncation)] // intended
pub(super) fn format_g32(f: f64) -> String {
    format_digits(f, &scientific(f as f32))
}

/// Formats Rust's shortest scientific notation (`-1.25e7`) in Go's `g` format.
fn format_digits(f: f64, scientific: &str) -> String {
    if f.is_nan() {
        return ".nan".to_owned();
    }
    if scientific.contains("inf") {
        return if f > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent + 1;
    if !(-4..6).contains(&exponent) {
        let fraction = if digits.len() > 1 { format!(".{}", &digits[1..]) } else { String::new() };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{fraction}e{exponent_sign}{:02}", &digits[..1], exponent.unsigned_abs());
    }
    match usize::try_from(point) {
        Ok(point) if point >= digits.len() => format!("{sign}{digits:0<point$}"),
        Ok(point) if point > 0 => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
        _ => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
    }
}
