//! The strategy for RuntimeClass (upstream: `pkg/apis/node/validation`).

use pintle_gates::Change;
use pintle_registry::{Strategy, StrategyContext, UnservedVersion};
use pintle_value::metadata::validate_labels;
use pintle_value::{Errors, FieldPath, Value, names};

use crate::core::node::deprecated_node_label;
use crate::core::pod::PodOptions;
use crate::core::pod::defaults::round_resource_list;
use crate::core::pod::resources::validate_overhead;
use crate::core::pod::scheduling::validate_tolerations;
use crate::generic::validate_immutable_at;
use crate::validation::invalid_each;

/// The strategy for RuntimeClass.
pub(crate) struct RuntimeClassStrategy;

/// The version that has all fields in a spec.
const V1ALPHA1: UnservedVersion = UnservedVersion::read("node.k8s.io/v1alpha1", |class| {
    let mut spec = class.remove("spec").unwrap_or_default();
    for (old, new) in [("runtimeHandler", "handler"), ("overhead", "overhead"), ("scheduling", "scheduling")] {
        if let Some(value) = spec.remove(old) {
            class.set(new, value);
        }
    }
});

impl Strategy for RuntimeClassStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[V1ALPHA1]
    }

    fn defaults(&self, object: &mut Value) {
        round_resource_list(object, &["overhead", "podFixed"]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let (path, handler) = (FieldPath::new("handler"), object.str_at(&["handler"]));
        // The rule of the tag covers this error.
        if handler.is_empty() && context.gates.has(Change::DECLARATIVE_VALIDATION_FOR_EVERY_KIND) {
            errors.required(&path, "");
        } else {
            invalid_each(&mut errors, &path, handler, names::dns1123_label_name(handler, false));
        }
        let options = PodOptions::default();
        if let Some(overhead) = object.at(&["overhead", "podFixed"]) {
            validate_overhead(&mut errors, overhead, &options, &FieldPath::new("overhead"));
        }
        if let Some(scheduling) = object.get("scheduling") {
            let path = FieldPath::new("scheduling");
            errors.append(validate_labels(&scheduling["nodeSelector"], &path.child("nodeSelector")));
            let tolerations = scheduling.items_at(&["tolerations"]);
            validate_tolerations(&mut errors, tolerations, &options, &path.child("tolerations"));
        }
        validate_immutable_at(&mut errors, object, old, &["handler"]);
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let labels = object.entries_at(&["scheduling", "nodeSelector"]);
        labels
            .filter_map(|(key, _)| deprecated_node_label(key))
            .map(|text| format!("scheduling.nodeSelector: {text}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn runtime_classes() {
        let check = |class: &str, expect: &[&str]| {
            assert_eq!(messages(&RuntimeClassStrategy.validate(&context(), &object(class))), expect);
        };
        check(
            r#"{"handler":"runsc","overhead":{"podFixed":{"cpu":"10m"}},"scheduling":{"nodeSelector":{"a":"b"}}}"#,
            &[],
        );
        check(
            r#"{"handler":"a","scheduling":{"tolerations":[{"key":"a","operator":"Exists","value":"b"}]}}"#,
            &[
                "scheduling.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
            ],
        );
        let update = |class: &str| {
            let old = object(r#"{"handler":"a"}"#);
            messages(&RuntimeClassStrategy.validate_update(&context(), &object(class), &old))
        };
        assert_eq!(update(r#"{"handler":"b"}"#), ["handler: Invalid value: \"b\": field is immutable"]);
        let update = update(r#"{"handler":"a","scheduling":{"nodeSelector":{"a":"/"}}}"#);
        assert!(update.len() == 1 && update[0].starts_with("scheduling.nodeSelector: Invalid value"), "{update:?}");
    }
}
