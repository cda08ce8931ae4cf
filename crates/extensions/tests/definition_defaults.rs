//! What kube-apiserver 1.36 says of the defaults in definitions. A row of `definition_defaults.txt` is what it is about,
//! the schema before (`was`), if there was one, the schema, and the errors (`!`), sorted.

use std::sync::Arc;

use pintle_extensions::judge_definitions;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Value, object};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn rules() -> Arc<dyn Strategy> {
    let mut resources = pintle_kinds::resources(pintle_catalog::shared());
    judge_definitions(&mut resources);
    let mut resources = resources.into_iter();
    let found = resources.find(|resource| resource.plural == "customresourcedefinitions");
    found.expect("definitions are built in").strategy.clone()
}

fn context() -> StrategyContext {
    StrategyContext::of("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

/// A definition with this schema.
fn definition(rules: &dyn Strategy, schema: &str) -> Value {
    let version = object! {
        "name": "v1", "served": true, "storage": true, "schema": object! { "openAPIV3Schema": json(schema) },
    };
    let mut definition = object! {
        "metadata": object! { "name": "widgets.example.com" },
        "spec": object! {
            "group": "example.com", "scope": "Namespaced", "names": object! { "plural": "widgets", "kind": "Widget" },
            "versions": vec![version],
        },
    };
    rules.defaults(&mut definition);
    rules.prepare_for_create(&context(), &mut definition);
    definition
}

#[test]
fn defaults_are_judged() {
    let rules = rules();
    let mut wrong = String::new();
    for row in include_str!("definition_defaults.txt").split("\n\n") {
        let (errors, rest): (Vec<&str>, Vec<&str>) = row.lines().partition(|line| line.starts_with('!'));
        let (title, schemas) = rest.split_first().expect("a row has a title");
        let definitions: Vec<Value> =
            schemas.iter().map(|line| definition(&*rules, line.strip_prefix("was ").unwrap_or(line))).collect();
        let found = match definitions.as_slice() {
            [new] => rules.validate(&context(), new),
            [old, new] => rules.validate_update(&context(), new, old),
            _ => panic!("{title} has a schema, or two"),
        };
        let mut found: Vec<String> = found.0.iter().map(|error| format!("! {error}")).collect();
        found.sort_unstable();
        if found != errors {
            wrong.push_str(&format!("{title}\n  expected {errors:#?}\n  found {found:#?}\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
