//! Tests of rules against answers of upstream's library, and of the compilation of all rules.

use pintle_catalog::rules::parse;
use pintle_value::FieldError;

use super::*;
use crate::testing::{messages, object};

#[test]
fn all_rules_compile() {
    let mut count = 0;
    let texts = Minor::known().flat_map(|minor| [(OWN, minor), (IMPORTED, minor)]);
    let packages = texts.flat_map(|(text, minor)| {
        let packages = parse(text, minor).expect("valid rules");
        packages.into_iter().map(move |package| (text, minor, package))
    });
    for (text, minor, package) in packages {
        for ty in &package.types {
            for with_alpha in [false, true] {
                let program = Compiler::new(text, minor, with_alpha).compile(package.name, ty.name);
                program.unwrap_or_else(|problem| panic!("{}: {problem}", package.name));
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count} programs");
}

/// Recorded by `tools/declarative`, with the library of 1.36 and of 1.37.
const UPSTREAM: [(&str, Minor); 2] =
    [(include_str!("upstream/rows.jsonl"), Minor::new(36)), (include_str!("upstream/rows-1.37.jsonl"), Minor::new(37))];

#[test]
fn errors_are_those_of_upstream() {
    let (mut count, mut differences) = (0, Vec::new());
    for (line, minor) in UPSTREAM.iter().flat_map(|(rows, minor)| rows.lines().map(move |line| (line, *minor))) {
        let table = object(line);
        let text: &'static str = format!("package p\n{}", table.str_at(&["rules"])).leak();
        let program = Compiler::new(text, minor, false).compile("p", "T").expect("rules that compile");
        let options = table.items_at(&["options"]);
        let has_option = |option: &str| options.iter().any(|known| known.as_str() == Some(option));
        for case in table.items_at(&["cases"]) {
            let holder = |value: &Value| pintle_value::object! { "f": value.clone() };
            let (new, old) = (holder(&case["new"]), case.bool_at(&["update"]).then(|| holder(&case["old"])));
            let is_update = old.is_some();
            let run = Run { program: &program, has_option: &has_option, is_update, ratchets: true, with_beta: true };
            let pair = Pair { shape: Shape::Struct, new: Some(&new), old: old.as_ref(), has_old_owner: is_update };
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
    assert!(count > 2000, "{count} cases");
}

/// Recorded by `tools/declarative`: the errors of upstream's generated code.
const OBJECTS: &str = include_str!("upstream/objects-1.37.jsonl");

#[test]
fn errors_of_types_are_those_of_upstream() {
    let (mut count, mut differences) = (0, Vec::new());
    for table in OBJECTS.lines().map(object) {
        let name = |key: &str| -> &'static str { table.str_at(&[key]).to_owned().leak() };
        let (package, name) = (name("package"), name("type"));
        let program = Compiler::new(IMPORTED, Minor::new(37), false).compile(package, name).expect("valid rules");
        let has_options = !table.bool_at(&["disabled"]);
        let base = table["object"].clone();
        let old = table.bool_at(&["update"]).then_some(&base);
        for case in table.items_at(&["cases"]) {
            let mut new = base.clone();
            change(&mut new, case);
            for with_beta in [true, false] {
                let is_update = old.is_some();
                let has_option = |_: &str| has_options;
                let run = Run { program: &program, has_option: &has_option, is_update, ratchets: true, with_beta };
                let pair = Pair { shape: Shape::Struct, new: Some(&new), old, has_old_owner: is_update };
                let mut errors = Errors::new();
                run.validate(0, pair, &FieldPath::root(), &mut errors);
                let found = |is_beta: bool| -> Vec<String> {
                    errors.iter().filter(|error| error.is_beta == is_beta).map(without_composites).collect()
                };
                let expect = |key: &str| -> Vec<String> {
                    let texts = case.items_at(&[key]).iter().filter_map(Value::as_str);
                    texts.map(|text| text.split_once(" value: {").map_or(text, |(start, _)| start).to_owned()).collect()
                };
                let beta = if with_beta { expect("beta") } else { Vec::new() };
                if found(true) != beta || found(false) != expect("stable") {
                    differences.push(format!("{name} {case:?}\n  found {:?} {:?}", found(true), found(false)));
                }
                count += 1;
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    assert!(count > 3000, "{count} cases");
}

/// The message of an error. The members of objects have another order than in Go, so they are left out.
fn without_composites(error: &FieldError) -> String {
    let text = error.to_string();
    text.split_once(" value: {").map_or(&*text, |(start, _)| start).to_owned()
}

/// Changes a tree as a case says.
fn change(tree: &mut Value, case: &Value) {
    let steps: Vec<&str> = case.items_at(&["at"]).iter().filter_map(Value::as_str).collect();
    let Some((last, steps)) = steps.split_last() else { return };
    let mut owner = tree;
    for step in steps {
        owner = match owner {
            Value::Array(items) => &mut items[step.parse::<usize>().expect("an index")],
            other => other.get_mut(step).expect("a member"),
        };
    }
    let repeat = case.int_at(&["repeat"]).unwrap_or_default();
    match (owner, case.get("value")) {
        (Value::Array(items), value) => {
            items[last.parse::<usize>().expect("an index")] = value.expect("a value").clone()
        }
        (owner, Some(value)) => owner.set(*last, value.clone()),
        (owner, None) if repeat > 0 => {
            let items = owner.items_at(&[last]);
            let repeated: Vec<Value> = (0..repeat).flat_map(|_| items.iter().cloned()).collect();
            owner.set(*last, repeated);
        }
        (owner, None) => {
            owner.remove_at(&[last]);
        }
    }
}
