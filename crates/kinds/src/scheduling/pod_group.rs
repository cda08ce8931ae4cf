//! The strategy for PodGroup, an instance of a workload's template (KEP-4671; upstream:
//! `pkg/registry/scheduling/podgroup` and the markers of its types).

use pintle_gates::{Change, Gates};
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value};

use super::{
    COMPOSITE_FEATURE, PREEMPTION_FEATURE, TOPOLOGY_FEATURE, set_default_preemption_policy, validate_conditions,
};
use crate::declarative::Rules;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, is_enabled_or_used, reset_status};

static RULES: Rules = Rules::enforced("scheduling/v1alpha2", "PodGroup");

/// The fields that an update may have although their feature is off, if the old object has them.
const GATED_FIELDS: [(&str, &[&str]); 3] = [
    (TOPOLOGY_FEATURE, &["spec", "schedulingConstraints"]),
    (PREEMPTION_FEATURE, &["spec", "preemptionPolicy"]),
    (COMPOSITE_FEATURE, &["spec", "parentCompositePodGroupName"]),
];

/// The strategy for PodGroup.
pub(crate) struct PodGroupStrategy {
    has_preemption_policy: bool,
}

impl PodGroupStrategy {
    /// The strategy of a server with these feature gates.
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { has_preemption_policy: gates.is_enabled_by_name(PREEMPTION_FEATURE) }
    }
}

impl Strategy for PodGroupStrategy {
    fn defaults(&self, object: &mut Value) {
        if self.has_preemption_policy {
            set_default_preemption_policy(object);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(&context.gates, Part::PodGroup, spec, old.and_then(|old| old.get("spec")));
        }
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        validate(context, object, old)
    }

    fn has_option(&self, gates: &Gates, option: &str, old: Option<&Value>) -> bool {
        has_option(gates, option, old)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// The option of a field is also enabled if the old object has the field.
fn has_option(gates: &Gates, option: &str, old: Option<&Value>) -> bool {
    let field = GATED_FIELDS.iter().find(|(feature, _)| *feature == option);
    field.map_or_else(|| gates.is_enabled_by_name(option), |field| is_enabled_or_used(gates, option, old, *field))
}

fn validate(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    RULES.validate_with(&context.gates, &|option| has_option(&context.gates, option, old), object, old)
}

static STATUS: StatusStrategy =
    StatusStrategy::new(validate_status).preserving(SPEC_AND_METADATA).gated(Part::PodGroupStatus);

fn validate_status(context: &StrategyContext, object: &Value, old: &Value) -> Errors {
    if !context.gates.has(Change::WORKLOADS_HAVE_TREES) {
        return validate(context, object, Some(old));
    }
    let mut errors = validate_conditions(context, object);
    let claims = object.items_at(&["spec", "resourceClaims"]);
    let path = FieldPath::new("status.resourceClaimStatuses");
    for (i, status) in object.items_at(&["status", "resourceClaimStatuses"]).iter().enumerate() {
        let name = status.str_at(&["name"]);
        if !claims.iter().any(|claim| claim.str_at(&["name"]) == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.index(i).child("name"), name, detail);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation, check_validation_in, context, context_of, gated_context, messages, object};

    fn group(spec: &str) -> String {
        format!(r#"{{"spec":{{{spec}}}}}"#)
    }

    const POLICY: &str = r#""schedulingPolicy":{"gang":{"minCount":2}}"#;

    #[test]
    fn groups_name_their_template_and_have_one_policy() {
        let check = |spec: &str, expect: &[&str]| {
            check_validation(&PodGroupStrategy::new(&Gates::default()), &group(spec), None, expect)
        };
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
        let gates = [("GenericWorkload", true), ("GangScheduling", true), ("WorkloadAwarePreemption", true)];
        let check = |new: &str, expect: &[&str]| {
            check_validation_in(
                &gated_context(&gates),
                &PodGroupStrategy::new(&Gates::default()),
                new,
                Some(&old),
                expect,
            );
        };
        check(&old, &[]);
        check(
            &group(r#""schedulingPolicy":{"basic":{}},"priority":2"#),
            &[
                "spec.schedulingPolicy: Invalid value: null: field is immutable",
                "spec.priority: Invalid value: null: field is immutable",
            ],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let full = r#"{"spec":{"disruptionMode":"Pod","resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"}]}}"#;
        let mut new = object(full);
        PodGroupStrategy::new(&Gates::default()).prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{},"status":{}}"#));
        let strategy = PodGroupStrategy::new(&Gates::default());
        let status = strategy.subresource("status").expect("a status");
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
        let strategy = PodGroupStrategy::new(&Gates::default());
        let status = strategy.subresource("status").expect("a status");
        let old = object("{}");
        let group =
            object(r#"{"status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"x"},{"name":"c"}]}}"#);
        assert_eq!(
            messages(&status.validate_update(&context(), &group, &old)),
            [r#"status.resourceClaimStatuses[1]: Duplicate value: {"name":"c"}"#]
        );
    }

    #[test]
    fn statuses_name_claims_of_the_spec_since_1_37() {
        let group = object(
            r#"{"spec":{"resourceClaims":[{"name":"c"}]},"status":{"resourceClaimStatuses":[{"name":"c"},{"name":"d"}]}}"#,
        );
        let errors = |context: &StrategyContext| messages(&STATUS.validate_update(context, &group, &group));
        assert_eq!(errors(&context()), [""; 0]);
        assert_eq!(
            errors(&context_of(37, &[("GenericWorkload", true)])),
            [
                "status.resourceClaimStatuses[1].name: Invalid value: \"d\": must match the name of an entry in `spec.resourceClaims`"
            ]
        );
    }

    #[test]
    fn features_of_1_37_are_defaulted_and_dropped() {
        let preemption = context_of(37, &[("GenericWorkload", true), ("PodGroupPreemptionPolicy", true)]);
        let mut group =
            object(r#"{"spec":{"disruptionMode":{"single":{}},"priority":1,"parentCompositePodGroupName":"p"}}"#);
        let strategy = PodGroupStrategy::new(&preemption.gates);
        strategy.defaults(&mut group);
        strategy.prepare_for_create(&preemption, &mut group);
        let policy = r#""preemptionPolicy":"PreemptLowerPriority""#;
        let spec = format!(r#"{{"disruptionMode":{{"single":{{}}}},"priority":1,{policy}}}"#);
        assert_eq!(group["spec"], object(&spec));
        let off = context_of(37, &[("GenericWorkload", true)]);
        strategy.prepare_for_create(&off, &mut group);
        assert_eq!(group["spec"], object(r#"{"disruptionMode":{"single":{}},"priority":1}"#));
        let old = object(r#"{"spec":{"parentCompositePodGroupName":"p"}}"#);
        let options =
            [COMPOSITE_FEATURE, PREEMPTION_FEATURE].map(|option| strategy.has_option(&off.gates, option, Some(&old)));
        assert_eq!(options, [true, false]);
    }
}
