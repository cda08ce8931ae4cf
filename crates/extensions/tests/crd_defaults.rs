//! The errors of kube-apiserver 1.36 for defaults in CRDs. A row of `crd_defaults.txt` has a title, the old
//! schema (`was`) if any, the schema, and the sorted errors (`!`).

use std::sync::Arc;

use pintle_extensions::install_crd_validation;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Value, object};
use pintle_versions::{EffectiveVersion, Minor};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn strategy() -> Arc<dyn Strategy> {
    let mut resources = pintle_kinds::resources(pintle_catalog::shared());
    install_crd_validation(&mut resources, EffectiveVersion::of(Minor::DEFAULT));
    let mut resources = resources.into_iter();
    let found = resources.find(|resource| resource.plural == "customresourcedefinitions");
    found.expect("CRDs are built in").strategy.clone()
}

fn context() -> StrategyContext {
    StrategyContext::for_user("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

/// Creates a CRD with this schema.
fn crd(strategy: &dyn Strategy, schema: &str) -> Value {
    let version = object! {
        "name": "v1", "served": true, "storage": true, "schema": object! { "openAPIV3Schema": json(schema) },
    };
    let mut crd = object! {
        "metadata": object! { "name": "widgets.example.com" },
        "spec": object! {
            "group": "example.com", "scope": "Namespaced", "names": object! { "plural": "widgets", "kind": "Widget" },
            "versions": vec![version],
        },
    };
    strategy.defaults(&mut crd);
    strategy.prepare_for_create(&context(), &mut crd);
    crd
}

#[test]
fn defaults_are_validated_like_upstream() {
    let strategy = strategy();
    pintle_scenarios::check(include_str!("crd_defaults.txt"), &['!'], |schemas| {
        let crds: Vec<Value> =
            schemas.iter().map(|line| crd(&*strategy, line.strip_prefix("was ").unwrap_or(line))).collect();
        let found = match crds.as_slice() {
            [new] => strategy.validate(&context(), new),
            [old, new] => strategy.validate_update(&context(), new, old),
            _ => panic!("a scenario has a schema, or two: {schemas:?}"),
        };
        let mut found: Vec<String> = found.iter().map(|error| format!("! {error}")).collect();
        found.sort_unstable();
        found
    });
}
