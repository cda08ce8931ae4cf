//! Limits of numbers (upstream: `numberValidator`). Integers are compared as integers where both sides are, with the
//! limits cut to integers as Go's conversions cut them.

use std::cmp::Ordering;
use std::fmt;

use pintle_value::{Value, print};

use super::failure::Outcome;
use crate::schema::formats::Format;
use crate::schema::model::{Bound, Keyword, Type};
use crate::schema::part::Part;
use crate::schema::path::Path;

/// What of a schema decides how numbers are held.
#[derive(Clone, Copy)]
struct Held {
    ty: Option<Type>,
    format: Option<Format>,
}

pub(super) fn check(part: Part<'_>, value: &Value, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let ty = part.ty().filter(|ty| !part.is_int_or_string() && matches!(ty, Type::Integer | Type::Number));
    let format = part.format().and_then(|(_, format)| format).filter(|_| ty.is_some());
    let held = Held { ty, format };
    held.holds(value, "Checked", path, &mut outcome);
    for keyword in part.keywords() {
        let (limit, what) = match keyword {
            Keyword::MultipleOf(factor) => (*factor, "MultipleOf"),
            Keyword::Minimum(min, _) => (*min, "Minimum boundary"),
            Keyword::Maximum(max, _) => (*max, "Maximum boundary"),
            _ => continue,
        };
        // A limit that the type cannot hold is reported, and then taken as it is.
        let native = held.holds(&Value::Float(limit), what, path, &mut outcome);
        let number = match value {
            Value::Int(i) if native => Number::Int(*i),
            other => Number::Float(other.as_float().unwrap_or_default()),
        };
        match keyword {
            Keyword::MultipleOf(factor) => number.multiple_of(*factor, path, &mut outcome),
            Keyword::Minimum(min, bound) => number.minimum(*min, *bound, path, &mut outcome),
            Keyword::Maximum(max, bound) => number.maximum(*max, *bound, path, &mut outcome),
            _ => {}
        }
    }
    outcome.matched();
    outcome
}

impl Held {
    /// True if a number can be held; says so if it cannot.
    fn holds(self, number: &Value, what: &str, path: &Path<'_>, outcome: &mut Outcome) -> bool {
        let (ty, fits) = match (self.ty, self.format) {
            (Some(Type::Integer), Some(Format::Int32)) => {
                (Type::Integer, is_integer_within(number, f64::from(i32::MIN), f64::from(i32::MAX) + 1.0))
            }
            (Some(Type::Integer), _) => (Type::Integer, is_integer_within(number, -TWO_63, TWO_63)),
            (_, Some(Format::Float)) => (Type::Number, number.as_float().is_none_or(|x| (x as f32).is_finite())),
            _ => return true,
        };
        if !fits {
            let ty = ty.name();
            match self.format.map(Format::name) {
                Some(format) => {
                    outcome
                        .loose(path, format_args!("{what} value must be of type {ty} with format {format} in {path}"));
                }
                None => {
                    outcome.loose(path, format_args!("{what} value must be of type {ty} (default format) in {path}"))
                }
            }
        }
        fits
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// True for an integer from `low` up to but without `end`.
#[allow(clippy::cast_precision_loss)] // Only those of 32 bits are compared with less than all integers.
fn is_integer_within(number: &Value, low: f64, end: f64) -> bool {
    match number {
        Value::Int(i) => end >= TWO_63 || (low..end).contains(&(*i as f64)),
        Value::Float(x) => x.fract() == 0.0 && (low..end).contains(x),
        _ => true,
    }
}

/// A number as it is compared.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn value(self) -> Value {
        match self {
            Number::Int(i) => Value::Int(i),
            Number::Float(x) => Value::Float(x),
        }
    }

    /// A limit in the form of this number.
    fn alike(self, limit: f64) -> Number {
        match self {
            Number::Int(_) => Number::Int(to_int(limit)),
            Number::Float(_) => Number::Float(limit),
        }
    }

    fn multiple_of(self, factor: f64, path: &Path<'_>, outcome: &mut Outcome) {
        let factor = self.alike(factor);
        let is_multiple = match (self, factor) {
            (Number::Int(i), Number::Int(factor)) if factor > 0 => i % factor == 0,
            (Number::Float(x), Number::Float(factor)) if factor > 0.0 => {
                is_json_integer(if factor < 1.0 { 1.0 / factor * x } else { x / factor })
            }
            _ => {
                let text = format_args!("factor MultipleOf declared for {path} must be positive: {factor}");
                return outcome.saying(path, text, factor.value());
            }
        };
        if !is_multiple {
            outcome.invalid(path, format_args!("should be a multiple of {factor}"), self.value());
        }
    }

    fn minimum(self, min: f64, bound: Bound, path: &Path<'_>, outcome: &mut Outcome) {
        let min = self.alike(min);
        let words = ["should be greater than or equal to", "should be greater than"];
        self.compare(self.order(min), min, bound, words, path, outcome);
    }

    fn maximum(self, max: f64, bound: Bound, path: &Path<'_>, outcome: &mut Outcome) {
        let max = self.alike(max);
        let words = ["should be less than or equal to", "should be less than"];
        self.compare(self.order(max).reverse(), max, bound, words, path, outcome);
    }

    fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            // Limits are made alike.
            _ => Ordering::Equal,
        }
    }

    /// Says so if a number is on the wrong side of a limit: `Less` is the wrong one.
    fn compare(
        self,
        side: Ordering,
        limit: Number,
        bound: Bound,
        [inclusive, exclusive]: [&str; 2],
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let (words, wrong) = match bound {
            Bound::Inclusive => (inclusive, side.is_lt()),
            Bound::Exclusive => (exclusive, side.is_le()),
        };
        if wrong {
            outcome.invalid(path, format_args!("{words} {limit}"), self.value());
        }
    }
}

/// As `%v` prints it.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(i) => i.fmt(f),
            Number::Float(x) => f.write_str(&print::plain_float(*x)),
        }
    }
}

/// As Go converts on the machines that servers run on: what does not fit becomes the least integer.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn to_int(x: f64) -> i64 {
    if (-TWO_63..TWO_63).contains(&x) { x as i64 } else { i64::MIN }
}

/// True for what go-openapi takes for an integer: below 2^53, and whole within a relative error of 1e-9.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
pub(super) fn is_json_integer(x: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !(-MAX..=MAX).contains(&x) {
        return false;
    }
    if x.fract() == 0.0 {
        return true;
    }
    // Upstream goes through an unsigned integer, which negative numbers do not survive.
    let cut = to_int(x) as u64 as f64;
    if cut == 0.0 {
        return false;
    }
    (x - cut).abs() / (x.abs() + cut) < EPSILON
}
