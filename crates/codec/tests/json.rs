//! JSON decoding and encoding. All expectations were printed by Go (`encoding/json` of Go 1.26, `sigs.k8s.io/json`).

mod recorded;

use pintle_codec::json::{self, DecodeError, DecodeOptions};
use pintle_value::{Value, object};
use recorded::CodecResult;

fn decode(text: impl AsRef<[u8]>) -> Result<Value, DecodeError> {
    json::decode(text.as_ref(), DecodeOptions::default()).map(|d| d.value)
}

#[track_caller]
fn assert_decodes(text: impl AsRef<[u8]>, expect: impl Into<Value>) {
    assert_eq!(decode(text), Ok(expect.into()));
}

#[track_caller]
fn assert_decode_error(text: impl AsRef<[u8]>, expect: &str) {
    let text = text.as_ref();
    match decode(text) {
        Err(e) => assert_eq!(e.to_string(), expect, "{}", text.escape_ascii()),
        Ok(value) => panic!("{} is read as {value:?}", text.escape_ascii()),
    }
}

#[track_caller]
fn assert_encodes(value: impl Into<Value>, expect: &str) {
    assert_eq!(String::from_utf8(json::encode(&value.into())).expect("UTF-8"), expect);
}

#[test]
fn numbers_that_fit_are_integers() {
    assert_decodes("1", 1);
    assert_decodes("-0", 0);
    assert_decodes("9223372036854775807", i64::MAX);
    assert_decodes("-9223372036854775808", i64::MIN);
    assert_decodes("9223372036854775808", 9_223_372_036_854_775_808.0);
    assert_decodes("1.0", 1.0);
    assert_decodes("1e3", 1000.0);
    assert_decodes("0.1e-2", 0.001);
    assert_decodes("1e-400", 0.0);
    assert_decode_error("1e400", "json: cannot unmarshal number 1e400 into Go value of type float64");
    assert_decode_error("[1, -2e999]", "json: cannot unmarshal number -2e999 into Go value of type float64");
}

#[test]
fn invalid_utf8_and_lone_surrogates_are_replaced_as_in_go() {
    assert_decodes(r#""a\u00e9\n\/\"\\""#, "aé\n/\"\\");
    assert_decodes(r#""\ud83d\ude00""#, "😀");
    assert_decodes(r#""\ud83dx""#, "\u{fffd}x");
    assert_decodes(r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀");
    assert_decodes(r#""\ude00\n""#, "\u{fffd}\n");
    assert_decodes(b"\"a\xffb\xe2\x82\"", "a\u{fffd}b\u{fffd}\u{fffd}");
    assert_decodes(b"{\"\xff\": 1}", object! { "\u{fffd}": 1 });
    assert_decodes("\"\u{7f}\u{2028}\"", "\u{7f}\u{2028}");
}

#[test]
fn white_space_and_nesting_are_parsed() {
    assert_decodes(
        " \t\r\n[ 1 , true,false , null,{} ,[] ] \n",
        vec![Value::Int(1), Value::Bool(true), Value::Bool(false), Value::Null, Value::object(), Value::Array(vec![])],
    );
    assert_decodes(r#"{"b":1,"a":{"c":2},"b":3}"#, object! { "a": object! { "c": 2 }, "b": 3 });
}

#[test]
fn malformed_json_is_rejected_with_gos_messages() {
    for (text, expect) in [
        ("", "unexpected end of JSON input"),
        (" ", "unexpected end of JSON input"),
        ("{nope", "invalid character 'n' looking for beginning of object key string"),
        ("{\"a\"", "unexpected end of JSON input"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
        ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
        ("{\"a\":}", "invalid character '}' looking for beginning of value"),
        ("{,}", "invalid character ',' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[1}", "invalid character '}' after array element"),
        ("1 2", "invalid character '2' after top-level value"),
        ("{}x", "invalid character 'x' after top-level value"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
        ("nan", "invalid character 'a' in literal null (expecting 'u')"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("fx", "invalid character 'x' in literal false (expecting 'a')"),
        ("-", "invalid character ' ' in numeric literal"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("+1", "invalid character '+' looking for beginning of value"),
        ("\"abc", "unexpected end of JSON input"),
        ("\"a\\", "invalid character ' ' in string escape code"),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        ("\"\\'\"", "invalid character '\\'' in string escape code"),
        ("\"\\u12x4\"", "invalid character 'x' in \\u hexadecimal character escape"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        ("\"a\u{0}b\"", "invalid character '\\x00' in string literal"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("\u{feff}{}", "invalid character 'ï' looking for beginning of value"),
        ("\\", "invalid character '\\\\' looking for beginning of value"),
    ] {
        assert_decode_error(text, expect);
    }
    assert_decode_error(b"\xff", "invalid character 'ÿ' looking for beginning of value");
    assert_decode_error(b"\x80", "invalid character '\\u0080' looking for beginning of value");
    assert_decode_error(b"\xa0", "invalid character '\\u00a0' looking for beginning of value");
    assert_decode_error(b"{\"a\":\"\xff\",}", "invalid character '}' looking for beginning of object key string");
}

#[test]
fn nesting_is_limited_to_ten_thousand_levels() {
    // At the limit, the recursion needs more than a test thread's stack in a debug build.
    std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(|| {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                let nested = |levels| open.repeat(levels) + "1" + &close.repeat(levels);
                let value = decode(nested(10_000)).unwrap();
                assert_eq!(json::encode(&value), nested(10_000).into_bytes());
                let bracket = &open[..1];
                assert_decode_error(nested(10_001), &format!("invalid character '{bracket}' exceeded max depth"));
                assert_decode_error(
                    open.repeat(1_000_000),
                    &format!("invalid character '{bracket}' exceeded max depth"),
                );
            }
        })
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn duplicate_keys_are_listed_by_full_path() {
    let list = |text: &str| {
        let decoded =
            json::decode(text.as_bytes(), DecodeOptions { duplicates: true, ..DecodeOptions::default() }).unwrap();
        assert_eq!(decoded.has_duplicates, !decoded.duplicates.is_empty());
        decoded.duplicates
    };
    assert_eq!(list(r#"{"a":1,"b":{"a":1}}"#), Vec::<String>::new());
    assert_eq!(list(r#"{"spec":{"z":1,"z":2,"a":1,"a":1},"b":1,"b":2,"b":3}"#), ["spec.z", "spec.a", "b"]);
    assert_eq!(list(r#"{"l":[1,{"x":1,"x":2},[{"y":0,"y":0}]]}"#), ["l[1].x", "l[2][0].y"]);
    assert_eq!(list(r#"[{"x":1,"\u0078":2}]"#), ["[0].x"]);
}

#[test]
fn encoding_matches_go() {
    assert_encodes(
        object! { "b": 1, "a": vec!["x", ""], "<k>": Value::Null },
        r#"{"\u003ck\u003e":null,"a":["x",""],"b":1}"#,
    );
    assert_encodes(
        "<a href=\"x\">&'\\\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}é\u{2028}\u{2029}\u{2027}",
        concat!(
            r#""\u003ca href=\"x\"\u003e\u0026'\\\b\f\n\r\t\u0000\u001f"#,
            "\u{7f}é",
            r"\u2028\u2029",
            "\u{2027}\""
        ),
    );
    for (f, expect) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (1.5, "1.5"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e100, "1.25e+100"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (5e-324, "5e-324"),
        (f64::MAX, "1.7976931348623157e+308"),
        (9_223_372_036_854_775_808.0, "9223372036854776000"),
    ] {
        assert_encodes(f, expect);
    }
    assert_encodes(i64::MIN, "-9223372036854775808");
}

#[test]
fn pretty_output_is_indented_by_two_spaces_per_level() {
    let value =
        object! { "a": Value::object(), "b": Value::Array(vec![]), "c": vec![1, 2], "d": object! { "e{": "}\\\",[" } };
    let expect = "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    2\n  ],\n  \"d\": {\n    \"e{\": \"}\\\\\\\",[\"\n  }\n}";
    assert_eq!(String::from_utf8(json::encode_pretty(&value)).unwrap(), expect);
}

#[test]
fn type_meta_is_decoded_as_by_the_standard_decoder() {
    let find =
        |text: &str| json::type_meta(&decode(text).unwrap()).map(|m| (m.api_version.to_string(), m.kind.to_string()));
    assert_eq!(find(r#"{"apiVersion":"v1","kind":"Pod"}"#), Ok(("v1".into(), "Pod".into())));
    assert_eq!(find(r#"{"Kind":"Pod"}"#), Ok((String::new(), "Pod".into())));
    assert_eq!(find("null"), Ok((String::new(), String::new())));
    assert_eq!(
        find(r#"{"kind":1}"#).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field .kind of type string"
    );
    assert_eq!(
        find("[]").unwrap_err().to_string(),
        "json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
    );
}

/// Mutates valid texts: the parser and the scanner must agree with each other and with serde_json, and must not panic.
#[test]
fn mutated_texts_never_panic_and_are_decoded_consistently() {
    let seeds: [&str; 4] = [
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b\u00e9\ud83d\ude00"}},"spec":{"n":[1,-2.5e3,true,false,null,{}]}}"#,
        r#"[0.5,1e10,-0,"\\\"/\b\f\n\r\t",{"":""}]"#,
        r#""é😀""#,
        "{\"a\": [ ] , \"b\"\n:\t{ } }",
    ];
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for round in 0..60_000 {
        let mut text = seeds[round % seeds.len()].as_bytes().to_vec();
        for _ in 0..=next(3) {
            let at = next(text.len());
            match next(4) {
                0 => text.truncate(at + 1),
                1 => drop(text.remove(at)),
                2 => text[at] = b"{}[]\",:0e-.\\utrn \x00\xff\xe2"[next(20)],
                _ => text.insert(at, b"{}[]\",:0e-.\\utrn \x00\xff\xe2"[next(20)]),
            }
            if text.is_empty() {
                break;
            }
        }
        let ours = json::decode(&text, DecodeOptions { duplicates: true, ..DecodeOptions::default() });
        let _ = json::decode_strict_untyped(&text);
        if let Ok(valid) = std::str::from_utf8(&text) {
            let theirs = serde_json::from_str::<serde_json::Value>(valid);
            match (&ours, theirs) {
                (Err(_), Ok(_)) => panic!("{valid} is refused: {ours:?}"),
                // serde_json rejects lone surrogates, which Go replaces.
                (Ok(_), Err(e)) if !valid.contains("\\u") => panic!("{valid} is read: {e}"),
                (Ok(decoded), Ok(theirs)) => {
                    let again: serde_json::Value = serde_json::from_slice(&json::encode(&decoded.value)).unwrap();
                    if !valid.contains(['.', 'e', 'E']) && !valid.contains("-0") {
                        assert_eq!(again, theirs, "{valid}");
                    }
                }
                _ => {}
            }
        }
        if let Ok(decoded) = ours {
            assert_eq!(
                decode(json::encode(&decoded.value)).map(|v| json::encode(&v)),
                Ok(json::encode(&decoded.value))
            );
        }
    }
}

#[test]
fn decoding_matches_the_recorded_upstream_results() {
    recorded::check_all(include_str!("json/rows.json"), |text| {
        match json::decode(text, DecodeOptions { duplicates: true, ..DecodeOptions::default() }) {
            Err(error) => CodecResult { error: error.to_string(), ..CodecResult::default() },
            Ok(read) => CodecResult {
                json: json::encode(&read.value),
                strict: json::decode_strict_untyped(text)
                    .expect("what is read is well-formed")
                    .strict_errors
                    .join("\n"),
                ..CodecResult::default()
            },
        }
    });
}

#[test]
fn objects_in_members_of_stored_objects_are_kept_as_text_until_they_are_used() {
    const LONG: &str = "a text of more than sixty-four bytes, so that objects with it are kept as text";
    let keeping = DecodeOptions { kept_as_text: &["spec"], ..DecodeOptions::STORED };
    let is_text = |value: &Value| value.as_object().is_some_and(|object| object.encoded().is_some());
    let spec = format!(
        r#"{{"items":[{{"a":"{LONG}"}},1,{{"b":-1}}],"one":{{"c":"{LONG}","spec":{{"d":"{LONG}"}}}},"t":"x"}}"#
    );
    let text = format!(r#"{{"metadata":{{"of":{{"name":"{LONG}"}}}},"spec":{spec},"z":{{"spec":{{"e":"{LONG}"}}}}}}"#);
    let value = json::decode(text.as_bytes(), keeping).expect("JSON").value;
    assert!(!["metadata", "spec", "z"].iter().any(|member| is_text(&value[*member])));
    assert!(!is_text(&value["metadata"]["of"]) && !is_text(&value["z"]["spec"]));
    let items = value.items_at(&["spec", "items"]);
    assert_eq!(items.iter().map(is_text).collect::<Vec<_>>(), [true, false, false], "the last object is short");
    assert!(is_text(&value["spec"]["one"]) && !is_text(&value["spec"]["one"]["spec"]));
    assert_eq!(value["spec"].as_object().and_then(|object| text.get(object.text_range()?)), Some(&*spec));
    assert_eq!(value, json::decode(text.as_bytes(), DecodeOptions::default()).expect("JSON").value);
    let mut changed = value.clone();
    changed.set_at(&["spec", "one", "c"], "x");
    assert!(is_text(&value["spec"]["one"]) && !is_text(&changed["spec"]["one"]));
    // Text in another form than this server writes is decoded at once, and malformed text is an error.
    for (object, is_valid) in [
        (format!(r#"{{"a":"{LONG}" }}"#), true),
        (format!(r#"{{"a":"{LONG}\n"}}"#), true),
        (format!(r#"{{"a":"{LONG}","b":-0}}"#), true),
        (format!(r#"{{"a":"{LONG}",}}"#), false),
        (format!(r#"{{"a":"{LONG}","b":[}}"#), false),
    ] {
        let text = format!(r#"{{"spec":{{"o":{object}}}}}"#);
        let decoded = json::decode(text.as_bytes(), keeping);
        assert_eq!(decoded.as_ref().is_ok_and(|decoded| !is_text(&decoded.value["spec"]["o"])), is_valid, "{text}");
        assert_eq!(decoded, json::decode(text.as_bytes(), DecodeOptions::default()), "{text}");
    }
}
