//! Half-precision floats (IEEE 754 binary16), which stable Rust does not have.

/// Converts a half-precision float to its value.
pub(super) fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => sign * f64::INFINITY,
        0x1f => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// The half-precision float with exactly this value, if there is one. The value must be finite.
pub(super) fn to_half(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32 - 127, bits & 0x7f_ffff);
    if value == 0.0 {
        return Some(sign);
    }
    // The number of significand bits that do not fit. There are 24: 23 fraction bits and the leading bit.
    let (lost, biased) = match exponent {
        -14..=15 => (13, (exponent + 15) as u16),
        -24..=-15 => (13 - 14 - exponent, 0),
        _ => return None,
    };
    let whole = if biased == 0 { fraction | 0x80_0000 } else { fraction };
    if whole & ((1 << lost) - 1) != 0 {
        return None;
    }
    Some(sign | biased << 10 | (whole >> lost) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_float_round_trips() {
        for bits in 0..=u16::MAX {
            let value = from_half(bits);
            if value.is_finite() {
                #[allow(clippy::cast_possible_truncation)] // exact
                let half = to_half(value as f32);
                assert_eq!(half, Some(bits), "{bits:04x} is {value}");
            }
        }
    }

    #[test]
    fn values_without_an_exact_half_float_return_none() {
        for value in [0.1, 65505.0, 65536.0, 2f32.powi(-25), 1.0 + 2f32.powi(-11), f32::MIN_POSITIVE, f32::MAX] {
            assert_eq!(to_half(value), None, "{value}");
        }
    }
}
