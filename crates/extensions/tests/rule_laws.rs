//! What holds for rules in CEL of every schema, over every value: nothing panics, and what has not changed is let through.

mod served;
mod trees;

use std::sync::Arc;

use pintle_extensions::judge_definitions;
use pintle_registry::{CostBudget, Resource, Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Errors, Object, Value, object};
use proptest::prelude::*;
use served::definition;
use trees::{schemas, values};

fn context() -> StrategyContext {
    StrategyContext::of("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

fn definitions() -> Arc<dyn Strategy> {
    let mut resources = pintle_kinds::resources(pintle_catalog::shared());
    judge_definitions(&mut resources);
    let found = resources.iter().find(|resource| resource.plural == "customresourcedefinitions");
    found.expect("definitions are built in").strategy.clone()
}

fn judge(kind: &Resource, new: &Value, old: Option<&Value>) -> (Errors, Vec<String>) {
    let mut errors = Errors::new();
    let warnings = kind.strategy.validate_expensive(new, old, &mut errors, CostBudget::Unlimited).unwrap_or_default();
    // With little effort the verdict is the same, or there is none.
    let mut quick = Errors::new();
    if let Some(found) = kind.strategy.validate_expensive(new, old, &mut quick, CostBudget::Limited) {
        assert_eq!((format!("{quick:?}"), found), (format!("{errors:?}"), warnings.clone()));
    }
    (errors, warnings)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(tree in schemas(), value in values(), old in values()) {
        let definition = definition(tree, None);
        let _ = definitions().validate(&context(), &definition);
        if let Some(kind) = served::kind(&definition) {
            let _ = (judge(&kind, &value, None), judge(&kind, &value, Some(&old)));
        }
    }

    #[test]
    fn what_has_not_changed_is_let_through(tree in schemas(), value in values()) {
        if let Some(kind) = served::kind(&definition(tree, None)) {
            let (new, _) = judge(&kind, &value, None);
            let (errors, warnings) = judge(&kind, &value, Some(&value));
            prop_assert_eq!(errors.0.len() + warnings.len(), new.0.len());
            for error in errors.0 {
                prop_assert!(new.0.contains(&error), "{}", error);
            }
        }
    }
}

/// As deep as bodies may nest, on the stack that the server gives its threads.
#[test]
fn depth_is_no_danger() {
    const STACK: usize = 64 << 20;
    const DEEPEST: usize = 5_000;
    let check = || {
        let rule = |rule: &str| Value::Array(vec![object! { "rule": rule }]);
        let object = |name: &str, value: Value| Value::Object(Object::from_iter([(name, value)]));
        let leaf = object! { "type": "integer", "x-kubernetes-validations": rule("self > 1") };
        let fields =
            (0..DEEPEST).fold(leaf.clone(), |tree, _| object! { "type": "object", "properties": object("a", tree) });
        let lists = (0..DEEPEST).fold(leaf, |tree, _| object! { "type": "array", "items": tree });
        let mut lists = object! { "type": "object", "properties": object("a", lists) };
        lists.set("x-kubernetes-validations", rule("self == self && self.a[0][0] == self.a[1][1]"));
        let deep_fields = (0..DEEPEST).fold(Value::Int(1), |value, _| object("a", value));
        let deep_lists = object("a", (0..DEEPEST).fold(Value::Int(1), |value, _| Value::Array(vec![value])));
        for (tree, value) in [(fields, deep_fields), (lists, deep_lists)] {
            let definition = definition(tree, None);
            let _ = definitions().validate(&context(), &definition);
            let kind = served::kind(&definition).expect("it can be served");
            assert!(!judge(&kind, &value, Some(&value)).0.is_empty() || !judge(&kind, &value, None).0.is_empty());
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
    thread.join().expect("nothing overflows");
}
