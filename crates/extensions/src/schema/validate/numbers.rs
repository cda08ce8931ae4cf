//! Validation of numbers (upstream: `numberValidator`). Two integers are compared as integers. Limits are truncated as
//! in Go's conversions.

use std::cmp::Ordering;
use std::fmt;

use pintle_value::{Value, print};

use super::result::ValidationResult;
use crate::schema::formats::Format;
use crate::schema::model::{Bound, Keyword, Type};
use crate::schema::node::SchemaNode;
use crate::schema::value_path::ValuePath;

/// The type and format of a number.
#[derive(Clone, Copy)]
struct NumericType {
    ty: Option<Type>,
    format: Option<Format>,
}

pub(super) fn check(node: SchemaNode<'_>, value: &Value, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    let ty = node.ty().filter(|ty| !node.is_int_or_string() && matches!(ty, Type::Integer | Type::Number));
    let format = node.format().and_then(|(_, format)| format).filter(|_| ty.is_some());
    let numeric_type = NumericType { ty, format };
    numeric_type.check_fits(value, "Checked", path, &mut result);
    for keyword in node.keywords() {
        let (limit, what) = match keyword {
            Keyword::MultipleOf(factor) => (*factor, "MultipleOf"),
            Keyword::Minimum(min, _) => (*min, "Minimum boundary"),
            Keyword::Maximum(max, _) => (*max, "Maximum boundary"),
            _ => continue,
        };
        // A limit that the type cannot represent is reported, and then used as it is.
        let native = numeric_type.check_fits(&Value::Float(limit), what, path, &mut result);
        let number = match value {
            Value::Int(i) if native => Number::Int(*i),
            other => Number::Float(other.as_float().unwrap_or_default()),
        };
        match keyword {
            Keyword::MultipleOf(factor) => number.multiple_of(*factor, path, &mut result),
            Keyword::Minimum(min, bound) => number.minimum(*min, *bound, path, &mut result),
            Keyword::Maximum(max, bound) => number.maximum(*max, *bound, path, &mut result),
            _ => {}
        }
    }
    result.increment_match_count();
    result
}

impl NumericType {
    /// Returns true if the type can represent the number, and adds an error otherwise.
    fn check_fits(self, number: &Value, what: &str, path: &ValuePath<'_>, result: &mut ValidationResult) -> bool {
        let (ty, fits) = match (self.ty, self.format) {
            (Some(Type::Integer), Some(Format::Int32)) => {
                (Type::Integer, is_integer_within(number, f64::from(i32::MIN), f64::from(i32::MAX) + 1.0))
            }
            (Some(Type::Integer), _) => (Type::Integer, is_integer_within(number, ABOVE_MINUS_TWO_63, TWO_63)),
            (_, Some(Format::Float)) => (Type::Number, number.as_float().is_none_or(|x| (x as f32).is_finite())),
            _ => return true,
        };
        if !fits {
            let ty = ty.name();
            match self.format.map(Format::name) {
                Some(format) => {
                    result.add_without_path(
                        path,
                        format_args!("{what} value must be of type {ty} with format {format} in {path}"),
                    );
                }
                None => result.add_without_path(
                    path,
                    format_args!("{what} value must be of type {ty} (default format) in {path}"),
                ),
            }
        }
        fits
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;
/// The lowest float that fits. Upstream parses the shortest decimal of a float, and the shortest decimal of -2^63 is
/// below -2^63.
const ABOVE_MINUS_TWO_63: f64 = -9_223_372_036_854_774_784.0;

/// True for an integer in `low..end`.
#[allow(clippy::cast_precision_loss)] // Only 32-bit bounds are compared as floats.
fn is_integer_within(number: &Value, low: f64, end: f64) -> bool {
    match number {
        Value::Int(i) => end >= TWO_63 || (low..end).contains(&(*i as f64)),
        Value::Float(x) => x.fract() == 0.0 && (low..end).contains(x),
        _ => true,
    }
}

/// A number in the form in which it is compared.
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

    /// Converts a limit to the form of this number.
    fn convert_limit(self, limit: f64) -> Number {
        match self {
            Number::Int(_) => Number::Int(to_int(limit)),
            Number::Float(_) => Number::Float(limit),
        }
    }

    fn multiple_of(self, factor: f64, path: &ValuePath<'_>, result: &mut ValidationResult) {
        let factor = self.convert_limit(factor);
        let is_multiple = match (self, factor) {
            (Number::Int(i), Number::Int(factor)) if factor > 0 => i % factor == 0,
            (Number::Float(x), Number::Float(factor)) if factor > 0.0 => {
                is_json_integer(if factor < 1.0 { 1.0 / factor * x } else { x / factor })
            }
            _ => {
                let text = format_args!("factor MultipleOf declared for {path} must be positive: {factor}");
                return result.invalid_with_message(path, text, factor.value());
            }
        };
        if !is_multiple {
            result.invalid(path, format_args!("should be a multiple of {factor}"), self.value());
        }
    }

    fn minimum(self, min: f64, bound: Bound, path: &ValuePath<'_>, result: &mut ValidationResult) {
        let min = self.convert_limit(min);
        let words = ["should be greater than or equal to", "should be greater than"];
        self.compare(self.order(min), min, bound, words, path, result);
    }

    fn maximum(self, max: f64, bound: Bound, path: &ValuePath<'_>, result: &mut ValidationResult) {
        let max = self.convert_limit(max);
        let words = ["should be less than or equal to", "should be less than"];
        self.compare(self.order(max).reverse(), max, bound, words, path, result);
    }

    fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            // Limits are converted first.
            _ => Ordering::Equal,
        }
    }

    /// Adds an error if the number is on the wrong side of a limit. `Less` is the wrong side.
    fn compare(
        self,
        side: Ordering,
        limit: Number,
        bound: Bound,
        [inclusive, exclusive]: [&str; 2],
        path: &ValuePath<'_>,
        result: &mut ValidationResult,
    ) {
        let (words, wrong) = match bound {
            Bound::Inclusive => (inclusive, side.is_lt()),
            Bound::Exclusive => (exclusive, side.is_le()),
        };
        if wrong {
            result.invalid(path, format_args!("{words} {limit}"), self.value());
        }
    }
}

/// The form that `%v` prints.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(i) => i.fmt(f),
            Number::Float(x) => f.write_str(&print::plain_float(*x)),
        }
    }
}

/// Converts a float as Go does on amd64: a number out of range becomes the smallest integer.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn to_int(x: f64) -> i64 {
    if (-TWO_63..TWO_63).contains(&x) { x as i64 } else { i64::MIN }
}

/// True for an integer by go-openapi's definition: below 2^53, and whole within a relative error of 1e-9.
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
    // Upstream converts through an unsigned integer, which fails for negative numbers.
    let cut = to_int(x) as u64 as f64;
    if cut == 0.0 {
        return false;
    }
    (x - cut).abs() / (x.abs() + cut) < EPSILON
}
