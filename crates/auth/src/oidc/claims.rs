//! The claims of a token as Go's `encoding/json` and go-oidc read them.

use pintle_codec::json;
use pintle_value::time::Time;
use pintle_value::{Str, Value};

/// The claims of a token. Of several members with the same name, the last one counts.
#[derive(Clone, Debug)]
pub(super) struct Claims(pub(super) Value);

/// The claims that are read from every token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StandardClaims {
    pub(super) issuer: Str,
    pub(super) audiences: Vec<Str>,
    /// The expiry in seconds; `None` without the claim, which counts as a time long ago.
    pub(super) expiry: Option<i64>,
    pub(super) not_before: Option<i64>,
}

/// The structure of go-oidc that has the claims of every token, as its errors name it.
const TOKEN: &str = "idToken";

/// The error for a value that Go reads as a type.
pub(super) fn mismatch(value: &Value, expected: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {expected}", value.json_type())
}

/// The error for a value in a field of a Go structure, such as `idToken.sub`.
pub(super) fn field_mismatch(value: &Value, field: &str, expected: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {field} of type {expected}", value.json_type())
}

/// A text, or the empty text for null; `None` for anything else.
pub(super) fn text(value: &Value) -> Option<Str> {
    match value {
        Value::Null => Some(Str::default()),
        Value::String(text) => Some(Str::from(&**text)),
        _ => None,
    }
}

/// A number of seconds, without its fraction. As in Go, the number may be a text.
fn seconds(value: &Value, field: &str) -> Result<i64, String> {
    let number = match value {
        Value::Int(seconds) => return Ok(*seconds),
        Value::Float(number) => Some(*number),
        Value::String(text) => match text.parse::<i64>() {
            Ok(seconds) => return Ok(seconds),
            Err(_) => text.parse::<f64>().ok(),
        },
        _ => None,
    };
    // Times beyond this limit are not meaningful, and computing with them could overflow.
    let number = number.filter(|number| number.abs() < 1e15);
    number.map(|number| number as i64).ok_or_else(|| field_mismatch(value, &format!("{TOKEN}.{field}"), "json.Number"))
}

impl Claims {
    /// Reads a payload.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, String> {
        let value = json::decode(payload, json::DecodeOptions::default()).map_err(|error| error.to_string())?.value;
        match value {
            Value::Object(_) => Ok(Self(value)),
            value => Err(mismatch(&value, "oidc.idToken")),
        }
    }

    pub(super) fn get(&self, claim: &str) -> Option<&Value> {
        self.0.as_object()?.get(claim)
    }

    pub(super) fn set(&mut self, claim: &str, value: Value) {
        self.0.set(claim, value);
    }

    /// The claims that every token has.
    pub(super) fn standard(&self) -> Result<StandardClaims, String> {
        let field_text = |value: &Value, field: &str| {
            text(value).ok_or_else(|| field_mismatch(value, &format!("{TOKEN}.{field}"), "string"))
        };
        let optional_text = |claim| self.get(claim).map_or(Ok(Str::default()), |value| field_text(value, claim));
        let optional_seconds = |claim| self.get(claim).map(|value| seconds(value, claim)).transpose();
        for claim in ["sub", "nonce", "at_hash"] {
            optional_text(claim)?;
        }
        optional_seconds("iat")?;
        let audiences = match self.get("aud") {
            None => Vec::new(),
            Some(Value::Array(items)) => items.iter().map(|item| field_text(item, "aud")).collect::<Result<_, _>>()?,
            Some(value) => {
                vec![text(value).ok_or_else(|| field_mismatch(value, &format!("{TOKEN}.aud"), "[]string"))?]
            }
        };
        let has_not_before = self.get("nbf").is_some_and(|value| !value.is_null());
        Ok(StandardClaims {
            issuer: optional_text("iss")?,
            audiences,
            expiry: optional_seconds("exp")?,
            not_before: if has_not_before { optional_seconds("nbf")? } else { None },
        })
    }

    /// The text of a required claim.
    pub(super) fn text(&self, claim: &str) -> Result<Str, String> {
        let value = self.get(claim).ok_or_else(|| "claim not present".to_owned())?;
        text(value).ok_or_else(|| mismatch(value, "string"))
    }

    /// The texts of a claim, which may be a list or a single text.
    pub(super) fn texts(&self, claim: &str) -> Option<Result<Vec<Str>, String>> {
        self.get(claim).map(|value| {
            let texts = match value {
                // Null is a list without items.
                Value::Null => Some(Vec::new()),
                Value::Array(items) => items.iter().map(text).collect(),
                value => text(value).map(|text| vec![text]),
            };
            // Go reads a list first, and reports why the value is not a single text.
            texts.ok_or_else(|| mismatch(value, "string"))
        })
    }

    /// A claim that is true or false.
    pub(super) fn flag(&self, claim: &str) -> Option<Result<bool, String>> {
        self.get(claim).map(|value| match value {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(*flag),
            value => Err(mismatch(value, "bool")),
        })
    }
}

/// A time as Go prints it.
pub(super) fn go_time(seconds: i64) -> String {
    let text = Time { seconds, nanos: 0 }.rfc3339();
    text.replacen('T', " ", 1).replace('Z', " +0000 UTC")
}
