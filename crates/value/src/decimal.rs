//! Decimal numbers of any length, for quantities that do not fit 64 bits. A number is stored as its significant digits
//! and an exponent, so `1e1000000000` needs no more memory than `1`. The input bounds the memory.

use std::cmp::Ordering;

/// `±0.d1d2d3... × 10^exponent`. Zero has no digits. Neither the first nor the last digit is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    digits: Vec<u8>,
    /// The position of the decimal point, counted from before the first digit.
    point: i64,
}

/// Maximum number of digits of an exact sum. For larger differences in magnitude upstream runs out of memory.
const MAX_SUM_DIGITS: i64 = 1 << 20;

impl Decimal {
    /// `digits × 10^scale`, where `digits` are values from 0 to 9.
    pub(crate) fn new(negative: bool, mut digits: Vec<u8>, scale: i64) -> Self {
        let leading = digits.iter().take_while(|d| **d == 0).count();
        digits.drain(..leading);
        let point = digits.len() as i64 + scale;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() { Self::default() } else { Self { negative, digits, point } }
    }

    pub(crate) fn from_int(value: i64, scale: i64) -> Self {
        let digits = value.unsigned_abs().to_string().bytes().map(|b| b - b'0').collect();
        Self::new(value < 0, digits, scale)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The exponent of the last digit.
    fn scale(&self) -> i64 {
        self.point - self.digits.len() as i64
    }

    /// The digit at a place. Place 0 is the ones.
    fn digit(&self, place: i64) -> u8 {
        usize::try_from(self.point - 1 - place).ok().and_then(|i| self.digits.get(i)).copied().unwrap_or(0)
    }

    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // There are no zeros at either end, so after a common prefix the number with more digits is larger.
            (false, false) => self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits)),
        }
    }

    pub(crate) fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_magnitude(other),
            (true, true) => other.cmp_magnitude(self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }

    pub(crate) fn negate(&mut self) {
        self.negative = !self.negative && !self.is_zero();
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        if self.is_zero() {
            return other.clone();
        }
        if other.is_zero() {
            return self.clone();
        }
        let (large, small) = if self.cmp_magnitude(other).is_lt() { (other, self) } else { (self, other) };
        let low = large.scale().min(small.scale());
        if large.point - low > MAX_SUM_DIGITS {
            return large.clone();
        }
        let subtract = large.negative != small.negative;
        let mut carry = 0_i8;
        let mut sum: Vec<u8> = (low..=large.point)
            .map(|place| {
                let (a, b) = (large.digit(place) as i8, small.digit(place) as i8);
                let d = carry + a + if subtract { -b } else { b };
                carry = d.div_euclid(10);
                d.rem_euclid(10) as u8
            })
            .collect();
        sum.reverse();
        Self::new(large.negative, sum, low)
    }

    /// Multiplies by an integer.
    pub(crate) fn multiply(&self, factor: i64) -> Self {
        let mut carry = 0_u128;
        let mut product = Vec::with_capacity(self.digits.len() + 19);
        for d in self.digits.iter().rev() {
            carry += u128::from(*d) * u128::from(factor.unsigned_abs());
            product.push((carry % 10) as u8);
            carry /= 10;
        }
        while carry > 0 {
            product.push((carry % 10) as u8);
            carry /= 10;
        }
        product.reverse();
        Self::new(self.negative != (factor < 0), product, self.scale())
    }

    /// Rounds away from zero to a multiple of `10^scale`. Returns whether the number was already such a multiple.
    pub(crate) fn round_up(&mut self, scale: i64) -> bool {
        if self.is_zero() || self.scale() >= scale {
            return true;
        }
        // The dropped digits are not all zero, because the last digit is not.
        let kept = usize::try_from(self.point - scale).unwrap_or(0);
        let mut digits = self.digits[..kept].to_vec();
        let mut i = digits.len();
        loop {
            if i == 0 {
                digits.insert(0, 1);
                break;
            }
            i -= 1;
            if digits[i] < 9 {
                digits[i] += 1;
                break;
            }
            digits[i] = 0;
        }
        *self = Self::new(self.negative, digits, scale);
        false
    }

    /// The digits as an integer and its exponent, which is the largest multiple of three.
    pub(crate) fn canonical(&self) -> (String, i64) {
        let exponent = self.scale().div_euclid(3) * 3;
        let mut text = self.text();
        (0..self.scale() - exponent).for_each(|_| text.push('0'));
        (text, exponent)
    }

    /// An integer as a multiple of a power of 1024, and the exponent of that power. `None` for extremely long numbers.
    pub(crate) fn canonical_1024(&self) -> Option<(String, i64)> {
        let mut rest = self.clone();
        if rest.point > 4096 || rest.scale() < 0 {
            return None;
        }
        let mut times = 0;
        while !rest.is_zero() {
            let mut remainder = 0_u32;
            let quotient: Vec<u8> = (0..rest.point)
                .rev()
                .map(|place| {
                    remainder = remainder * 10 + u32::from(rest.digit(place));
                    let d = (remainder / 1024) as u8;
                    remainder %= 1024;
                    d
                })
                .collect();
            if remainder != 0 {
                break;
            }
            times += 1;
            rest = Self::new(rest.negative, quotient, 0);
        }
        let mut text = rest.text();
        (0..rest.scale()).for_each(|_| text.push('0'));
        Some((text, times))
    }

    fn text(&self) -> String {
        let sign = self.negative.then_some('-');
        sign.into_iter().chain(self.digits.iter().map(|d| char::from(b'0' + d))).collect()
    }

    /// The number in units of `10^scale` as Go's `scaledValue` computes it: rounded up, or the low 64 bits on overflow.
    /// For a negative number that is not a multiple, Go truncates and then still adds one.
    pub(crate) fn scaled_value(&self, scale: i64) -> i64 {
        let whole = usize::try_from(self.point - scale).unwrap_or(0);
        let mut value = 0_i64;
        for d in self.digits.iter().take(whole) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(*d));
        }
        // A product with 10^64 has only zeros in its low 64 bits.
        for _ in self.digits.len()..whole.min(self.digits.len() + 64) {
            value = value.wrapping_mul(10);
        }
        if self.negative {
            value = value.wrapping_neg();
        }
        if self.digits.len() > whole { value.wrapping_add(1) } else { value }
    }

    /// The nearest float, within the range of floats.
    pub(crate) fn approximate(&self) -> f64 {
        format!("{}e{}", self.text(), self.scale()).parse().unwrap_or(0.0)
    }
}
