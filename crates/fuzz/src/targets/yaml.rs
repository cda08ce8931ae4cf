//! YAML: decoded values round-trip through encoding, and aliases do not expand without limit.

use pintle_codec::{json, yaml};
use pintle_value::Value;

use crate::{MemoryLimit, Random, sample, with_memory_limit};

/// A node takes about 150 bytes, including its value and its entry in a mapping. `- ` is a node.
const LIMIT: MemoryLimit = MemoryLimit { per_byte: 400, base: 64 << 10 };

/// The additional limit for the expansion of aliases: 32 MiB of text, and 400,000 values.
const LIMIT_WITH_ALIASES: MemoryLimit = MemoryLimit { base: 64 << 20, ..LIMIT };

pub(super) fn decoded(input: &[u8]) {
    let limit = if input.contains(&b'*') { LIMIT_WITH_ALIASES } else { LIMIT };
    let Ok(read) = with_memory_limit(input.len(), limit, || yaml::decode(input)) else { return };
    let written = yaml::encode(&read.value);
    if !round_trips(&read.value) {
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

/// False for a value that goyaml encodes as YAML of a different value. It writes a key `<<` without quotes, and does
/// not escape the line breaks that only YAML has.
pub(crate) fn round_trips(value: &Value) -> bool {
    let odd = |text: &str| text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    match value {
        Value::String(text) => !odd(text),
        Value::Array(items) => items.iter().all(round_trips),
        Value::Object(object) => object.iter().all(|(key, value)| key != "<<" && !odd(key) && round_trips(value)),
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
