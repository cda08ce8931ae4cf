//! Strings, formats and enums (upstream: `stringValidator`, `formatValidator`, `basicCommonValidator`).

use pintle_value::Value;

use super::failure::{Failure, Outcome};
use super::numbers::to_int;
use crate::schema::model::Keyword;
use crate::schema::part::Part;
use crate::schema::path::Path;

/// The first thing that is wrong with a string.
pub(super) fn check_string(part: Part<'_>, text: &str, path: &Path<'_>) -> Outcome {
    let failure = part.keyword(|keyword| match keyword {
        Keyword::MaxLength(max) => (length(text) > *max).then(|| Failure::too_long(path, *max)),
        Keyword::MinLength(min) => {
            let saying = || format!("should be at least {min} chars long");
            (length(text) < *min).then(|| Failure::invalid(path, saying(), Value::from(text)))
        }
        Keyword::Pattern(at) => {
            let pattern = part.schema.patterns.get(*at as usize)?;
            let saying = match pattern.compiled() {
                Ok(regex) if regex.is_match(text) => return None,
                Ok(_) => format!("should match '{}'", pattern.text),
                Err(why) => format!("should match '{}, but pattern is invalid: {why}'", pattern.text),
            };
            Some(Failure::invalid(path, saying, Value::from(text)))
        }
        _ => None,
    });
    failure.map_or_else(Outcome::default, Outcome::from)
}

/// Characters, not bytes.
fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// Judges a string by its format; `None` where there is none that is known.
pub(super) fn check_format(part: Part<'_>, text: &str, path: &Path<'_>) -> Option<Outcome> {
    let (name, format) = part.format()?;
    let format = format.filter(|format| format.is_of_strings())?;
    Some(if format.accepts(text) { Outcome::default() } else { Failure::wrong_type(path, name, text).into() })
}

pub(super) fn check_enum(listed: &[Value], value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    if !listed.iter().any(|one| is_listed(value, one)) {
        outcome.push(Failure::not_listed(path, value, listed));
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
