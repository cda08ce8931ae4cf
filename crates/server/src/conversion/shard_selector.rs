//! Shard selectors of lists and watches (KEP-5866; upstream: `sharding` of apimachinery and apiserver). They select a
//! part of a collection by ranges of the hash of a field. The text is an expression of CEL, which is parsed but not
//! evaluated.

use std::fmt;

use pintle_cache::Object;
use pintle_cel::{Expr, ExprKind, Literal, parse_without_macros};
use pintle_value::print::quote;
use pintle_versions::EffectiveVersion;

/// The exclusive end of all hashes.
const END: &str = "0x10000000000000000";
/// The number of hexadecimal digits of a hash.
const DIGITS: usize = 16;

/// A field whose hash determines the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShardKey {
    Uid,
    Namespace,
}

impl ShardKey {
    const fn path(self) -> &'static str {
        match self {
            ShardKey::Uid => "object.metadata.uid",
            ShardKey::Namespace => "object.metadata.namespace",
        }
    }
}

/// A range of hashes with an inclusive `start` and an exclusive `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShardRange {
    key: ShardKey,
    start: u128,
    end: u128,
}

/// The ranges of hashes of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShardSelector {
    key: ShardKey,
    ranges: Vec<ShardRange>,
}

impl ShardSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub(crate) fn parse(text: &str, version: EffectiveVersion) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("empty shard selector is not allowed; omit the parameter for unfiltered lists".to_owned());
        }
        let expr = parse_without_macros(text, version).map_err(|message| format!("CEL parse error: {message}"))?;
        let mut ranges = Vec::new();
        collect_ranges(&expr, &mut ranges)?;
        let key = ranges.first().map_or(ShardKey::Uid, |range| range.key);
        match ranges.iter().find(|range| range.key != key) {
            Some(other) => Err(format!(
                "all shard ranges must use the same field, got {} and {}",
                quote(key.path()),
                quote(other.key.path())
            )),
            None => Ok(Self { key, ranges }),
        }
    }

    /// True if the selector selects an object.
    pub(crate) fn matches(&self, object: &Object) -> bool {
        let hash = hash(match self.key {
            ShardKey::Uid => object.uid(),
            ShardKey::Namespace => object.namespace(),
        });
        self.ranges.iter().any(|range| (range.start..range.end).contains(&u128::from(hash)))
    }

    /// The number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }
}

/// Prints the selector in one form, whatever form the client has sent.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = DIGITS + "0x".len();
        for (index, ShardRange { key, start, end }) in self.ranges.iter().enumerate() {
            let separator = if index == 0 { "" } else { " || " };
            write!(f, "{separator}shardRange({}, '{start:#0digits$x}', '{end:#0digits$x}')", key.path())?;
        }
        Ok(())
    }
}

/// The hash of a field's value (upstream: Go's `fnv.New64a`).
fn hash(value: &str) -> u64 {
    value.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Appends the ranges of an expression.
fn collect_ranges(expr: &Expr, ranges: &mut Vec<ShardRange>) -> Result<(), String> {
    match &expr.kind {
        ExprKind::Call { function, args, .. } if function == "_||_" => {
            args.iter().try_for_each(|arg| collect_ranges(arg, ranges))
        }
        ExprKind::Call { function, args, .. } if function == "shardRange" => {
            ranges.push(parse_range(args)?);
            Ok(())
        }
        ExprKind::Call { function, .. } => {
            Err(format!("unsupported function {}; only shardRange() and || are allowed", quote(function)))
        }
        kind => {
            Err(format!("unexpected expression kind {}; expected shardRange() call or || operator", kind_number(kind)))
        }
    }
}

fn parse_range(args: &[Expr]) -> Result<ShardRange, String> {
    let [field, start, end] = args else {
        return Err(format!("shardRange() requires exactly 3 arguments, got {}", args.len()));
    };
    let path = field_path(field).map_err(|error| format!("shardRange() first argument: {error}"))?;
    let key = [ShardKey::Uid, ShardKey::Namespace].into_iter().find(|key| key.path() == path).ok_or_else(|| {
        let path = quote(&path);
        format!("unsupported field path {path}; supported: object.metadata.uid, object.metadata.namespace")
    })?;
    let (start_text, start) = parse_hash(start, "hexStart")?;
    let (end_text, end) = parse_hash(end, "hexEnd")?;
    if start >= end {
        return Err(format!("shard range start {start_text} must be less than end {end_text}"));
    }
    Ok(ShardRange { key, start, end })
}

/// The path of an argument such as `object.metadata.uid`.
fn field_path(expr: &Expr) -> Result<String, String> {
    match &expr.kind {
        ExprKind::Ident(name) => Ok(name.to_string()),
        ExprKind::Select { operand, field, .. } => Ok(format!("{}.{field}", field_path(operand)?)),
        kind => {
            Err(format!("expected field path (e.g. object.metadata.uid), got expression kind {}", kind_number(kind)))
        }
    }
}

/// The text and the value of a hash in hexadecimal digits.
fn parse_hash<'e>(expr: &'e Expr, name: &str) -> Result<(&'e str, u128), String> {
    let literal = match &expr.kind {
        ExprKind::Literal(literal) => literal,
        kind => {
            let kind = kind_number(kind);
            return Err(format!("{name} must be a string literal (e.g. '0xff'), got expression kind {kind}"));
        }
    };
    let Literal::String(text) = literal else {
        return Err(format!("{name} must be a string literal, got {}", go_type(literal)));
    };
    let text = text.as_str();
    let Some(digits) = text.strip_prefix("0x") else {
        return Err(format!("{name} must have '0x' prefix, got {}", quote(text)));
    };
    if digits.is_empty() {
        return Err(format!("{name}: hex value is required after '0x'"));
    }
    if digits.len() > DIGITS + 1 {
        let length = digits.len();
        return Err(format!("{name}: hex value too long ({length} chars, max 17): {}", quote(digits)));
    }
    if let Some(invalid) = digits.chars().find(|c| !matches!(c, '0'..='9' | 'a'..='f')) {
        let invalid = quote(invalid.encode_utf8(&mut [0; 4]));
        return Err(format!("{name}: invalid hex character {invalid} in {}", quote(text)));
    }
    if digits.len() == DIGITS + 1 && text != END {
        let text = quote(text);
        return Err(format!("{name}: 17-digit hex value must be '{END}' (2^64), got {text}"));
    }
    if digits.len() < DIGITS {
        let (text, padded) = (quote(text), quote(&format!("0x{digits:0>DIGITS$}")));
        return Err(format!("{name} must be a 0x-prefixed 16-digit hex value, got {text} (did you mean {padded}?)"));
    }
    u128::from_str_radix(digits, 16).map(|value| (text, value)).map_err(|error| error.to_string())
}

/// The type of a literal's value in Go, as cel-go holds it.
fn go_type(literal: &Literal) -> &'static str {
    match literal {
        Literal::Null => "structpb.NullValue",
        Literal::Bool(_) => "bool",
        Literal::Int(_) => "int64",
        Literal::Uint(_) => "uint64",
        Literal::Double(_) => "float64",
        Literal::String(_) => "string",
        Literal::Bytes(_) => "[]uint8",
    }
}

/// cel-go's number of a kind of expression. Upstream's messages name the kind only by this number.
fn kind_number(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::Unspecified => 0,
        ExprKind::Call { .. } => 1,
        ExprKind::Comprehension(_) => 2,
        ExprKind::Ident(_) => 3,
        ExprKind::List { .. } => 4,
        ExprKind::Literal(_) => 5,
        ExprKind::Map(_) => 6,
        ExprKind::Select { .. } => 7,
        ExprKind::Struct { .. } => 8,
    }
}

#[cfg(test)]
mod tests {
    use pintle_versions::{Minor, MinorRange};
    use serde_json::Value;

    use super::*;

    #[test]
    fn selectors_are_parsed_as_upstream() {
        // The rows were recorded from apiserver's `sharding.Parse` by `tools/shard-selectors`.
        for row in include_str!("shard_selectors.jsonl").lines() {
            let row: Value = serde_json::from_str(row).expect("a row");
            let field = |name: &str| row[name].as_str().expect("a text");
            // A row with a version is of that version only.
            let versions = row["In"].as_str().map_or(MinorRange::ALL, |range| range.parse().expect("a range"));
            for minor in Minor::known().filter(|minor| versions.contains(*minor)) {
                let (selector, error) = match ShardSelector::parse(field("Text"), EffectiveVersion::of(minor)) {
                    Ok(selector) => (selector.to_string(), String::new()),
                    Err(error) => (String::new(), error),
                };
                let expect = (field("Selector"), field("Error"));
                assert_eq!((selector.as_str(), error.as_str()), expect, "{minor}: {}", field("Text"));
            }
        }
    }

    #[test]
    fn hashes_are_those_of_go() {
        for (value, expect) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("kube-system", 0xdf65_c7bc_1d82_b35e),
            ("0a2b9d6e-7b7c-4a57-9f0b-1c1e9e1f8a11", 0x6654_2b43_9aa9_83f1),
        ] {
            assert_eq!(hash(value), expect, "{value}");
        }
    }
}
