//! Named formats: `format.dns1123Label().validate(x)` (upstream: `apiserver/pkg/cel/library/format.go`).

use std::any::Any;

use pintle_value::names;
use pintle_value::url::parse_request;

use super::Library;
use super::quantity::estimate_one;
use crate::cost::{CallEstimate, REGEX_STRING_LENGTH_COST_FACTOR, STRING_TRAVERSAL_COST_FACTOR, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::regexp::compile;
use crate::types::Type;
use crate::value::{EvalResult, Opaque, Timestamp, Value};

const TYPE_NAME: &str = "kubernetes.NamedFormat";
/// The length of a format's regular expression that estimates assume.
const MAX_PATTERN_LENGTH: f64 = 128.0;

/// A named format.
#[derive(Debug)]
struct NamedFormat {
    name: &'static str,
    validate: fn(&str) -> Vec<String>,
    /// The length of the regular expression, for the cost.
    pattern_length: u16,
}

impl Opaque for &'static NamedFormat {
    fn type_name(&self) -> &str {
        TYPE_NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| other.name == self.name)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const fn named(name: &'static str, pattern_length: u16, validate: fn(&str) -> Vec<String>) -> NamedFormat {
    NamedFormat { name, validate, pattern_length }
}

/// The formats, each by the name of the function that returns it.
static FORMATS: [(&str, NamedFormat); 13] = [
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
    ("format.uuid", named("uuid", 70, |text| error_unless(is_uuid(text), "does not match the UUID format"))),
    ("format.byte", named("byte", 84, |text| error_unless(is_base64(text), "invalid base64"))),
    ("format.date", named("date", 71, |text| error_unless(is_date(text), "invalid date"))),
    ("format.datetime", named("datetime", 71, |text| error_unless(is_datetime(text), "invalid datetime"))),
];

pub(super) fn library() -> Library {
    let format = Type::object(TYPE_NAME);
    let strings = Type::optional(Type::list(Type::String));
    let mut functions = vec![
        Function::new("validate")
            .overload(Overload::member("format-validate", &[format.clone(), Type::String], strings).binding(validate))
            .cost_tracker(track_validate)
            .cost_estimator(|call| {
                let size = call.size(call.args.first()?);
                let cost = size
                    .times_factor(STRING_TRAVERSAL_COST_FACTOR)
                    .times_factor(MAX_PATTERN_LENGTH * REGEX_STRING_LENGTH_COST_FACTOR);
                Some(CallEstimate::cost(cost))
            }),
        Function::new("format.named")
            .overload(
                Overload::global("format-named", &[Type::String], Type::optional(format.clone())).binding(by_name),
            )
            .cost_tracker(tracker::one)
            .cost_estimator(estimate_one),
    ];
    // Function pointers capture nothing, so each format needs its own.
    let constructors: [FunctionOp; 13] = [
        |_| Ok(format_value(0)),
        |_| Ok(format_value(1)),
        |_| Ok(format_value(2)),
        |_| Ok(format_value(3)),
        |_| Ok(format_value(4)),
        |_| Ok(format_value(5)),
        |_| Ok(format_value(6)),
        |_| Ok(format_value(7)),
        |_| Ok(format_value(8)),
        |_| Ok(format_value(9)),
        |_| Ok(format_value(10)),
        |_| Ok(format_value(11)),
        |_| Ok(format_value(12)),
    ];
    for ((name, _), constructor) in FORMATS.iter().zip(constructors) {
        functions.push(Function::new(name).overload(Overload::global(name, &[], format.clone()).binding(constructor)));
    }
    Library::of(functions)
}

fn format_value(index: usize) -> Value<'static> {
    Value::opaque(&FORMATS[index].1)
}

fn by_name<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [Value::String(name)] = args else { return Err(EvalError::no_overload()) };
    let found = FORMATS.iter().position(|(function, _)| function.strip_prefix("format.") == Some(name));
    Ok(found.map_or(Value::Optional(None), |index| Value::some(format_value(index))))
}

fn validate<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let [format, Value::String(text)] = args else { return Err(EvalError::no_overload()) };
    let format = format.as_opaque::<&'static NamedFormat>().ok_or_else(EvalError::no_overload)?;
    let errors = (format.validate)(text);
    if errors.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::some(Value::list(errors.into_iter().map(Value::string).collect())))
}

fn track_validate(args: &[Value<'_>], _: &Value<'_>) -> u64 {
    let [format, text] = args else { return 1 };
    let Some(format) = format.as_opaque::<&'static NamedFormat>() else { return 1 };
    tracker::regex_cost(tracker::actual_size(text) as f64, f64::from(format.pattern_length))
}

fn error_unless(condition: bool, message: &str) -> Vec<String> {
    if condition { Vec::new() } else { vec![message.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    const PATTERN: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    compile(PATTERN).is_ok_and(|pattern| pattern.searching(text).is_ok_and(|pattern| pattern.is_match(text)))
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
    let Ok(pattern) = pattern.searching(time) else { return false };
    let Some(found) = pattern.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}
