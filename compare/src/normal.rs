//! Replaces values that differ between two equal servers: unique identifiers, revisions, times and generated names.
//! Each value becomes a symbol that tells when the value was first seen. So two answers are equal only if equal values
//! are at the same places in both.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The prefix of names that sequences let the server generate.
pub(crate) const GENERATED: &str = "gen-";

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

/// The identifier in the description of a request that an API server has received. An answer may have none, so these
/// identifiers have no numbers.
static AUDIT_ID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^(x-received: .* \| audit-id: )[0-9a-f-]{36} "));
static UID: LazyLock<Regex> = LazyLock::new(|| regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static GENERATED_NAME: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r"{GENERATED}(?:\d\d-)?[bcdfghjklmnpqrstvwxz2456789]{{5}}")));
/// The revision of a list or a bookmark: metadata without a name.
static LIST_REVISION: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r#"("metadata":\s*\{\s*(?:"continue":\s*"[^"]*",\s*)?(?:"remainingItemCount":\s*\d+,\s*)?"resourceVersion":\s*")(\d+)"#,
        r#"("(?:,\s*"continue":\s*"[^"]*")?(?:,\s*"remainingItemCount":\s*\d+)?\s*\})"#
    ))
});
static BOOKMARK_REVISION: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"("type":"BOOKMARK","object":\{.*"resourceVersion":")(\d+)(")"#));
/// The same in Protobuf: between the self link and the continue token.
static PROTOBUF_LIST_REVISION: LazyLock<Regex> =
    LazyLock::new(|| regex("(?m)^(  1: \"\"\n  2: \")(\\d+)(\"\n  3: \")"));
static YAML_LIST_REVISION: LazyLock<Regex> = LazyLock::new(|| regex(r#"(?m)^(  resourceVersion: ")(\d+)(")"#));
static REVISION: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"("resourceVersion\\*":\s*\\*"|resourceVersion: "|(?m:^ +6: "))(\d+)(\\*")"#));
static CONTINUE: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"("continue":\s*"|continue: |(?m:^  3: "))([A-Za-z0-9_=-]{20,})"#));
static TIME: LazyLock<Regex> = LazyLock::new(|| regex(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}"));
/// The age of an object in a table.
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r#""(?:\d{1,3}s|\d+m(?:\d+s)?)""#));
/// Seconds since 1970 in Protobuf.
static SECONDS: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^( +1: )(\d{10})$"));
static TOO_OLD: LazyLock<Regex> = LazyLock::new(|| regex(r"(old resource version: )\d+ \(\d+\)"));
/// Numbers in messages: revisions that the request did not choose, and durations.
static MESSAGE_REVISION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(ResourceVersion in object meta: |current: |ResourceVersion in precondition: |in\s+record\s+\(|in\s+the\s+precondition\s+\()(\d+)",
    )
});

/// The symbols of one server in one run of a sequence.
pub(crate) struct Symbols {
    /// The literal replacements: names of this run and their placeholders.
    literals: Vec<(String, &'static str)>,
    uids: HashMap<String, usize>,
    revisions: HashMap<String, usize>,
    names: HashMap<String, usize>,
    /// True if different values get the same symbol.
    is_loose: bool,
}

impl Symbols {
    pub(crate) fn new(literals: Vec<(String, &'static str)>) -> Self {
        Self { literals, uids: HashMap::new(), revisions: HashMap::new(), names: HashMap::new(), is_loose: false }
    }

    /// Symbols for texts whose order is not known. Different values get the same symbol.
    pub(crate) fn unordered(&self) -> Self {
        Self { is_loose: true, ..Self::new(self.literals.clone()) }
    }

    /// From now on different values get the same symbol. After answers that differ, later values differ too.
    pub(crate) fn loosen(&mut self) {
        self.is_loose = true;
    }

    /// Replaces varying values in a rendered body or a header.
    pub(crate) fn replace(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.literals {
            text = text.replace(from.as_str(), to);
        }
        let text = TIME.replace_all(
            &text,
            |found: &Captures<'_>| if is_now(&found[0]) { "<now>".to_owned() } else { found[0].to_owned() },
        );
        let text = SECONDS.replace_all(&text, |found: &Captures<'_>| {
            let near = found[2].parse().is_ok_and(|seconds: i64| (now() - seconds).abs() < NEAR);
            if near { format!("{}<now>", &found[1]) } else { found[0].to_owned() }
        });
        let text = if text.contains("\"columnDefinitions\"") { AGE.replace_all(&text, "\"<age>\"") } else { text };
        let text = AUDIT_ID.replace_all(&text, "$1<audit-id> ");
        let text =
            UID.replace_all(&text, |found: &Captures<'_>| symbol(&mut self.uids, "uid", &found[0], self.is_loose));
        let text = GENERATED_NAME
            .replace_all(&text, |found: &Captures<'_>| symbol(&mut self.names, "name", &found[0], self.is_loose));
        let text = CONTINUE.replace_all(&text, "$1<continue>");
        let text = LIST_REVISION.replace_all(&text, "$1<current>$3");
        let text = BOOKMARK_REVISION.replace_all(&text, "$1<current>$3");
        let text = PROTOBUF_LIST_REVISION.replace_all(&text, "$1<current>$3");
        let is_yaml_list = text.lines().any(|line| line.starts_with("kind: ") && line.ends_with("List"));
        let text = if is_yaml_list { YAML_LIST_REVISION.replace_all(&text, "$1<current>$3") } else { text };
        let text = MESSAGE_REVISION.replace_all(&text, "$1<revision>");
        let text = TOO_OLD.replace_all(&text, "$1<revision> (<revision>)");
        REVISION
            .replace_all(&text, |found: &Captures<'_>| {
                format!(
                    "{}{}{}",
                    &found[1],
                    symbol(&mut self.revisions, "revision", &found[2], self.is_loose),
                    &found[3]
                )
            })
            .into_owned()
    }
}

/// The symbol of a value, numbered in the order in which values were first seen.
fn symbol(known: &mut HashMap<String, usize>, kind: &str, value: &str, is_loose: bool) -> String {
    if is_loose {
        return format!("<{kind}>");
    }
    let next = known.len() + 1;
    format!("<{kind}-{}>", known.entry(value.to_owned()).or_insert(next))
}

/// The maximum distance from now, in seconds, of a time that counts as made by the server.
const NEAR: i64 = 24 * 3600;

fn now() -> i64 {
    time::OffsetDateTime::now_utc().unix_timestamp()
}

/// True if a time without fraction and zone is near now.
pub(crate) fn is_now(text: &str) -> bool {
    let parsed = time::OffsetDateTime::parse(&format!("{text}Z"), &time::format_description::well_known::Rfc3339);
    parsed.is_ok_and(|time| (time.unix_timestamp() - now()).abs() < NEAR)
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    fn check(texts: &[&str], expect: &[&str]) {
        let mut symbols = Symbols::new(vec![("compare-7".to_owned(), "{ns}")]);
        let found: Vec<String> = texts.iter().map(|text| symbols.replace(text)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn values_are_numbered_in_the_order_of_their_first_sight() {
        check(
            &[
                r#"{"metadata":{"name":"a","namespace":"compare-7","resourceVersion":"12"}}"#,
                r#"{"items":[{"metadata":{"name":"a","resourceVersion":"12"}}],"metadata":{"continue":"","resourceVersion":"12"}}"#,
                r#"{"metadata":{"name":"b","resourceVersion":"9"}}"#,
            ],
            &[
                r#"{"metadata":{"name":"a","namespace":"{ns}","resourceVersion":"<revision-1>"}}"#,
                r#"{"items":[{"metadata":{"name":"a","resourceVersion":"<revision-1>"}}],"metadata":{"continue":"","resourceVersion":"<current>"}}"#,
                r#"{"metadata":{"name":"b","resourceVersion":"<revision-2>"}}"#,
            ],
        );
    }

    #[test]
    fn only_times_of_today_are_replaced() {
        let now = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339);
        let now = now.expect("a time");
        let mut symbols = Symbols::new(Vec::new());
        assert_eq!(symbols.replace(&now[..19]), "<now>");
        check(&["2001-02-03T04:05:06Z"], &["2001-02-03T04:05:06Z"]);
    }
}
