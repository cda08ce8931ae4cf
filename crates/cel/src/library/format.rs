//! Formats with names: `format.dns1123Label().validate(x)`.

use std::any::Any;

use pintle_value::names;

use super::Library;
use super::quantity::estimate_one;
use super::uri::parse_request;
use crate::cost::{CallEstimate, PER_CHARACTER, PER_PATTERN_CHARACTER, charge};
use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::pattern::compile;
use crate::types::Type;
use crate::value::{Opaque, Outcome, Timestamp, Value};

const NAME: &str = "kubernetes.NamedFormat";
/// What estimates take for the length of a format's regular expression.
const LONGEST_PATTERN: f64 = 128.0;

/// A format.
#[derive(Debug)]
struct Format {
    name: &'static str,
    validate: fn(&str) -> Vec<String>,
    /// How long the regular expression counts as.
    pattern: u16,
}

impl Opaque for &'static Format {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| other.name == self.name)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const fn named(name: &'static str, pattern: u16, validate: fn(&str) -> Vec<String>) -> Format {
    Format { name, validate, pattern }
}

/// The formats, and the functions that give them.
static FORMATS: [(&str, Format); 13] = [
    ("format.dns1123Label", named("DNS1123Label", 30, |text| names::dns1123_label_name(text, false))),
    ("format.dns1123Subdomain", named("DNS1123Subdomain", 60, |text| names::dns1123_subdomain_name(text, false))),
    ("format.dns1035Label", named("DNS1035Label", 30, |text| names::dns1035_label_name(text, false))),
    ("format.qualifiedName", named("QualifiedName", 60, names::qualified_name)),
    ("format.dns1123LabelPrefix", named("DNS1123LabelPrefix", 30, |text| names::dns1123_label_name(text, true))),
    (
        "format.dns1123SubdomainPrefix",
        named("DNS1123SubdomainPrefix", 60, |text| names::dns1123_subdomain_name(text, true)),
    ),
    ("format.dns1035LabelPrefix", named("DNS1035LabelPrefix", 30, |text| names::dns1035_label_name(text, true))),
    ("format.labelValue", named("LabelValue", 40, names::label_value)),
    ("format.uri", named("URI", 1103, |text| parse_request(text).err().into_iter().collect())),
    ("format.uuid", named("uuid", 70, |text| refuse(is_uuid(text), "does not match the UUID format"))),
    ("format.byte", named("byte", 84, |text| refuse(is_base64(text), "invalid base64"))),
    ("format.date", named("date", 71, |text| refuse(is_date(text), "invalid date"))),
    ("format.datetime", named("datetime", 71, |text| refuse(is_datetime(text), "invalid datetime"))),
];

pub(super) fn library() -> Library {
    let format = Type::object(NAME);
    let strings = Type::optional(Type::list(Type::String));
    let mut functions = vec![
        Function::new("validate")
            .overload(Overload::member("format-validate", &[format.clone(), Type::String], strings).run(validate))
            .charge(charge_validate)
            .estimate(|call| {
                let size = call.size(call.args.first()?);
                let cost = size.per_unit(PER_CHARACTER).per_unit(LONGEST_PATTERN * PER_PATTERN_CHARACTER);
                Some(CallEstimate::cost(cost))
            }),
        Function::new("format.named")
            .overload(Overload::global("format-named", &[Type::String], Type::optional(format.clone())).run(by_name))
            .charge(charge::one)
            .estimate(estimate_one),
    ];
    // Function pointers say nothing of which format is meant, so each function has its own.
    let givers: [Eval; 13] = [
        |_| Ok(given(0)),
        |_| Ok(given(1)),
        |_| Ok(given(2)),
        |_| Ok(given(3)),
        |_| Ok(given(4)),
        |_| Ok(given(5)),
        |_| Ok(given(6)),
        |_| Ok(given(7)),
        |_| Ok(given(8)),
        |_| Ok(given(9)),
        |_| Ok(given(10)),
        |_| Ok(given(11)),
        |_| Ok(given(12)),
    ];
    for ((name, _), give) in FORMATS.iter().zip(givers) {
        functions.push(Function::new(name).overload(Overload::global(name, &[], format.clone()).run(give)));
    }
    Library::of(functions)
}

fn given(index: usize) -> Value<'static> {
    Value::opaque(&FORMATS[index].1)
}

fn by_name<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let [Value::String(wanted)] = args else { return Err(EvalError::no_overload()) };
    let found = FORMATS.iter().position(|(function, _)| function.strip_prefix("format.") == Some(wanted));
    Ok(found.map_or(Value::Optional(None), |index| Value::some(given(index))))
}

fn validate<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let [format, Value::String(text)] = args else { return Err(EvalError::no_overload()) };
    let format = format.as_opaque::<&'static Format>().ok_or_else(EvalError::no_overload)?;
    let complaints = (format.validate)(text);
    if complaints.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(complaints.into_iter().map(Value::string).collect())))
}

fn charge_validate(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let [format, text] = args else { return 1 };
    let Some(format) = format.as_opaque::<&'static Format>() else { return 1 };
    charge::regex(charge::size(text) as f64, f64::from(format.pattern))
}

fn refuse(fits: bool, otherwise: &str) -> Vec<String> {
    if fits { Vec::new() } else { vec![otherwise.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    const PATTERN: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    compile(PATTERN).is_ok_and(|pattern| pattern.is_match(text))
}

fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && matches!(Timestamp::parse(&format!("{text}T00:00:00Z")), Some(Ok(_)))
}

fn is_datetime(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let pattern = compile("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
    let Ok(pattern) = pattern else { return false };
    let Some(found) = pattern.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}
