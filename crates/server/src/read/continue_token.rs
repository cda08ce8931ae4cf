//! The continue token of a chunked list: a revision and the key after which the list continues (upstream:
//! `storage/continue.go`).

use pintle_registry::ApiError;
use pintle_schema::base64::{self, CorruptInput};
use pintle_value::Value;

/// The version of the token's format.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The position at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContinueToken {
    /// The revision of the first chunk. With `None`, the list continues at the newest revision.
    pub(crate) revision: Option<u64>,
    /// The last key of the previous chunk, relative to the list's namespace or to the collection.
    pub(crate) after: String,
}

/// Encodes a token: base64url of `{"v":"meta.k8s.io/v1","rv":N,"start":"…"}`.
pub(crate) fn encode(token: &ContinueToken) -> String {
    // Upstream's tokens for the newest revision come from etcd. All others come from its watch cache, which adds a
    // slash before the key.
    let (slash, revision) = match token.revision {
        Some(revision) => ("/", i64::try_from(revision).unwrap_or(i64::MAX)),
        None => ("", -1),
    };
    // The smallest key after a key is the key with a zero byte appended.
    let start = format!("{slash}{}\0", token.after);
    let mut json = Vec::new();
    json.extend_from_slice(format!("{{\"v\":\"{TOKEN_VERSION}\",\"rv\":{revision},\"start\":").as_bytes());
    pintle_codec::json::write_string(&start, &mut json);
    json.push(b'}');
    encode_base64_url(&json)
}

/// Decodes a token.
///
/// # Errors
/// Returns upstream's error if the token is malformed or its key leaves the collection.
pub(crate) fn decode(text: &str) -> Result<ContinueToken, ApiError> {
    parse(text).map_err(|why| ApiError::BadRequest(format!("invalid continue token: continue key is not valid: {why}")))
}

fn parse(text: &str) -> Result<ContinueToken, String> {
    let json = decode_base64_url(text).map_err(|e| e.to_string())?;
    let decoded = pintle_codec::json::decode(&json, pintle_codec::json::DecodeOptions::default());
    let token: Value = decoded.map_err(|e| e.to_string())?.value;
    if !matches!(token, Value::Object(_) | Value::Null) {
        return Err(format!(
            "json: cannot unmarshal {} into Go value of type storage.continueToken",
            go_type_name(&token)
        ));
    }
    for (field, value) in token.entries_at(&[]) {
        // Go matches member names case-insensitively.
        let go_type = match field.to_ascii_lowercase().as_str() {
            "v" | "start" => "string",
            "rv" => "int64",
            _ => continue,
        };
        let fits = match value {
            Value::Null => true,
            Value::String(_) => go_type == "string",
            Value::Int(_) => go_type == "int64",
            _ => false,
        };
        if !fits {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field continueToken.{} of type {go_type}",
                go_type_name(value),
                field.to_ascii_lowercase()
            ));
        }
    }
    let member = |name: &str| {
        let named = |(field, value): &(&str, &Value)| field.eq_ignore_ascii_case(name) && !value.is_null();
        token.entries_at(&[]).rfind(named).map(|(_, value)| value)
    };
    let version = member("v").and_then(Value::as_str).unwrap_or_default();
    if version != TOKEN_VERSION {
        return Err(format!("server does not recognize this encoded version {version}"));
    }
    let revision = match member("rv").and_then(Value::as_int).unwrap_or(0) {
        0 => return Err(format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})")),
        revision => u64::try_from(revision).ok(),
    };
    let start = member("start").and_then(Value::as_str).unwrap_or_default();
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {TOKEN_VERSION})"));
    }
    let relative = start.strip_prefix('/').unwrap_or(start);
    if !relative.is_empty() && relative.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(start.to_owned());
    }
    Ok(ContinueToken { revision, after: relative.trim_end_matches('\0').to_owned() })
}

/// The name of a JSON value in Go's errors.
fn go_type_name(value: &Value) -> String {
    match value {
        Value::String(_) => "string".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
        // Go prints the number if it does not fit into the type, but not if the type is not numeric.
        Value::Int(_) => "number".to_owned(),
        number => format!("number {}", String::from_utf8_lossy(&pintle_codec::json::encode(number)).trim_end()),
    }
}

fn encode_base64_url(bytes: &[u8]) -> String {
    let letter = |c| match c {
        '+' => '-',
        '/' => '_',
        c => c,
    };
    base64::encode(bytes).trim_end_matches('=').chars().map(letter).collect()
}

/// Decodes text like Go's `base64.RawURLEncoding`.
fn decode_base64_url(text: &str) -> Result<Vec<u8>, CorruptInput> {
    let mut letters = Vec::with_capacity(text.len() + 4);
    for (at, byte) in text.bytes().enumerate() {
        letters.push(match byte {
            b'\r' | b'\n' => continue,
            b'-' => b'+',
            b'_' => b'/',
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => byte,
            _ => return Err(CorruptInput(at)),
        });
    }
    if letters.len() % 4 == 1 {
        return Err(CorruptInput(text.len() - 1));
    }
    letters.resize(letters.len().next_multiple_of(4), b'=');
    base64::decode(&letters)
}

#[cfg(test)]
mod tests {
    use pintle_fuzz::{Random, mutate};

    use super::*;

    #[test]
    fn tokens_have_upstreams_format() {
        for (revision, text) in [
            (Some(34), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzQsInN0YXJ0IjoiL2R1cFx1MDAwMCJ9"),
            (None, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZHVwXHUwMDAwIn0"),
        ] {
            let token = ContinueToken { revision, after: "dup".to_owned() };
            assert_eq!(encode(&token), text);
            assert_eq!(decode(text), Ok(token));
        }
    }

    /// Decodes a token with this JSON. Expects the key after which the list continues, or the variable part of the
    /// error message.
    fn check(json: &str, expect: Result<&str, &str>) {
        let found = decode(&encode_base64_url(json.as_bytes())).map(|token| token.after);
        assert_eq!(found, expected_result(expect), "{json}");
    }

    fn expected_result(expect: Result<&str, &str>) -> Result<String, ApiError> {
        let error = |why| ApiError::BadRequest(format!("invalid continue token: continue key is not valid: {why}"));
        expect.map(str::to_owned).map_err(error)
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        let field = |name: &str, found: &str, go_type: &str| {
            format!("json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {go_type}")
        };
        let v = r#""v":"meta.k8s.io/v1""#;
        let no_revision = "incorrect encoded start resourceVersion (version meta.k8s.io/v1)";
        let no_start = "encoded start key empty (version meta.k8s.io/v1)";
        for (json, expect) in [
            (format!(r#"{{{v},"rv":5,"start":"a"}}"#), Ok("a")),
            (format!(r#"{{{v},"rv":5,"start":"/n/a\u0000"}}"#), Ok("n/a")),
            (format!(r#"{{{v},"rv":-1,"start":"a","more":[]}}"#), Ok("a")),
            (r#"{"V":"meta.k8s.io/v1","Rv":5,"START":"a"}"#.to_owned(), Ok("a")),
            (format!(r#"{{{v},"rv":5,"start":"/"}}"#), Ok("")),
            ("null".to_owned(), Err("server does not recognize this encoded version ")),
            ("{}".to_owned(), Err("server does not recognize this encoded version ")),
            (
                r#"{"v":"nope/v9","rv":1,"start":"a"}"#.to_owned(),
                Err("server does not recognize this encoded version nope/v9"),
            ),
            (format!("{{{v}}}"), Err(no_revision)),
            (format!(r#"{{{v},"rv":0,"start":"a"}}"#), Err(no_revision)),
            (format!(r#"{{{v},"rv":null,"start":"a"}}"#), Err(no_revision)),
            (format!(r#"{{{v},"rv":5}}"#), Err(no_start)),
            (format!(r#"{{{v},"rv":5,"start":""}}"#), Err(no_start)),
            (format!(r#"{{{v},"rv":5,"start":"../a"}}"#), Err("../a")),
            (format!(r#"{{{v},"rv":5,"start":"/a/../../b"}}"#), Err("/a/../../b")),
            (format!(r#"{{{v},"rv":5,"start":"a//b"}}"#), Err("a//b")),
            (format!(r#"{{{v},"rv":5,"start":"./a"}}"#), Err("./a")),
            (format!(r#"{{{v},"rv":5,"start":"a/"}}"#), Err("a/")),
            ("[]".to_owned(), Err("json: cannot unmarshal array into Go value of type storage.continueToken")),
            ("true".to_owned(), Err("json: cannot unmarshal bool into Go value of type storage.continueToken")),
            (r#""x""#.to_owned(), Err("json: cannot unmarshal string into Go value of type storage.continueToken")),
            (format!(r#"{{{v},"rv":"5","start":"a"}}"#), Err(&*field("rv", "string", "int64"))),
            (format!(r#"{{{v},"rv":1.5,"start":"a"}}"#), Err(&*field("rv", "number 1.5", "int64"))),
            (format!(r#"{{{v},"rv":5,"start":7}}"#), Err(&*field("start", "number", "string"))),
        ] {
            check(&json, expect);
        }
    }

    #[test]
    fn decoded_tokens_round_trip() {
        let mut random = Random::new(7);
        let other = br#"{"V":null,"rv":-1,"start":"/../\u0000"}"#;
        for round in 0..20_000 {
            let token = ContinueToken { revision: Some(random.below(1 << 40) as u64 + 1), after: "n/a".to_owned() };
            let text = encode(&token);
            let corrupt = match round % 2 {
                0 => String::from_utf8_lossy(&mutate(&mut random, text.as_bytes(), other)).into_owned(),
                _ => encode_base64_url(&mutate(&mut random, &decode_base64_url(&text).unwrap(), other)),
            };
            if let Ok(read) = decode(&corrupt) {
                assert_eq!(decode(&encode(&read)), Ok(read), "{corrupt}");
            }
        }
    }

    #[test]
    fn malformed_base64_and_json_are_rejected() {
        for (text, why) in [
            ("!", "illegal base64 data at input byte 0"),
            ("e30=", "illegal base64 data at input byte 3"),
            ("ab+d", "illegal base64 data at input byte 2"),
            ("ab/d", "illegal base64 data at input byte 2"),
            ("e", "illegal base64 data at input byte 0"),
            ("e30xy", "illegal base64 data at input byte 4"),
            ("\n", "unexpected end of JSON input"),
            ("nonsense", "invalid character '\\u009e' looking for beginning of value"),
            ("e30x", "invalid character '1' after top-level value"),
        ] {
            assert_eq!(decode(text).map(|token| token.after), expected_result(Err(why)), "{text:?}");
        }
    }
}
