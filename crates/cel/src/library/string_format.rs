//! `'…'.format([…])`: cel-go's format strings. The locale is that of American English, as cel-go's default.

use pintle_value::print::quote;

use super::conversions;
use crate::value::{Key, List, Map, Value};

/// How an argument is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `%s`
    String,
    /// `%d`
    Decimal,
    /// `%f` with so many decimals.
    Fixed(usize),
    /// `%e`, so wide.
    Scientific(usize),
    /// `%b`
    Binary,
    /// `%x` and `%X`
    Hex {
        /// True for `%X`.
        upper: bool,
    },
    /// `%o`
    Octal,
}

impl Clause {
    /// Why an argument of a type is refused.
    pub(crate) fn refusal(self, given: &str) -> String {
        let takes = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{takes}, was given {given}")
    }
}

/// How many decimals there are if the format does not say.
const DECIMALS: usize = 6;
/// More decimals than a format can sensibly ask for, so that it cannot make texts without end.
const MOST_DECIMALS: usize = 100_000;

/// Goes through a format string; `write` is asked for the text of each argument.
pub(crate) fn interpolate(
    template: &str,
    count: usize,
    mut write: impl FnMut(usize, Clause) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if next >= count {
            return Err(format!("index {next} out of range"));
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, after) =
            clause(rest).map_err(|message| format!("could not parse formatting clause: {message}"))?;
        out.push_str(&write(next, clause).map_err(|message| format!("error during formatting: {message}"))?);
        rest = after;
        next += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (decimals, text) = match text.strip_prefix('.') {
        None => (DECIMALS, text),
        Some(rest) => {
            let error = |message: String| format!("error while parsing precision: {message}");
            let end = rest.find(|c: char| !c.is_ascii_digit());
            let end = end.ok_or_else(|| error("could not find end of precision specifier".to_owned()))?;
            let decimals = pintle_value::atoi(&rest[..end])
                .map_err(|e| error(format!("error while converting precision to integer: {e}")))?;
            (usize::try_from(decimals).unwrap_or(MOST_DECIMALS).min(MOST_DECIMALS), &rest[end..])
        }
    };
    let Some(c) = text.chars().next() else { return Err("unexpected end of string".to_owned()) };
    let clause = match c {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(decimals),
        'e' => Clause::Scientific(decimals),
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { upper: c == 'X' },
        'o' => Clause::Octal,
        _ => {
            // cel-go looks at one byte.
            let shown = char::from(text.as_bytes()[0]);
            return Err(format!("unrecognized formatting clause \"{shown}\""));
        }
    };
    Ok((clause, &text[c.len_utf8()..]))
}

/// The text of a format string with its arguments.
pub(super) fn format(template: &str, args: &List<'_>) -> Result<String, String> {
    interpolate(template, args.len(), |index, clause| {
        let arg = args.get(index).unwrap_or(Value::Null);
        write(clause, &arg)
    })
}

fn write(clause: Clause, arg: &Value<'_>) -> Result<String, String> {
    let refused = || clause.refusal(&arg.type_name());
    let double = || match arg {
        Value::Double(x) => Ok(*x),
        Value::String(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(refused()),
        },
        _ => Err(refused()),
    };
    Ok(match (clause, arg) {
        (Clause::String, arg) => string(arg)?,
        (Clause::Decimal, Value::Int(i)) => i.to_string(),
        (Clause::Decimal, Value::Uint(u)) => u.to_string(),
        (Clause::Fixed(decimals), _) => fixed(double()?, decimals),
        (Clause::Scientific(decimals), _) => scientific(double()?, decimals),
        (Clause::Binary, Value::Int(i)) => signed(*i, |u| format!("{u:b}")),
        (Clause::Binary, Value::Uint(u)) => format!("{u:b}"),
        (Clause::Binary, Value::Bool(b)) => u8::from(*b).to_string(),
        (Clause::Octal, Value::Int(i)) => signed(*i, |u| format!("{u:o}")),
        (Clause::Octal, Value::Uint(u)) => format!("{u:o}"),
        (Clause::Hex { upper }, arg) => {
            let bytes = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let text = match arg {
                Value::Int(i) => signed(*i, |u| format!("{u:x}")),
                Value::Uint(u) => format!("{u:x}"),
                Value::String(text) => bytes(text.as_bytes()),
                Value::Bytes(content) => bytes(content),
                _ => return Err(refused()),
            };
            if upper { text.to_ascii_uppercase() } else { text }
        }
        _ => return Err(refused()),
    })
}

fn signed(i: i64, digits: impl Fn(u64) -> String) -> String {
    let text = digits(i.unsigned_abs());
    if i < 0 { format!("-{text}") } else { text }
}

fn special(x: f64) -> Option<String> {
    let text = match x {
        x if x.is_nan() => "NaN",
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "-∞",
        _ => return None,
    };
    Some(text.to_owned())
}

/// With thousands set apart, as the locale has it.
fn fixed(x: f64, decimals: usize) -> String {
    if let Some(text) = special(x) {
        return text;
    }
    let text = format!("{x:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |at| digits.split_at(at));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(c);
    }
    format!("{sign}{grouped}{fraction}")
}

/// `1.500000×10⁰³`, as the locale has it. What should be the number of decimals is the width, as in cel-go.
fn scientific(x: f64, width: usize) -> String {
    let shown = special(x).unwrap_or_else(|| {
        // cel-go loses the sign of zero.
        let x = if x == 0.0 { 0.0 } else { x };
        let text = format!("{x:.DECIMALS$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { "⁻" } else { "" };
        let raised: String = format!("{:02}", exponent.abs()).chars().map(superscript).collect();
        format!("{mantissa}×10{sign}{raised}")
    });
    format!("{shown:>width$}")
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        d => char::from_u32('⁰' as u32 + d.to_digit(10).unwrap_or(0)).unwrap_or(d),
    }
}

fn string(arg: &Value<'_>) -> Result<String, String> {
    match arg {
        Value::List(list) => write_list(list),
        Value::Map(map) => write_map(map),
        Value::Null => Ok("null".to_owned()),
        Value::Optional(_) | Value::Opaque(_) | Value::Invalid(_) => Err(Clause::String.refusal(&arg.type_name())),
        arg => match conversions::to_string(std::slice::from_ref(arg)) {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(_) => Err(Clause::String.refusal(&arg.type_name())),
            Err(error) => Err(format!("could not convert argument {} to string", quote(&error.to_string()))),
        },
    }
}

/// A value within a list or map.
fn nested(value: &Value<'_>) -> Result<String, String> {
    Ok(match value {
        Value::String(text) => quote(text),
        Value::Bytes(_) => format!("b{}", quote(&string(value)?)),
        Value::Double(x) if x.is_finite() => format!("{x:.DECIMALS$}"),
        Value::Double(x) if x.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(x) => format!("\"{}Inf\"", if *x > 0.0 { '+' } else { '-' }),
        Value::Timestamp(_) => format!("timestamp({})", quote(&string(value)?)),
        Value::Duration(_) => format!("duration({})", quote(&string(value)?)),
        Value::Optional(_) | Value::Opaque(_) | Value::Invalid(_) => {
            return Err(format!("no formatting function for {}", value.type_name()));
        }
        other => string(other)?,
    })
}

fn write_list(list: &List<'_>) -> Result<String, String> {
    let elements: Vec<String> = list.iter().map(|element| nested(&element)).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", elements.join(", ")))
}

fn write_map(map: &Map<'_>) -> Result<String, String> {
    let mut entries = Vec::new();
    for (key, value) in map.iter() {
        let shown = match Key::new(key.clone()) {
            Some(Key::Double(_)) | None => {
                return Err(format!("no formatting function for map key of type {}", key.type_name()));
            }
            Some(_) => nested(&key)?,
        };
        entries.push((shown, nested(&value)?));
    }
    entries.sort();
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
