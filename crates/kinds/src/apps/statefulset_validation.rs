//! Validates StatefulSets (upstream: `ValidateStatefulSet`, `...Update`, `...StatusUpdate`). Errors of the old object
//! in immutable fields are tolerated.

use std::collections::HashSet;

use pintle_gates::Feature;
use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::{int_or_percent, selector_and_template, template};
use crate::declarative::Rules;
use crate::generic::{keep_old, same};
use crate::go_json::{self, GoType};
use crate::labels;
use crate::validation::{invalid_each, reject_negative, validate_replica_counts};

const ROLLING_UPDATE: GoType = GoType::Of("apps/v1.RollingUpdateStatefulSetStrategy");
const STRATEGY: GoType = GoType::Of("apps/v1.StatefulSetUpdateStrategy");

static SPEC_RULES: Rules = Rules::own("apps/v1", "StatefulSetSpec");
static STATUS_RULES: Rules = Rules::own("apps/v1", "StatefulSetStatus");

/// The mutable fields of the spec.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

/// Fields that are not validated because they are immutable or were invalid before.
#[derive(Clone, Copy)]
struct StatefulSetValidationOptions {
    skip_immutable_fields: bool,
    skip_template: bool,
}

/// Validates a new StatefulSet, or an update of an old one.
pub(super) fn validate(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
    let mut options = StatefulSetValidationOptions { skip_immutable_fields: old.is_some(), skip_template: false };
    let spec = &object["spec"];
    let Some(old) = old else { return validate_spec(context, spec, None, options) };
    let old_spec = &old["spec"];
    options.skip_template = !validate_spec(context, old_spec, Some(old_spec), options).is_empty();
    let mut errors = validate_spec(context, spec, Some(old_spec), options);
    let mut rest = spec.clone();
    for field in MUTABLE {
        keep_old(&mut rest, old_spec, &[field]);
    }
    if !same(Some(&rest), Some(old_spec)) {
        errors.forbidden(
            &FieldPath::new("spec"),
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
    errors
}

fn validate_spec(
    context: &StrategyContext,
    spec: &Value,
    old: Option<&Value>,
    options: StatefulSetValidationOptions,
) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    let template_path = path.child("template");
    match spec.str_at(&["podManagementPolicy"]) {
        "" => errors.required(&path.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&path.child("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'"),
    }
    let recreates = context.gates.is_enabled(Feature::STATEFUL_SET_RECREATE_STRATEGY)
        || old.is_some_and(|old| old.str_at(&["updateStrategy", "type"]) == "Recreate");
    validate_strategy(&mut errors, &spec["updateStrategy"], recreates, &path.child("updateStrategy"));
    validate_retention(&mut errors, spec, &path.child("persistentVolumeClaimRetentionPolicy"));
    if !options.skip_immutable_fields {
        let list = path.child("volumeClaimTemplates");
        for (i, claim) in spec.items_at(&["volumeClaimTemplates"]).iter().enumerate() {
            let path = list.index(i);
            template::validate_claim_spec(&mut errors, &claim["spec"], &path.child("spec"));
        }
    }
    SPEC_RULES.validate_part(&mut errors, spec, &path);
    reject_negative(&mut errors, &path.child("ordinals.start"), spec.int_at(&["ordinals", "start"]));
    let service = spec.str_at(&["serviceName"]);
    if !options.skip_immutable_fields && !service.is_empty() {
        invalid_each(&mut errors, &path.child("serviceName"), service, names::dns1123_label(service));
    }
    selector_and_template::require_selector(&mut errors, spec, "statefulset", &path);
    match labels::parse_selector(spec.get("selector")) {
        None => errors.push(selector_and_template::invalid_selector(&spec["selector"], "", &path.child("selector"))),
        Some(selector) => {
            let labels = spec.at(&["template", "metadata", "labels"]);
            if !selector.is_everything() && !labels::matches_labels(&selector, labels) {
                template::add_selector_mismatch(&mut errors, labels, &template_path);
            }
            let pods = template_of_controller(spec);
            let old_template = old.and_then(|old| old.get("template"));
            if !options.skip_template {
                errors.append(template::validate(context, Some(&pods), old_template, &template_path));
            }
            template::validate_metadata(context, &mut errors, &pods, old_template, &template_path);
        }
    }
    selector_and_template::validate_restart_policy_always(&mut errors, spec, "StatefulSet", &template_path);
    errors
}

/// Validates the strategy of updates. `recreates` says whether it may recreate all pods at once.
fn validate_strategy(errors: &mut Errors, strategy: &Value, recreates: bool, path: &FieldPath<'_>) {
    let update_path = path.child("rollingUpdate");
    let kind = match strategy.str_at(&["type"]) {
        // No pod is replaced gradually, as with OnDelete.
        "Recreate" if recreates => "OnDelete",
        kind => kind,
    };
    match (kind, strategy.get("rollingUpdate")) {
        ("", _) => errors.required(path, ""),
        ("OnDelete", Some(update)) => {
            let text = "only allowed for updateStrategy 'RollingUpdate'";
            let error = FieldError::invalid(&update_path, Value::Null, text);
            errors.push(error.showing(go_json::internal(Some(update), &ROLLING_UPDATE)));
        }
        ("RollingUpdate", Some(update)) => {
            reject_negative(errors, &update_path.child("partition"), update.int_at(&["partition"]));
            if let Some(unavailable) = update.get("maxUnavailable") {
                let path = update_path.child("maxUnavailable");
                int_or_percent::validate(errors, Some(unavailable), &path);
                if int_or_percent::int_or_percent_value(Some(unavailable)) == 0 {
                    errors.invalid(&path, unavailable.clone(), "cannot be 0");
                }
                int_or_percent::validate_at_most_100_percent(errors, Some(unavailable), &path);
            }
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let error = FieldError::invalid(path, Value::Null, "must be 'RollingUpdate' or 'OnDelete'");
            errors.push(error.showing(go_json::internal(Some(strategy), &STRATEGY)));
        }
    }
}

fn validate_retention(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let Some(policy) = spec.get("persistentVolumeClaimRetentionPolicy") else { return };
    for field in ["whenDeleted", "whenScaled"] {
        let value = policy.str_at(&[field]);
        if value != "Retain" && value != "Delete" {
            errors.not_supported(&path.child(field), value, &["Retain", "Delete"]);
        }
    }
}

/// Returns the template as the controller uses it: with host name, subdomain, and a volume for each claim template.
fn template_of_controller(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let Some(pod) = template.get_mut("spec") else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let claims: Vec<&str> =
        spec.items_at(&["volumeClaimTemplates"]).iter().map(|claim| claim.str_at(&["metadata", "name"])).collect();
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    for name in claims {
        if seen.insert(name) {
            let claim = pintle_value::object! { "claimName": name };
            volumes.push(pintle_value::object! { "name": name, "persistentVolumeClaim": claim });
        }
    }
    let own = pod.items_at(&["volumes"]).iter().filter(|volume| !seen.contains(volume.str_at(&["name"])));
    volumes.extend(own.cloned());
    pod.set("volumes", volumes);
    template
}

/// Validates an update of the status.
pub(super) fn validate_status(_: &StrategyContext, object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    STATUS_RULES.validate_part(&mut errors, &object["status"], &FieldPath::new("status"));
    let counters = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    validate_replica_counts(&mut errors, object, &counters, "status.readyReplicas");
    selector_and_template::validate_collision_count(&mut errors, object, old);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::statefulset::StatefulSetStrategy;
    use crate::apps::tests::workload;
    use crate::testing::{context, context_of, messages, object};

    #[test]
    fn pods_are_recreated_with_the_feature() {
        let set =
            |strategy: &str| workload(&StatefulSetStrategy::default(), &format!(r#"{{"updateStrategy":{strategy}}}"#));
        let (off, on) = (context_of(37, &[]), context_of(37, &[("StatefulSetRecreateStrategy", true)]));
        let recreate = set(r#"{"type":"Recreate"}"#);
        let check = |context: &StrategyContext, new: &Value, old: Option<&Value>, expect: &[&str]| {
            assert_eq!(messages(&validate(context, new, old)), expect);
        };
        let refused = "spec.updateStrategy: Invalid value: {\"Type\":\"Recreate\",\"RollingUpdate\":null}: must be \
                       'RollingUpdate' or 'OnDelete'";
        check(&on, &recreate, None, &[]);
        check(&off, &recreate, None, &[refused]);
        check(&off, &recreate, Some(&set(r#"{"type":"OnDelete"}"#)), &[refused]);
        check(&off, &recreate, Some(&recreate), &[]);
        check(&off, &set(r#"{"type":"OnDelete"}"#), Some(&recreate), &[]);
        let rolling = "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only \
                       allowed for updateStrategy 'RollingUpdate'";
        check(&on, &set(r#"{"type":"Recreate","rollingUpdate":{"partition":1}}"#), None, &[rolling]);
    }

    #[test]
    fn specs_are_validated() {
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(messages(&validate(&context(), &workload(&StatefulSetStrategy::default(), spec), None)), expect);
        };
        check("{}", &[]);
        check(
            r#"{"podManagementPolicy":"Any","serviceName":"web","minReadySeconds":-1,"ordinals":{"start":-1}}"#,
            &[
                "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check(
            r#"{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":1}},"selector":{}}"#,
            &[
                "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
                "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
            ],
        );
        check(
            r#"{"updateStrategy":{"type":"Other"},"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Keep"}}"#,
            &[
                "spec.updateStrategy: Invalid value: {\"Type\":\"Other\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'",
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
            ],
        );
        check(
            r#"{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":-1,"maxUnavailable":"0%"}}}"#,
            &[
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": cannot be 0",
            ],
        );
    }

    #[test]
    fn most_fields_are_immutable() {
        let old = workload(&StatefulSetStrategy::default(), r#"{"serviceName":"a"}"#);
        let check = |spec: &str, expect: &[&str]| {
            assert_eq!(
                messages(&validate(&context(), &workload(&StatefulSetStrategy::default(), spec), Some(&old))),
                expect
            );
        };
        check(
            r#"{"serviceName":"a","replicas":3,"minReadySeconds":5,"ordinals":{"start":1},"revisionHistoryLimit":1}"#,
            &[],
        );
        check(r#"{"serviceName":"a","persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"}}"#, &[]);
        check(
            r#"{"serviceName":"b"}"#,
            &[
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            ],
        );
    }

    #[test]
    fn pods_get_the_volumes_of_the_claim_templates() {
        let spec = object(
            r#"{"volumeClaimTemplates":[{"metadata":{"name":"data"}}],
                "template":{"spec":{"hostname":"h","volumes":[{"name":"data","emptyDir":{}},{"name":"tmp","emptyDir":{}}]}}}"#,
        );
        let expect = r#"{"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"tmp","emptyDir":{}}]}}"#;
        assert_eq!(template_of_controller(&spec), object(expect));
    }
}
