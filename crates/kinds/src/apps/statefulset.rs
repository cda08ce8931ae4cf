//! The strategy for StatefulSet (upstream: `SetDefaults_StatefulSet`, `pkg/registry/apps/statefulset`). The validation
//! is in `statefulset_validation`.

use pintle_gates::{Feature, Gates};
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::object;
use pintle_value::{Errors, FieldPath, Value, names};

use super::{statefulset_validation, stored, template};
use crate::core::pod::defaults::round_resource_list;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC, StatusStrategy, reset_status, set_generation, set_if_empty};

static STATUS: StatusStrategy = StatusStrategy::new(statefulset_validation::validate_status);

/// The strategy for StatefulSet.
pub(crate) struct StatefulSetStrategy {
    /// Whether `maxUnavailable` has a default.
    max_unavailable: bool,
}

impl StatefulSetStrategy {
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { max_unavailable: gates.is_enabled(Feature::MAX_UNAVAILABLE_STATEFUL_SET) }
    }
}

#[cfg(test)]
impl Default for StatefulSetStrategy {
    fn default() -> Self {
        Self::new(&Gates::default())
    }
}

impl Strategy for StatefulSetStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &stored::STATEFUL_SETS
    }

    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        set_if_empty(spec, "podManagementPolicy", "OrderedReady");
        spec.set_default("updateStrategy", Value::object());
        if let Some(strategy) = spec.get_mut("updateStrategy") {
            if strategy.str_at(&["type"]).is_empty() {
                strategy.set("type", "RollingUpdate");
                strategy.set_default("rollingUpdate", Value::object());
            }
            let rolling = strategy.str_at(&["type"]) == "RollingUpdate";
            if let Some(update) = strategy.get_mut("rollingUpdate").filter(|_| rolling) {
                update.set_default("partition", 0);
                if self.max_unavailable {
                    update.set_default("maxUnavailable", 1);
                }
            }
        }
        spec.set_default("persistentVolumeClaimRetentionPolicy", Value::object());
        if let Some(policy) = spec.get_mut("persistentVolumeClaimRetentionPolicy") {
            set_if_empty(policy, "whenDeleted", "Retain");
            set_if_empty(policy, "whenScaled", "Retain");
        }
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        template::defaults(spec);
        let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
        claims.into_iter().flatten().for_each(set_claim_defaults);
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, object! { "replicas": 0, "availableReplicas": 0 });
        drop_disabled(&context.gates, Part::StatefulSet, object, old);
        template::drop_disabled(context, object, old, &["spec", "template"]);
        set_generation(object, old, SPEC);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        statefulset_validation::validate(context, object, old)
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = template::warnings_of_change(object, old);
        let spec = FieldPath::new("spec");
        let list = spec.child("volumeClaimTemplates");
        for (i, claim) in object.items_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
            let path = list.index(i);
            let claim = &claim["spec"];
            // On update, upstream's path has an additional element.
            warnings.extend(match old {
                None => template::claim_warnings(claim, &path),
                Some(_) => template::claim_warnings(claim, &path.child("Spec")),
            });
        }
        if object.int_at(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
            let text = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {text}"));
        }
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

/// Sets the defaults of a claim template. The conversion from the internal version writes kind and version.
fn set_claim_defaults(claim: &mut Value) {
    claim.set("apiVersion", "v1");
    claim.set("kind", "PersistentVolumeClaim");
    claim.set_default("status", Value::object());
    if let Some(status) = claim.get_mut("status") {
        set_if_empty(status, "phase", "Pending");
        round_resource_list(status, &["capacity"]);
        round_resource_list(status, &["allocatedResources"]);
    }
    claim.set_default("spec", Value::object());
    if let Some(spec) = claim.get_mut("spec") {
        spec.set_default("volumeMode", "Filesystem");
        round_resource_list(spec, &["resources", "limits"]);
        round_resource_list(spec, &["resources", "requests"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::tests::workload;
    use crate::testing::{context, gated_context, object};

    const MAX_UNAVAILABLE: [&str; 4] = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];

    #[test]
    fn defaults() {
        let check = |spec: &str, expect: &str| {
            let mut spec = workload(&StatefulSetStrategy::default(), spec)["spec"].clone();
            spec.remove("template");
            spec.remove("selector");
            let mut expect = object(expect);
            for (field, value) in [
                ("replicas", object("1")),
                ("revisionHistoryLimit", object("10")),
                ("persistentVolumeClaimRetentionPolicy", object(r#"{"whenDeleted":"Retain","whenScaled":"Retain"}"#)),
            ] {
                expect.set_default(field, value);
            }
            assert_eq!(spec, expect);
        };
        check(
            "{}",
            r#"{"podManagementPolicy":"OrderedReady","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}"#,
        );
        check(
            r#"{"podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate"},"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}"#,
            r#"{"podManagementPolicy":"Parallel","updateStrategy":{"type":"RollingUpdate"},
                "persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Delete"}}"#,
        );
        check(
            r#"{"updateStrategy":{"type":"OnDelete"},"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"]},"status":{}}]}"#,
            r#"{"podManagementPolicy":"OrderedReady","updateStrategy":{"type":"OnDelete"},"volumeClaimTemplates":[{"kind":"PersistentVolumeClaim",
                "apiVersion":"v1","metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]}"#,
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let rules = StatefulSetStrategy::default();
        let mut set =
            workload(&rules, r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":2}}}"#);
        let old = set.clone();
        rules.prepare_for_update(&context(), &mut set, &old);
        assert_eq!(set.int_at(&MAX_UNAVAILABLE), Some(2));
        rules.prepare_for_create(&context(), &mut set);
        assert_eq!(set.at(&MAX_UNAVAILABLE), None);
        assert_eq!(set["status"], object(r#"{"replicas":0,"availableReplicas":0}"#));
    }

    #[test]
    fn the_default_of_max_unavailable_depends_on_its_feature() {
        let on = gated_context(&[("MaxUnavailableStatefulSet", true)]).gates;
        let check = |spec: &str, expect: Option<i64>| {
            let set = workload(&StatefulSetStrategy::default(), spec);
            assert_eq!(set.at(&MAX_UNAVAILABLE), None, "off: {spec}");
            let set = workload(&StatefulSetStrategy::new(&on), spec);
            assert_eq!(set.int_at(&MAX_UNAVAILABLE), expect, "{spec}");
        };
        check("{}", Some(1));
        check(r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{}}}"#, Some(1));
        check(r#"{"updateStrategy":{"type":"RollingUpdate"}}"#, None);
        check(r#"{"updateStrategy":{"type":"OnDelete","rollingUpdate":{}}}"#, None);
    }
}
