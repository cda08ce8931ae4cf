//! Encodes trees to YAML as goyaml v2 encodes untyped data. Keys are in natural order, and lists are not indented below
//! their keys. Strings are quoted only where a plain scalar would resolve to another type. Lines are folded at 80
//! columns.
//!
//! Upstream encodes JSON first and decodes it as YAML. That fails on DEL and the C1 control characters, and turns NEL
//! into a space. This encoder writes them as escapes, so that every stored object can be encoded.

use pintle_value::{Object, Value, print};

use super::emit::{EmitContext, Emitter, Indent, Layout, ScalarStyle};
use super::number::format_g;
use super::resolve::{Scalar, is_base60, resolve};

/// The differences between the encoders of trees.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    pub(super) layout: Layout,
    /// The text of null, a boolean or a number.
    pub(super) plain: fn(&Value) -> String,
    pub(super) scalar_style: fn(&str) -> ScalarStyle,
    /// The entries of a mapping in their order.
    pub(super) entries: fn(&Object) -> Vec<(&str, &Value)>,
}

/// goyaml v2.
const V2: Dialect = Dialect { layout: Layout::V2, plain: plain_text, scalar_style, entries: sorted_entries };

/// Encodes a value as YAML with a final line feed.
#[must_use]
pub fn encode(value: &Value) -> Vec<u8> {
    V2.encode(value)
}

impl Dialect {
    pub(super) fn encode(self, value: &Value) -> Vec<u8> {
        let mut emitter = Emitter::new(self.layout);
        self.write_node(&mut emitter, value, None, EmitContext::Root);
        emitter.finish().into_bytes()
    }

    fn write_node(self, emitter: &mut Emitter, value: &Value, outer: Indent, context: EmitContext) {
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                emitter.write_scalar(&(self.plain)(value), ScalarStyle::Plain, outer, context);
            }
            Value::String(text) => emitter.write_scalar(text, (self.scalar_style)(text), outer, context),
            Value::Array(items) if items.is_empty() => emitter.write_empty_collection("[", "]"),
            Value::Object(object) if object.is_empty() => emitter.write_empty_collection("{", "}"),
            Value::Array(items) => {
                let indent = emitter.list_indent(outer, context);
                for item in items {
                    emitter.write_dash(indent);
                    self.write_node(emitter, item, Some(indent), EmitContext::SequenceItem);
                }
            }
            Value::Object(object) => {
                let indent = emitter.map_indent(outer, context);
                for (key, value) in (self.entries)(object) {
                    emitter.write_key(key, (self.scalar_style)(key), indent);
                    self.write_node(emitter, value, Some(indent), EmitContext::MappingValue);
                }
            }
        }
    }
}

/// Quotes a string that would otherwise resolve to another type, here or in older parsers.
fn scalar_style(text: &str) -> ScalarStyle {
    if text.contains('\n') {
        ScalarStyle::Literal
    } else if resolve(text) == Scalar::Text && !is_base60(text) {
        ScalarStyle::Plain
    } else {
        ScalarStyle::Quoted
    }
}

/// Formats null, a boolean or a number.
fn plain_text(value: &Value) -> String {
    match value {
        Value::Float(f) => format_float(*f),
        other => print::json(other),
    }
}

/// Formats a float through its JSON text. If that is an integer that fits 64 bits, it is written as an integer.
fn format_float(f: f64) -> String {
    let json = crate::json::encode(&Value::Float(f));
    let json = String::from_utf8(json).unwrap_or_default();
    match resolve(&json) {
        Scalar::Int(i) => i.to_string(),
        Scalar::Uint(u) => u.to_string(),
        _ => format_g(f),
    }
}

/// The entries in goyaml's key order: digit sequences by their number, other characters before letters
/// (`keyList.Less`).
fn sorted_entries(object: &Object) -> Vec<(&str, &Value)> {
    let keys: Vec<(Vec<char>, (&str, &Value))> = object.iter().map(|e| (e.0.chars().collect(), e)).collect();
    merge_sort(keys, &|a, b| less(&a.0, &b.0)).into_iter().map(|(_, entry)| entry).collect()
}

/// A merge sort for relations that are not a total order. goyaml's relation is none for unusual keys. The standard
/// library's sort may panic on such relations.
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

/// Returns whether `a` sorts before `b`.
fn less(a: &[char], b: &[char]) -> bool {
    let Some(i) = a.iter().zip(b).position(|(x, y)| x != y) else { return a.len() < b.len() };
    let (x, y) = (a[i], b[i]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x < y,
        (true, false) => return false,
        (false, true) => return true,
        (false, false) => {}
    }
    // A zero inside a number does not start a new number.
    let inside = (x == '0' || y == '0') && a[..i].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let run = |text: &[char]| {
        text[i..].iter().take_while(|c| c.is_ascii_digit()).fold((i64::from(inside), 0usize), |(n, len), c| {
            (n.wrapping_mul(10).wrapping_add(i64::from(c.to_digit(10).unwrap_or_default())), len + 1)
        })
    };
    let ((m, m_len), (n, n_len)) = (run(a), run(b));
    (m, m_len, x) < (n, n_len, y)
}
