//! Trees to YAML as goyaml v2 writes untyped data: keys in natural order, lists not indented below their keys, quotes only
//! where the text would otherwise mean something else, lines folded at 80 columns.
//!
//! Upstream makes JSON first and reads that as YAML, which fails on DEL and the control characters behind it, and makes a
//! space of NEL. Here they are written as escapes, so that what is stored can always be shown.

use pintle_value::{Object, Value};

use super::emit::{Indent, Layout, Place, Style};
use super::number::format_g;
use super::resolve::{Scalar, is_base60, resolve};

/// The YAML of a value, with a line feed at its end.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    let mut layout = Layout::new();
    node(&mut layout, value, None, Place::Root);
    layout.finish().into_bytes()
}

fn node(layout: &mut Layout, value: &Value, outer: Indent, place: Place) {
    match value {
        Value::Null => layout.scalar("null", Style::Plain, outer, place),
        Value::Bool(true) => layout.scalar("true", Style::Plain, outer, place),
        Value::Bool(false) => layout.scalar("false", Style::Plain, outer, place),
        Value::Int(i) => layout.scalar(&i.to_string(), Style::Plain, outer, place),
        Value::Float(f) => layout.scalar(&float(*f), Style::Plain, outer, place),
        Value::String(text) => layout.scalar(text, style(text), outer, place),
        Value::Array(items) if items.is_empty() => layout.empty("[", "]"),
        Value::Object(object) if object.is_empty() => layout.empty("{", "}"),
        Value::Array(items) => {
            let indent = layout.list_indent(outer, place);
            for item in items {
                layout.dash(indent);
                node(layout, item, Some(indent), Place::Item);
            }
        }
        Value::Object(object) => {
            let indent = outer.map_or(0, |outer| outer + 2);
            for (key, value) in in_natural_order(object) {
                layout.key(key, style(key), indent);
                node(layout, value, Some(indent), Place::Member);
            }
        }
    }
}

/// Quotes keep a text from meaning something else, here or to older parsers.
fn style(text: &str) -> Style {
    if text.contains('\n') {
        Style::Literal
    } else if resolve(text) == Scalar::Text && !is_base60(text) {
        Style::Plain
    } else {
        Style::Quoted
    }
}

/// A float goes through its JSON text, and what is an integer there stays one if it fits 64 bits without a sign.
fn float(f: f64) -> String {
    let json = crate::json::encode(&Value::Float(f));
    let json = String::from_utf8(json).unwrap_or_default();
    match resolve(&json) {
        Scalar::Int(i) => i.to_string(),
        Scalar::Uint(u) => u.to_string(),
        _ => format_g(f),
    }
}

/// The entries in goyaml's order: runs of digits by their number, other characters before letters.
fn in_natural_order(object: &Object) -> Vec<(&str, &Value)> {
    let keys: Vec<(Vec<char>, (&str, &Value))> = object.iter().map(|e| (e.0.chars().collect(), e)).collect();
    merge_sort(keys, &|a, b| less(&a.0, &b.0)).into_iter().map(|(_, entry)| entry).collect()
}

/// Sorts by a relation that need not be an order, as the one here is not for odd keys; the library's sort would panic.
fn merge_sort<T>(mut items: Vec<T>, less: &impl Fn(&T, &T) -> bool) -> Vec<T> {
    if items.len() < 2 {
        return items;
    }
    let right = items.split_off(items.len() / 2);
    let mut left = merge_sort(items, less).into_iter().peekable();
    let mut right = merge_sort(right, less).into_iter().peekable();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if less(b, a) { right.next() } else { left.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

/// True if `a` comes before `b`.
fn less(a: &[char], b: &[char]) -> bool {
    let Some(i) = a.iter().zip(b).position(|(x, y)| x != y) else { return a.len() < b.len() };
    let (x, y) = (a[i], b[i]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x < y,
        (true, false) => return false,
        (false, true) => return true,
        (false, false) => {}
    }
    // A zero inside of a number does not begin a new one.
    let inside = (x == '0' || y == '0') && a[..i].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let run = |text: &[char]| {
        text[i..].iter().take_while(|c| c.is_ascii_digit()).fold((i64::from(inside), 0usize), |(n, len), c| {
            (n.wrapping_mul(10).wrapping_add(i64::from(c.to_digit(10).unwrap_or_default())), len + 1)
        })
    };
    let ((m, m_len), (n, n_len)) = (run(a), run(b));
    (m, m_len, x) < (n, n_len, y)
}
