//! Properties of the CEL rules of all schemas over all values: nothing panics, and errors of unchanged values are
//! ratcheted.

mod generators;
mod served;

use std::sync::Arc;

use generators::{schemas, values};
use pintle_extensions::install_crd_validation;
use pintle_registry::{CostBudget, Resource, Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Errors, Object, Value, object};
use pintle_versions::{EffectiveVersion, Minor};
use proptest::prelude::*;
use served::crd;

fn context() -> StrategyContext {
    StrategyContext::for_user("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

fn crds() -> Arc<dyn Strategy> {
    let mut resources = pintle_kinds::resources(pintle_catalog::shared());
    install_crd_validation(&mut resources, EffectiveVersion::of(Minor::DEFAULT));
    let found = resources.iter().find(|resource| resource.plural == "customresourcedefinitions");
    found.expect("CRDs are built in").strategy.clone()
}

fn validate(kind: &Resource, new: &Value, old: Option<&Value>) -> (Errors, Vec<String>) {
    let mut errors = Errors::new();
    let warnings = kind.strategy.validate_expensive(new, old, &mut errors, CostBudget::Unlimited).unwrap_or_default();
    // With a limited budget, the result is the same, or there is no result.
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
        let crd = crd(tree, None);
        let _ = crds().validate(&context(), &crd);
        if let Some(kind) = served::kind(&crd) {
            let _ = (validate(&kind, &value, None), validate(&kind, &value, Some(&old)));
        }
    }

    #[test]
    fn errors_of_unchanged_values_are_ratcheted(tree in schemas(), value in values()) {
        if let Some(kind) = served::kind(&crd(tree, None)) {
            let (new, _) = validate(&kind, &value, None);
            let (errors, warnings) = validate(&kind, &value, Some(&value));
            prop_assert_eq!(errors.count() + warnings.len(), new.count());
            for error in &errors {
                prop_assert!(new.iter().any(|other| other == error), "{}", error);
            }
        }
    }
}

/// Uses the maximum nesting of request bodies, on the stack size of the server's threads.
#[test]
fn deeply_nested_values_do_not_overflow_the_stack() {
    const STACK: usize = 64 << 20;
    const MAX_DEPTH: usize = 5_000;
    let check = || {
        let rule = |rule: &str| Value::Array(vec![object! { "rule": rule }]);
        let object = |name: &str, value: Value| Value::Object(Object::from_iter([(name, value)]));
        let leaf = object! { "type": "integer", "x-kubernetes-validations": rule("self > 1") };
        let fields =
            (0..MAX_DEPTH).fold(leaf.clone(), |tree, _| object! { "type": "object", "properties": object("a", tree) });
        let lists = (0..MAX_DEPTH).fold(leaf, |tree, _| object! { "type": "array", "items": tree });
        let mut lists = object! { "type": "object", "properties": object("a", lists) };
        lists.set("x-kubernetes-validations", rule("self == self && self.a[0][0] == self.a[1][1]"));
        let deep_fields = (0..MAX_DEPTH).fold(Value::Int(1), |value, _| object("a", value));
        let deep_lists = object("a", (0..MAX_DEPTH).fold(Value::Int(1), |value, _| Value::Array(vec![value])));
        for (tree, value) in [(fields, deep_fields), (lists, deep_lists)] {
            let crd = crd(tree, None);
            let _ = crds().validate(&context(), &crd);
            let kind = served::kind(&crd).expect("it can be served");
            assert!(!validate(&kind, &value, Some(&value)).0.is_empty() || !validate(&kind, &value, None).0.is_empty());
        }
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(check).expect("a thread");
    thread.join().expect("nothing overflows");
}
