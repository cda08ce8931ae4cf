//! YAML decoding and encoding. Expectations were printed by `sigs.k8s.io/yaml` 1.6, unless a comment says otherwise.

mod recorded;
mod support;

use pintle_codec::{json, yaml};
use recorded::CodecResult;

#[track_caller]
fn assert_decodes(text: &str, expect: &str) {
    let value = yaml::decode(text.as_bytes()).unwrap_or_else(|e| panic!("{text:?}: {e}")).value;
    assert_eq!(String::from_utf8_lossy(&json::encode(&value)), expect, "{text:?}");
}

#[track_caller]
fn assert_decode_error(text: impl AsRef<[u8]>, expect: &str) {
    let text = text.as_ref();
    let shown = &text[..text.len().min(400)];
    assert_eq!(yaml::decode(text).expect_err("an error").to_string(), expect, "{}", shown.escape_ascii());
}

#[track_caller]
fn assert_encodes(json_text: &str, expect: &str) {
    let value = json::decode(json_text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value;
    assert_eq!(String::from_utf8_lossy(&yaml::encode(&value)), expect, "{json_text}");
}

#[test]
fn scalars_are_resolved_as_by_goyaml() {
    assert_decodes("[y, Y, yes, on, True, n, NO, off, FALSE]", "[true,true,true,true,true,false,false,false,false]");
    assert_decodes("[~, null, Null, '', \"\", nuLL]", r#"[null,null,null,"","","nuLL"]"#);
    assert_decodes("[1, +5, -0, 0777, 0o777, 0x1F, -0x10, 0b101, 1_000, 08]", "[1,5,0,511,511,31,-16,5,1000,8]");
    assert_decodes("[1.50, 1e3, .5, 1., -.5, 0.1e-5]", "[1.5,1000,0.5,1,-0.5,0.000001]");
    assert_decodes(
        "[12:30:45, 190:20:30.15, 1.2.3, 0b2, 0x, '1', _1, 1e400]",
        r#"["12:30:45","190:20:30.15","1.2.3","0b2","0x","1","_1","1e400"]"#,
    );
    assert_decodes(
        "[9223372036854775807, 9223372036854775808, -9223372036854775808]",
        "[9223372036854775807,9223372036854776000,-9223372036854775808]",
    );
    assert_decodes("[2001-12-14, 2001-12-14t21:59:43.10-05:00]", r#"["2001-12-14","2001-12-14t21:59:43.10-05:00"]"#);
    assert_decodes(
        "[!!str 12, !!int \"12\", !!float 1, !!bool yes, !!binary aGk=, !foo bar]",
        r#"["12",12,1,true,"hi","bar"]"#,
    );
    assert_decode_error("a: .inf", "json: unsupported value: +Inf");
    assert_decode_error("a: .nan", "json: unsupported value: NaN");
    assert_decode_error("a: !!int x", "yaml: cannot decode !!str `x` as a !!int");
    assert_decode_error("a: !!binary '?'", "yaml: !!binary value contains invalid base64 data");
}

#[test]
fn keys_become_strings() {
    assert_decodes(
        "1: a\n2.5: b\ntrue: c\non: d\n1000000.5: e\n.inf: f",
        r#"{".inf":"f","1":"a","1.0000005e+06":"e","2.5":"b","true":"d"}"#,
    );
    assert_decode_error("~: a", "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"a\"");
    assert_decode_error("? [1]\n: a", "yaml: invalid map key: []interface {}{1}");
}

#[test]
fn anchors_aliases_and_merge_keys_are_resolved() {
    assert_decodes("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#);
    assert_decodes("a: &x {b: 1, e: 0}\nd:\n  <<: *x\n  e: 2", r#"{"a":{"b":1,"e":0},"d":{"b":1,"e":2}}"#);
    // A merge overrides the entries before it, contrary to the YAML specification. The first of several mappings wins.
    assert_decodes("b: 1\n<<: {b: 2}", r#"{"b":2}"#);
    assert_decodes("<<: [{a: 1}, {a: 2, b: 3}]", r#"{"a":1,"b":3}"#);
    assert_decode_error("<<: 1", "yaml: map merge requires map or sequence of maps as the value");
    assert_decode_error("a: *x", "yaml: unknown anchor 'x' referenced");
    assert_decode_error("a: &x [*x]", "yaml: anchor 'x' value contains itself");
}

#[test]
fn alias_expansion_and_nesting_are_limited() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for i in 1..20 {
        let of = format!("*a{}", i - 1);
        bomb += &format!("a{i}: &a{i} [{}]\n", [of.as_str(); 9].join(","));
    }
    assert_decode_error(&bomb, "yaml: document contains excessive aliasing");
    // Upstream has no such limit.
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 1000].join(","));
    assert_decode_error(&long, "yaml: document contains excessive aliasing");
    for endless in ["[".repeat(3 << 20), "{a: ".repeat(1 << 19), "- ".repeat(1 << 20), "? ".repeat(1 << 20)] {
        assert_decode_error(endless, "yaml: exceeded max depth of 10000");
    }
}

#[test]
fn only_the_first_document_is_decoded_and_duplicate_keys_are_reported() {
    assert_decodes("", "null");
    assert_decodes("# nothing\n", "null");
    assert_decodes("--- {a: 1}\n--- b\n", r#"{"a":1}"#);
    assert_decodes("\u{feff}a: 1", r#"{"a":1}"#);
    let decoded = yaml::decode(b"a: 1\nb: {c: 1, c: 2}\na: 2\n").expect("YAML");
    assert_eq!(json::encode(&decoded.value), br#"{"a":2,"b":{"c":2}}"#);
    let strict =
        "yaml: unmarshal errors:\n  line 2: key \"c\" already set in map\n  line 3: key \"a\" already set in map";
    assert_eq!(decoded.strict_error.as_deref(), Some(strict));
}

#[test]
fn malformed_texts_are_rejected_with_goyamls_messages() {
    assert_decode_error("a: b: c", "yaml: mapping values are not allowed in this context");
    assert_decode_error("x: 1\na: b: c", "yaml: line 2: mapping values are not allowed in this context");
    assert_decode_error("a: [1, 2", "yaml: line 1: did not find expected ',' or ']'");
    assert_decode_error("a: 'x", "yaml: found unexpected end of stream");
    assert_decode_error("a: @b", "yaml: found character that cannot start any token");
    assert_decode_error("a:\n  b: 1\n c: 2", "yaml: line 2: did not find expected key");
    assert_decode_error(b"a: \x01", "yaml: control characters are not allowed");
    assert_decode_error(b"a: \xff", "yaml: invalid leading UTF-8 octet");
    assert_decode_error(b"a: \xe2\x82", "yaml: incomplete UTF-8 octet sequence");
}

#[test]
fn encoding_matches_go() {
    assert_encodes("{}", "{}\n");
    assert_encodes("[]", "[]\n");
    assert_encodes("null", "null\n");
    assert_encodes(
        r#"{"b":[1,{"c":[],"d":{}},["x"]],"a":{"z":null}}"#,
        "a:\n  z: null\nb:\n- 1\n- c: []\n  d: {}\n- - x\n",
    );
    assert_encodes(
        r##"["y","yes","1","1.5","0x1F","null","~","","2020-01-01","2020-13-01","12:30","a: b","a:b","- a","-"," a","@a","it's","'a'","#a","a #b"]"##,
        "- \"y\"\n- \"yes\"\n- \"1\"\n- \"1.5\"\n- \"0x1F\"\n- \"null\"\n- \"~\"\n- \"\"\n- \"2020-01-01\"\n- 2020-13-01\n- \"12:30\"\n- 'a: b'\n- a:b\n- '- a'\n- '-'\n- ' a'\n- '@a'\n- it's\n- '''a'''\n- '#a'\n- 'a #b'\n",
    );
    assert_encodes(
        r#"{"a":"x\ny","b":"x\ny\n","c":"x\n\n"," d":"\tx\ny","e":" x\ny","f":"x \n"}"#,
        "' d': \"\\tx\\ny\"\na: |-\n  x\n  y\nb: |\n  x\n  y\nc: |+\n  x\n\ne: |2-\n   x\n  y\nf: \"x \\n\"\n",
    );
    assert_encodes(
        "[1.5,1e21,1e-7,123456789.5,12345678901234567890]",
        "- 1.5\n- 1e+21\n- 1e-07\n- 1.234567895e+08\n- 12345678901234567000\n",
    );
    assert_encodes(r#"{"a10":1,"a2":1,"B":1,"a":1,"1":1,"_":1}"#, "_: 1\n\"1\": 1\nB: 1\na: 1\na2: 1\na10: 1\n");
    let words = "word ".repeat(20);
    assert_encodes(
        &format!(r#"{{"a":"{}","b":"{words}"}}"#, words.trim_end()),
        &format!("a: {0}\n  {1}\nb: '{0}\n  {1} '\n", "word ".repeat(16).trim_end(), "word ".repeat(4).trim_end()),
    );
    let long = "k".repeat(129);
    assert_encodes(&format!(r#"{{"{long}":[1],"x\ny":2}}"#), &format!("? {long}\n: - 1\n? |-\n  x\n  y\n: 2\n"));
}

#[test]
fn fixtures_decode_to_their_json_and_are_encoded_byte_for_byte() {
    for (types, fixture) in support::fixtures_of_all_versions() {
        let name = format!("{}/{} {}", fixture.group, fixture.version, fixture.kind);
        let decoded = yaml::decode(&fixture.bytes("yaml")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let typed = json::decode_typed(&json::encode(&decoded.value), types, fixture.type_id).expect("the kind");
        let expect = json::decode_typed(&fixture.bytes("json"), types, fixture.type_id).expect("the kind");
        assert_eq!(typed, expect, "{name}");
        assert_eq!(
            String::from_utf8_lossy(&yaml::encode(&expect.value)),
            String::from_utf8_lossy(&fixture.bytes("yaml")),
            "{name}"
        );
    }
}

#[test]
fn decoding_and_encoding_match_the_recorded_upstream_results() {
    recorded::check_all(include_str!("yaml/rows.json"), |text| match yaml::decode(text) {
        Err(error) => CodecResult { error: error.to_string(), ..CodecResult::default() },
        Ok(read) => CodecResult {
            json: json::encode(&read.value),
            strict: read.strict_error.unwrap_or_default(),
            written: yaml::encode(&read.value),
            ..CodecResult::default()
        },
    });
}
