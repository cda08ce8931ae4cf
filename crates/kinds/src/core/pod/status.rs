//! Validates a pod's status: conditions, and the changes that the `status` subresource allows (upstream:
//! `ValidatePodStatusUpdate`, `podStatusStrategy`).

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use pintle_gates::{Change, Gates};
use pintle_registry::{StrategyContext, SubresourceStrategy};
use pintle_value::ip::{ip_warnings, parse_sloppy};
use pintle_value::time::Time;
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata, names};

use super::annotations::{validate_annotation_updates, validate_pod_annotations};
use super::defaults::for_each_item;
use super::disabled::{STATUS_LISTS, drop_disabled_pod_fields};
use super::go_types::{ADDRESSES, OVERHEAD};
use super::options::PodOptions;
use super::resources::{is_native, quantity};
use crate::generic::keep_old;
use crate::go_json;
use crate::networking::address::AddressRules;
use crate::validation::{
    MAX_REPEATED_ERRORS, invalid_each, str_field, validate_dns_label, validate_object_name, validate_one_of,
    validate_qualified_name,
};

const MAX_HEALTH_MESSAGE: usize = 1024;

/// Sets the condition of a type, and its transition time if the status changed (upstream: `UpdatePodCondition`).
pub(crate) fn set_condition(pod: &mut Value, mut condition: Value, now: Time) {
    condition.set("lastProbeTime", Value::Null);
    condition.set("lastTransitionTime", now.rfc3339());
    if pod.at(&["status", "conditions"]).is_none() {
        pod.set_at(&["status", "conditions"], Value::Array(Vec::new()));
    }
    let Some(conditions) = pod.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut) else { return };
    let kind = condition.str_at(&["type"]).to_owned();
    match conditions.iter_mut().find(|c| c.str_at(&["type"]) == kind) {
        Some(present) => {
            if present.get("status") == condition.get("status")
                && let Some(time) = present.get("lastTransitionTime")
            {
                condition.set("lastTransitionTime", time.clone());
            }
            *present = condition;
        }
        None => conditions.push(condition),
    }
}

/// The strategy for `pods/status`.
pub(crate) struct PodStatusStrategy;

impl SubresourceStrategy for PodStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, pod: &mut Value, old: &Value) {
        keep_old(pod, old, &["spec"]);
        for field in ["deletionTimestamp", "ownerReferences"] {
            keep_old(pod, old, &["metadata", field]);
        }
        if pod.str_at(&["status", "qosClass"]).is_empty() {
            keep_old(pod, old, &["status", "qosClass"]);
        }
        restore_observed_generations(pod, old);
        if context.gates.has(Change::POD_CLAIM_STATUSES_ARE_KEPT) {
            restore_claim_statuses(pod, old);
        }
        drop_disabled_pod_fields(context, pod, Some(old));
    }

    fn validate_update(&self, context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
        validate_status_update(context, pod, old)
    }

    fn seldom_used(&self) -> &'static [&'static str] {
        &["spec"]
    }

    fn warnings(&self, _: &StrategyContext, pod: &Value, _: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        for list in ["podIPs", "hostIPs"] {
            let path = FieldPath::new("status");
            let path = path.child(list);
            for (i, address) in pod.items_at(&["status", list]).iter().enumerate() {
                warnings.extend(ip_warnings(&path.index(i).child("ip"), address.str_at(&["ip"])));
            }
        }
        warnings
    }
}

/// Restores the statuses of resource claims that a client omits, because it may not know them.
fn restore_claim_statuses(pod: &mut Value, old: &Value) {
    for field in ["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"] {
        let path = ["status", field];
        let is_unset = pod.at(&path).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty));
        if is_unset && old.at(&path).is_some() {
            keep_old(pod, old, &path);
        }
    }
}

/// Restores observed generations that a client omits, in the status and in conditions of the same type.
fn restore_observed_generations(pod: &mut Value, old: &Value) {
    const FIELD: &str = "observedGeneration";
    let is_unset = |object: &Value| object.int_at(&[FIELD]).unwrap_or(0) == 0;
    if is_unset(&pod["status"]) {
        keep_old(pod, old, &["status", FIELD]);
    }
    if !old.items_at(&["status", "conditions"]).iter().any(|condition| condition.get(FIELD).is_some()) {
        return;
    }
    // If a type occurs more than once, its conditions correspond in their order.
    let mut known: BTreeMap<&str, Vec<Option<&Value>>> = BTreeMap::new();
    for condition in old.items_at(&["status", "conditions"]).iter().rev() {
        known.entry(condition.str_at(&["type"])).or_default().push(condition.get(FIELD));
    }
    for_each_item(pod, &["status", "conditions"], |condition| {
        let kind = condition.str_at(&["type"]).to_owned();
        let generation = known.get_mut(kind.as_str()).and_then(Vec::pop).flatten();
        if let Some(generation) = generation.filter(|_| is_unset(condition)) {
            condition.set(FIELD, generation.clone());
        }
    });
}

fn validate_status_update(context: &StrategyContext, pod: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let annotations = FieldPath::new("metadata.annotations");
    validate_annotation_updates(&mut errors, pod, old, &annotations);
    let options = LazyCell::new(|| PodOptions::for_pod(context, Some(old)));
    validate_pod_annotations(&mut errors, pod, options, &annotations);

    let path = FieldPath::new("status");
    let status = &pod["status"];
    let old_status = &old["status"];
    let conditions = path.child("conditions");
    for (i, condition) in status.items_at(&["conditions"]).iter().enumerate() {
        let path = conditions.index(i);
        validate_generation(&mut errors, condition, &path);
        let kind = condition.str_at(&["type"]);
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            // Upstream writes this field with a capital letter.
            validate_qualified_name(&mut errors, &path.child("Type"), kind);
        }
    }
    validate_nomination(&mut errors, status, old_status, old, &path);
    validate_generation(&mut errors, status, &path);
    let qos = path.child("qosClass");
    let class = |status: &Value| Value::from(status.str_at(&["qosClass"]));
    errors.append(metadata::validate_immutable_field(&class(status), &class(old_status), &qos));

    for list in STATUS_LISTS {
        // Upstream visits the regular containers first.
        let list = match list {
            "initContainerStatuses" => "containerStatuses",
            "containerStatuses" => "initContainerStatuses",
            other => other,
        };
        validate_transitions(&mut errors, status, old, list, &path.child(list));
    }
    validate_claim_statuses(&mut errors, pod, &path);
    validate_extended_claim_status(&mut errors, pod, &path.child("extendedResourceClaimStatus"));
    let has_mappings = context.gates.has(Change::NODE_ALLOCATABLE_CLAIMS_HAVE_MAPPINGS);
    let list = path.child("nodeAllocatableResourceClaimStatuses");
    validate_allocatable_claim_statuses(has_mappings, &mut errors, pod, &list);
    validate_ips(AddressRules::of(&context.gates), &mut errors, status, old_status, &path);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        validate_users(&context.gates, &mut errors, pod, list, &path.child(list));
    }
    for (list, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        validate_allocated(&mut errors, pod, list, containers, &path.child(list));
    }
    let list = path.child("ephemeralContainerStatuses");
    for (i, container) in status.items_at(&["ephemeralContainerStatuses"]).iter().enumerate() {
        if !container.items_at(&["allocatedResourcesStatus"]).is_empty() {
            let path = list.index(i);
            errors.forbidden(&path.child("allocatedResourcesStatus"), "must not be specified in container status");
        }
    }
    errors
}

fn validate_generation(errors: &mut Errors, object: &Value, path: &FieldPath<'_>) {
    if let Some(generation) = object.int_at(&["observedGeneration"]).filter(|g| *g < 0) {
        errors.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
}

fn validate_nomination(errors: &mut Errors, status: &Value, old_status: &Value, old: &Value, path: &FieldPath<'_>) {
    let node = status.str_at(&["nominatedNodeName"]);
    if node.is_empty() || node == old_status.str_at(&["nominatedNodeName"]) {
        return;
    }
    let path = path.child("nominatedNodeName");
    validate_object_name(errors, &path, node);
    if !old.str_at(&["spec", "nodeName"]).is_empty() {
        errors.forbidden(&path, "may not be set on pods that are already bound to a node");
    }
}

/// Validates that terminated containers that must not restart stay terminated.
fn validate_transitions(errors: &mut Errors, status: &Value, old: &Value, list: &str, path: &FieldPath<'_>) {
    let before = old.items_at(&["status", list]).iter().enumerate();
    let ended = before.filter_map(|(i, before)| Some((i, before, before.at(&["state", "terminated"])?)));
    let ended: Vec<_> = ended.collect();
    if ended.is_empty() {
        return;
    }
    let spec = &old["spec"];
    let containers = match list {
        "containerStatuses" => spec.items_at(&["containers"]),
        "initContainerStatuses" => spec.items_at(&["initContainers"]),
        _ => &[],
    };
    let ephemeral = list == "ephemeralContainerStatuses";
    let rules = ["initContainers", "containers"].iter().flat_map(|l| spec.items_at(&[l]));
    let mut rules = rules.flat_map(|c| c.items_at(&["restartPolicyRules"]));
    if !ephemeral && rules.any(|rule| rule.str_at(&["action"]) == "RestartAllContainers") {
        return;
    }
    let containers = containers_by_name(containers);
    let mut running: BTreeMap<&str, usize> = BTreeMap::new();
    for now in status.items_at(&[list]).iter().filter(|now| now.at(&["state", "terminated"]).is_none()) {
        *running.entry(now.str_at(&["name"])).or_default() += 1;
    }
    for (i, before, ended) in ended {
        let name = before.str_at(&["name"]);
        let exit = ended.int_at(&["exitCode"]).unwrap_or(0);
        let may_restart = containers.get(name).is_some_and(|container| should_restart(container, spec, exit));
        let again = running.get(name).copied().unwrap_or(0);
        // For regular and init containers, upstream reports only the first error.
        for _ in 0..again.min(if ephemeral { MAX_REPEATED_ERRORS } else { 1 }) {
            if !may_restart {
                let path = path.index(i);
                errors.forbidden(&path.child("state"), "may not be transitioned to non-terminated state");
            }
        }
    }
}

/// Returns containers by name. If several have the same name, the first one counts.
fn containers_by_name(containers: &[Value]) -> BTreeMap<&str, &Value> {
    containers.iter().rev().map(|container| (container.str_at(&["name"]), container)).collect()
}

/// Returns true if a container that terminated with an exit code restarts (upstream: `ContainerShouldRestart`).
fn should_restart(container: &Value, spec: &Value, exit: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(exit != 0),
        "Never" => Some(false),
        _ => None,
    };
    if let Some(policy) = str_field(container, "restartPolicy") {
        let matching = container.items_at(&["restartPolicyRules"]).iter().find(|rule| {
            let listed = rule.items_at(&["exitCodes", "values"]).iter().any(|code| code.as_int() == Some(exit));
            match rule.str_at(&["exitCodes", "operator"]) {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        });
        let action = matching.map(|rule| rule.str_at(&["action"]));
        if matches!(action, Some("Restart" | "RestartAllContainers")) {
            return true;
        }
        if let Some(answer) = by_policy(policy) {
            return answer;
        }
    }
    by_policy(spec.str_at(&["restartPolicy"])).unwrap_or(true)
}

fn validate_claim_statuses(errors: &mut Errors, pod: &Value, path: &FieldPath<'_>) {
    let statuses = pod.items_at(&["status", "resourceClaimStatuses"]);
    if statuses.is_empty() {
        return;
    }
    let list = path.child("resourceClaimStatuses");
    let claims = containers_by_name(pod.items_at(&["spec", "resourceClaims"]));
    let mut seen = BTreeSet::new();
    for (i, status) in statuses.iter().enumerate() {
        let path = list.index(i);
        let name = status.str_at(&["name"]);
        if !claims.contains_key(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.child("name"), name, detail);
        }
        if !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if let Some(claim) = str_field(status, "resourceClaimName") {
            validate_object_name(errors, &path.child("resourceClaimName"), claim);
        }
    }
}

fn validate_extended_claim_status(errors: &mut Errors, pod: &Value, path: &FieldPath<'_>) {
    let Some(status) = pod.at(&["status", "extendedResourceClaimStatus"]) else { return };
    let containers: BTreeMap<&str, &Value> = ["initContainers", "containers"]
        .iter()
        .flat_map(|list| pod.items_at(&["spec", list]))
        .map(|container| (container.str_at(&["name"]), container))
        .collect();
    let list = path.child("requestMappings");
    let mappings = status.items_at(&["requestMappings"]);
    if mappings.is_empty() {
        errors.required(&list, "at least one request mapping is required");
    }
    let mut seen = BTreeSet::new();
    for (i, mapping) in mappings.iter().enumerate() {
        let item = list.index(i);
        let fields = ["containerName", "resourceName", "requestName"];
        let key = fields.map(|field| mapping.str_at(&[field]));
        let [container, resource, request] = key;
        match containers.get(container) {
            None => {
                let detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&item.child("containerName"), container, detail);
            }
            Some(c) if c.at(&["resources", "requests", resource]).is_none() => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&item.child("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        validate_dns_label(errors, &path.child("requestName"), request);
        if !seen.insert(key) {
            for (field, value) in fields.into_iter().zip(key) {
                errors.duplicate(&item.child(field), value);
            }
        }
    }
    let name = status.str_at(&["resourceClaimName"]);
    if name.is_empty() {
        errors.required(&path.child("resourceClaimName"), "");
    } else {
        validate_object_name(errors, &path.child("resourceClaimName"), name);
    }
}

/// Validates the statuses of claims whose devices are resources of the node. Since they have mappings, declarative
/// validation requires their names and the names and quantities in them.
fn validate_allocatable_claim_statuses(has_mappings: bool, errors: &mut Errors, pod: &Value, list: &FieldPath<'_>) {
    let claims = LazyCell::new(|| -> BTreeSet<&str> {
        let lists: [&[&str]; 2] = [&["spec", "resourceClaims"], &["status", "resourceClaimStatuses"]];
        let claims = lists.into_iter().flat_map(|list| pod.items_at(list));
        claims.filter_map(|claim| str_field(claim, "resourceClaimName")).collect()
    });
    for (i, status) in pod.items_at(&["status", "nodeAllocatableResourceClaimStatuses"]).iter().enumerate() {
        let path = list.index(i);
        let name = status.str_at(&["resourceClaimName"]);
        let is_for_tags = name.is_empty() && has_mappings;
        if name.is_empty() && !has_mappings {
            errors.required(&path.child("resourceClaimName"), "must not be empty");
        }
        if !is_for_tags && !claims.contains(name) {
            errors.invalid(&path.child("resourceClaimName"), name, "no mapping found in pod reference");
        }
        if has_mappings {
            validate_mappings(errors, status, &path);
        } else {
            if status.items_at(&["containers"]).is_empty() {
                errors.required(&path.child("containers"), "must not be empty");
            }
            validate_allocatable_resources(errors, status, &path.child("resources"));
        }
    }
}

/// Validates the resources of a claim before 1.37.
fn validate_allocatable_resources(errors: &mut Errors, status: &Value, path: &FieldPath<'_>) {
    if status.get("resources").is_none_or(Value::is_empty) {
        errors.required(path, "must not be empty");
    }
    for (name, amount) in status.entries_at(&["resources"]) {
        let path = path.key(name);
        if !is_native(name) {
            errors.invalid(&path, name, "must be a node allocatable resource name");
        }
        reject_negative_quantity(errors, &path, Some(amount));
    }
}

/// Validates the mappings and the overhead of a claim.
fn validate_mappings(errors: &mut Errors, status: &Value, path: &FieldPath<'_>) {
    for field in ["mapping", "overhead"] {
        let list = path.child(field);
        for (i, entry) in status.items_at(&[field]).iter().enumerate() {
            let path = list.index(i);
            let name = entry.str_at(&["name"]);
            if !name.is_empty() && !is_native(name) {
                errors.invalid(&path.child("name"), name, "must be a node allocatable resource name");
            }
            if field == "mapping" {
                reject_negative_quantity(errors, &path.child("quantity"), entry.get("quantity"));
                continue;
            }
            let amounts = ["perPod", "perContainer"];
            if amounts.iter().all(|amount| entry.get(amount).is_none()) {
                let error =
                    FieldError::invalid(&path, Value::Null, "at least one of perPod or perContainer must be set");
                errors.push(error.showing(go_json::internal(Some(entry), &OVERHEAD)));
            }
            for amount in amounts {
                reject_negative_quantity(errors, &path.child(amount), entry.get(amount));
            }
        }
    }
}

fn reject_negative_quantity(errors: &mut Errors, path: &FieldPath<'_>, amount: Option<&Value>) {
    if let Some(amount) = amount.map(quantity).filter(|amount| amount.sign() < 0) {
        errors.invalid(path, amount.to_string(), "must be non-negative");
    }
}

/// Validates IP addresses: new ones must be valid, and at most one of each family is allowed.
fn validate_ips<'v>(rules: AddressRules, errors: &mut Errors, status: &'v Value, old: &'v Value, path: &FieldPath<'_>) {
    for field in ["podIPs", "hostIPs"] {
        let addresses = |status: &'v Value| status.items_at(&[field]).iter().map(|entry| entry.str_at(&["ip"]));
        let (new, old): (Vec<&str>, Vec<&str>) = (addresses(status).collect(), addresses(old).collect());
        let list = path.child(field);
        let host = status.str_at(&["hostIP"]);
        if let Some(first) = new.first().copied().filter(|first| field == "hostIPs" && *first != host) {
            let path = list.index(0);
            errors.invalid(&path.child("ip"), first, "must be equal to `hostIP`");
        }
        let known: LazyCell<BTreeSet<&str>, _> = LazyCell::new(|| old.iter().copied().collect());
        for (i, address) in new.iter().enumerate() {
            // Most often the addresses stay the same, in their order.
            if old.get(i) != Some(address) && !known.contains(address) {
                rules.validate_ip(errors, &list.index(i), address, &BTreeSet::new());
            }
        }
        if new.len() > 1 {
            let parsed: Vec<Option<IpAddr>> = new.iter().map(|address| parse_sloppy(address)).collect();
            if let Some(i) = parsed.iter().position(Option::is_none) {
                let detail = format!("failed to check for dual stack with error:invalid IP[{i}]: {}", new[i]);
                errors.push(FieldError::internal(&list, detail));
            }
            let has = |six: bool| parsed.iter().flatten().any(|ip| ip.is_ipv6() == six);
            let dual = parsed.iter().all(Option::is_some) && has(true) && has(false);
            if !dual || new.len() > 2 {
                let detail = "may specify no more than one IP for each IP family";
                errors.push(go_json::invalid(&list, &status[field], &ADDRESSES, detail));
            }
        }
    }
}

/// The text about a user or group in a status that is out of range.
fn user_in_status(gates: &Gates, id: i64) -> Vec<String> {
    if gates.has(Change::USERS_IN_STATUS_HAVE_32_BITS) {
        names::in_range(id, 0, i64::from(u32::MAX))
    } else {
        names::user_id(id)
    }
}

fn validate_users(gates: &Gates, errors: &mut Errors, pod: &Value, list: &str, path: &FieldPath<'_>) {
    for (i, container) in pod.items_at(&["status", list]).iter().enumerate() {
        let Some(user) = container.at(&["user", "linux"]) else { continue };
        let windows = match pod.at(&["spec", "os"]).map(|os| os.str_at(&["name"])) {
            None | Some("linux") => false,
            Some("windows") => true,
            Some(_) => return,
        };
        let path = path.index(i);
        let path = path.child("user");
        let path = path.child("linux");
        if windows {
            errors.forbidden(&path, "cannot be set for a windows pod");
            continue;
        }
        let uid = user.int_at(&["uid"]).unwrap_or(0);
        invalid_each(errors, &path.child("uid"), uid, user_in_status(gates, uid));
        let gid = user.int_at(&["gid"]).unwrap_or(0);
        invalid_each(errors, &path.child("gid"), gid, user_in_status(gates, gid));
        let groups = path.child("supplementalGroups");
        for (i, group) in user.items_at(&["supplementalGroups"]).iter().enumerate() {
            let group = group.as_int().unwrap_or(0);
            invalid_each(errors, &groups.index(i), group, user_in_status(gates, group));
        }
    }
}

/// The claims of a container, each as `name` or `name/request`.
fn claim_names(container: &Value) -> BTreeSet<String> {
    let name = |claim: &Value| match (claim.str_at(&["name"]), claim.str_at(&["request"])) {
        (name, "") => name.to_owned(),
        (name, request) => format!("{name}/{request}"),
    };
    container.items_at(&["resources", "claims"]).iter().map(name).collect()
}

/// Validates the allocated resources of containers and the health of their devices.
fn validate_allocated(errors: &mut Errors, pod: &Value, list: &str, containers: &str, path: &FieldPath<'_>) {
    let containers = LazyCell::new(|| containers_by_name(pod.items_at(&["spec", containers])));
    for (i, status) in pod.items_at(&["status", list]).iter().enumerate() {
        let all_allocated = status.items_at(&["allocatedResourcesStatus"]);
        if all_allocated.is_empty() {
            continue;
        }
        let path = path.index(i);
        let path = path.child("allocatedResourcesStatus");
        let container = containers.get(status.str_at(&["name"]));
        let claims = LazyCell::new(|| container.map(|container| claim_names(container)).unwrap_or_default());
        for (j, allocated) in all_allocated.iter().enumerate() {
            let path = path.index(j);
            let name = allocated.str_at(&["name"]);
            if let Some(container) = container {
                let (found, detail) = if let Some(wanted) = name.strip_prefix("claim:") {
                    let found = claims.contains(wanted);
                    let detail = "must match one of the container's resource claims in a format \
                                  'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
                    (found, detail)
                } else {
                    let found = container.at(&["resources", "requests", name]).is_some();
                    (found, "must match one of the container's resource requests")
                };
                if !found {
                    errors.invalid(&path.child("name"), name, detail);
                }
            }
            validate_health(errors, allocated.items_at(&["resources"]), &path.child("resources"));
        }
    }
}

fn validate_health(errors: &mut Errors, resources: &[Value], list: &FieldPath<'_>) {
    let mut seen = BTreeSet::new();
    for (i, resource) in resources.iter().enumerate() {
        let path = list.index(i);
        let health = Some(resource.str_at(&["health"]));
        validate_one_of(errors, &path.child("health"), health, &["Healthy", "Unhealthy", "Unknown"]);
        match str_field(resource, "message") {
            Some("") => errors.required(&path.child("message"), "must be non-empty if specified"),
            Some(message) if message.len() > MAX_HEALTH_MESSAGE => {
                errors.push(FieldError::too_long(&path.child("message"), MAX_HEALTH_MESSAGE));
            }
            _ => {}
        }
        let id = resource.str_at(&["resourceID"]);
        if !seen.insert(id) {
            errors.duplicate(&path.child("resourceID"), id);
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::EncodedObject;

    use super::*;
    use crate::testing::{context, context_of, messages, object};

    fn check(new: &str, old: &str, expect: &[&str]) {
        let errors = PodStatusStrategy.validate_update(&context(), &object(new), &object(old));
        assert_eq!(messages(&errors), expect, "{new}");
    }

    #[test]
    fn terminated_containers_stay_terminated() {
        let ended = |code: i64| {
            format!(r#""containerStatuses":[{{"name":"c","state":{{"terminated":{{"exitCode":{code}}}}}}}]"#)
        };
        let running = r#""containerStatuses":[{"name":"c","state":{"running":{}}}]"#;
        let pod = |spec: &str, status: &str| {
            format!(
                r#"{{"spec":{{"containers":[{{"name":"c"{spec}}}],"restartPolicy":"OnFailure"}},"status":{{{status}}}}}"#
            )
        };
        check(&pod("", running), &pod("", &ended(1)), &[]);
        let refused = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
        check(&pod("", running), &pod("", &ended(0)), &[refused]);
        let rules = r#","restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[0]}}]"#;
        check(&pod(rules, running), &pod(rules, &ended(0)), &[]);
        check(&pod(rules, running), &pod(rules, &ended(1)), &[refused]);
    }

    #[test]
    fn status_is_validated() {
        check(
            r#"{"spec":{},"status":{"qosClass":"BestEffort","podIPs":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],
                "hostIP":"1.2.3.4","hostIPs":[{"ip":"1.2.3.5"}],"conditions":[{"type":"Ready"},{"type":"a b"}],
                "resourceClaimStatuses":[{"name":"x"}],"nominatedNodeName":"n"}}"#,
            r#"{"spec":{"nodeName":"m"},"status":{"qosClass":"Burstable"}}"#,
            &[
                "status.conditions[1].Type: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', \
                 '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node",
                "status.qosClass: Invalid value: \"BestEffort\": field is immutable",
                "status.resourceClaimStatuses[0].name: Invalid value: \"x\": must match the name of an entry in \
                 `spec.resourceClaims`",
                "status.podIPs: Invalid value: [{\"IP\":\"10.0.0.1\"},{\"IP\":\"10.0.0.2\"}]: may specify no more than one \
                 IP for each IP family",
                "status.hostIPs[0].ip: Invalid value: \"1.2.3.5\": must be equal to `hostIP`",
            ],
        );
    }

    #[test]
    fn most_updates_do_not_look_into_the_spec() {
        let mut old = object(
            r#"{"metadata":{"annotations":{"a":"b"}},"status":{"qosClass":"Burstable","hostIP":"1.2.3.4",
                "hostIPs":[{"ip":"1.2.3.4"}],"podIPs":[{"ip":"10.0.0.1"}],"conditions":[{"type":"Ready","status":"True"}],
                "containerStatuses":[{"name":"c","state":{"running":{}}}]}}"#,
        );
        // A use of the members would find that they cannot be decoded.
        old.set("spec", Value::Object(EncodedObject::new("unused").into()));
        let mut new = old.clone();
        new.set_at(&["status", "conditions"], vec![object(r#"{"type":"Ready","status":"False"}"#)]);
        let ended = object(r#"{"name":"c","state":{"terminated":{"exitCode":1}}}"#);
        new.set_at(&["status", "containerStatuses"], vec![ended]);
        PodStatusStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(messages(&PodStatusStrategy.validate_update(&context(), &new, &old)), [""; 0]);
        assert_eq!(PodStatusStrategy.warnings(&context(), &new, &old), [""; 0]);
        assert!(new["spec"].shares_members(&old["spec"]));
    }

    #[test]
    fn omitted_observed_generations_are_restored() {
        let mut new = object(
            r#"{"metadata":{},"spec":{"a":1},"status":{"conditions":[{"type":"A"},{"type":"A","observedGeneration":9}]}}"#,
        );
        let old = object(
            r#"{"metadata":{"deletionTimestamp":"t"},"spec":{},"status":{"qosClass":"BestEffort","observedGeneration":3,
                "conditions":[{"type":"A","observedGeneration":1},{"type":"A","observedGeneration":2}]}}"#,
        );
        PodStatusStrategy.prepare_for_update(&context(), &mut new, &old);
        let expect = object(
            r#"{"metadata":{"deletionTimestamp":"t"},"spec":{},"status":{"qosClass":"BestEffort","observedGeneration":3,
                "conditions":[{"type":"A","observedGeneration":1},{"type":"A","observedGeneration":9}]}}"#,
        );
        assert_eq!(new, expect);
    }

    #[test]
    fn addresses_in_other_forms_are_warned_about() {
        let pod = object(
            r#"{"status":{"podIPs":[{"ip":"10.0.0.1"},{"ip":"2001:DB8::1"}],"hostIPs":[{"ip":"010.0.0.2"},{"ip":"x"}]}}"#,
        );
        let warnings = PodStatusStrategy.warnings(&context(), &pod, &pod);
        let expect = [
            "status.podIPs[1].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
            "status.hostIPs[0].ip: non-standard IP address \"010.0.0.2\" is invalid: use \"10.0.0.2\"",
        ];
        assert_eq!(warnings, expect);
    }

    /// Checks an update of a status without changes in a version.
    fn check_in(minor: u8, pod: &str, expect: &[&str]) {
        let pod = object(pod);
        let errors = PodStatusStrategy.validate_update(&context_of(minor, &[]), &pod, &pod);
        assert_eq!(messages(&errors), expect, "{pod:?}");
    }

    #[test]
    fn omitted_claim_statuses_are_restored() {
        let old = object(
            r#"{"metadata":{},"spec":{},"status":{"resourceClaimStatuses":[{"name":"a"}],
                "extendedResourceClaimStatus":{"resourceClaimName":"c"},
                "nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"a"}]}}"#,
        );
        let write = |minor: u8, status: &str| {
            let mut new = object(&format!(r#"{{"metadata":{{}},"spec":{{}},"status":{status}}}"#));
            PodStatusStrategy.prepare_for_update(&context_of(minor, &[]), &mut new, &old);
            new["status"].clone()
        };
        assert_eq!(write(36, "{}"), object("{}"));
        assert_eq!(write(37, r#"{"resourceClaimStatuses":[]}"#), old["status"]);
        let changed = r#"{"resourceClaimStatuses":[{"name":"b"}],"extendedResourceClaimStatus":{"resourceClaimName":"d"},
            "nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"b"}]}"#;
        assert_eq!(write(37, changed), object(changed));
    }

    #[test]
    fn users_of_containers_have_32_bits() {
        let pod = r#"{"spec":{},"status":{"containerStatuses":[{"name":"c","user":{"linux":{"uid":4294967295,"gid":2147483648,
            "supplementalGroups":[4294967296]}}}]}}"#;
        let path = "status.containerStatuses[0].user.linux";
        let error = |field: &str, value: i64, max: i64| {
            format!("{path}.{field}: Invalid value: {value}: must be between 0 and {max}, inclusive")
        };
        let (signed, unsigned) = (i64::from(i32::MAX), i64::from(u32::MAX));
        let narrow = [
            error("uid", unsigned, signed),
            error("gid", signed + 1, signed),
            error("supplementalGroups[0]", unsigned + 1, signed),
        ];
        check_in(36, pod, &narrow.each_ref().map(String::as_str));
        check_in(37, pod, &[&error("supplementalGroups[0]", unsigned + 1, unsigned)]);
    }

    #[test]
    fn claims_of_node_resources_have_another_form_since_1_37() {
        let with = |status: &str| {
            format!(
                r#"{{"spec":{{"resourceClaims":[{{"name":"a","resourceClaimName":"c"}}]}},
                "status":{{"nodeAllocatableResourceClaimStatuses":[{status}]}}}}"#
            )
        };
        let list = "status.nodeAllocatableResourceClaimStatuses[0]";
        let old = with(r#"{"resourceClaimName":"c","containers":["x"],"resources":{"cpu":"-1"}}"#);
        check_in(36, &old, &[&format!("{list}.resources[cpu]: Invalid value: \"-1\": must be non-negative")]);
        check_in(
            36,
            &with(r#"{"resourceClaimName":"c"}"#),
            &[
                &format!("{list}.containers: Required value: must not be empty"),
                &format!("{list}.resources: Required value: must not be empty"),
            ],
        );
        let new = r#"{"resourceClaimName":"c","mapping":[{"name":"cpu","quantity":"1"}],
            "overhead":[{"name":"memory","perPod":"1Mi"},{"name":"cpu","perContainer":"1m"}]}"#;
        check_in(37, &with(new), &[]);
        check_in(
            37,
            &with(
                r#"{"resourceClaimName":"other","mapping":[{"name":"example.com/gpu","quantity":"-1"}],
                "overhead":[{"name":"memory"},{"name":"cpu","perPod":"-1"}]}"#,
            ),
            &[
                &format!("{list}.resourceClaimName: Invalid value: \"other\": no mapping found in pod reference"),
                &format!(
                    "{list}.mapping[0].name: Invalid value: \"example.com/gpu\": must be a node allocatable resource name"
                ),
                &format!("{list}.mapping[0].quantity: Invalid value: \"-1\": must be non-negative"),
                &format!(
                    "{list}.overhead[0]: Invalid value: {{\"Name\":\"memory\",\"PerPod\":null,\"PerContainer\":null}}: at \
                     least one of perPod or perContainer must be set"
                ),
                &format!("{list}.overhead[1].perPod: Invalid value: \"-1\": must be non-negative"),
            ],
        );
    }
}
