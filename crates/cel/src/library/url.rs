//! `url('…')` and its accessors (upstream: `apiserver/pkg/cel/library/urls.go`).

use std::any::Any;
use std::sync::Arc;

use pintle_value::url::{Url, parse_request, parse_url};

use super::Library;
use super::quantity::estimate_one;
use crate::cost::{CallEstimate, STRING_TRAVERSAL_COST_FACTOR, tracker};
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{CelString, EvalResult, Map, MapKey, Opaque, OwnedMap, Value};

const TYPE_NAME: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &str {
        TYPE_NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn library() -> Library {
    let url = Type::object(TYPE_NAME);
    let accessor = |name, id, result: Type, binding: FunctionOp| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::object(TYPE_NAME)], result).binding(binding))
            .cost_tracker(tracker::one)
            .cost_estimator(estimate_one)
    };
    let strings = Type::list(Type::String);
    Library::of(vec![
        Function::new("url")
            .overload(Overload::global("string_to_url", &[Type::String], url).binding(|args| {
                match args {
                    [Value::String(text)] => parse_url(text)
                        .map(Value::opaque)
                        .map_err(|why| EvalError::new(format!("URL parse error during conversion from string: {why}"))),
                    _ => Err(EvalError::no_overload()),
                }
            }))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(|call| {
                let [text] = call.args else { return None };
                let size = call.size(text);
                Some(CallEstimate::sized(size.times_factor(STRING_TRAVERSAL_COST_FACTOR), size))
            }),
        accessor("getScheme", "url_get_scheme", Type::String, |args| text(args, |url| &url.scheme)),
        accessor("getHost", "url_get_host", Type::String, |args| text(args, |url| &url.host)),
        accessor("getHostname", "url_get_hostname", Type::String, |args| text(args, Url::hostname)),
        accessor("getPort", "url_get_port", Type::String, |args| text(args, Url::port)),
        accessor("getEscapedPath", "url_get_escaped_path", Type::String, |args| text(args, |url| &url.escaped_path)),
        accessor("getQuery", "url_get_query", Type::map(Type::String, strings), query),
        Function::new("isURL").overload(Overload::global("is_url_string", &[Type::String], Type::Bool).binding(
            |args| match args {
                [Value::String(text)] => Ok(Value::Bool(parse_request(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            },
        )),
    ])
}

fn receiver<'v>(args: &'v [Value<'_>]) -> EvalResult<&'v Url> {
    args.first().and_then(Value::as_opaque::<Url>).ok_or_else(EvalError::no_overload)
}

fn text<'a>(args: &[Value<'a>], part: fn(&Url) -> &str) -> EvalResult<Value<'a>> {
    Ok(Value::string(part(receiver(args)?)))
}

fn query<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    let mut values = std::collections::BTreeMap::<String, Vec<Value<'a>>>::new();
    for (key, value) in receiver(args)?.parameters() {
        values.entry(key).or_default().push(Value::string(value));
    }
    let entries =
        values.into_iter().map(|(key, values)| (MapKey::String(CelString::Owned(key.into())), Value::list(values)));
    let entries: OwnedMap<'a> = entries.collect();
    Ok(Value::Map(Map::Owned(Arc::new(entries))))
}
