//! The strategy for PodTemplate (upstream: `pkg/registry/core/podtemplate/strategy.go`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value};

use super::pod::{
    PodOptions, drop_disabled_template_fields, set_template_defaults, validate_pod_template_spec,
    warnings_for_pod_template,
};
use crate::generic::{keep_old, set_generation};

/// The strategy for PodTemplate.
pub(crate) struct PodTemplateStrategy;

impl Strategy for PodTemplateStrategy {
    fn defaults(&self, object: &mut Value) {
        if let Some(template) = object.get_mut("template") {
            set_template_defaults(template);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        if let Some(template) = object.get_mut("template") {
            drop_disabled_template_fields(context, template, old.and_then(|old| old.get("template")));
        }
        if let Some(old) = old {
            keep_old(object, old, &["metadata", "generation"]);
        }
        set_generation(object, old, &[&["template"]]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let options = PodOptions::for_template(context, old.and_then(|old| old.get("template")));
        validate_pod_template_spec(&object["template"], &FieldPath::new("template"), &options)
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| old.generation() == object.generation()) {
            return Vec::new();
        }
        warnings_for_pod_template(&object["template"], &FieldPath::new("template"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn templates_are_defaulted_validated_and_have_a_generation() {
        let mut new = object(
            r#"{"metadata":{"name":"t"},"template":{"metadata":{"labels":{"a b":"c"}},"spec":{"schedulingGroup":{},
                "containers":[{"name":"c","image":" i "}],"ephemeralContainers":[{"name":"e","image":"i"}],
                "volumes":[{"name":"v","beta.kubernetes.io":null}]}}}"#,
        );
        PodTemplateStrategy.defaults(&mut new);
        PodTemplateStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new.generation(), 1);
        assert_eq!(new["template"]["spec"]["schedulingGroup"], Value::Null);
        assert_eq!(new["template"]["spec"]["dnsPolicy"], Value::from("ClusterFirst"));
        // Templates may have images with white space around them.
        assert_eq!(
            messages(&PodTemplateStrategy.validate(&context(), &new)),
            [
                "template.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or \
                 '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
                 regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
            ]
        );
        let old = new.clone();
        PodTemplateStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.generation(), 1);
        new.set_at(&["template", "spec", "hostname"], "h");
        PodTemplateStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.generation(), 2);
    }
}
