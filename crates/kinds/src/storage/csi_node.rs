//! The strategy for CSINode: the CSI drivers of a node and the health of their storage (upstream:
//! `pkg/registry/storage/csinode`, `ValidateCSINode`, `ValidateCSINodeStatusUpdate`).

use std::collections::{BTreeMap, BTreeSet};

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use crate::core::persistentvolume::validate_csi_driver_name;
use crate::gated::{Part, drop_disabled};
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, keep_old, same};
use crate::go_json;
use crate::validation::{invalid_each, reject_negative, validate_one_of};

const MAX_NODE_ID: usize = 256;
/// The limits of the health of a driver's storage.
const MAX_HEALTH_CONDITIONS: usize = 16;
const MAX_REASON: usize = 256;
const MAX_MESSAGE: usize = 1024;

/// The strategy for CSINode.
pub(crate) struct CsiNodeStrategy;

impl Strategy for CsiNodeStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        match old {
            // Before 1.37, the kind has no status.
            None if object.get("status").is_some() => object.set("status", Value::object()),
            None => {}
            Some(old) => keep_old(object, old, &["status"]),
        }
        drop_disabled(&context.gates, Part::CsiNode, object, old);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let spec = FieldPath::new("spec");
        let list = spec.child("drivers");
        let mut seen = BTreeSet::new();
        for (i, driver) in object.items_at(&["spec", "drivers"]).iter().enumerate() {
            let path = list.index(i);
            let name = driver.str_at(&["name"]);
            validate_csi_driver_name(&mut errors, name, &path.child("name"));
            let id = driver.str_at(&["nodeID"]);
            if id.is_empty() {
                errors.required(&path.child("nodeID"), "");
            }
            if id.len() > MAX_NODE_ID {
                errors.invalid(&path.child("nodeID"), id, format!("must be {MAX_NODE_ID} characters or less"));
            }
            let count = path.child("allocatable");
            reject_negative(&mut errors, &count.child("count"), driver.int_at(&["allocatable", "count"]));
            if !seen.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
            validate_topology_keys(&mut errors, driver.items_at(&["topologyKeys"]), &path);
        }
        let Some(old) = old else { return errors };
        // The allocatable count of a driver is mutable; the rest of its entry is not.
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            driver.remove("allocatable");
            driver
        };
        let drivers = ["spec", "drivers"];
        let mut by_name: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for driver in object.items_at(&drivers) {
            by_name.entry(driver.str_at(&["name"])).or_default().push(driver);
        }
        for before in old.items_at(&drivers) {
            for driver in by_name.get(before.str_at(&["name"])).into_iter().flatten().copied() {
                let (new, old) = (fixed(driver), fixed(before));
                if !same(Some(&new), Some(&old)) {
                    let path = FieldPath::new("spec.drivers");
                    let error = FieldError::invalid(&path, new.clone(), IMMUTABLE_TEXT);
                    errors.push(error.showing(go_json::internal(Some(&new), &DRIVER)));
                }
            }
        }
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS)
    }
}

/// The strategy for the `status` subresource.
static STATUS: StatusStrategy = StatusStrategy::new(validate_status).preserving(SPEC_AND_METADATA).gated(Part::CsiNode);

fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    let mut errors = Errors::new();
    let list = FieldPath::new("status.storageHealth");
    let mut seen = BTreeSet::new();
    for (i, health) in object.items_at(&["status", "storageHealth"]).iter().enumerate() {
        let path = list.index(i);
        let name = health.str_at(&["name"]);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        validate_health_conditions(
            &mut errors,
            health.items_at(&["healthConditions"]),
            &path.child("healthConditions"),
        );
    }
    errors
}

fn validate_health_conditions(errors: &mut Errors, conditions: &[Value], list: &FieldPath<'_>) {
    if conditions.len() > MAX_HEALTH_CONDITIONS {
        errors.push(FieldError::too_many(list, conditions.len(), MAX_HEALTH_CONDITIONS));
    }
    for (i, condition) in conditions.iter().enumerate() {
        let path = list.index(i);
        let status = Some(condition.str_at(&["status"]));
        validate_one_of(errors, &path.child("status"), status, &["StorageDegraded", "StorageUnreachable"]);
        let reason = condition.str_at(&["reason"]);
        if reason.is_empty() {
            errors.required(&path.child("reason"), "");
        }
        for (field, text, limit) in
            [("reason", reason, MAX_REASON), ("message", condition.str_at(&["message"]), MAX_MESSAGE)]
        {
            if text.len() > limit {
                errors.push(FieldError::too_long(&path.child(field), limit));
            }
        }
    }
}

/// How upstream's internal type prints a driver.
const DRIVER: go_json::GoType = go_json::GoType::Of("storage/v1.CSINodeDriver");

fn validate_topology_keys(errors: &mut Errors, keys: &[Value], path: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for key in keys.iter().filter_map(Value::as_str) {
        if key.is_empty() {
            errors.required(path, "");
        }
        if !seen.insert(key) {
            errors.duplicate(path, key);
        }
        invalid_each(errors, path, key, names::qualified_name(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation as check, context_of, messages, object};

    #[test]
    fn nodes() {
        let node = r#"{"spec":{"drivers":[{"name":"d.example.com","nodeID":"n","topologyKeys":["zone"],"allocatable":{"count":3}}]}}"#;
        check(&CsiNodeStrategy, node, None, &[]);
        check(
            &CsiNodeStrategy,
            r#"{"spec":{"drivers":[{"name":"d","nodeID":"","topologyKeys":["a","a"],"allocatable":{"count":-1}},{"name":"d","nodeID":"n"}]}}"#,
            None,
            &[
                "spec.drivers[0].nodeID: Required value",
                "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[0]: Duplicate value: \"a\"",
                "spec.drivers[1].name: Duplicate value: \"d\"",
            ],
        );
        check(
            &CsiNodeStrategy,
            r#"{"spec":{"drivers":[{"name":"d.example.com","nodeID":"n","topologyKeys":["zone"],"allocatable":{"count":4}}]}}"#,
            Some(node),
            &[],
        );
        check(
            &CsiNodeStrategy,
            r#"{"spec":{"drivers":[{"name":"d.example.com","nodeID":"m"}]}}"#,
            Some(node),
            &[
                "spec.drivers: Invalid value: {\"Name\":\"d.example.com\",\"NodeID\":\"m\",\"TopologyKeys\":null,\"Allocatable\":null}: field is immutable",
            ],
        );
    }

    #[test]
    fn the_health_of_storage_is_a_status() {
        let on = context_of(37, &[("CSIVolumeHealth", true)]);
        let off = context_of(37, &[]);
        let with = |drivers: &str, health: &str| {
            object(&format!(r#"{{"spec":{{"drivers":[{drivers}]}},"status":{{"storageHealth":[{health}]}}}}"#))
        };
        let (healthy, driver) = (r#"{"name":"d"}"#, r#"{"name":"d","nodeID":"n"}"#);
        let mut created = with(driver, healthy);
        CsiNodeStrategy.prepare_for_create(&on, &mut created);
        assert_eq!(created["status"], object("{}"));
        let old = with(driver, healthy);
        let mut updated = with("", r#"{"name":"e"}"#);
        CsiNodeStrategy.prepare_for_update(&on, &mut updated, &old);
        assert_eq!(updated, with("", healthy));

        let status = CsiNodeStrategy.subresource("status").expect("a status");
        let write = |context: &StrategyContext, old: &Value| {
            let mut new = with("", r#"{"name":"e"}"#);
            status.prepare_for_update(context, &mut new, old);
            new
        };
        assert_eq!(write(&on, &old), with(driver, r#"{"name":"e"}"#));
        assert_eq!(write(&off, &old), with(driver, r#"{"name":"e"}"#), "the old object uses the feature");
        let unused = object(r#"{"spec":{"drivers":[]},"status":{}}"#);
        assert_eq!(write(&off, &unused), unused);
    }

    #[test]
    fn the_health_of_storage_is_validated() {
        let check = |health: &str, expect: &[&str]| {
            let object = object(&format!(r#"{{"status":{{"storageHealth":{health}}}}}"#));
            let status = CsiNodeStrategy.subresource("status").expect("a status");
            assert_eq!(messages(&status.validate_update(&context_of(37, &[]), &object, &object)), expect);
        };
        check(r#"[{"name":"d","healthConditions":[{"status":"StorageDegraded","reason":"Slow"}]}]"#, &[]);
        let condition = r#"{"status":"StorageDegraded","reason":"Slow"}"#;
        check(
            &format!(r#"[{{"name":"d"}},{{"name":"d","healthConditions":[{}]}}]"#, [condition; 17].join(",")),
            &[
                "status.storageHealth[1].name: Duplicate value: \"d\"",
                "status.storageHealth[1].healthConditions: Too many: 17: must have at most 16 items",
            ],
        );
        let long = "x".repeat(1025);
        check(
            &format!(
                r#"[{{"healthConditions":[{{"status":"Bad","message":"{long}"}},{{"status":"StorageDegraded","reason":"{long}"}}]}}]"#
            ),
            &[
                "status.storageHealth[0].name: Required value",
                "status.storageHealth[0].healthConditions[0].status: Unsupported value: \"Bad\": supported values: \"StorageDegraded\", \"StorageUnreachable\"",
                "status.storageHealth[0].healthConditions[0].reason: Required value",
                "status.storageHealth[0].healthConditions[0].message: Too long: may not be more than 1024 bytes",
                "status.storageHealth[0].healthConditions[1].reason: Too long: may not be more than 256 bytes",
            ],
        );
    }
}
