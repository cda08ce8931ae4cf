//! Tests that no strategy and no table panics on malformed objects. Pods, services and the kinds of networking have
//! tests of their own in their modules.

mod cluster;
mod workloads;

use pintle_kinds::scale::{apply_scale, scale_of};
use pintle_kinds::{resources, strategy, table};
use pintle_registry::{Strategy, StrategyContext, SubresourceRole};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };

/// Replacements for each part of a sample.
const ODDITIES: [&str; 11] = [
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
    }
}

/// Calls `see` with every object that differs from `sample` in one replaced or removed part.
fn for_each_variant(sample: &Value, see: &mut dyn FnMut(Value)) {
    ODDITIES.iter().for_each(|oddity| see(json(oddity)));
    match sample {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for_each_variant(item, &mut |odd| {
                    let mut items = items.clone();
                    items[i] = odd;
                    see(Value::Array(items));
                });
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter() {
                for_each_variant(field, &mut |odd| {
                    let mut fields: Object = fields.clone();
                    fields.insert(key, odd);
                    see(Value::Object(fields));
                });
                let mut without = fields.clone();
                without.remove(key);
                see(Value::Object(without));
            }
        }
        _ => {}
    }
}

/// Runs all methods of a strategy on an object, without and with defaults. Defaulting must be idempotent.
fn exercise(rules: &dyn Strategy, context: &StrategyContext, object: &Value, old: &Value) {
    let mut defaulted = object.clone();
    rules.defaults(&mut defaulted);
    let mut again = defaulted.clone();
    rules.defaults(&mut again);
    assert_eq!(again, defaulted, "defaults of what has them");
    rules.convert_to_hub(&mut defaulted);
    rules.convert_from_hub(&mut object.clone());

    for object in [object, &defaulted] {
        let mut created = object.clone();
        rules.prepare_for_create(context, &mut created);
        rules.validate(context, &created);
        rules.canonicalize(&mut created);
        rules.warnings(context, &created, None);
        rules.selectable_fields(&created);
        let mut updated = object.clone();
        rules.prepare_for_update(context, &mut updated, old);
        rules.validate_update(context, &updated, old);
        rules.warnings(context, &updated, Some(old));
        for name in ["status", "finalize", "approval"] {
            let Some(subresource) = rules.subresource(name) else { continue };
            let mut updated = object.clone();
            subresource.prepare_for_update(context, &mut updated, old);
            let _ = subresource.validate_update(context, &updated, old);
        }
    }
}

fn exercise_both_ways(rules: &dyn Strategy, odd: &Value, sample: &Value) {
    let context = context();
    exercise(rules, &context, odd, sample);
    exercise(rules, &context, sample, odd);
}

#[test]
fn no_rule_of_workloads_panics() {
    let resources = resources(pintle_catalog::shared());
    for (group, version, plural, text) in workloads::SAMPLES {
        let resource = resources.iter().find(|r| r.group == group && r.plural == plural);
        let scale = resource.and_then(|r| r.subresource("scale")).map(|s| &s.role);
        let rules = strategy(group, version, plural);
        let sample = json(&text.replace("SELECTOR", workloads::SELECTOR).replace("TEMPLATE", workloads::TEMPLATE));
        for_each_variant(&sample, &mut |odd| {
            exercise_both_ways(rules.as_ref(), &odd, &sample);
            if let Some(SubresourceRole::Scale(paths)) = scale {
                let _ = scale_of(&odd, paths);
                let _ = apply_scale(&mut odd.clone(), &odd, paths);
            }
        });
    }
}

#[test]
fn no_rule_and_no_table_of_cluster_kinds_panics() {
    for (group, plural, text) in cluster::SAMPLES {
        let rules = strategy(group, "v1", plural);
        let table = table(group, plural);
        let sample = json(text);
        for_each_variant(&sample, &mut |odd| {
            assert_eq!(table.cells(&odd, NOW).len(), table.columns().len());
            if plural != "pods" {
                exercise_both_ways(rules.as_ref(), &odd, &sample);
            }
        });
    }
}
