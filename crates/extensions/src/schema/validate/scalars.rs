//! Strings, formats and enums (upstream: `stringValidator`, `formatValidator`, `basicCommonValidator`).

use pintle_value::Value;

use super::failure::Outcome;
use super::numbers::to_int;
use crate::schema::model::{Keyword, Pattern};
use crate::schema::part::Part;
use crate::schema::path::Path;

/// Says the first thing that is wrong with a string.
pub(super) fn check_string(part: Part<'_>, text: &str, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for keyword in part.keywords() {
        match keyword {
            Keyword::MaxLength(max) if length(text) > *max => outcome.too_long(path, *max),
            Keyword::MinLength(min) if length(text) < *min => {
                outcome.invalid(path, format_args!("should be at least {min} chars long"), Value::from(text));
            }
            Keyword::Pattern(at) => {
                if let Some(pattern) = part.schema.patterns.get(*at as usize) {
                    check_pattern(pattern, text, path, &mut outcome);
                }
            }
            _ => {}
        }
        if !outcome.is_valid() {
            break;
        }
    }
    outcome
}

fn check_pattern(pattern: &Pattern, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
    let source = &pattern.text;
    match pattern.compiled() {
        Ok(regex) if regex.is_match(text) => {}
        Ok(_) => outcome.invalid(path, format_args!("should match '{source}'"), Value::from(text)),
        Err(why) => {
            let saying = format_args!("should match '{source}, but pattern is invalid: {why}'");
            outcome.invalid(path, saying, Value::from(text));
        }
    }
}

/// Characters, not bytes.
fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// Judges a string by its format; `None` where there is none that is known.
pub(super) fn check_format(part: Part<'_>, text: &str, path: &Path<'_>) -> Option<Outcome> {
    let (name, format) = part.format()?;
    let format = format.filter(|format| format.is_of_strings())?;
    let mut outcome = Outcome::default();
    if !format.accepts(text) {
        outcome.wrong_type(path, name, text);
    }
    Some(outcome)
}

pub(super) fn check_enum(listed: &[Value], value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    if !listed.iter().any(|one| is_listed(value, one)) {
        outcome.not_listed(path, value, listed);
    }
}

/// Go converts the value to the type of the listed one first: 1.5 becomes 1, and 65 the text "A". Null is never listed.
#[allow(clippy::cast_precision_loss)]
fn is_listed(value: &Value, listed: &Value) -> bool {
    match (value, listed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Int(i), Value::Float(x)) => *i as f64 == *x,
        (Value::Float(x), Value::Int(i)) => to_int(*x) == *i,
        (Value::Int(i), Value::String(text)) => {
            let character = u32::try_from(*i).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            text.chars().eq([character])
        }
        (value, listed) => value == listed,
    }
}
