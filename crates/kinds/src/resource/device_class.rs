//! The strategy for DeviceClass.

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, names};

use super::claim_spec::{MAX_CONFIGS, validate_configuration, validate_selectors};
use super::collections::validate_list;
use super::selectors::SelectorFeatures;
use crate::core::pod::resources::is_extended;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC, same_at, set_generation};
use crate::validation::str_field;

/// The strategy for DeviceClass.
pub(crate) struct DeviceClassStrategy;

impl Strategy for DeviceClassStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        drop_disabled(&context.gates, Part::DeviceClass, object, old);
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        validate_spec(&context.gates, object, old)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // As for other names that upstream also validates declaratively, `generateName` is ignored.
        if prefix { Vec::new() } else { names::long_name(name) }
    }
}

fn validate_spec(gates: &Gates, class: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let spec = &class["spec"];
    validate_selectors(
        &mut errors,
        spec.items_at(&["selectors"]),
        SelectorFeatures::of(gates),
        &path.child("selectors"),
    );
    let stored = old.is_some_and(|old| same_at(class, old, &["spec", "config"]));
    validate_list(
        &mut errors,
        spec.items_at(&["config"]),
        MAX_CONFIGS,
        &path.child("config"),
        |errors, config, path| validate_configuration(errors, config, stored, path),
    );
    if let Some(name) = str_field(spec, "extendedResourceName").filter(|name| !is_extended(name)) {
        errors.invalid(&path.child("extendedResourceName"), name, "must be a valid extended resource name");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation as check, context, gated_context, messages, object};

    const STRATEGY: DeviceClassStrategy = DeviceClassStrategy;

    #[test]
    fn classes() {
        check(&STRATEGY, r#"{"spec":{}}"#, None, &[]);
        check(
            &STRATEGY,
            r#"{"spec":{"selectors":[{"cel":{"expression":"device.driver == \"d\""}}],
                "config":[{"opaque":{"driver":"d","parameters":{}}}],"extendedResourceName":"example.com/gpu"}}"#,
            None,
            &[],
        );
        check(
            &STRATEGY,
            r#"{"spec":{"selectors":[{"cel":{"expression":"1"}}],"config":[{}],"extendedResourceName":"gpu"}}"#,
            None,
            &[
                "spec.selectors[0].cel.expression: Invalid value: \"1\": must evaluate to bool or the unknown type, not int",
                "spec.config[0].opaque: Required value",
                "spec.extendedResourceName: Invalid value: \"gpu\": must be a valid extended resource name",
            ],
        );
    }

    #[test]
    fn the_length_of_stored_parameters_is_not_limited() {
        let class = |driver: &str| {
            let text = "x".repeat(11_000);
            format!(r#"{{"spec":{{"config":[{{"opaque":{{"driver":"{driver}","parameters":{{"a":"{text}"}}}}}}]}}}}"#)
        };
        let too_long = ["spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"];
        check(&STRATEGY, &class("a"), None, &too_long);
        check(&STRATEGY, &class("a"), Some(&class("b")), &too_long);
        check(&STRATEGY, &class("a"), Some(&class("a")), &[]);
    }

    #[test]
    fn names() {
        assert_eq!(STRATEGY.validate_name("A", true), Vec::<String>::new());
        assert_eq!(STRATEGY.validate_name("a.b", false), Vec::<String>::new());
        assert_eq!(STRATEGY.validate_name("A", false).len(), 1);
    }

    #[test]
    fn extended_resource_names_are_dropped_unless_they_are_in_use() {
        let class = object(r#"{"metadata":{"generation":1},"spec":{"extendedResourceName":"example.com/gpu"}}"#);
        let off = gated_context(&[("DRAExtendedResource", false)]);
        for (context, old, kept) in [
            (&context(), None, true),
            (&off, None, false),
            (&off, Some(r#"{"spec":{}}"#), false),
            (&off, Some(r#"{"spec":{"extendedResourceName":"example.com/a"}}"#), true),
        ] {
            let mut new = class.clone();
            match old.map(object) {
                None => STRATEGY.prepare_for_create(context, &mut new),
                Some(old) => STRATEGY.prepare_for_update(context, &mut new, &old),
            }
            assert_eq!(new.at(&["spec", "extendedResourceName"]).is_some(), kept, "{old:?}");
        }
    }

    #[test]
    fn the_generation_follows_the_spec() {
        let mut class = object(r#"{"spec":{}}"#);
        STRATEGY.prepare_for_create(&context(), &mut class);
        assert_eq!(class.generation(), 1);
        let old = class.clone();
        STRATEGY.prepare_for_update(&context(), &mut class, &old);
        assert_eq!(class.generation(), 1);
        class.set_at(&["spec", "extendedResourceName"], "example.com/gpu");
        STRATEGY.prepare_for_update(&context(), &mut class, &old);
        assert_eq!(class.generation(), 2);
        assert_eq!(messages(&STRATEGY.validate_update(&context(), &class, &old)), Vec::<String>::new());
    }
}
