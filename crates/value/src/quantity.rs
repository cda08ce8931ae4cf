//! `resource.Quantity` of apimachinery: numbers such as `100m`, `1.5Gi` or `12e6`. It accepts the same text and prints
//! the same canonical form. Most quantities are a 64-bit integer and a power of ten; the others are decimals of any
//! length.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;
use crate::{Str, Value};

/// The format in which a quantity is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Decimal exponent: `12e6`. Also the format of the zero value.
    #[default]
    DecimalExponent,
    /// Binary suffixes, powers of 1024: `12Mi`.
    BinarySI,
    /// Decimal suffixes, powers of 1000: `12M`.
    DecimalSI,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the format of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    /// The numeric part is not a number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The smallest scale. Smaller quantities are rounded up.
const NANO: i32 = -9;
/// The number of decimal digits that always fit 64 bits.
const MAX_SAFE_DIGITS: i32 = 18;

/// The number. Which variant is used shows on overflow, so it is chosen as upstream does.
#[derive(Clone, Debug)]
enum Amount {
    /// `value × 10^scale`.
    Int {
        value: i64,
        scale: i32,
    },
    Dec(Decimal),
}

/// A fixed-point number with a format.
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text from which the quantity was parsed, if upstream caches it in place of the canonical text.
    text: Option<Str>,
}

impl Default for Quantity {
    fn default() -> Self {
        Self { amount: Amount::Int { value: 0, scale: 0 }, format: Format::default(), text: None }
    }
}

/// The parts of a quantity's text (`parseQuantityString`).
struct Parts<'a> {
    negative: bool,
    /// The digits before the decimal point, without leading zeros; `0` if there are none.
    whole: &'a str,
    /// The digits after the decimal point.
    fraction: &'a str,
    /// The sign, all digits and the decimal point.
    number: &'a str,
    suffix: &'a str,
}

fn split_text(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let significant = unsigned.trim_start_matches('0');
    let (whole, rest) = significant.split_at(digits(significant));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(behind) => behind.split_at(digits(behind)),
        None => ("", rest),
    };
    let number = &text[..text.len() - suffix.len()];
    let signed = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = signed.strip_prefix(['-', '+']).unwrap_or(signed);
    if digits(exponent) < exponent.len() {
        return Err(QuantityError::Form);
    }
    Ok(Parts { negative, whole, fraction, number, suffix })
}

/// Parses a suffix into its base, exponent and format.
fn parse_suffix(suffix: &str) -> Option<(u32, i32, Format)> {
    let (base, exponent) = match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Upstream's exponent wraps at 32 bits.
            return Some((10, exponent as i32, Format::DecimalExponent));
        }
    };
    Some((base, exponent, if base == 2 { Format::BinarySI } else { Format::DecimalSI }))
}

/// The suffix that upstream prints. Where there is none for an exponent (`1000E`), upstream omits it.
fn format_suffix(format: Format, exponent: i64) -> Str {
    let known = match format {
        Format::DecimalExponent if exponent == 0 => "",
        Format::DecimalExponent => return Str::from(format!("e{exponent}")),
        Format::DecimalSI => match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            18 => "E",
            _ => "",
        },
        Format::BinarySI => match exponent {
            1 => "Ki",
            2 => "Mi",
            3 => "Gi",
            4 => "Ti",
            5 => "Pi",
            6 => "Ei",
            _ => "",
        },
    };
    Str::const_new(known)
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl Quantity {
    /// A quantity of whole units.
    #[must_use]
    pub const fn new(value: i64, format: Format) -> Self {
        Self::scaled(value, 0, format)
    }

    /// `value × 10^scale`.
    #[must_use]
    pub const fn scaled(value: i64, scale: i32, format: Format) -> Self {
        Self { amount: Amount::Int { value, scale }, format, text: None }
    }

    /// Parses a quantity as `ParseQuantity` does. Surrounding spaces are not allowed.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Form);
        }
        if text == "0" {
            return Ok(Self { format: Format::DecimalSI, text: Some(Str::const_new("0")), ..Self::default() });
        }
        let parts = split_text(text)?;
        let (base, exponent, format) = parse_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(small) = Self::parse_small(text, &parts, base, exponent, format) {
            return Ok(small);
        }
        Self::parse_large(&parts, base, exponent, format)
    }

    /// The fast path for quantities that certainly fit 64 bits.
    fn parse_small(text: &str, parts: &Parts<'_>, base: u32, exponent: i32, format: Format) -> Option<Self> {
        let length = |t: &str| i32::try_from(t.len()).unwrap_or(i32::MAX);
        let whole = length(parts.whole);
        let (scale, multiplier, spare_digits) = if base == 10 {
            (exponent, 1_i64, MAX_SAFE_DIGITS.saturating_sub(whole).saturating_sub(length(parts.fraction)))
        } else if parts.fraction.is_empty() {
            (0, 1_i64 << exponent, (15 - 1 - exponent * 3 / 10).saturating_sub(whole))
        } else {
            return None;
        };
        // The scale wraps as upstream's 32-bit scale does.
        let scale = scale.wrapping_sub(length(parts.fraction));
        if spare_digits < 0 || scale < NANO {
            return None;
        }
        let read = parts.whole.bytes().chain(parts.fraction.bytes()).fold(0_i64, |n, b| n * 10 + i64::from(b - b'0'));
        let value = read.checked_mul(multiplier)?;
        // Upstream caches the text if a cheap check suggests that it is canonical. (The check has false positives.)
        let is_canonical = if base == 2 {
            read & 7 != 0
        } else {
            let mut last = parts.whole.bytes().chain(parts.fraction.bytes()).rev();
            let thousands = (0..3).all(|_| last.next() == Some(b'0'));
            scale % 3 == 0 && !thousands && !parts.whole.starts_with('0')
        };
        let value = if parts.negative { -value } else { value };
        Some(Self { amount: Amount::Int { value, scale }, format, text: is_canonical.then(|| Str::from(text)) })
    }

    fn parse_large(parts: &Parts<'_>, base: u32, exponent: i32, mut format: Format) -> Result<Self, QuantityError> {
        let digits: Vec<u8> = parts.number.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
        if digits.is_empty() {
            return Err(QuantityError::Number);
        }
        let fraction = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
        let mut amount = if base == 10 {
            // Upstream's scales are negated and wrap at 32 bits.
            let scale = fraction.wrapping_add(exponent.wrapping_neg());
            Decimal::new(false, digits, -i64::from(scale))
        } else {
            Decimal::new(false, digits, -i64::from(fraction)).multiply(1 << exponent)
        };
        amount.round_up(i64::from(NANO));
        if format == Format::BinarySI {
            let max = Decimal::from_int(i64::MAX, 0);
            if amount.cmp(&max).is_gt() {
                amount = max;
            }
            // Values below one cannot be printed with binary suffixes.
            if !amount.is_zero() && amount.cmp(&Decimal::from_int(1, 0)).is_lt() {
                format = Format::DecimalSI;
            }
        }
        if parts.negative {
            amount.negate();
        }
        Ok(Self { amount: Amount::Dec(amount), format, text: None })
    }

    /// Parses a quantity from an object: a string (surrounding spaces are ignored) or a number. Null is the zero value,
    /// and other values are malformed, as in upstream's JSON decoding.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Int(i) => Self::parse(&i.to_string()),
            Value::Float(_) => Self::parse(&crate::print::json(value)),
            Value::String(text) => Self::parse(text.trim()),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Form),
        }
    }

    /// The format.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    fn decimal(&self) -> std::borrow::Cow<'_, Decimal> {
        match &self.amount {
            Amount::Int { value, scale } => std::borrow::Cow::Owned(Decimal::from_int(*value, i64::from(*scale))),
            Amount::Dec(d) => std::borrow::Cow::Borrowed(d),
        }
    }

    /// Returns whether the quantity is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// The sign: -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Int { value, .. } => value.signum() as i32,
            Amount::Dec(d) if d.is_zero() => 0,
            Amount::Dec(d) => 1 - 2 * i32::from(d.negative),
        }
    }

    /// Compares the quantity with an integer.
    #[must_use]
    pub fn cmp_int(&self, other: i64) -> Ordering {
        self.cmp(&Quantity::new(other, Format::DecimalSI))
    }

    /// Adds another quantity. A zero quantity takes on the format of the other one.
    pub fn add(&mut self, other: &Quantity) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
        if let (Amount::Int { value: a, scale: s }, Amount::Int { value: b, scale: t }) = (&self.amount, &other.amount)
            && let Some((value, scale)) = add_scaled((*a, *s), (*b, *t))
        {
            self.amount = Amount::Int { value, scale };
            return;
        }
        self.amount = Amount::Dec(self.decimal().add(&other.decimal()));
    }

    /// Subtracts another quantity.
    pub fn sub(&mut self, other: &Quantity) {
        let mut negated = other.clone();
        negated.neg();
        self.add(&negated);
    }

    /// Multiplies by an integer. Returns whether the result (in nano units for a decimal) still fits 64 bits.
    pub fn mul(&mut self, factor: i64) -> bool {
        self.text = None;
        if let Amount::Int { value, scale } = &mut self.amount {
            if *value == 0 {
                return true;
            }
            if factor == 0 {
                (*value, *scale) = (0, 0);
                return true;
            }
            let product = value.checked_mul(factor);
            let fits = |p: i64| match *scale {
                0.. => scale_up(p, *scale).1,
                below => scale_down(p, -i64::from(below)).1,
            };
            if let Some(product) = product.filter(|p| fits(*p)) {
                *value = product;
                return true;
            }
            self.amount = Amount::Dec(self.decimal().multiply(factor));
            return product.is_some();
        }
        let product = self.decimal().multiply(factor);
        let max = Decimal::from_int(i64::MAX, i64::from(NANO));
        let fits = product.cmp(&max).is_le() && product.cmp(&Decimal::from_int(i64::MIN, i64::from(NANO))).is_ge();
        self.amount = Amount::Dec(product);
        fits
    }

    /// Negates the quantity.
    pub fn neg(&mut self) {
        self.text = None;
        match &mut self.amount {
            Amount::Int { value, .. } => *value = value.wrapping_neg(),
            Amount::Dec(d) => d.negate(),
        }
    }

    /// Rounds away from zero to a multiple of `10^scale`. Returns whether the quantity was already such a multiple.
    pub fn round_up(&mut self, scale: i32) -> bool {
        match &mut self.amount {
            Amount::Int { scale: own_scale, .. } if *own_scale >= scale => true,
            Amount::Int { value, scale: own_scale } => {
                let (rounded, exact) = scale_down(*value, i64::from(scale) - i64::from(*own_scale));
                self.text = None;
                self.amount = Amount::Int { value: rounded, scale };
                exact
            }
            Amount::Dec(d) => {
                self.text = None;
                d.round_up(i64::from(scale))
            }
        }
    }

    /// The quantity in whole units, rounded up.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The quantity in thousandths, rounded up.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The quantity in units of `10^scale`, rounded up. The result must fit 64 bits: upstream does not report overflow.
    /// (On overflow, positive quantities have upstream's result. Negative quantities have it if they are 64-bit
    /// integers.)
    #[must_use]
    pub fn scaled_value(&self, scale: i32) -> i64 {
        match &self.amount {
            Amount::Int { value, scale: own_scale } if *own_scale < scale => {
                scale_down(*value, i64::from(scale) - i64::from(*own_scale)).0
            }
            Amount::Int { value, scale: own_scale } => scale_up(*value, own_scale.saturating_sub(scale)).0,
            Amount::Dec(d) => d.scaled_value(i64::from(scale)),
        }
    }

    /// The quantity as an integer, if upstream stores it as one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match &self.amount {
            Amount::Int { value, scale: 0 } => Some(*value),
            Amount::Int { value, scale } if *scale > 0 => {
                let (value, fits) = scale_up(*value, *scale);
                fits.then_some(value)
            }
            _ => None,
        }
    }

    /// The quantity as a float, approximately.
    #[must_use]
    pub fn as_float(&self) -> f64 {
        self.decimal().approximate()
    }

    /// The canonical text, whatever text the quantity was parsed from.
    #[must_use]
    pub fn canonical(&self) -> Str {
        if self.is_zero() {
            return Str::const_new("0");
        }
        let amount = self.decimal();
        if self.format == Format::BinarySI
            && self.fits_binary()
            && let Some((digits, times)) = amount.canonical_1024()
        {
            return join_suffix(digits, &format_suffix(Format::BinarySI, times));
        }
        let format = if self.format == Format::BinarySI { Format::DecimalSI } else { self.format };
        let (digits, exponent) = amount.canonical();
        join_suffix(digits, &format_suffix(format, exponent))
    }

    /// Binary suffixes are used for integers of magnitude 1024 and above.
    fn fits_binary(&self) -> bool {
        let small = self.cmp_int(-1024).is_gt() && self.cmp_int(1024).is_lt();
        !small && self.clone().round_up(0)
    }
}

fn join_suffix(digits: String, suffix: &str) -> Str {
    let mut text = Str::from(digits);
    text.push_str(suffix);
    text
}

/// `base × 10^scale`, and whether it fits. On overflow, upstream's fast paths for some scales return the low bits.
fn scale_up(base: i64, scale: i32) -> (i64, bool) {
    if scale <= 0 {
        return (base, true);
    }
    if let 1 | 2 | 3 | 6 | 9 = scale {
        let factor = 10_i64.pow(scale as u32);
        let (value, over) = base.overflowing_mul(factor);
        return if base == i64::MIN { (0, false) } else { (value, !over) };
    }
    if base == 0 {
        // Returns early: the loop below would never overflow for zero, and run as many times as the scale.
        return (0, true);
    }
    match (0..scale).try_fold(base, |value, _| value.checked_mul(10)) {
        Some(value) => (value, true),
        None => (0, false),
    }
}

/// `base ÷ 10^scale`, rounded away from zero, and whether the division was exact.
fn scale_down(base: i64, scale: i64) -> (i64, bool) {
    let Some(divisor) = u32::try_from(scale).ok().and_then(|s| 10_i64.checked_pow(s)) else {
        return (base.signum(), base == 0);
    };
    let (value, rest) = (base / divisor, base % divisor);
    (value + rest.signum(), rest == 0)
}

/// The sum at the smaller scale, if it fits 64 bits.
fn add_scaled(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    if b.0 == 0 {
        return Some(a);
    }
    if a.0 == 0 {
        return Some(b);
    }
    let scale = a.1.min(b.1);
    let rescale = |(value, own_scale): (i64, i32)| {
        let (value, fits) = scale_up(value, own_scale.saturating_sub(scale));
        fits.then_some(value)
    };
    Some((rescale(a)?.checked_add(rescale(b)?)?, scale))
}

/// Compares the numbers. Formats and texts are ignored.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

/// Compares the numbers. Formats are ignored.
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.amount, &other.amount) {
            (Amount::Int { value: a, scale: s }, Amount::Int { value: b, scale: t }) if s == t => a.cmp(b),
            _ => self.decimal().cmp(&other.decimal()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Prints the form that upstream marshals to JSON: the cached text if there is one, else the canonical text.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl From<&Quantity> for Value {
    fn from(quantity: &Quantity) -> Self {
        match &quantity.text {
            Some(text) => Value::from(text),
            None => Value::from(quantity.canonical()),
        }
    }
}

#[cfg(test)]
mod tests;
