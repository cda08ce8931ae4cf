//! The strategies for CSIDriver and CSIStorageCapacity (upstream: `pkg/apis/storage/validation`,
//! `pkg/registry/storage`).

use std::collections::BTreeSet;

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::quantity::Quantity;
use pintle_value::{Errors, FieldPath, Value, names};

use crate::core::node::deprecated_node_label;
use crate::gated::{Part, drop_disabled};
use crate::generic::{increment_generation, same_at, validate_immutable, validate_immutable_at};
use crate::labels::{has_invalid_value, validate_selector};
use crate::validation::invalid_each;

const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// The strategy for CSIDriver.
pub(crate) struct CsiDriverStrategy;

impl Strategy for CsiDriverStrategy {
    fn defaults(&self, object: &mut Value) {
        let Some(spec) = object.at_mut(&["spec"]) else { return };
        spec.set_default("attachRequired", true);
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            spec.set_default(field, false);
        }
        spec.set_default("fsGroupPolicy", "ReadWriteOnceWithFSType");
        if spec.items_at(&["volumeLifecycleModes"]).is_empty() {
            spec.set("volumeLifecycleModes", vec!["Persistent"]);
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        drop_disabled(&context.gates, Part::CsiDriver, object, old);
        if let Some(old) = old.filter(|old| !same_at(object, old, &["spec"])) {
            increment_generation(object, old);
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_driver_spec(&mut errors, &object["spec"]);
        let Some(old) = old else { return errors };
        // Upstream misspells the first path.
        for (field, shown) in
            [("attachRequired", "spec.attachedRequired"), ("volumeLifecycleModes", "spec.volumeLifecycleModes")]
        {
            let path = ["spec", field];
            validate_immutable(&mut errors, object.at(&path), old.at(&path), &FieldPath::new(shown));
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = ["spec", "tokenRequests"];
        let unchanged = old.is_some_and(|old| same_at(object, old, &requests));
        let unset = object.at(&["spec", "serviceAccountTokenInSecrets"]).is_none();
        if unchanged || object.items_at(&requests).is_empty() || !unset {
            return Vec::new();
        }
        vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent \
             possible logging of tokens in volume attributes"
                .to_owned(),
        ]
    }
}

fn validate_driver_spec(errors: &mut Errors, spec: &Value) {
    let path = FieldPath::new("spec");
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if spec.get(field).is_none() {
            errors.required(&path.child(shown), "");
        }
    }
    if let Some(policy) = spec.get("fsGroupPolicy").and_then(Value::as_str)
        && !FS_GROUP_POLICIES.contains(&policy)
    {
        errors.not_supported(&path.child("fsGroupPolicy"), policy, &FS_GROUP_POLICIES);
    }
    validate_token_requests(errors, spec.items_at(&["tokenRequests"]), &path.child("tokenRequests"));
    for mode in spec.items_at(&["volumeLifecycleModes"]).iter().filter_map(Value::as_str) {
        if !LIFECYCLE_MODES.contains(&mode) {
            errors.not_supported(&path.child("volumeLifecycleModes"), mode, &LIFECYCLE_MODES);
        }
    }
    if spec.get("seLinuxMount").is_none() {
        errors.required(&path.child("seLinuxMount"), "");
    }
    if let Some(period) = spec.int_at(&["nodeAllocatableUpdatePeriodSeconds"]).filter(|period| *period < 10) {
        let path = path.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&path, period, "must be greater than or equal to 10 seconds");
    }
    if let Some(in_secrets) = spec.get("serviceAccountTokenInSecrets")
        && spec.items_at(&["tokenRequests"]).is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets.clone(), detail);
    }
}

fn validate_token_requests(errors: &mut Errors, requests: &[Value], list: &FieldPath<'_>) {
    let mut audiences = BTreeSet::new();
    for (i, request) in requests.iter().enumerate() {
        let path = list.index(i);
        let audience = request.str_at(&["audience"]);
        if !audiences.insert(audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        let Some(seconds) = request.int_at(&["expirationSeconds"]) else { continue };
        let path = path.child("expirationSeconds");
        if seconds < MIN_TOKEN_SECONDS {
            errors.invalid(&path, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > MAX_TOKEN_SECONDS {
            errors.invalid(&path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

/// The strategy for CSIStorageCapacity.
pub(crate) struct CsiStorageCapacityStrategy;

impl Strategy for CsiStorageCapacityStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_capacity(object, old.is_some_and(|old| has_invalid_value(old.get("nodeTopology"))));
        for field in ["nodeTopology", "storageClassName"] {
            validate_immutable_at(&mut errors, object, old, &[field]);
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Vec<String> {
        let selector = FieldPath::new("nodeTopology");
        let mut warnings = Vec::new();
        let list = selector.child("matchExpressions");
        for (i, expression) in object.items_at(&["nodeTopology", "matchExpressions"]).iter().enumerate() {
            let key = expression.str_at(&["key"]);
            if let Some(text) = deprecated_node_label(key) {
                warnings.push(format!("{}: {key} is {text}", list.index(i).child("key")));
            }
        }
        let labels = selector.child("matchLabels");
        for (key, _) in object.entries_at(&["nodeTopology", "matchLabels"]) {
            if let Some(text) = deprecated_node_label(key) {
                warnings.push(format!("{}: {text}", labels.child(key)));
            }
        }
        warnings
    }
}

fn validate_capacity(object: &Value, any_value: bool) -> Errors {
    let mut errors = validate_selector(object.get("nodeTopology"), any_value, &FieldPath::new("nodeTopology"));
    let class = object.str_at(&["storageClassName"]);
    invalid_each(&mut errors, &FieldPath::new("storageClassName"), class, names::dns1123_subdomain_name(class, false));
    if let Some(capacity) = object.get("capacity").and_then(|c| Quantity::from_value(c).ok()).filter(|c| c.sign() < 0) {
        errors.invalid(&FieldPath::new("capacity"), capacity.to_string(), "must be greater than or equal to 0");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation as check, context, object};

    #[test]
    fn drivers() {
        let mut driver = object(r#"{"spec":{}}"#);
        CsiDriverStrategy.defaults(&mut driver);
        assert_eq!(
            driver,
            object(
                r#"{"spec":{"attachRequired":true,"podInfoOnMount":false,"storageCapacity":false,"requiresRepublish":false,
                    "seLinuxMount":false,"fsGroupPolicy":"ReadWriteOnceWithFSType","volumeLifecycleModes":["Persistent"]}}"#
            )
        );
        check(
            &CsiDriverStrategy,
            r#"{"spec":{"attachRequired":false,"fsGroupPolicy":"x","volumeLifecycleModes":["Ephemeral"],
                "tokenRequests":[{"audience":"a","expirationSeconds":1},{"audience":"a"}]}}"#,
            Some(r#"{"spec":{"attachRequired":true,"volumeLifecycleModes":["Persistent"]}}"#),
            &[
                "spec.fsGroupPolicy: Unsupported value: \"x\": supported values: \"File\", \"None\", \"ReadWriteOnceWithFSType\"",
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
                "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                "spec.attachedRequired: Invalid value: false: field is immutable",
                "spec.volumeLifecycleModes: Invalid value: [\"Ephemeral\"]: field is immutable",
            ],
        );
        check(
            &CsiDriverStrategy,
            r#"{"spec":{"serviceAccountTokenInSecrets":true}}"#,
            None,
            &[
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified",
            ],
        );
    }

    #[test]
    fn the_generation_of_drivers_follows_the_spec() {
        let old = object(r#"{"metadata":{"generation":2},"spec":{"attachRequired":true}}"#);
        let mut new = old.clone();
        CsiDriverStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.generation(), 2);
        new.set_at(&["spec", "requiresRepublish"], true);
        CsiDriverStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(new.generation(), 3);
    }

    #[test]
    fn capacities() {
        let capacity = r#"{"storageClassName":"fast","nodeTopology":{"matchLabels":{"zone":"a"}},"capacity":"1Gi"}"#;
        check(&CsiStorageCapacityStrategy, capacity, None, &[]);
        check(
            &CsiStorageCapacityStrategy,
            r#"{"storageClassName":"slow","nodeTopology":{},"capacity":"-1"}"#,
            Some(capacity),
            &[
                "capacity: Invalid value: \"-1\": must be greater than or equal to 0",
                "nodeTopology: Invalid value: {}: field is immutable",
                "storageClassName: Invalid value: \"slow\": field is immutable",
            ],
        );
    }
}
