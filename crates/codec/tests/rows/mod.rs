//! Texts with what upstream's libraries make of them, as `tools/texts` records it.

use pintle_codec::json;
use pintle_schema::base64;
use pintle_value::Value;

/// What comes of a text: it is read or refused, the same strictly, and written again.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) json: Vec<u8>,
    pub(crate) error: String,
    pub(crate) strict: String,
    /// Empty where it is not written.
    pub(crate) written: Vec<u8>,
}

/// Checks that every row comes out as it was recorded.
pub(crate) fn all_hold(rows: &'static str, answer: fn(&[u8]) -> Answer) {
    // As deep as the limits allow, the recursion needs more than a test thread's stack.
    let thread = std::thread::Builder::new().stack_size(256 << 20);
    let thread = thread.spawn(move || {
        let rows = json::decode(rows.as_bytes(), json::Options::default()).expect("rows").value;
        let rows = rows.as_array().expect("rows");
        let wrong: Vec<String> = rows.iter().filter_map(|row| difference(row, answer)).collect();
        assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    });
    thread.expect("a thread").join().expect("all rows hold");
}

/// What of a row comes out otherwise.
fn difference(row: &Value, answer: fn(&[u8]) -> Answer) -> Option<String> {
    let text = text_of(row);
    let mut ours = answer(&text);
    let expect = Answer {
        json: row.str_at(&["json"]).into(),
        error: row.str_at(&["error"]).to_owned(),
        strict: row.str_at(&["strict"]).to_owned(),
        written: row.str_at(&["written"]).into(),
    };
    // Where upstream cannot write what it has read, for control characters in it, there is nothing to compare with.
    if expect.written.is_empty() {
        ours.written.clear();
    }
    if let Some(long) = row.int_at(&["long"]) {
        assert_eq!(usize::try_from(long), Ok(ours.json.len()));
        ours.json.clear();
    }
    let printed = |answer: &Answer| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(1_000).collect::<String>();
        format!("{} {} {} {:?}", text(&answer.json), answer.error, answer.strict, text(&answer.written))
    };
    let shown = || text[..text.len().min(200)].escape_ascii().to_string();
    (ours != expect).then(|| format!("b\"{}\"\n  ours   {}\n  theirs {}", shown(), printed(&ours), printed(&expect)))
}

/// The text of a row: some characters or bytes, perhaps repeated, and an end.
fn text_of(row: &Value) -> Vec<u8> {
    let mut text = match row.get("bytes").and_then(Value::as_str) {
        Some(bytes) => base64::decode(bytes.as_bytes()).expect("base64"),
        None => row.str_at(&["text"]).into(),
    };
    text = text.repeat(usize::try_from(row.int_at(&["repeat"]).unwrap_or(1)).expect("a number"));
    text.extend_from_slice(row.str_at(&["end"]).as_bytes());
    text
}
