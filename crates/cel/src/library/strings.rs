//! cel-go's strings extension, version 2 (upstream: cel-go `ext/strings.go`). Indices count code points.

use std::slice::from_ref;

use pintle_budget as budget;

use super::Library;
use super::string_format::format;
use crate::cost::{CallEstimate, CostEstimate, EstimatedCall, STRING_TRAVERSAL_COST_FACTOR, SizeEstimate, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, STRING_BYTES, Value, ensure_room, go_string};

pub(super) fn library() -> Library {
    use Type::{Int, String};
    let strings = Type::list(String);
    let member =
        |id, params: &[Type], result: Type, binding: FunctionOp| Overload::member(id, params, result).binding(binding);
    Library::of(vec![
        Function::new("charAt").overload(member("string_char_at_int", &[String, Int], String, char_at)),
        Function::new("indexOf")
            .overload(member("string_index_of_string", &[String, String], Int, index_of))
            .overload(member("string_index_of_string_int", &[String, String, Int], Int, index_of))
            .cost_tracker(tracker::traverse_deep)
            .cost_estimator(super::lists::estimate_search),
        Function::new("lastIndexOf")
            .overload(member("string_last_index_of_string", &[String, String], Int, last_index_of))
            .overload(member("string_last_index_of_string_int", &[String, String, Int], Int, last_index_of))
            .cost_tracker(tracker::traverse_deep)
            .cost_estimator(super::lists::estimate_search),
        Function::new("lowerAscii")
            .overload(member("string_lower_ascii", &[String], String, |args| match args {
                [Value::String(text)] => Ok(Value::string(text.to_ascii_lowercase())),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_traversal),
        Function::new("upperAscii")
            .overload(member("string_upper_ascii", &[String], String, |args| match args {
                [Value::String(text)] => Ok(Value::string(text.to_ascii_uppercase())),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_traversal),
        Function::new("trim")
            .overload(member("string_trim", &[String], String, |args| match args {
                [Value::String(text)] => Ok(Value::string(text.trim_matches(is_space))),
                _ => Err(EvalError::no_overload()),
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_traversal),
        Function::new("substring")
            .overload(member("string_substring_int", &[String, Int], String, substring))
            .overload(member("string_substring_int_int", &[String, Int, Int], String, substring))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_traversal),
        Function::new("replace")
            .overload(member("string_replace_string_string", &[String, String, String], String, replace))
            .overload(member("string_replace_string_string_int", &[String, String, String, Int], String, replace))
            .cost_tracker(tracker::traverse_first_twice)
            .cost_estimator(estimate_replace),
        Function::new("split")
            .overload(member("string_split_string", &[String, String], strings.clone(), split))
            .overload(member("string_split_string_int", &[String, String, Int], strings.clone(), split))
            .cost_tracker(tracker::traverse_first_twice)
            .cost_estimator(estimate_split),
        Function::new("join")
            .overload(member("list_join", from_ref(&strings), String, join))
            .overload(member("list_join_string", &[strings, String], String, join))
            .cost_tracker(tracker::traverse_result_twice)
            .cost_estimator(estimate_join),
        Function::new("format").stop_at_first_error().overload(
            member("string_format", &[String, Type::list(Type::Dyn)], String, |args| match args {
                [Value::String(template), Value::List(list)] => format(template, list).map(Value::string),
                _ => Err(EvalError::no_overload()),
            })
            .cost_tracker(tracker::traverse_first),
        ),
        Function::new("strings.quote").overload(
            Overload::global("strings_quote", &[String], String).cost_tracker(tracker::traverse_first).binding(
                |args| match args {
                    [Value::String(text)] => {
                        ensure_room(2 * text.len())?;
                        Ok(Value::string(quote(text)))
                    }
                    _ => Err(EvalError::no_overload()),
                },
            ),
        ),
    ])
}

/// Go's `unicode.IsSpace`.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// The byte offset of a code point index. The end of the text is a valid index.
fn byte_offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(EvalError::no_overload()) };
    let at = byte_offset(text, *index).ok_or_else(|| out_of_range(*index))?;
    Ok(Value::string(text[at..].chars().next().map(String::from).unwrap_or_default()))
}

fn char_count(text: &str) -> i64 {
    text.chars().count() as i64
}

fn index_of<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, needle, offset) = match args {
        [Value::String(text), Value::String(needle)] => (text, needle, 0),
        [Value::String(text), Value::String(needle), Value::Int(offset)] => (text, needle, *offset),
        _ => return Err(EvalError::no_overload()),
    };
    if needle.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let Some(from) = byte_offset(text, offset) else { return Ok(Value::Int(-1)) };
    let found = text[from..].find(&**needle).map_or(-1, |at| offset + char_count(&text[from..from + at]));
    Ok(Value::Int(found))
}

fn last_index_of<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, needle, offset) = match args {
        [Value::String(text), Value::String(needle)] if needle.is_empty() => {
            return Ok(Value::Int(char_count(text)));
        }
        [Value::String(text), Value::String(needle)] if text.len() < needle.len() => return Ok(Value::Int(-1)),
        [Value::String(text), Value::String(needle)] => (text, needle, char_count(text) - 1),
        [Value::String(text), Value::String(needle), Value::Int(offset)] => (text, needle, *offset),
        _ => return Err(EvalError::no_overload()),
    };
    if needle.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= char_count(text) {
        return Ok(Value::Int(-1));
    }
    let end = byte_offset(text, offset.saturating_add(char_count(needle))).unwrap_or(text.len());
    Ok(Value::Int(text[..end].rfind(&**needle).map_or(-1, |at| char_count(&text[..at]))))
}

fn substring<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::no_overload()),
    };
    if let Some(end) = end
        && start > end
    {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_offset(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_offset(text, end).ok_or_else(|| out_of_range(end))?,
        None => text.len(),
    };
    Ok(Value::string(&text[from..to]))
}

fn replace<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(n)] => (text, old, new, *n),
        _ => return Err(EvalError::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if new.len() > old.len() {
        let count = text.matches(&**old).take(limit).count();
        ensure_room(text.len() + count.saturating_mul(new.len() - old.len()))?;
    }
    Ok(Value::string(text.replacen(&**old, new, limit)))
}

fn split<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(n)] => (text, separator, *n),
        _ => return Err(EvalError::no_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    // Each part is an allocation of its own.
    let most = if separator.is_empty() { text.len() } else { text.matches(&**separator).count() + 1 };
    let count = most.min(limit);
    budget::try_charge(text.len() + count * STRING_BYTES)?;
    let parts: Vec<Value<'_>> = if separator.is_empty() {
        let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).take(limit - 1).collect();
        if !text.is_empty() {
            ends.push(text.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(ends.iter().copied()).map(|(from, to)| Value::string(&text[from..to])).collect()
    } else {
        text.splitn(limit, &**separator).map(Value::string).collect()
    };
    Ok(Value::list(parts))
}

fn join<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::no_overload()),
    };
    let mut joined = String::new();
    for (i, element) in list.iter().enumerate() {
        let Value::String(text) = &element else {
            return Err(EvalError::new(format!("join: invalid input: {}", go_string(&element))));
        };
        let separator = if i > 0 { separator } else { "" };
        ensure_room(joined.len() + separator.len() + text.len())?;
        joined.push_str(separator);
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}

fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\u{07}' => quoted.push_str("\\a"),
            '\u{08}' => quoted.push_str("\\b"),
            '\u{0c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{0b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Traverses the target; the result has the same size.
fn estimate_traversal(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let size = call.size(call.target?);
    Some(CallEstimate::sized(size.times_factor(STRING_TRAVERSAL_COST_FACTOR), size))
}

fn estimate_replace(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let ([old, new, ..], size) = (call.args, call.size(call.target?)) else { return None };
    let (old, new) = (call.size(old), call.size(new));
    let occurrences = |size: u64, needle: u64| (size as f64 / needle as f64).ceil() as u64;
    let (mut count, mut remaining) = (SizeEstimate::default(), SizeEstimate::default());
    if old.min == 0 {
        // The empty string occurs around every character.
        count.max = size.max.saturating_add(1);
        remaining.max = size.max;
    } else if new.max <= old.min {
        remaining.max = size.max;
    } else {
        count.max = occurrences(size.max, old.min);
    }
    if old.max == 0 {
        count.min = size.min.saturating_add(1);
        remaining.min = size.min;
    } else if old.max <= new.min {
        remaining.min = size.min;
    } else {
        count.min = occurrences(size.min, old.max);
    }
    let cost = size.times_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR);
    Some(CallEstimate::sized(cost, count.times(new).plus(remaining)))
}

fn estimate_split(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let size = call.size(call.target?);
    let limit = call.args.get(1).and_then(|limit| limit.int);
    let max = limit.map_or(size.max, |limit| limit as u64);
    Some(CallEstimate::sized(size.times_factor(2.0 * STRING_TRAVERSAL_COST_FACTOR), SizeEstimate { min: 0, max }))
}

fn estimate_join(call: &EstimatedCall<'_>) -> Option<CallEstimate> {
    let target = call.target?;
    let list = call.size(target);
    let mut size = match call.elements(target) {
        Some(elements) => list.times(call.size(&elements)),
        None => SizeEstimate::default(),
    };
    if let Some(separator) = call.args.first() {
        let between = SizeEstimate { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        size = size.plus(call.size(separator).times(between));
    }
    let cost: CostEstimate = size.times_factor(STRING_TRAVERSAL_COST_FACTOR);
    Some(CallEstimate::sized(cost, size))
}
