//! Amounts such as `100m`, `1.5Gi` or `12e6`, after apimachinery's `resource.Quantity`: the same texts are accepted, and
//! the same canonical text is written. Most amounts are 64 bits and a power of ten; the rest are decimals of any length.

use std::cmp::Ordering;
use std::fmt;

use crate::decimal::Decimal;
use crate::{Str, Value};

/// How an amount is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// With powers of ten: `12e6`. Also what an amount without a format (the zero value) is written in.
    #[default]
    DecimalExponent,
    /// With the suffixes of 1024 and its powers: `12Mi`.
    BinarySI,
    /// With the suffixes of 1000 and its powers: `12M`.
    DecimalSI,
}

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not have the form of a quantity.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Form,
    /// The number in front is none.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is not one of those known.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The scale below which amounts are rounded up.
const NANO: i32 = -9;
/// How many decimal digits 64 bits hold in any case.
const SAFE_DIGITS: i32 = 18;

/// The amount itself. Which of the two it is shows in what happens when it is too large, so it is kept as upstream does.
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
    /// The text it was read from, where upstream keeps that instead of the canonical one.
    text: Option<Str>,
}

impl Default for Quantity {
    fn default() -> Self {
        Self { amount: Amount::Int { value: 0, scale: 0 }, format: Format::default(), text: None }
    }
}

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros but for one that stands alone.
    whole: &'a str,
    /// The digits behind the point.
    part: &'a str,
    /// The sign, all digits and the point.
    number: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let negative = text.starts_with('-');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let significant = unsigned.trim_start_matches('0');
    let (whole, rest) = significant.split_at(digits(significant));
    let whole = if whole.is_empty() { "0" } else { whole };
    let (part, suffix) = match rest.strip_prefix('.') {
        Some(behind) => behind.split_at(digits(behind)),
        None => ("", rest),
    };
    let number = &text[..text.len() - suffix.len()];
    let signed = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = signed.strip_prefix(['-', '+']).unwrap_or(signed);
    if digits(exponent) < exponent.len() {
        return Err(QuantityError::Form);
    }
    Ok(Parts { negative, whole, part, number, suffix })
}

/// What a suffix means: the base, the exponent, and the format it speaks for.
fn interpret(suffix: &str) -> Option<(u32, i32, Format)> {
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
            // Upstream lets the exponent wrap at 32 bits.
            return Some((10, exponent as i32, Format::DecimalExponent));
        }
    };
    Some((base, exponent, if base == 2 { Format::BinarySI } else { Format::DecimalSI }))
}

/// The suffix that upstream writes; where there is none for an exponent (`1000E`), it leaves it away.
fn suffix(format: Format, exponent: i64) -> Str {
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
    /// An amount of whole units.
    #[must_use]
    pub const fn new(value: i64, format: Format) -> Self {
        Self::scaled(value, 0, format)
    }

    /// `value × 10^scale`.
    #[must_use]
    pub const fn scaled(value: i64, scale: i32, format: Format) -> Self {
        Self { amount: Amount::Int { value, scale }, format, text: None }
    }

    /// Reads a quantity as `ParseQuantity` does: no spaces around it.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Form);
        }
        if text == "0" {
            return Ok(Self { format: Format::DecimalSI, text: Some(Str::const_new("0")), ..Self::default() });
        }
        let parts = split(text)?;
        let (base, exponent, format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        if let Some(small) = Self::parse_small(text, &parts, base, exponent, format) {
            return Ok(small);
        }
        Self::parse_large(&parts, base, exponent, format)
    }

    /// What surely fits 64 bits; most quantities do.
    fn parse_small(text: &str, parts: &Parts<'_>, base: u32, exponent: i32, format: Format) -> Option<Self> {
        let length = |t: &str| i32::try_from(t.len()).unwrap_or(i32::MAX);
        let whole = length(parts.whole);
        let (scale, multiplier, room) = if base == 10 {
            (exponent, 1_i64, SAFE_DIGITS.saturating_sub(whole).saturating_sub(length(parts.part)))
        } else if parts.part.is_empty() {
            (0, 1_i64 << exponent, (15 - 1 - exponent * 3 / 10).saturating_sub(whole))
        } else {
            return None;
        };
        // The scale wraps as upstream's 32 bits do.
        let scale = scale.wrapping_sub(length(parts.part));
        if room < 0 || scale < NANO {
            return None;
        }
        let read = parts.whole.bytes().chain(parts.part.bytes()).fold(0_i64, |n, b| n * 10 + i64::from(b - b'0'));
        let value = read.checked_mul(multiplier)?;
        // Upstream keeps the text where it can tell cheaply that it is canonical (which it judges a little too kindly).
        let keep = if base == 2 {
            read & 7 != 0
        } else {
            let mut last = parts.whole.bytes().chain(parts.part.bytes()).rev();
            let thousands = (0..3).all(|_| last.next() == Some(b'0'));
            scale % 3 == 0 && !thousands && !parts.whole.starts_with('0')
        };
        let value = if parts.negative { -value } else { value };
        Some(Self { amount: Amount::Int { value, scale }, format, text: keep.then(|| Str::from(text)) })
    }

    fn parse_large(parts: &Parts<'_>, base: u32, exponent: i32, mut format: Format) -> Result<Self, QuantityError> {
        let digits: Vec<u8> = parts.number.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
        if digits.is_empty() {
            return Err(QuantityError::Number);
        }
        let fraction = i32::try_from(parts.part.len()).unwrap_or(i32::MAX);
        let mut amount = if base == 10 {
            // Upstream's scales are negated and wrap at 32 bits.
            let scale = fraction.wrapping_add(exponent.wrapping_neg());
            Decimal::new(false, digits, -i64::from(scale))
        } else {
            Decimal::new(false, digits, -i64::from(fraction)).multiply(1 << exponent)
        };
        amount.round_up(i64::from(NANO));
        if format == Format::BinarySI {
            let most = Decimal::from_int(i64::MAX, 0);
            if amount.cmp(&most).is_gt() {
                amount = most;
            }
            // Less than one cannot be written in powers of 1024.
            if !amount.is_zero() && amount.cmp(&Decimal::from_int(1, 0)).is_lt() {
                format = Format::DecimalSI;
            }
        }
        if parts.negative {
            amount.negate();
        }
        Ok(Self { amount: Amount::Dec(amount), format, text: None })
    }

    /// Reads a quantity from an object: a string (spaces around it do not count) or a number. Null is the zero value,
    /// and anything else is malformed, as when upstream decodes JSON.
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

    /// True for nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.sign() == 0
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i32 {
        match &self.amount {
            Amount::Int { value, .. } => value.signum() as i32,
            Amount::Dec(d) if d.is_zero() => 0,
            Amount::Dec(d) => 1 - 2 * i32::from(d.negative),
        }
    }

    /// How this amount compares to a whole number.
    #[must_use]
    pub fn cmp_int(&self, other: i64) -> Ordering {
        self.cmp(&Quantity::new(other, Format::DecimalSI))
    }

    /// Adds another amount. Nothing takes on the format of what is added to it.
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

    /// Takes another amount away.
    pub fn sub(&mut self, other: &Quantity) {
        let mut negated = other.clone();
        negated.neg();
        self.add(&negated);
    }

    /// Multiplies by a whole number, and says whether the result (in units of nano where it was large before) still
    /// fits 64 bits.
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
            let keeps = |p: i64| match *scale {
                0.. => scale_up(p, *scale).1,
                below => scale_down(p, -i64::from(below)).1,
            };
            if let Some(product) = product.filter(|p| keeps(*p)) {
                *value = product;
                return true;
            }
            self.amount = Amount::Dec(self.decimal().multiply(factor));
            return product.is_some();
        }
        let product = self.decimal().multiply(factor);
        let most = Decimal::from_int(i64::MAX, i64::from(NANO));
        let fits = product.cmp(&most).is_le() && product.cmp(&Decimal::from_int(i64::MIN, i64::from(NANO))).is_ge();
        self.amount = Amount::Dec(product);
        fits
    }

    /// Turns the sign.
    pub fn neg(&mut self) {
        self.text = None;
        match &mut self.amount {
            Amount::Int { value, .. } => *value = value.wrapping_neg(),
            Amount::Dec(d) => d.negate(),
        }
    }

    /// Rounds away from zero to a multiple of `10^scale`, and says whether that changed nothing.
    pub fn round_up(&mut self, scale: i32) -> bool {
        match &mut self.amount {
            Amount::Int { scale: own, .. } if *own >= scale => true,
            Amount::Int { value, scale: own } => {
                let (rounded, exact) = scale_down(*value, i64::from(scale) - i64::from(*own));
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

    /// The amount in whole units, rounded up.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded up.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of `10^scale`, rounded up. Use only where it fits: upstream says nothing when it does not.
    /// (What it returns then is matched for amounts above zero, and for those below that 64 bits hold.)
    #[must_use]
    pub fn scaled_value(&self, scale: i32) -> i64 {
        match &self.amount {
            Amount::Int { value, scale: own } if *own < scale => {
                scale_down(*value, i64::from(scale) - i64::from(*own)).0
            }
            Amount::Int { value, scale: own } => scale_up(*value, own.saturating_sub(scale)).0,
            Amount::Dec(d) => d.scaled_value(i64::from(scale)),
        }
    }

    /// The amount as a whole number, if it is one that upstream keeps as such.
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

    /// The amount as a float, nearly.
    #[must_use]
    pub fn as_float(&self) -> f64 {
        self.decimal().approximate()
    }

    /// The canonical text, whatever the quantity was read from.
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
            return join(digits, &suffix(Format::BinarySI, times));
        }
        let format = if self.format == Format::BinarySI { Format::DecimalSI } else { self.format };
        let (digits, exponent) = amount.canonical();
        join(digits, &suffix(format, exponent))
    }

    /// Powers of 1024 are used for whole amounts from 1024 on.
    fn fits_binary(&self) -> bool {
        let small = self.cmp_int(-1024).is_gt() && self.cmp_int(1024).is_lt();
        !small && self.clone().round_up(0)
    }
}

fn join(digits: String, suffix: &str) -> Str {
    let mut text = Str::from(digits);
    text.push_str(suffix);
    text
}

/// `base × 10^scale`, and whether that fits; upstream's shortcuts for some scales leave the low bits of what does not.
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
        // The loop below would not run over, and be as long as the scale is large.
        return (0, true);
    }
    match (0..scale).try_fold(base, |value, _| value.checked_mul(10)) {
        Some(value) => (value, true),
        None => (0, false),
    }
}

/// `base ÷ 10^scale`, rounded away from zero, and whether it came out even.
fn scale_down(base: i64, scale: i64) -> (i64, bool) {
    let Some(divisor) = u32::try_from(scale).ok().and_then(|s| 10_i64.checked_pow(s)) else {
        return (base.signum(), base == 0);
    };
    let (value, rest) = (base / divisor, base % divisor);
    (value + rest.signum(), rest == 0)
}

/// A sum at the smaller scale, if 64 bits hold it.
fn add_scaled(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    if b.0 == 0 {
        return Some(a);
    }
    if a.0 == 0 {
        return Some(b);
    }
    let scale = a.1.min(b.1);
    let at = |(value, own): (i64, i32)| {
        let (value, fits) = scale_up(value, own.saturating_sub(scale));
        fits.then_some(value)
    };
    Some((at(a)?.checked_add(at(b)?)?, scale))
}

/// Amounts are equal whatever their format and text.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

/// By amount; formats do not count.
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

/// As upstream writes it into JSON: the text it was read from if that is known to be canonical, or else the canonical
/// text.
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
