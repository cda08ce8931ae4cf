//! Test cases with the results of upstream's libraries, as recorded by `tools/codec-texts`.

use pintle_codec::json;
use pintle_schema::base64;
use pintle_value::Value;

/// The result for a text: the decoded value or an error, the strict decoding errors, and the value encoded again.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CodecResult {
    pub(crate) json: Vec<u8>,
    pub(crate) error: String,
    pub(crate) strict: String,
    /// Empty if the value is not encoded.
    pub(crate) written: Vec<u8>,
}

/// Checks that every test case gives the recorded result.
pub(crate) fn check_all(cases: &'static str, decode_case: fn(&[u8]) -> CodecResult) {
    // At the nesting limits, the recursion needs more than a test thread's stack.
    let thread = std::thread::Builder::new().stack_size(256 << 20);
    let thread = thread.spawn(move || {
        let cases = json::decode(cases.as_bytes(), json::DecodeOptions::default()).expect("cases").value;
        let cases = cases.as_array().expect("cases");
        let failures: Vec<String> = cases.iter().filter_map(|case| diff(case, decode_case)).collect();
        assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    });
    thread.expect("a thread").join().expect("all cases pass");
}

/// Describes how the result for a test case differs from the recorded one.
fn diff(case: &Value, decode_case: fn(&[u8]) -> CodecResult) -> Option<String> {
    let text = text_of(case);
    let mut ours = decode_case(&text);
    let expect = CodecResult {
        json: case.str_at(&["json"]).into(),
        error: case.str_at(&["error"]).to_owned(),
        strict: case.str_at(&["strict"]).to_owned(),
        written: case.str_at(&["written"]).into(),
    };
    // Upstream cannot encode some of the control characters that it decodes. Then there is nothing to compare with.
    if expect.written.is_empty() {
        ours.written.clear();
    }
    if let Some(long) = case.int_at(&["long"]) {
        assert_eq!(usize::try_from(long), Ok(ours.json.len()));
        ours.json.clear();
    }
    let printed = |decode_case: &CodecResult| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(1_000).collect::<String>();
        format!(
            "{} {} {} {:?}",
            text(&decode_case.json),
            decode_case.error,
            decode_case.strict,
            text(&decode_case.written)
        )
    };
    let shown = || text[..text.len().min(200)].escape_ascii().to_string();
    (ours != expect).then(|| format!("b\"{}\"\n  ours   {}\n  theirs {}", shown(), printed(&ours), printed(&expect)))
}

/// The text of a test case: text or bytes, optionally repeated, and a suffix.
fn text_of(case: &Value) -> Vec<u8> {
    let mut text = match case.get("bytes").and_then(Value::as_str) {
        Some(bytes) => base64::decode(bytes.as_bytes()).expect("base64"),
        None => case.str_at(&["text"]).into(),
    };
    text = text.repeat(usize::try_from(case.int_at(&["repeat"]).unwrap_or(1)).expect("a number"));
    text.extend_from_slice(case.str_at(&["end"]).as_bytes());
    text
}
