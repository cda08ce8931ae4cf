//! The token of a chunked list: a revision and the key to go on from (upstream: `storage/continue.go`).

use pintle_registry::ApiError;
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

/// Writes a token.
pub(crate) fn encode(token: &Continue) -> String {
    // The least key above a key is the key and a zero byte.
    let start = format!("/{}\0", token.after);
    let revision = token.revision.map_or(-1, |r| i64::try_from(r).unwrap_or(i64::MAX));
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
    let standard: String = text
        .trim_end_matches('=')
        .chars()
        .map(|c| match c {
            '-' => '+',
            '_' => '/',
            c => c,
        })
        .collect();
    let padding = "=".repeat((4 - standard.len() % 4) % 4);
    let json = pintle_schema::base64::decode(format!("{standard}{padding}").as_bytes()).map_err(|e| e.to_string())?;
    let decoded = pintle_codec::json::decode(&json, pintle_codec::json::Options::default());
    let token: Value = decoded.map_err(|e| e.to_string())?.value;
    for (field, wanted) in [("v", "string"), ("rv", "int64"), ("start", "string")] {
        let shape = match token.at(&[field]) {
            None | Some(Value::Null) => continue,
            Some(Value::String(_)) if wanted == "string" => continue,
            Some(Value::Int(_)) if wanted == "int64" => continue,
            Some(Value::String(_)) => "string",
            Some(Value::Bool(_)) => "bool",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
            Some(_) => "number",
        };
        return Err(format!(
            "json: cannot unmarshal {shape} into Go struct field continueToken.{field} of type {wanted}"
        ));
    }
    let version = token.str_at(&["v"]);
    if version != VERSION {
        return Err(format!("server does not recognize this encoded version {version}"));
    }
    let revision = match token.int_at(&["rv"]).unwrap_or(0) {
        0 => return Err(format!("incorrect encoded start resourceVersion (version {VERSION})")),
        revision => u64::try_from(revision).ok(),
    };
    let start = token.str_at(&["start"]);
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    let relative = start.strip_prefix('/').unwrap_or(start);
    if relative.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(start.to_owned());
    }
    Ok(Continue { revision, after: relative.trim_end_matches('\0').to_owned() })
}

fn base64_url(bytes: &[u8]) -> String {
    pintle_schema::base64::encode(bytes)
        .trim_end_matches('=')
        .chars()
        .map(|c| match c {
            '+' => '-',
            '/' => '_',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_look_like_upstreams() {
        let token = Continue { revision: Some(34), after: "dup".to_owned() };
        let text = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzQsInN0YXJ0IjoiL2R1cFx1MDAwMCJ9";
        assert_eq!(encode(&token), text);
        assert_eq!(decode(text), Ok(token));
    }

    fn refused(text: &str, why: &str) {
        let expect = format!("invalid continue token: continue key is not valid: {why}");
        assert_eq!(decode(text), Err(ApiError::BadRequest(expect)));
    }

    #[test]
    fn foreign_tokens_are_refused() {
        refused(
            "eyJ2Ijoibm9wZS92OSIsInJ2IjoxLCJzdGFydCI6ImEifQ",
            "server does not recognize this encoded version nope/v9",
        );
        refused("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi9hIn0", "../a");
    }
}
