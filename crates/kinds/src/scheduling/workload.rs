//! The strategy for Workload, which has templates of pod groups (KEP-4671; upstream: `pkg/registry/scheduling/workload`
//! and the markers of its types).

use pintle_gates::{Change, Gates};
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, Value};

use super::template_tree::{COMPOSITES, POD_GROUPS, each_template, validate_tree};
use super::{COMPOSITE_FEATURE, PREEMPTION_FEATURE, TOPOLOGY_FEATURE};
use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};

static RULES: Rules = Rules::enforced("scheduling/v1alpha2", "Workload");

/// The strategy for Workload.
pub(crate) struct WorkloadStrategy;

impl Strategy for WorkloadStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        let Some(spec) = object.get_mut("spec") else { return };
        let old = old.and_then(|old| old.get("spec"));
        let is_used = |old: &Value| !old.items_at(&[COMPOSITES]).is_empty();
        if !context.gates.is_enabled_by_name(COMPOSITE_FEATURE) && !old.is_some_and(is_used) {
            spec.remove(COMPOSITES);
        }
        drop_disabled_fields(context, spec, old);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let has_option = |option: &str| self.has_option(&context.gates, option, old);
        let mut errors = RULES.validate_with(&context.gates, &has_option, object, old);
        if context.gates.has(Change::WORKLOADS_HAVE_TREES) {
            validate_tree(&mut errors, &object["spec"]);
        }
        errors
    }

    /// The option of a field is also enabled if a template of the old object has the field.
    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        let Some(spec) = old.and_then(|old| old.get("spec")).filter(|_| !gates.is_enabled_by_name(option)) else {
            return gates.is_enabled_by_name(option);
        };
        match option {
            TOPOLOGY_FEATURE => {
                has_template(spec, |template, is_composite| !is_composite && has(template, "schedulingConstraints"))
            }
            PREEMPTION_FEATURE => has_template(spec, |template, _| has(template, "preemptionPolicy")),
            COMPOSITE_FEATURE => !spec.items_at(&[COMPOSITES]).is_empty(),
            _ => false,
        }
    }
}

fn has(template: &Value, field: &str) -> bool {
    template.get(field).is_some_and(|value| !value.is_null())
}

/// Whether a template of a workload's spec satisfies `is_so`, which learns whether the template is composite.
fn has_template(spec: &Value, is_so: impl Fn(&Value, bool) -> bool) -> bool {
    let mut found = false;
    each_template(spec, &mut |template, is_composite| found |= is_so(template, is_composite));
    found
}

/// Drops the fields of disabled features from the templates below an owner. The old template of a template is the one at
/// the same index of the old owner.
fn drop_disabled_fields(context: &StrategyContext, owner: &mut Value, old: Option<&Value>) {
    for (field, part) in [(POD_GROUPS, Part::PodGroup), (COMPOSITES, Part::CompositePodGroup)] {
        let old = old.map_or(&[][..], |old| old.items_at(&[field]));
        let templates = owner.get_mut(field).and_then(Value::as_array_mut);
        for (i, template) in templates.into_iter().flatten().enumerate() {
            drop_disabled(&context.gates, part, template, old.get(i));
            if part == Part::CompositePodGroup {
                drop_disabled_fields(context, template, old.get(i));
            } else {
                // The field is written even if it is not set.
                template.set_default("schedulingConstraints", Value::Null);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation_in, context, context_of, gated_context, object};

    fn workload(spec: &str) -> String {
        format!(r#"{{"spec":{spec}}}"#)
    }

    fn check(spec: &str, old: Option<&str>, expect: &[&str]) {
        let old = old.map(workload);
        let context = gated_context(&[
            ("GenericWorkload", true),
            ("GangScheduling", true),
            ("TopologyAwareWorkloadScheduling", true),
            ("WorkloadAwarePreemption", true),
        ]);
        check_validation_in(&context, &WorkloadStrategy, &workload(spec), old.as_deref(), expect);
    }

    const GANG: &str = r#"{"name":"g","schedulingPolicy":{"gang":{"minCount":2}}}"#;

    #[test]
    fn templates_have_names_and_one_policy() {
        check(
            &format!(r#"{{"podGroupTemplates":[{GANG},{{"name":"b","schedulingPolicy":{{"basic":{{}}}}}}]}}"#),
            None,
            &[],
        );
        check("{}", None, &["spec.podGroupTemplates: Required value"]);
        check(
            &format!(r#"{{"podGroupTemplates":[{}]}}"#, [GANG; 9].join(",")),
            None,
            &["spec.podGroupTemplates: Too many: 9: must have at most 8 items"],
        );
        check(
            &format!(
                r#"{{"podGroupTemplates":[{GANG},{GANG},{{"schedulingPolicy":{{}}}},{{"name":"A","schedulingPolicy":{{"basic":{{}},"gang":{{"minCount":-1}}}}}}]}}"#
            ),
            None,
            &[
                r#"spec.podGroupTemplates[1]: Duplicate value: {"name":"g","schedulingPolicy":{"gang":{"minCount":2}}}"#,
                "spec.podGroupTemplates[2].name: Required value",
                "spec.podGroupTemplates[2].schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
                "spec.podGroupTemplates[3].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.podGroupTemplates[3].schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`",
                "spec.podGroupTemplates[3].schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
            ],
        );
    }

    #[test]
    fn fields_of_features_are_validated() {
        let template = |fields: &str| {
            format!(r#"{{"podGroupTemplates":[{{"name":"g","schedulingPolicy":{{"basic":{{}}}},{fields}}}]}}"#)
        };
        check(
            &template(
                r#""schedulingConstraints":{"topology":[{"key":"a.b/c"}]},"resourceClaims":[{"name":"c","resourceClaimName":"x"}],"priorityClassName":"high","priority":7"#,
            ),
            None,
            &[],
        );
        check(
            &template(
                r#""schedulingConstraints":{"topology":[{"key":""}]},"resourceClaims":[{"name":"c"},{"name":"d","resourceClaimName":"x","resourceClaimTemplateName":"y"}],"priority":1000000001"#,
            ),
            None,
            &[
                "spec.podGroupTemplates[0].schedulingConstraints.topology[0].key: Required value",
                "spec.podGroupTemplates[0].resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                "spec.podGroupTemplates[0].resourceClaims[1]: Invalid value: \"{resourceClaimName, resourceClaimTemplateName}\": must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
                "spec.podGroupTemplates[0].priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
            ],
        );
        check(
            &template(r#""schedulingConstraints":{"topology":[{"key":"a"},{"key":"b"}]}"#),
            None,
            &["spec.podGroupTemplates[0].schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
        );
    }

    #[test]
    fn the_spec_is_immutable() {
        let spec = format!(r#"{{"controllerRef":{{"kind":"Job","name":"j"}},"podGroupTemplates":[{GANG}]}}"#);
        check(&spec, Some(&spec), &[]);
        check(
            r#"{"podGroupTemplates":[]}"#,
            Some(&spec),
            &[
                "spec.controllerRef: Invalid value: null: field is immutable",
                "spec.podGroupTemplates: Invalid value: null: field is immutable",
                "spec.podGroupTemplates: Required value",
            ],
        );
        check(
            &format!(r#"{{"controllerRef":{{"apiGroup":"A","kind":"a/b"}},"podGroupTemplates":[{GANG}]}}"#),
            None,
            &[
                "spec.controllerRef.apiGroup: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.controllerRef.name: Required value",
            ],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let full = r#"{"spec":{"podGroupTemplates":[{"name":"g","schedulingConstraints":{},"resourceClaims":[{"name":"c"}],"disruptionMode":"Pod","priority":1}]}}"#;
        let mut new = object(full);
        WorkloadStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{"podGroupTemplates":[{"name":"g","schedulingConstraints":null}]}}"#));
        let gates = [("GenericWorkload", true), ("GangScheduling", true), ("WorkloadAwarePreemption", true)];
        let mut new = object(full);
        WorkloadStrategy.prepare_for_create(&gated_context(&gates), &mut new);
        assert_eq!(
            new,
            object(
                r#"{"spec":{"podGroupTemplates":[{"name":"g","disruptionMode":"Pod","priority":1,"schedulingConstraints":null}]}}"#
            )
        );
        // A field that the old object uses stays.
        let old = object(r#"{"spec":{"podGroupTemplates":[{"name":"g","priority":1}]}}"#);
        let mut new = object(full);
        WorkloadStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(
            new,
            object(r#"{"spec":{"podGroupTemplates":[{"name":"g","priority":1,"schedulingConstraints":null}]}}"#)
        );
    }

    #[test]
    fn trees_depend_on_their_feature() {
        let composite = |name: &str, inner: &str| {
            format!(
                r#"{{"name":"{name}","preemptionPolicy":"Never","compositePodGroupTemplates":[{inner}],"podGroupTemplates":[{{"name":"{name}p","preemptionPolicy":"Never"}}]}}"#
            )
        };
        let full = workload(&format!(r#"{{"compositePodGroupTemplates":[{}]}}"#, composite("a", &composite("b", ""))));
        let features = [
            ("GenericWorkload", true),
            ("TopologyAwareWorkloadScheduling", true),
            ("CompositePodGroup", true),
            ("PodGroupPreemptionPolicy", true),
        ];
        let prepared = |features: &[(&str, bool)], old: Option<&str>| {
            let mut new = object(&full);
            WorkloadStrategy.prepare_write(&context_of(37, features), &mut new, old.map(object).as_ref());
            let mut policies = 0;
            each_template(&new["spec"], &mut |template, _| policies += usize::from(has(template, "preemptionPolicy")));
            let mut templates = 0;
            each_template(&new["spec"], &mut |_, _| templates += 1);
            (templates, policies)
        };
        assert_eq!(prepared(&features, None), (4, 4));
        assert_eq!(prepared(&features[..3], None), (4, 0));
        assert_eq!(prepared(&features[..1], None), (0, 0));
        assert_eq!(prepared(&features[..1], Some(&full)), (4, 4));
        let gates = context_of(37, &features[..1]).gates;
        let option = |option: &str, old: Option<&Value>| WorkloadStrategy.has_option(&gates, option, old);
        assert!(!option(COMPOSITE_FEATURE, None) && option(COMPOSITE_FEATURE, Some(&object(&full))));
        assert!(option(PREEMPTION_FEATURE, Some(&object(&full))) && !option(TOPOLOGY_FEATURE, Some(&object(&full))));
    }

    #[test]
    fn trees_are_validated_since_1_37() {
        let spec = r#"{"podGroupTemplates":[{"name":"a","priority":1,"schedulingPolicy":{"basic":{}}},{"name":"b","schedulingPolicy":{"basic":{}}}]}"#;
        let on = context_of(37, &[("GenericWorkload", true)]);
        let expect = ["spec: Invalid value: null: detected multiple priority configurations"];
        check_validation_in(&on, &WorkloadStrategy, &workload(spec), None, &expect);
        check(spec, None, &[]);
    }
}
