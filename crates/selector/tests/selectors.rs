//! Tests of matching, printing and parse errors of selectors.

use pintle_selector::{FieldSelector, LabelSelector};
use pintle_value::{Value, object};
use proptest::prelude::*;

/// Parses a label selector and compares its text or its error.
#[track_caller]
fn check(text: &str, expect: &str) {
    let actual = LabelSelector::parse(text).map_or_else(|e| e.to_string(), |s| s.to_string());
    assert_eq!(actual, expect, "{text:?}");
}

#[test]
fn label_selectors_are_parsed_and_printed() {
    for (text, expect) in [
        ("", ""),
        (" ", ""),
        ("a", "a"),
        ("!a", "!a"),
        ("b , a = x", "a=x,b"),
        ("a==x,a!=y", "a==x,a!=y"),
        ("a in (z, b,b)", "a in (b,z)"),
        ("a notin ()", "a notin ()"),
        ("a in (,b)", "a in (,b)"),
        ("a in (b,,c)", "a in (,b,c)"),
        ("a=,b", "a=,b"),
        ("a>1,b<2", "a>1,b<2"),
        ("a > 1", "a>1"),
        ("\ta\r\n=\tx ", "a=x"),
        ("a in\t(x,\ny)", "a in (x,y)"),
        ("a in (x,)", "a in (,x)"),
        ("a in (,,)", "a in ()"),
        ("a in (in,notin)", "a in (in,notin)"),
        ("notin notin (x)", "notin notin (x)"),
        ("in=in", "in=in"),
        ("!in", "!in"),
        ("a==", "a=="),
        ("a!=", "a!="),
        ("a!=b,a!=c", "a!=b,a!=c"),
        ("! a", "!a"),
        ("a\0,b", "a,b"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("x/y-z.w", "x/y-z.w"),
    ] {
        check(text, expect);
    }
}

#[test]
fn invalid_label_selectors_are_rejected() {
    for (text, expect) in [
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a!b", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a in (b)", "found 'in', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (!", "unable to parse requirement: found '!', expected: ',', ')' or identifier"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        (")", "found ')', expected: !, identifier, or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,=b", "found '=', expected: identifier after ','"),
        ("a,(", "found '(', expected: identifier after ','"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("!(a)", "unable to parse requirement: found '(', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("a(", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
        ("a)", "unable to parse requirement: found ')', expected: in, notin, =, ==, !=, gt, lt"),
        ("a In (b)", "unable to parse requirement: found 'In', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=!b", "unable to parse requirement: found '!', expected: identifier"),
        ("a!=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a>=1", "unable to parse requirement: found '=', expected: identifier"),
        ("a<<1", "unable to parse requirement: found '<', expected: identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in ,", "unable to parse requirement: found ',' expected: '('"),
        ("a notin )", "unable to parse requirement: found ')' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in ((", "unable to parse requirement: found '(', expected: ',', ')' or identifier"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a in (b=c)", "unable to parse requirement: found '=', expected: ',' or ')'"),
        ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        (
            "a>",
            "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a<1.5",
            "unable to parse requirement: values[0]: Invalid value: \"1.5\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a>9223372036854775808",
            "unable to parse requirement: values[0]: Invalid value: \"9223372036854775808\": for 'Gt', 'Lt' operators, the \
             value must be an integer",
        ),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a/b/c",
            "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or \
             'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
             optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
        (
            "a=-",
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an empty string or \
             consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
             (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ] {
        check(text, expect);
    }
}

#[test]
fn label_selectors_match_objects() {
    let labels = object! {"metadata": object! {"labels": object! {"app": "web", "n": "5", "empty": ""}}};
    for (text, expect) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("!none", true),
        ("app=web,n", true),
        ("app=api", false),
        ("none=", false),
        ("empty=", true),
        ("app!=api", true),
        ("none!=x", true),
        ("app in (api,web)", true),
        ("app notin (api,web)", false),
        ("none notin (x)", true),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app<6", false),
        ("none<6", false),
    ] {
        let selector = LabelSelector::parse(text).expect(text);
        assert_eq!(selector.matches_object(&labels), expect, "{text}");
    }
}

#[test]
fn label_selectors_are_converted_from_objects() {
    let check = |selector: &Value, expect: &str| {
        let actual = LabelSelector::from_label_selector(selector).map_or_else(|e| e.to_string(), |s| s.to_string());
        assert_eq!(actual, expect);
    };
    let expression = |operator: &str, values: Value| {
        object! {"matchExpressions": vec![object! {"key": "k", "operator": operator, "values": values}]}
    };
    check(&object! {"matchLabels": object! {"b": "1", "a": "2"}}, "a=2,b=1");
    check(&expression("NotIn", Value::from(vec!["y", "x"])), "k notin (x,y)");
    check(&expression("Exists", Value::Null), "k");
    check(&expression("Gt", Value::Null), "\"Gt\" is not a valid label selector operator");
    check(
        &expression("In", Value::Null),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    );
    check(
        &expression("Exists", Value::from(vec!["x"])),
        "values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist",
    );
    let nothing = LabelSelector::from_label_selector(&Value::Null).expect("a selector");
    assert!(nothing.is_nothing() && !nothing.is_everything() && !nothing.matches(|_| None));
    assert!(LabelSelector::from_label_selector(&Value::object()).expect("a selector").is_everything());
    let set = LabelSelector::from_labels(&object! {"a": "1"});
    assert_eq!((set.required_value("a"), set.required_value("b")), (Some("1"), None));
}

#[test]
fn field_selectors_are_parsed_and_matched() {
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let actual = FieldSelector::parse(text).map_or_else(|e| e.to_string(), |s| s.to_string());
        assert_eq!(actual, expect, "{text:?}");
    }
    for (text, expect) in [
        ("", ""),
        (",,", ""),
        ("=", ""),
        ("b=1,a!=2", "a!=2,b=1"),
        ("a==1", "a=1"),
        ("a=", "a="),
        ("=x", "=x"),
        (r"a=b\,c\=d\\", r"a=b\,c\=d\\"),
        (" a = b ", " a = b "),
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        (r"a=\é", r"invalid field selector: invalid escape sequence: \é"),
        (r"a=b\", "invalid field selector: invalid escape sequence: \\"),
        (r"a=b\\\", "invalid field selector: invalid escape sequence: \\"),
        (r"a\,b=c", r"a\,b=c"),
        (r"a\", r"invalid selector: 'a\'; can't understand 'a\'"),
        (r"a\,b", r"invalid selector: 'a\,b'; can't understand 'a\,b'"),
        ("a!b", "invalid selector: 'a!b'; can't understand 'a!b'"),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        ("a!==b", "invalid field selector: unescaped character in value: 61"),
        ("a!=", "a!="),
        ("!=a", "!=a"),
        ("!=", ""),
        ("==", ""),
        (",a=b,", "a=b"),
        ("a=1,a=2", "a=1,a=2"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ] {
        check(text, expect);
    }
    let selector = FieldSelector::parse("a=1,b!=2,c=").expect("a selector");
    assert!(selector.matches(|field| (field == "a").then_some("1")));
    assert!(!selector.matches(|_| Some("2")));
    assert_eq!((selector.required_value("a"), selector.required_value("b")), (Some("1"), None));
}

#[test]
fn a_valid_field_selector_requires_a_value() {
    for (text, expect) in [
        ("a=1", true),
        ("a==1", true),
        ("b=2,a=1", true),
        ("a=2,a=1", true),
        (",a=1,", true),
        (r"a=1,b=\,", true),
        ("a!=1", false),
        ("a=2", false),
        ("a=", false),
        ("", false),
        ("a=1,b", false),
        (r"a=1,b=\x", false),
        ("a=1=", false),
        (r"b=\,a=1", false),
    ] {
        assert_eq!(FieldSelector::text_requires(text, "a", "1"), expect, "{text:?}");
    }
    assert!(FieldSelector::text_requires(r"a=x\,y", "a", "x,y"));
}

proptest! {
    #[test]
    fn a_printed_label_selector_parses_back(text in "[ab!=<>(), 1]{0,12}|(a|!b|c=1|d in \\(x,y,\\)|e!=z|f>3)(,(a|g notin \\(\\)|h==))?") {
        if let Ok(selector) = LabelSelector::parse(&text) {
            let again = LabelSelector::parse(&selector.to_string());
            prop_assert_eq!(again.as_ref(), Ok(&selector));
        }
    }

    #[test]
    fn a_printed_field_selector_parses_back(text in "[ab,=!\\\\ é]{0,12}") {
        if let Ok(selector) = FieldSelector::parse(&text) {
            let printed = selector.to_string();
            let again = FieldSelector::parse(&printed).expect("the printed selector").to_string();
            // As in upstream, terms are sorted before they are parsed, and "==" is printed as "=".
            let sorted = |text: &str| {
                let mut terms: Vec<String> = text.split(',').map(str::to_owned).collect();
                terms.sort();
                terms
            };
            prop_assert_eq!(sorted(&again), sorted(&printed));
        }
    }
}
