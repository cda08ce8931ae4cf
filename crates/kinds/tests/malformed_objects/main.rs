//! Tests that no strategy and no table panics on malformed objects. Pods, services and the kinds of networking have
//! tests of their own in their modules.

mod cluster;
mod optional;
mod stored;
mod workloads;

use pintle_kinds::scale::{apply_scale, scale_of};
use pintle_kinds::{resources, strategy, table};
use pintle_registry::{Strategy, StrategyContext, SubresourceRole};
use pintle_value::metadata::MissingFields;
use pintle_value::time::Time;
use pintle_value::{Object, Value};

const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

/// Replacements for each part of a sample.
const INVALID_VALUES: [&str; 11] = [
    "null",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "\"\"",
    "\"99999999999999999999%\"",
    "\"99999999999999999999E\"",
    "\"\\u0000é/-:[\"",
    "[]",
    "{}",
    "[null,{\"\":[1]},true]",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the test's JSON is well formed")
}

fn context() -> StrategyContext {
    StrategyContext {
        now: NOW,
        user: "u".into(),
        uid: "".into(),
        groups: Vec::new(),
        extra: Vec::new(),
        dry_run: false,
        gates: Default::default(),
        allow_privileged: true,
    }
}

/// Calls `visit` with every object that differs from `sample` in one replaced or removed part.
fn for_each_variant(sample: &Value, visit: &mut dyn FnMut(Value)) {
    INVALID_VALUES.iter().for_each(|value| visit(json(value)));
    match sample {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for_each_variant(item, &mut |malformed| {
                    let mut items = items.clone();
                    items[i] = malformed;
                    visit(Value::Array(items));
                });
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter() {
                for_each_variant(field, &mut |malformed| {
                    let mut fields: Object = fields.clone();
                    fields.insert(key, malformed);
                    visit(Value::Object(fields));
                });
                let mut without = fields.clone();
                without.remove(key);
                visit(Value::Object(without));
            }
        }
        _ => {}
    }
}

/// Runs all methods of a strategy on an object, without and with defaults. Defaulting must be idempotent.
fn run_strategy(strategy: &dyn Strategy, context: &StrategyContext, object: &Value, old: &Value) {
    let mut defaulted = object.clone();
    strategy.defaults(&mut defaulted);
    let mut again = defaulted.clone();
    strategy.defaults(&mut again);
    assert_eq!(again, defaulted, "defaults of what has them");
    strategy.convert_to_hub(&mut defaulted);
    strategy.convert_from_hub(&mut object.clone());

    for object in [object, &defaulted] {
        let mut created = object.clone();
        strategy.prepare_for_create(context, &mut created);
        strategy.validate(context, &created);
        strategy.canonicalize(&mut created);
        strategy.warnings(context, &created, None);
        strategy.selectable_fields(&created);
        let mut updated = object.clone();
        strategy.prepare_for_update(context, &mut updated, old);
        strategy.validate_update(context, &updated, old);
        strategy.warnings(context, &updated, Some(old));
        for name in ["status", "finalize", "approval"] {
            let Some(subresource) = strategy.subresource(name) else { continue };
            let mut updated = object.clone();
            subresource.prepare_for_update(context, &mut updated, old);
            let _ = subresource.validate_update(context, &updated, old);
        }
    }
}

/// Converts an object of every version that is only stored, and back.
fn convert_stored(strategy: &dyn Strategy, object: &Value) {
    for version in strategy.unserved_versions() {
        let mut converted = object.clone();
        (version.to_served)(&mut converted);
        for mut object in [object.clone(), converted] {
            version.from_served.iter().for_each(|from_served| from_served(&mut object));
        }
    }
}

fn run_strategy_both_ways(strategy: &dyn Strategy, malformed: &Value, sample: &Value) {
    let context = context();
    run_strategy(strategy, &context, malformed, sample);
    run_strategy(strategy, &context, sample, malformed);
}

#[test]
fn no_malformed_workload_makes_a_strategy_panic() {
    let resources = resources(pintle_catalog::shared());
    for (group, version, plural, text) in workloads::SAMPLES {
        let resource = resources.iter().find(|r| r.group == group && r.plural == plural);
        let scale = resource.and_then(|r| r.subresource("scale")).map(|s| &s.role);
        let strategy = strategy(group, version, plural);
        let sample = json(&text.replace("SELECTOR", workloads::SELECTOR).replace("TEMPLATE", workloads::TEMPLATE));
        for_each_variant(&sample, &mut |malformed| {
            run_strategy_both_ways(strategy.as_ref(), &malformed, &sample);
            if let Some(SubresourceRole::Scale(paths)) = scale {
                let _ = scale_of(&malformed, paths);
                let _ = apply_scale(&mut malformed.clone(), &malformed, paths, MissingFields::Required);
            }
        });
    }
}

#[test]
fn no_malformed_object_of_a_stored_version_makes_a_strategy_panic() {
    for (group, plural, text) in stored::SAMPLES {
        let strategy = strategy(group, "v1", plural);
        assert!(!strategy.unserved_versions().is_empty(), "{plural}");
        for_each_variant(&json(text), &mut |malformed| convert_stored(strategy.as_ref(), &malformed));
    }
}

#[test]
fn no_malformed_object_of_an_optional_version_makes_a_strategy_or_table_panic() {
    for (group, version, plural, text) in optional::SAMPLES {
        let strategy = strategy(group, version, plural);
        let table = table(group, plural);
        let sample = json(text);
        for_each_variant(&sample, &mut |malformed| {
            assert_eq!(table.cells(&malformed, NOW).len(), table.columns().len());
            run_strategy_both_ways(strategy.as_ref(), &malformed, &sample);
        });
    }
}

#[test]
fn no_malformed_cluster_object_makes_a_strategy_or_table_panic() {
    for (group, plural, text) in cluster::SAMPLES {
        let strategy = strategy(group, "v1", plural);
        let table = table(group, plural);
        let sample = json(text);
        for_each_variant(&sample, &mut |malformed| {
            assert_eq!(table.cells(&malformed, NOW).len(), table.columns().len());
            if plural != "pods" {
                run_strategy_both_ways(strategy.as_ref(), &malformed, &sample);
            }
        });
    }
}
