//! `url('…')` and its parts.

use std::any::Any;
use std::sync::Arc;

use super::Library;
use super::quantity::estimate_one;
use super::uri::{Url, parse_request, parse_url};
use crate::cost::{CallEstimate, PER_CHARACTER, charge};
use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Key, Map, Opaque, Outcome, OwnedMap, Text, Value};

const NAME: &str = "kubernetes.URL";

impl Opaque for Url {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn library() -> Library {
    let url = Type::object(NAME);
    let part = |name, id, result: Type, run: Eval| {
        Function::new(name)
            .overload(Overload::member(id, &[Type::object(NAME)], result).run(run))
            .charge(charge::one)
            .estimate(estimate_one)
    };
    let strings = Type::list(Type::String);
    Library::of(vec![
        Function::new("url")
            .overload(Overload::global("string_to_url", &[Type::String], url).run(|args| {
                match args {
                    [Value::String(text)] => parse_url(text)
                        .map(Value::opaque)
                        .map_err(|why| EvalError::new(format!("URL parse error during conversion from string: {why}"))),
                    _ => Err(EvalError::no_overload()),
                }
            }))
            .charge(charge::first)
            .estimate(|call| {
                let [text] = call.args else { return None };
                let size = call.size(text);
                Some(CallEstimate::sized(size.per_unit(PER_CHARACTER), size))
            }),
        part("getScheme", "url_get_scheme", Type::String, |args| text(args, |url| &url.scheme)),
        part("getHost", "url_get_host", Type::String, |args| text(args, |url| &url.host)),
        part("getHostname", "url_get_hostname", Type::String, |args| text(args, Url::hostname)),
        part("getPort", "url_get_port", Type::String, |args| text(args, Url::port)),
        part("getEscapedPath", "url_get_escaped_path", Type::String, |args| text(args, |url| &url.escaped_path)),
        part("getQuery", "url_get_query", Type::map(Type::String, strings), query),
        Function::new("isURL").overload(Overload::global("is_url_string", &[Type::String], Type::Bool).run(|args| {
            match args {
                [Value::String(text)] => Ok(Value::Bool(parse_request(text).is_ok())),
                _ => Err(EvalError::no_overload()),
            }
        })),
    ])
}

fn own<'v>(args: &'v [Value<'_>]) -> Outcome<&'v Url> {
    args.first().and_then(Value::as_opaque::<Url>).ok_or_else(EvalError::no_overload)
}

fn text<'a>(args: &[Value<'a>], part: fn(&Url) -> &str) -> Outcome<Value<'a>> {
    Ok(Value::string(part(own(args)?)))
}

fn query<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    let mut values = std::collections::BTreeMap::<String, Vec<Value<'a>>>::new();
    for (key, value) in own(args)?.parameters() {
        values.entry(key).or_default().push(Value::string(value));
    }
    let entries = values.into_iter().map(|(key, values)| (Key::String(Text::Owned(key.into())), Value::list(values)));
    let entries: OwnedMap<'a> = entries.collect();
    Ok(Value::Map(Map::Owned(Arc::new(entries))))
}
