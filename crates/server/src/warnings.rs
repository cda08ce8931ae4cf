//! What a client is warned of beside its answer (upstream: `endpoints/filters/warning.go`).

use http::HeaderValue;
use parking_lot::Mutex;

/// Up to how many characters all warnings of an answer may have together before each is cut.
const ALL: usize = 4096;
/// What is left of each then.
const EACH: usize = 256;

/// The warnings of one request, in their order.
#[derive(Debug, Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    /// Adds a warning; the same one is sent once.
    pub(crate) fn push(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.0.lock();
        if !text.is_empty() && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The values of the `Warning` headers. When they would be too long together, all of them are cut, and the last ones
    /// are left out. So is what no header can hold.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let warnings = self.0.lock();
        let fit: Vec<&str> =
            warnings.iter().map(String::as_str).filter(|text| !text.contains(char::is_control)).collect();
        let cuts = fit.iter().map(|text| text.chars().count()).sum::<usize>() > ALL;
        let mut written = 0;
        let mut headers = Vec::with_capacity(fit.len());
        for text in fit {
            if cuts && written >= ALL {
                break;
            }
            let text: String = text.chars().take(if cuts { EACH } else { usize::MAX }).collect();
            written += text.chars().count();
            headers.extend(HeaderValue::from_bytes(format!("299 - {}", quoted(&text)).as_bytes()));
        }
        headers
    }
}

/// A text as a quoted string of a header.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Warns of texts, and compares the lengths of what is sent.
    fn check(texts: &[&str], lengths: &[usize]) {
        let warnings = Warnings::default();
        texts.iter().for_each(|text| warnings.push(*text));
        let headers = warnings.headers();
        let text = |header: &HeaderValue| {
            let text = String::from_utf8(header.as_bytes().to_vec()).unwrap();
            text.strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap().chars().count()
        };
        assert_eq!(headers.iter().map(text).collect::<Vec<_>>(), lengths);
    }

    #[test]
    fn long_warnings_are_cut_when_there_are_many() {
        check(&[], &[]);
        check(&["", "a", "b", "a"], &[1, 1]);
        check(&["a\u{7}", "b\nc", "d"], &[1]);
        check(&[&"x".repeat(4096)], &[4096]);
        check(&[&"x".repeat(4097)], &[256]);
        check(&[&"é".repeat(4000), "tail"], &[4000, 4]);
        check(&[&"é".repeat(4000), &"y".repeat(97), "tail"], &[256, 97, 4]);
        let many: Vec<String> = (0..40).map(|i| format!("{i:03}{}", "z".repeat(300))).collect();
        check(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[256; 16]);
    }

    #[test]
    fn texts_are_quoted() {
        let warnings = Warnings::default();
        warnings.push(r#"a "b" \c ü"#);
        assert_eq!(warnings.headers(), [HeaderValue::from_bytes(r#"299 - "a \"b\" \\c ü""#.as_bytes()).unwrap()]);
    }
}
