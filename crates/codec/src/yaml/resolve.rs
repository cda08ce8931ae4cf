//! Resolves plain scalars as goyaml v2 does: YAML 1.1 with its many booleans and octal numbers. There are no
//! sexagesimal numbers, and timestamps are kept as text.

/// The resolved type and value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above [`i64::MAX`].
    Uint(u64),
    Float(f64),
    /// Text in the format of a timestamp. It stays text, but is quoted when it is written.
    Timestamp,
    Text,
}

impl Scalar {
    /// The short tag in goyaml's messages.
    fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Timestamp => "!!timestamp",
            Scalar::Text => "!!str",
        }
    }
}

const PREFIX: &str = "tag:yaml.org,2002:";

/// Shortens a tag: `!!int`.
fn short_tag(tag: &str) -> String {
    tag.strip_prefix(PREFIX).map_or_else(|| tag.to_owned(), |name| format!("!!{name}"))
}

/// Resolves a scalar with a tag, in its long form or empty. Tags that do not apply to plain scalars resolve to text.
///
/// # Errors
/// Returns an error if the text is not a value of the tag's type.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Scalar, String> {
    let wanted = match tag.strip_prefix(PREFIX) {
        None if tag.is_empty() => return Ok(resolve(text)),
        Some(name @ ("bool" | "int" | "float" | "null" | "timestamp")) => name,
        _ => return Ok(Scalar::Text),
    };
    let scalar = match resolve(text) {
        // A timestamp is only recognized if the tag asks for one.
        Scalar::Timestamp if wanted != "timestamp" => Scalar::Text,
        other => other,
    };
    match (wanted, scalar) {
        #[allow(clippy::cast_precision_loss)] // as Go converts
        ("float", Scalar::Int(i)) => Ok(Scalar::Float(i as f64)),
        (wanted, scalar) if scalar.tag()[2..] == *wanted => Ok(scalar),
        (_, scalar) => Err(format!("cannot decode {} `{text}` as a {}", scalar.tag(), short_tag(tag))),
    }
}

/// Resolves a plain scalar without a tag.
pub(super) fn resolve(text: &str) -> Scalar {
    let named = match text {
        "" | "~" | "null" | "Null" | "NULL" => Some(Scalar::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Some(Scalar::Bool(true)),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Scalar::Bool(false))
        }
        ".nan" | ".NaN" | ".NAN" => Some(Scalar::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(Scalar::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => Some(Scalar::Float(f64::NEG_INFINITY)),
        _ => None,
    };
    if let Some(scalar) = named {
        return scalar;
    }
    match text.as_bytes().first() {
        Some(b'.') => leading_point_float(text).map_or(Scalar::Text, Scalar::Float),
        Some(b'+' | b'-' | b'0'..=b'9') if is_timestamp(text) => Scalar::Timestamp,
        Some(b'+' | b'-' | b'0'..=b'9') => number(text).unwrap_or(Scalar::Text),
        _ => Scalar::Text,
    }
}

fn number(text: &str) -> Option<Scalar> {
    let plain = text.replace('_', "");
    let (sign, unsigned) = match plain.as_bytes().first() {
        Some(b'+' | b'-') => plain.split_at(1),
        _ => ("", plain.as_str()),
    };
    if let Some(magnitude) = integer(unsigned) {
        match (sign, i64::try_from(magnitude)) {
            ("-", Ok(magnitude)) => return Some(Scalar::Int(-magnitude)),
            ("-", Err(_)) if magnitude == i64::MIN.unsigned_abs() => return Some(Scalar::Int(i64::MIN)),
            ("-", Err(_)) => {}
            (_, Ok(magnitude)) => return Some(Scalar::Int(magnitude)),
            ("", Err(_)) => return Some(Scalar::Uint(magnitude)),
            _ => {}
        }
    }
    if is_float(unsigned) { float(&plain).map(Scalar::Float) } else { None }
}

/// Parses an integer in Go's base 0: prefixes `0x`, `0o`, `0b`, and a leading zero for octal.
fn integer(text: &str) -> Option<u64> {
    let lower = text.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (digits, radix) = match lower.as_str() {
        "0x" => (&text[2..], 16),
        "0o" => (&text[2..], 8),
        "0b" => (&text[2..], 2),
        _ if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        _ => (text, 10),
    };
    // Rust accepts a sign here, Go does not.
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let digits = |t: &str| t.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let mut rest = &text[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if whole == 0 && fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return false;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// Parses a float that starts with its decimal point. Go itself allows underscores between its digits.
fn leading_point_float(text: &str) -> Option<f64> {
    let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let between = |(at, _)| is_digit(usize::checked_sub(at, 1)) && is_digit(Some(at + 1));
    if !text.match_indices('_').all(between) {
        return None;
    }
    float(&text.replace('_', ""))
}

/// Parses a decimal float. `None` if it is out of range, so that it stays text.
fn float(text: &str) -> Option<f64> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !is_float(body) {
        return None;
    }
    text.parse::<f64>().ok().filter(|f| f.is_finite())
}

/// Returns whether the text is a date, with or without a time. A time after `T` or `t` has a zone, a time after spaces
/// has none.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_at_checked(4) else { return false };
    let Some(rest) = rest.strip_prefix('-') else { return false };
    if !year.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let mut parser = TimestampParser { rest };
    let (Some(month), true, Some(day)) = (parser.number(), parser.skip(b"-"), parser.number()) else { return false };
    let leap = year.parse::<u32>().is_ok_and(|y| y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    if day == 0 || day > days {
        return false;
    }
    if parser.rest.is_empty() {
        return true;
    }
    let zoned = parser.skip(b"Tt");
    if !zoned {
        let trimmed = parser.rest.trim_start_matches(' ');
        if trimmed.len() == parser.rest.len() {
            return false;
        }
        parser.rest = trimmed;
    }
    parser.time_of_day() && (!zoned || parser.zone()) && parser.rest.is_empty()
}

struct TimestampParser<'a> {
    rest: &'a str,
}

impl TimestampParser<'_> {
    /// Parses a number of one or two digits.
    fn number(&mut self) -> Option<u32> {
        let digits = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        number.parse().ok()
    }

    fn skip(&mut self, any: &[u8]) -> bool {
        let found = self.rest.bytes().next().is_some_and(|b| any.contains(&b));
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn time_of_day(&mut self) -> bool {
        for (i, limit) in [24, 60, 60].into_iter().enumerate() {
            if i > 0 && !self.skip(b":") || self.number().is_none_or(|n| n >= limit) {
                return false;
            }
        }
        let digits = self.rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        if digits > 0 && self.rest.starts_with(['.', ',']) {
            self.rest = &self.rest[1 + digits..];
        }
        true
    }

    /// Parses `Z`, or a sign, hours up to 24 and minutes up to 60, of two digits each.
    fn zone(&mut self) -> bool {
        if self.skip(b"Z") {
            return true;
        }
        let mut two = |limit: u32| {
            let digits = self.rest.get(1..3)?.bytes().all(|b| b.is_ascii_digit());
            let number = self.rest.get(1..3)?.parse::<u32>().ok().filter(|n| digits && *n < limit);
            let first = self.rest.bytes().next();
            self.rest = self.rest.get(3..)?;
            number.and(first)
        };
        matches!((two(25), two(61)), (Some(b'+' | b'-'), Some(b':')))
    }
}

/// Returns whether older parsers read the text as a base 60 number. Such text is quoted for them.
pub(super) fn is_base60(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut groups = body.split(':');
    let first = groups.next().unwrap_or_default();
    let first_fits =
        first.starts_with(|c: char| c.is_ascii_digit()) && first.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let mut rest: Vec<&str> = groups.collect();
    let Some(last) = rest.last_mut() else { return false };
    if let Some((whole, fraction)) = last.split_once('.') {
        if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
            return false;
        }
        *last = whole;
    }
    let fits = |group: &&str| matches!(group.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first_fits && rest.iter().all(fits)
}
