//! The strategy for PodGroup, an instance of a workload's template (KEP-4671; upstream:
//! `pkg/registry/scheduling/podgroup` and the markers of its types).

use pintle_registry::{ResetFields, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value, names};

use super::pod_group_rules::{
    MAX_CLAIMS, validate_claims, validate_constraints, validate_policy, validate_priority, validate_priority_class,
};
use crate::declarative::{
    require_format, validate_format, validate_max_items, validate_unchanged, validate_union, validate_unique,
};
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC_AND_METADATA_PATHS, keep_old, reset_fields_with_metadata};

/// The fields of the spec that an update must not change: all of them.
const SPEC_FIELDS: [&str; 7] = [
    "podGroupTemplateRef",
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
];

/// The strategy for PodGroup.
pub(super) struct PodGroupStrategy;

impl Strategy for PodGroupStrategy {
    fn prepare_for_create(&self, context: &StrategyContext, object: &mut Value) {
        object.set("status", Value::object());
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(&context.gates, Part::PodGroup, spec, None);
        }
    }

    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        keep_old(object, old, &["status"]);
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(&context.gates, Part::PodGroup, spec, old.get("spec"));
        }
    }

    fn validate(&self, _: &StrategyContext, object: &Value) -> Errors {
        let mut errors = Errors::new();
        let (spec, path) = (&object["spec"], FieldPath::new("spec"));
        if let Some(reference) = spec.get("podGroupTemplateRef").filter(|reference| !reference.is_null()) {
            validate_template_reference(&mut errors, reference, &path.child("podGroupTemplateRef"));
        }
        validate_policy(&mut errors, &spec["schedulingPolicy"], &path.child("schedulingPolicy"));
        validate_constraints(&mut errors, spec.get("schedulingConstraints"), &path.child("schedulingConstraints"));
        validate_claims(&mut errors, spec.items_at(&["resourceClaims"]), &path.child("resourceClaims"));
        validate_priority_class(&mut errors, spec, &path);
        validate_priority(&mut errors, spec, &path);
        errors
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, old: &Value) -> Errors {
        let mut errors = Errors::new();
        for field in SPEC_FIELDS {
            let (new, old) = (object.at(&["spec", field]), old.at(&["spec", field]));
            validate_unchanged(&mut errors, new, old, &FieldPath::new("spec").child(field));
        }
        errors
    }

    fn reset_fields(&self, subresource: &str) -> ResetFields {
        reset_fields_with_metadata(subresource)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&PodGroupStatusStrategy as &dyn SubresourceStrategy)
    }
}

fn validate_template_reference(errors: &mut Errors, reference: &Value, path: &FieldPath<'_>) {
    let set = Value::object();
    let workload = reference.get("workload").filter(|workload| !workload.is_null());
    let members = if workload.is_some() { reference } else { &set };
    validate_union(errors, members, &["workload"], path);
    if let Some(workload) = workload {
        let path = path.child("workload");
        require_format(errors, workload, "workloadName", names::long_name, &path);
        require_format(errors, workload, "podGroupTemplateName", names::short_name, &path);
    }
}

/// The strategy for the status of a PodGroup.
struct PodGroupStatusStrategy;

impl SubresourceStrategy for PodGroupStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        for path in SPEC_AND_METADATA_PATHS {
            keep_old(object, old, path);
        }
        drop_disabled(&context.gates, Part::PodGroupStatus, object, Some(old));
    }

    fn validate_update(&self, _: &StrategyContext, object: &Value, _: &Value) -> Errors {
        let mut errors = Errors::new();
        let path = FieldPath::new("status.resourceClaimStatuses");
        let claims = object.items_at(&["status", "resourceClaimStatuses"]);
        if validate_max_items(&mut errors, claims, MAX_CLAIMS, &path) {
            validate_unique(&mut errors, claims, "name", &path);
            for (i, claim) in claims.iter().enumerate() {
                validate_format(&mut errors, claim, "resourceClaimName", names::long_name, &path.index(i));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, context, gated_context, messages, object};

    fn group(spec: &str) -> String {
        format!(r#"{{"spec":{{{spec}}}}}"#)
    }

    const POLICY: &str = r#""schedulingPolicy":{"gang":{"minCount":2}}"#;

    #[test]
    fn groups_name_their_template_and_have_one_policy() {
        let check = |spec: &str, expect: &[&str]| check_validation(&PodGroupStrategy, &group(spec), None, expect);
        check(POLICY, &[]);
        let reference = |workload: &str| format!(r#"{POLICY},"podGroupTemplateRef":{{"workload":{workload}}}"#);
        check(&reference(r#"{"workloadName":"w.x","podGroupTemplateName":"t"}"#), &[]);
        check(&reference("null"), &["spec.podGroupTemplateRef: Invalid value: \"\": must specify one of: `workload`"]);
        check(
            &reference(r#"{"podGroupTemplateName":"a.b"}"#),
            &[
                "spec.podGroupTemplateRef.workload.workloadName: Required value",
                "spec.podGroupTemplateRef.workload.podGroupTemplateName: Invalid value: \"a.b\": must not contain dots",
            ],
        );
        check(
            r#""schedulingPolicy":{"gang":{"minCount":0}}"#,
            &["spec.schedulingPolicy.gang.minCount: Required value"],
        );
    }

    #[test]
    fn the_spec_is_immutable() {
        let old = group(&format!(r#"{POLICY},"priority":1"#));
        check_validation(&PodGroupStrategy, &old, Some(&old), &[]);
        check_validation(
            &PodGroupStrategy,
            &group(r#""schedulingPolicy":{"basic":{}},"priority":2"#),
            Some(&old),
            &[
                "spec.schedulingPolicy: Invalid value: \"null\": field is immutable",
                "spec.priority: Invalid value: \"null\": field is immutable",
            ],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let full = r#"{"spec":{"disruptionMode":"Pod","resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#;
        let mut new = object(full);
        PodGroupStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{},"status":{}}"#));
        let status = PodGroupStrategy.subresource("status").expect("a status");
        let gates = [("GenericWorkload", true), ("DRAWorkloadResourceClaims", true)];
        for (context, old, expect) in [
            (context(), r#"{"spec":{}}"#, r#"{"spec":{},"status":{}}"#),
            (
                gated_context(&gates),
                r#"{"spec":{}}"#,
                r#"{"spec":{},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#,
            ),
            (
                self::context(),
                r#"{"spec":{"resourceClaims":[{"name":"c"}]}}"#,
                r#"{"spec":{"resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#,
            ),
        ] {
            let mut new = object(full);
            status.prepare_for_update(&context, &mut new, &object(old));
            assert_eq!(new, object(expect), "{old}");
        }
    }

    #[test]
    fn generated_claims_are_unique() {
        let status = PodGroupStrategy.subresource("status").expect("a status");
        let group =
            object(r#"{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"x"},{"name":"c"}]}}"#);
        assert_eq!(
            messages(&status.validate_update(&context(), &group, &group)),
            [r#"status.resourceClaimStatuses[1]: Duplicate value: {"name":"c"}"#]
        );
    }
}
