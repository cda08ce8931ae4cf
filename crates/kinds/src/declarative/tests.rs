//! Tests of rules against answers of upstream's library, and of the compilation of all rules.

use pintle_catalog::rules::parse;

use super::*;
use crate::testing::{messages, object};

#[test]
fn all_rules_compile() {
    let mut count = 0;
    let texts = Minor::known().flat_map(|minor| [(OWN, minor), (IMPORTED, minor)]);
    for package in texts.flat_map(|(text, minor)| parse(text, minor).expect("valid rules")) {
        for ty in &package.types {
            for with_alpha in [false, true] {
                let program = Compiler::new(vec![package.clone()], with_alpha).compile(ty.name);
                program.unwrap_or_else(|problem| panic!("{}: {problem}", package.name));
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count} programs");
}

/// Recorded by `tools/declarative`.
const UPSTREAM: &str = include_str!("upstream/rows.jsonl");

#[test]
fn errors_are_those_of_upstream() {
    let (mut count, mut differences) = (0, Vec::new());
    for line in UPSTREAM.lines() {
        let table = object(line);
        let text: &'static str = format!("package p\n{}", table.str_at(&["rules"])).leak();
        let package = parse_package(text, "p", Minor::DEFAULT).expect("valid rules").expect("a package");
        let program = Compiler::new(vec![package], false).compile("T").expect("rules that compile");
        let options = table.items_at(&["options"]);
        let has_option = |option: &str| options.iter().any(|known| known.as_str() == Some(option));
        for case in table.items_at(&["cases"]) {
            let holder = |value: &Value| pintle_value::object! { "f": value.clone() };
            let (new, old) = (holder(&case["new"]), case.bool_at(&["update"]).then(|| holder(&case["old"])));
            let run = Run { program: &program, has_option: &has_option, is_update: old.is_some(), ratchets: true };
            let pair = Pair { shape: Shape::Struct, new: Some(&new), old: old.as_ref(), has_old_owner: old.is_some() };
            let mut errors = Errors::new();
            run.validate(0, pair, &FieldPath::root(), &mut errors);
            let expect: Vec<&str> = case.items_at(&["errors"]).iter().filter_map(Value::as_str).collect();
            if messages(&errors) != expect {
                differences.push(format!("{text}{case:?}\n  found {:?}", messages(&errors)));
            }
            count += 1;
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert!(count > 1000, "{count} cases");
}
