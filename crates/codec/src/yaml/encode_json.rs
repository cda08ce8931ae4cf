//! Encodes trees to YAML as goyaml v3 encodes the nodes of a decoded JSON text without their styles. Keys keep the
//! order of the JSON, and numbers keep its text.

use pintle_value::{Value, print};

use super::emit::{Layout, ScalarStyle};
use super::encode::Dialect;
use super::resolve::{Scalar, resolve};

/// goyaml v3.
const V3: Dialect =
    Dialect { layout: Layout::V3, plain: print::json, scalar_style, entries: |object| object.iter().collect() };

/// Encodes a value as YAML with a final line feed.
#[must_use]
pub fn encode_json(value: &Value) -> Vec<u8> {
    V3.encode(value)
}

/// Quotes a string that would otherwise resolve to another type.
fn scalar_style(text: &str) -> ScalarStyle {
    if text.contains('\n') {
        return ScalarStyle::Literal;
    }
    match resolve(text) {
        Scalar::Text => ScalarStyle::Plain,
        // Unlike goyaml v2, v3 knows only these booleans.
        Scalar::Bool(_) if !matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") => {
            ScalarStyle::Plain
        }
        _ => ScalarStyle::Quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{DecodeOptions, decode};

    /// The expected texts come from goyaml v3.
    #[test]
    fn values_are_encoded_as_by_goyaml_v3() {
        for (json, expect) in [
            ("\"get\"", "get\n"),
            ("\"\"", "\"\"\n"),
            ("\"yes\"", "yes\n"),
            ("\"true\"", "\"true\"\n"),
            ("\"null\"", "\"null\"\n"),
            ("\"~\"", "\"~\"\n"),
            ("\"1\"", "\"1\"\n"),
            ("\"0x1\"", "\"0x1\"\n"),
            ("\"0o7\"", "\"0o7\"\n"),
            ("\"1e3\"", "\"1e3\"\n"),
            ("\"2020-01-01\"", "\"2020-01-01\"\n"),
            ("\"1:20\"", "1:20\n"),
            ("\"<<\"", "<<\n"),
            ("\"a: b\"", "'a: b'\n"),
            ("\"- a\"", "'- a'\n"),
            ("\"a\\tb\"", "\"a\\tb\"\n"),
            ("\"it's\"", "it's\n"),
            ("\" x\"", "' x'\n"),
            ("\"#a\"", "'#a'\n"),
            ("\"a #b\"", "'a #b'\n"),
            ("\"😀\"", "\"\\U0001F600\"\n"),
            ("\"\\u0001\"", "\"\\x01\"\n"),
            ("\"{}\"", "'{}'\n"),
            ("\"[1]\"", "'[1]'\n"),
            ("\"a\\nb\"", "|-\n    a\n    b\n"),
            ("\"a\\n\\tb\\n\"", "|\n    a\n    \tb\n"),
            ("\" a\\nb\"", "|4-\n     a\n    b\n"),
            ("true", "true\n"),
            ("null", "null\n"),
            ("1", "1\n"),
            ("1.5", "1.5\n"),
            ("1e+21", "1e+21\n"),
            ("-0.5", "-0.5\n"),
            ("[]", "[]\n"),
            ("{}", "{}\n"),
            ("[\"a\",\"b\"]", "- a\n- b\n"),
            ("[\"\",\"1\"]", "- \"\"\n- \"1\"\n"),
            (
                "[{\"group\":\"\",\"kind\":\"Binding\",\"version\":\"v1\"}]",
                "- group: \"\"\n  kind: Binding\n  version: v1\n",
            ),
            (
                "{\"a\":{},\"b\":{\"c\":[\"x\",{\"d\":1,\"e\":[[1,2],[3]]}]}}",
                "a: {}\nb:\n    c:\n        - x\n        - d: 1\n          e:\n            - - 1\n              - 2\n            - - 3\n",
            ),
            (
                "[{\"message\":\"a very long message that goes on and on and on beyond eighty columns, for sure it does so\",\"rule\":\"self.a == 'x' &&\\nself.b\"}]",
                "- message: a very long message that goes on and on and on beyond eighty columns, for sure it does so\n  rule: |-\n    self.a == 'x' &&\n    self.b\n",
            ),
            (
                "[{\"discriminator\":\"type\",\"fields-to-discriminateBy\":{\"a\":\"A\",\"on\":\"y\"}}]",
                "- discriminator: type\n  fields-to-discriminateBy:\n    a: A\n    on: y\n",
            ),
            (
                "{\"a\\nb\":1,\"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\":[1]}",
                "? |-\n    a\n    b\n: 1\n? kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\n:   - 1\n",
            ),
            (
                "{\"a\":\"x\\ny\",\"b\":[\"p\\nq\",\" r\\n\\n\"]}",
                "a: |-\n    x\n    y\nb:\n    - |-\n      p\n      q\n    - |4+\n       r\n\n",
            ),
            ("\"=\" ", "=\n"),
            ("\".5\"", "\".5\"\n"),
            ("\"+1\"", "\"+1\"\n"),
            ("\"1_000\"", "\"1_000\"\n"),
            ("\"NaN\"", "NaN\n"),
            ("\".nan\"", "\".nan\"\n"),
        ] {
            let value = decode(json.as_bytes(), DecodeOptions::default()).expect("JSON").value;
            assert_eq!(String::from_utf8_lossy(&encode_json(&value)), expect, "{json}");
        }
    }
}
