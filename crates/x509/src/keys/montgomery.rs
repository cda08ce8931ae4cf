//! Arithmetic modulo an odd number of a fixed size, in Montgomery's form. It takes less than half of the time of
//! arithmetic on numbers of any size. This matters because every client may present a key. The arithmetic does not run
//! in constant time, because all numbers are public.

use num_bigint::BigUint;

/// A number below the modulus, in Montgomery's form, with its lowest digits first.
pub(super) type Element<const N: usize> = [u64; N];

/// A modulus of `N` digits of 64 bits.
pub(super) struct Modulus<const N: usize> {
    digits: [u64; N],
    /// The inverse of the negated modulus, modulo 2⁶⁴.
    negated_inverse: u64,
    /// The square of 2 to the power of `64 N`.
    square: [u64; N],
}

impl<const N: usize> Modulus<N> {
    pub(super) fn new(modulus: &BigUint) -> Self {
        let digits = digits(modulus);
        // Newton's iteration. Each step doubles the number of correct bits.
        let mut inverse = 1_u64;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(digits[0].wrapping_mul(inverse)));
        }
        let square = (BigUint::from(1_u8) << (128 * N)) % modulus;
        Self { digits, negated_inverse: inverse.wrapping_neg(), square: self::digits(&square) }
    }

    /// A number below the modulus.
    pub(super) fn element(&self, number: &BigUint) -> Element<N> {
        self.multiply(&digits(number), &self.square)
    }

    pub(super) fn number(&self, element: &Element<N>) -> BigUint {
        let mut one = [0; N];
        one[0] = 1;
        let bytes: Vec<u8> = self.multiply(element, &one).iter().flat_map(|digit| digit.to_le_bytes()).collect();
        BigUint::from_bytes_le(&bytes)
    }

    pub(super) fn multiply(&self, a: &Element<N>, b: &Element<N>) -> Element<N> {
        let (mut sum, mut top) = ([0_u64; N], 0_u64);
        for &digit in b {
            let mut carry = 0;
            for (sum, a) in sum.iter_mut().zip(a) {
                (*sum, carry) = add(*sum, *a, digit, carry);
            }
            let (new_top, overflow) = top.overflowing_add(carry);
            let factor = sum[0].wrapping_mul(self.negated_inverse);
            (_, carry) = add(sum[0], factor, self.digits[0], 0);
            for i in 1..N {
                (sum[i - 1], carry) = add(sum[i], factor, self.digits[i], carry);
            }
            let carried;
            (sum[N - 1], carried) = new_top.overflowing_add(carry);
            top = u64::from(overflow) + u64::from(carried);
        }
        self.reduce(sum, top != 0)
    }

    pub(super) fn add(&self, a: &Element<N>, b: &Element<N>) -> Element<N> {
        let (mut sum, mut carry) = ([0; N], 0);
        for i in 0..N {
            (sum[i], carry) = add(a[i], b[i], 1, carry);
        }
        self.reduce(sum, carry != 0)
    }

    pub(super) fn subtract(&self, a: &Element<N>, b: &Element<N>) -> Element<N> {
        let (difference, is_negative) = subtract(a, b);
        if !is_negative {
            return difference;
        }
        let (mut sum, mut carry) = ([0; N], 0);
        for i in 0..N {
            (sum[i], carry) = add(difference[i], self.digits[i], 1, carry);
        }
        sum
    }

    /// The remainder of a number below twice the modulus, which may have one more digit.
    fn reduce(&self, number: [u64; N], has_another_digit: bool) -> Element<N> {
        let (difference, is_negative) = subtract(&number, &self.digits);
        if is_negative && !has_another_digit { number } else { difference }
    }
}

/// `a + b c + carry`: the digit and the carry.
fn add(a: u64, b: u64, c: u64, carry: u64) -> (u64, u64) {
    let sum = u128::from(a) + u128::from(b) * u128::from(c) + u128::from(carry);
    (sum as u64, (sum >> 64) as u64)
}

/// The difference modulo 2 to the power of `64 N`, and whether it is negative.
fn subtract<const N: usize>(a: &[u64; N], b: &[u64; N]) -> ([u64; N], bool) {
    let (mut difference, mut borrows) = ([0; N], false);
    for i in 0..N {
        let (without_borrow, first) = a[i].overflowing_sub(b[i]);
        let second;
        (difference[i], second) = without_borrow.overflowing_sub(u64::from(borrows));
        borrows = first || second;
    }
    (difference, borrows)
}

/// The digits of a number with at most `N` digits.
fn digits<const N: usize>(number: &BigUint) -> [u64; N] {
    let mut digits = [0; N];
    digits.iter_mut().zip(number.iter_u64_digits()).for_each(|(digit, of_number)| *digit = of_number);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_numbers_of_any_size() {
        for modulus in [(BigUint::from(1_u8) << 192) - 237_u8, (BigUint::from(1_u8) << 140) + 27_u8] {
            let fixed = Modulus::<3>::new(&modulus);
            // Numbers at both ends, and some between them.
            let mut numbers: Vec<BigUint> = (0_u8..3).flat_map(|i| [BigUint::from(i), &modulus - 1_u8 - i]).collect();
            for _ in 0..20 {
                let last = numbers.last().expect("a number");
                numbers.push((last * last + 12_345_u32) % &modulus);
            }
            for a in &numbers {
                for b in &numbers {
                    let (x, y) = (fixed.element(a), fixed.element(b));
                    assert_eq!(fixed.number(&fixed.multiply(&x, &y)), a * b % &modulus, "{a} * {b}");
                    assert_eq!(fixed.number(&fixed.add(&x, &y)), (a + b) % &modulus, "{a} + {b}");
                    assert_eq!(fixed.number(&fixed.subtract(&x, &y)), (a + &modulus - b) % &modulus, "{a} - {b}");
                }
            }
        }
    }
}
