//! The options of connections (`PodExecOptions`, `PodLogOptions`, …), decoded from query parameters (upstream:
//! `runtime.ParameterCodec` with the generated conversions of `url.Values`).

use pintle_catalog::Catalog;
use pintle_registry::GroupVersionKind;
use pintle_schema::{Scalar, Type};
use pintle_value::print::quote;
use pintle_value::time::Time;
use pintle_value::{Value, object};

use crate::request::query::{Query, go_integer};

/// Decodes the options of a kind. `path` is the path below the subresource, if the connector serves paths.
///
/// # Errors
/// Go's message for a parameter that cannot be converted.
pub(super) fn decode_options(
    catalog: &Catalog,
    kind: &GroupVersionKind,
    query: &Query,
    path: Option<&str>,
) -> Result<Value, String> {
    let mut options = object! { "kind": kind.kind.as_str(), "apiVersion": kind.group_version().to_string() };
    let id = catalog.kind_type(&kind.group, &kind.version, &kind.kind);
    let id = id.ok_or_else(|| format!("no kind \"{}\" is registered", kind.kind))?;
    let Type::Struct(fields) = catalog.types().get(id) else { return Ok(options) };
    for field in fields.fields.iter().filter(|field| !matches!(field.name.as_str(), "kind" | "apiVersion")) {
        let name = field.name.as_str();
        let values: Vec<&str> = match path {
            Some(path) if name == "path" => vec![path],
            _ => query.all(name).collect(),
        };
        let Some(first) = values.first() else { continue };
        let value = match catalog.types().get(field.ty) {
            Type::List(list) => {
                let items: Result<Vec<Value>, String> = match catalog.types().get(list.item) {
                    Type::Scalar(scalar) => values.iter().map(|text| convert(scalar.kind, text)).collect(),
                    _ => continue,
                };
                Value::from(items?)
            }
            Type::Scalar(scalar) => convert(scalar.kind, first)?,
            _ => continue,
        };
        if !value.is_null() {
            options.set(name, value);
        }
    }
    Ok(options)
}

/// Converts a parameter as upstream's generated functions do.
fn convert(kind: Scalar, text: &str) -> Result<Value, String> {
    Ok(match kind {
        Scalar::Bool => Value::from(!text.eq_ignore_ascii_case("false") && text != "0"),
        Scalar::Int32 | Scalar::Int64 => {
            let number = go_integer(text).and_then(|number| match kind {
                Scalar::Int32 if i32::try_from(number).is_err() => Err("value out of range"),
                _ => Ok(number),
            });
            Value::from(number.map_err(|why| format!("strconv.ParseInt: parsing {}: {why}", quote(text)))?)
        }
        Scalar::Time if text.is_empty() || text == "null" => Value::from(Time::default().rfc3339()),
        Scalar::Time => Value::from(Time::parse_rfc3339(text).map_err(|error| error.to_string())?.rfc3339()),
        _ => Value::from(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, query: &str, expect: Result<&str, &str>) {
        let kind = GroupVersionKind::new("", "v1", kind);
        let path = kind.kind.ends_with("ProxyOptions").then_some("/below/");
        let decoded = decode_options(pintle_catalog::shared(), &kind, &Query::parse(query), path);
        let decoded = decoded.map(|mut options| {
            options.remove("kind");
            options.remove("apiVersion");
            pintle_value::print::json(&options)
        });
        assert_eq!(decoded.as_deref().map_err(String::as_str), expect, "{query}");
    }

    #[test]
    fn parameters_are_converted_as_by_go() {
        check("PodExecOptions", "", Ok("{}"));
        check(
            "PodExecOptions",
            "command=sh&command=-c&command=&stdin=true&tty=&stdout=0&stderr=False&container=c&other=1",
            Ok(r#"{"command":["sh","-c",""],"container":"c","stderr":false,"stdin":true,"stdout":false,"tty":true}"#),
        );
        check("PodPortForwardOptions", "ports=80&ports=-1", Ok(r#"{"ports":[80,-1]}"#));
        check("PodPortForwardOptions", "ports=80,81", Err(r#"strconv.ParseInt: parsing "80,81": invalid syntax"#));
        check(
            "PodPortForwardOptions",
            "ports=2147483648",
            Err(r#"strconv.ParseInt: parsing "2147483648": value out of range"#),
        );
        check("PodLogOptions", "tailLines=", Err(r#"strconv.ParseInt: parsing "": invalid syntax"#));
        check(
            "PodLogOptions",
            "follow=1&sinceTime=2026-01-02T03:04:05.9%2B01:00&limitBytes=7&stream=Stdout",
            Ok(r#"{"follow":true,"limitBytes":7,"sinceTime":"2026-01-02T02:04:05Z","stream":"Stdout"}"#),
        );
        check("ServiceProxyOptions", "path=/other&x=y", Ok(r#"{"path":"/below/"}"#));
    }

    #[test]
    fn a_malformed_time_is_refused_in_gos_words() {
        let why = r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#;
        check("PodLogOptions", "sinceTime=x", Err(why));
    }
}
