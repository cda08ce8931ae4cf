//! YAML: what is read is written and read again as the same, and aliases do not multiply without end.

use pintle_codec::{json, yaml};
use pintle_value::Value;

use crate::{Bound, Random, bounded, sample};

/// A node takes about 150 bytes, with its value and its place in a mapping; `- ` is one.
const BOUND: Bound = Bound { per_byte: 400, at_least: 64 << 10 };

/// What aliases may make of the shortest text, beside that: 32 MiB of text, and 400,000 values.
const ALIASED: Bound = Bound { at_least: 64 << 20, ..BOUND };

pub(super) fn decoded(input: &[u8]) {
    let bound = if input.contains(&b'*') { ALIASED } else { BOUND };
    let Ok(read) = bounded(input.len(), bound, || yaml::decode(input)) else { return };
    let written = yaml::encode(&read.value);
    if !comes_back(&read.value) {
        let _ = yaml::decode(&written);
        return;
    }
    let again = yaml::decode(&written).unwrap_or_else(|e| panic!("{e}:\n{}", written.escape_ascii()));
    assert_eq!(again.value, read.value, "{}", written.escape_ascii());
    assert_eq!(again.strict_error, None, "{}", written.escape_ascii());
    // JSON is YAML.
    let as_json = json::encode(&read.value);
    assert!(json::decode(&as_json, json::DecodeOptions::default()).is_ok(), "{}", as_json.escape_ascii());
}

/// False for what goyaml writes as something else: a key `<<` is written without quotes, and the line breaks that only YAML
/// has are written as they are.
pub(crate) fn comes_back(value: &Value) -> bool {
    let odd = |text: &str| text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    match value {
        Value::String(text) => !odd(text),
        Value::Array(items) => items.iter().all(comes_back),
        Value::Object(object) => object.iter().all(|(key, value)| key != "<<" && !odd(key) && comes_back(value)),
        _ => true,
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let written: [&str; 6] = [
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {a: b, \"c\": 'd'}\nspec:\n  containers:\n  - name: x\n    args: [a, \"b\\n\", |]\n    env:\n    - {name: a, value: \"1\"}\n",
        "a: &x\n  - |+\n    text\n\n  - >-\n    folded\n    text\nb: *x\n? c\n: !!str 1\n<<: {d: e}\n",
        "%YAML 1.1\n%TAG !e! tag:example.com,2000:\n--- !e!x\n- &a !!map {a: 1}\n- *a\n- !<tag:yaml.org,2002:int> \"3\"\n...\n# end\n",
        "- [yes, no, on, 0x1f, 0o7, 017, 1_000, .5, 1e3, .inf, ~, 2001-01-01, 12:30:45]\n- ? [a]\n  : b\n- \"\\x41\\u00e9\\U0001F600\\\n  folded\"\n",
        "a: 1\na: 2\nb: {<<: [{c: 1}, {c: 2}], c: 3}\n1: y\ntrue: z\n",
        "text: >2\n   a\n  b\n\n  c\n---\nsecond\n",
    ];
    let types = pintle_catalog::shared().types();
    let mut random = Random::new(2);
    let made = super::kinds().step_by(7).map(|(_, type_id)| yaml::encode(&sample(&mut random, types, type_id)));
    written.into_iter().map(|text| text.as_bytes().to_vec()).chain(made).collect()
}
