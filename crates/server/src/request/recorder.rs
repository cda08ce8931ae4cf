//! What handlers and admission plugins record about a request beside its result: warnings for the client (upstream:
//! `endpoints/filters/warning.go`) and annotations of the audit event (upstream: `audit.AddAuditAnnotation`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use http::HeaderValue;
use parking_lot::Mutex;
use pintle_admission::AdmissionRecorder;

/// Up to how many characters all warnings of an answer may have together before each is cut.
const ALL: usize = 4096;
/// What is left of each then.
const EACH: usize = 256;

/// What was recorded about one request.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// In the order in which they were added.
    warnings: Mutex<Vec<String>>,
    /// Annotations of the audit event, by key.
    annotations: Mutex<BTreeMap<String, String>>,
}

impl AdmissionRecorder for Recorder {
    fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock();
        if !text.is_empty() && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    fn annotate(&self, key: &str, value: String) {
        let mut annotations = self.annotations.lock();
        match annotations.entry(key.to_owned()) {
            Entry::Vacant(entry) => drop(entry.insert(value)),
            Entry::Occupied(entry) if *entry.get() == value => {}
            Entry::Occupied(entry) => {
                tracing::warn!(key = entry.key(), "Failed to set audit annotation: it is already set to another value");
            }
        }
    }
}

impl Recorder {
    /// Adds a warning to the response. Empty and repeated warnings are dropped.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        AdmissionRecorder::warn(self, text.into());
    }

    /// The values of the `Warning` headers. When they would be too long together, all of them are cut, and the last ones
    /// are left out. So is what no header can hold.
    pub(crate) fn headers(&self) -> Vec<HeaderValue> {
        let warnings = self.warnings.lock();
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
        let warnings = Recorder::default();
        texts.iter().for_each(|text| warnings.warn(*text));
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
        let warnings = Recorder::default();
        warnings.warn(r#"a "b" \c ü"#);
        assert_eq!(warnings.headers(), [HeaderValue::from_bytes(r#"299 - "a \"b\" \\c ü""#.as_bytes()).unwrap()]);
    }
}
