//! The token of a chunked list: a revision and the key to go on from (upstream: `storage/continue.go`).

use pintle_registry::ApiError;
use pintle_schema::base64::{self, CorruptInput};
use pintle_value::Value;

/// The version of the token's form.
const VERSION: &str = "meta.k8s.io/v1";

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continue {
    /// The revision of the first chunk; `None` goes on at whatever is newest.
    pub(crate) revision: Option<u64>,
    /// The last key of the chunk before, relative to the list's namespace (or the collection).
    pub(crate) after: String,
}

/// Writes a token: base64url of `{"v":"meta.k8s.io/v1","rv":N,"start":"…"}`.
pub(crate) fn encode(token: &Continue) -> String {
    // Upstream's tokens that go on at the newest revision come from etcd, the others from its cache, which keeps the
    // slash before the key.
    let (slash, revision) = match token.revision {
        Some(revision) => ("/", i64::try_from(revision).unwrap_or(i64::MAX)),
        None => ("", -1),
    };
    // The least key above a key is the key and a zero byte.
    let start = format!("{slash}{}\0", token.after);
    let mut json = Vec::new();
    json.extend_from_slice(format!("{{\"v\":\"{VERSION}\",\"rv\":{revision},\"start\":").as_bytes());
    pintle_codec::json::write_string(&start, &mut json);
    json.push(b'}');
    base64_url(&json)
}

/// Reads a token.
///
/// # Errors
/// It is not one of ours, or tries to leave the collection.
pub(crate) fn decode(text: &str) -> Result<Continue, ApiError> {
    parse(text).map_err(|why| ApiError::BadRequest(format!("invalid continue token: continue key is not valid: {why}")))
}

fn parse(text: &str) -> Result<Continue, String> {
    let json = unbase64_url(text).map_err(|e| e.to_string())?;
    let decoded = pintle_codec::json::decode(&json, pintle_codec::json::DecodeOptions::default());
    let token: Value = decoded.map_err(|e| e.to_string())?.value;
    if !matches!(token, Value::Object(_) | Value::Null) {
        return Err(format!("json: cannot unmarshal {} into Go value of type storage.continueToken", shape(&token)));
    }
    for (field, value) in token.entries_at(&[]) {
        // Go finds members whatever their letters' case.
        let wanted = match field.to_ascii_lowercase().as_str() {
            "v" | "start" => "string",
            "rv" => "int64",
            _ => continue,
        };
        let fits = match value {
            Value::Null => true,
            Value::String(_) => wanted == "string",
            Value::Int(_) => wanted == "int64",
            _ => false,
        };
        if !fits {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field continueToken.{} of type {wanted}",
                shape(value),
                field.to_ascii_lowercase()
            ));
        }
    }
    let member = |name: &str| {
        let named = |(field, value): &(&str, &Value)| field.eq_ignore_ascii_case(name) && !value.is_null();
        token.entries_at(&[]).rfind(named).map(|(_, value)| value)
    };
    let version = member("v").and_then(Value::as_str).unwrap_or_default();
    if version != VERSION {
        return Err(format!("server does not recognize this encoded version {version}"));
    }
    let revision = match member("rv").and_then(Value::as_int).unwrap_or(0) {
        0 => return Err(format!("incorrect encoded start resourceVersion (version {VERSION})")),
        revision => u64::try_from(revision).ok(),
    };
    let start = member("start").and_then(Value::as_str).unwrap_or_default();
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    let relative = start.strip_prefix('/').unwrap_or(start);
    if !relative.is_empty() && relative.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(start.to_owned());
    }
    Ok(Continue { revision, after: relative.trim_end_matches('\0').to_owned() })
}

/// What Go calls a JSON value in errors.
fn shape(value: &Value) -> String {
    match value {
        Value::String(_) => "string".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
        // For a number that does not fit, Go says which; for one where there should be none, it does not.
        Value::Int(_) => "number".to_owned(),
        number => format!("number {}", String::from_utf8_lossy(&pintle_codec::json::encode(number)).trim_end()),
    }
}

fn base64_url(bytes: &[u8]) -> String {
    let letter = |c| match c {
        '+' => '-',
        '/' => '_',
        c => c,
    };
    base64::encode(bytes).trim_end_matches('=').chars().map(letter).collect()
}

/// Reads text as Go's `base64.RawURLEncoding` does.
fn unbase64_url(text: &str) -> Result<Vec<u8>, CorruptInput> {
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
    fn tokens_look_like_upstreams() {
        for (revision, text) in [
            (Some(34), "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzQsInN0YXJ0IjoiL2R1cFx1MDAwMCJ9"),
            (None, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZHVwXHUwMDAwIn0"),
        ] {
            let token = Continue { revision, after: "dup".to_owned() };
            assert_eq!(encode(&token), text);
            assert_eq!(decode(text), Ok(token));
        }
    }

    /// Reads a token of this JSON; the expectation is the key to go on from, or what follows the usual words.
    fn check(json: &str, expect: Result<&str, &str>) {
        let found = decode(&base64_url(json.as_bytes())).map(|token| token.after);
        assert_eq!(found, refusal(expect), "{json}");
    }

    fn refusal(expect: Result<&str, &str>) -> Result<String, ApiError> {
        let refuse = |why| ApiError::BadRequest(format!("invalid continue token: continue key is not valid: {why}"));
        expect.map(str::to_owned).map_err(refuse)
    }

    #[test]
    fn foreign_tokens_are_refused() {
        let field = |name: &str, found: &str, wanted: &str| {
            format!("json: cannot unmarshal {found} into Go struct field continueToken.{name} of type {wanted}")
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
    fn whatever_is_read_is_written_so_again() {
        let mut random = Random::new(7);
        let other = br#"{"V":null,"rv":-1,"start":"/../\u0000"}"#;
        for round in 0..20_000 {
            let token = Continue { revision: Some(random.below(1 << 40) as u64 + 1), after: "n/a".to_owned() };
            let text = encode(&token);
            let corrupt = match round % 2 {
                0 => String::from_utf8_lossy(&mutate(&mut random, text.as_bytes(), other)).into_owned(),
                _ => base64_url(&mutate(&mut random, &unbase64_url(&text).unwrap(), other)),
            };
            if let Ok(read) = decode(&corrupt) {
                assert_eq!(decode(&encode(&read)), Ok(read), "{corrupt}");
            }
        }
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
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
            assert_eq!(decode(text).map(|token| token.after), refusal(Err(why)), "{text:?}");
        }
    }
}
