//! The strategy for Workload, which has templates of pod groups (KEP-4671; upstream: `pkg/registry/scheduling/workload`
//! and the markers of its types).

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, Value};

use super::TOPOLOGY_FEATURE;
use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};

static RULES: Rules = Rules::enforced("scheduling/v1alpha2", "Workload");

const TEMPLATES: &str = "podGroupTemplates";

/// The strategy for Workload.
pub(crate) struct WorkloadStrategy;

impl Strategy for WorkloadStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        drop_disabled_fields(context, object, old);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let has_option = |option: &str| self.has_option(&context.gates, option, old);
        RULES.validate_with(&context.gates, &has_option, object, old)
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        let constrained =
            |template: &Value| template.get("schedulingConstraints").is_some_and(|value| !value.is_null());
        let is_used = || old.is_some_and(|old| old.items_at(&["spec", TEMPLATES]).iter().any(constrained));
        gates.is_enabled_by_name(option) || (option == TOPOLOGY_FEATURE && is_used())
    }
}

/// Drops the fields of disabled features from templates. The old template of a template is the one at the same index of
/// the old object.
fn drop_disabled_fields(context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
    let old = old.map_or(&[][..], |old| old.items_at(&["spec", TEMPLATES]));
    let templates = object.at_mut(&["spec", TEMPLATES]).and_then(Value::as_array_mut);
    for (i, template) in templates.into_iter().flatten().enumerate() {
        drop_disabled(&context.gates, Part::PodGroup, template, old.get(i));
        // The field is written even if it is not set.
        template.set_default("schedulingConstraints", Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation_in, context, gated_context, object};

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
}
