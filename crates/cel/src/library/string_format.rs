//! Format strings, `'…'.format([…])`, in cel-go's default locale, en_US (upstream: cel-go `ext/formatting.go`).

use pintle_budget as budget;
use pintle_value::print::quote;

use super::conversions;
use crate::error::EvalError;
use crate::format_string::{Clause, DEFAULT_PRECISION, expand};
use crate::value::{EvalResult, List, Map, MapKey, Value};

/// Why a value cannot be formatted.
enum FormatError {
    /// The value is of the wrong type.
    Message(String),
    /// The evaluation has to end.
    Fatal(EvalError),
}

impl From<String> for FormatError {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

type FormatResult = Result<String, FormatError>;

/// Charges a part of the result. The parts are released when the call ends.
fn charged(text: String) -> FormatResult {
    match budget::step().and_then(|()| budget::try_charge(text.len())) {
        Ok(()) => Ok(text),
        Err(why) => Err(FormatError::Fatal(why.into())),
    }
}

/// Expands a format string with the given arguments.
pub(super) fn format(template: &str, args: &List<'_>) -> EvalResult<String> {
    let mut fatal = None;
    let expanded = expand(template, args.len(), |index, clause| {
        let arg = args.get(index).unwrap_or(Value::Null);
        format_clause(clause, &arg).and_then(charged).map_err(|error| match error {
            FormatError::Message(message) => message,
            FormatError::Fatal(error) => fatal.insert(error).to_string(),
        })
    });
    expanded.map_err(|message| fatal.unwrap_or_else(|| EvalError::new(message)))
}

fn format_clause(clause: Clause, arg: &Value<'_>) -> FormatResult {
    let type_error = || FormatError::Message(clause.type_error(&arg.type_name()));
    let double = || match arg {
        Value::Double(x) => Ok(*x),
        Value::String(text) => match &**text {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(type_error()),
        },
        _ => Err(type_error()),
    };
    Ok(match (clause, arg) {
        (Clause::String, arg) => format_string(arg)?,
        (Clause::Decimal, Value::Int(i)) => i.to_string(),
        (Clause::Decimal, Value::Uint(u)) => u.to_string(),
        (Clause::Fixed(precision), _) => format_fixed(double()?, precision),
        (Clause::Scientific(precision), _) => format_scientific(double()?, precision),
        (Clause::Binary, Value::Int(i)) => format_signed(*i, |u| format!("{u:b}")),
        (Clause::Binary, Value::Uint(u)) => format!("{u:b}"),
        (Clause::Binary, Value::Bool(b)) => u8::from(*b).to_string(),
        (Clause::Octal, Value::Int(i)) => format_signed(*i, |u| format!("{u:o}")),
        (Clause::Octal, Value::Uint(u)) => format!("{u:o}"),
        (Clause::Hex { upper }, arg) => {
            let bytes = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let text = match arg {
                Value::Int(i) => format_signed(*i, |u| format!("{u:x}")),
                Value::Uint(u) => format!("{u:x}"),
                Value::String(text) => bytes(text.as_bytes()),
                Value::Bytes(content) => bytes(content),
                _ => return Err(type_error()),
            };
            if upper { text.to_ascii_uppercase() } else { text }
        }
        _ => return Err(type_error()),
    })
}

fn format_signed(i: i64, digits: impl Fn(u64) -> String) -> String {
    let text = digits(i.unsigned_abs());
    if i < 0 { format!("-{text}") } else { text }
}

fn format_non_finite(x: f64) -> Option<String> {
    let text = match x {
        x if x.is_nan() => "NaN",
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "-∞",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Fixed-point notation with thousands separators.
fn format_fixed(x: f64, precision: usize) -> String {
    if let Some(text) = format_non_finite(x) {
        return text;
    }
    let text = format!("{x:.precision$}");
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

/// Scientific notation of the locale, such as `1.500000×10⁰³`. cel-go uses the precision as the width.
fn format_scientific(x: f64, width: usize) -> String {
    let text = format_non_finite(x).unwrap_or_else(|| {
        // cel-go drops the sign of zero.
        let x = if x == 0.0 { 0.0 } else { x };
        let text = format!("{x:.DEFAULT_PRECISION$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { "⁻" } else { "" };
        let raised: String = format!("{:02}", exponent.abs()).chars().map(superscript).collect();
        format!("{mantissa}×10{sign}{raised}")
    });
    format!("{text:>width$}")
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        d => char::from_u32('⁰' as u32 + d.to_digit(10).unwrap_or(0)).unwrap_or(d),
    }
}

fn format_string(arg: &Value<'_>) -> FormatResult {
    match arg {
        Value::List(list) => format_list(list),
        Value::Map(map) => format_map(map),
        Value::Null => Ok("null".to_owned()),
        Value::Optional(_) | Value::Opaque(_) | Value::Invalid(_) => {
            Err(Clause::String.type_error(&arg.type_name()).into())
        }
        arg => match conversions::to_string(std::slice::from_ref(arg)) {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(_) => Err(Clause::String.type_error(&arg.type_name()).into()),
            Err(error) => Err(format!("could not convert argument {} to string", quote(&error.to_string())).into()),
        },
    }
}

/// Formats a value within a list or map.
fn format_nested(value: &Value<'_>) -> FormatResult {
    charged(match value {
        Value::String(text) => quote(text),
        Value::Bytes(_) => format!("b{}", quote(&format_string(value)?)),
        Value::Double(x) if x.is_finite() => format!("{x:.DEFAULT_PRECISION$}"),
        Value::Double(x) if x.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(x) => format!("\"{}Inf\"", if *x > 0.0 { '+' } else { '-' }),
        Value::Timestamp(_) => format!("timestamp({})", quote(&format_string(value)?)),
        Value::Duration(_) => format!("duration({})", quote(&format_string(value)?)),
        Value::Optional(_) | Value::Opaque(_) | Value::Invalid(_) => {
            return Err(format!("no formatting function for {}", value.type_name()).into());
        }
        other => format_string(other)?,
    })
}

fn format_list(list: &List<'_>) -> FormatResult {
    let elements: Vec<String> = list.iter().map(|element| format_nested(&element)).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", elements.join(", ")))
}

fn format_map(map: &Map<'_>) -> FormatResult {
    let mut entries = Vec::new();
    for (key, value) in map.iter() {
        let text = match MapKey::new(key.clone()) {
            Some(MapKey::Double(_)) | None => {
                return Err(format!("no formatting function for map key of type {}", key.type_name()).into());
            }
            Some(_) => format_nested(&key)?,
        };
        entries.push((text, format_nested(&value)?));
    }
    entries.sort();
    let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}
