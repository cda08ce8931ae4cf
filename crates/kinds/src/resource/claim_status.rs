//! The status of claims: allocations, reservations, and the status of devices (upstream:
//! `validateResourceClaimStatusUpdate`).

use std::collections::BTreeSet;

use pintle_gates::Feature;
use pintle_registry::{ClusterValidation, StrategyContext, SubresourceStrategy};
use pintle_value::ip::valid_interface_address;
use pintle_value::metadata::MissingFields;
use pintle_value::print::{json, quote};
use pintle_value::{Errors, FieldError, FieldPath, Value, metadata, object};

use super::access::ClaimStatusAccess;
use super::claim_spec::{
    MAX_CONFIGS, MAX_REQUESTS, RequestNames, uses_consumable_capacity, validate_configuration, validate_raw,
    validate_tolerations,
};
use super::collections::{validate_list, validate_set};
use super::go_types::ALLOCATION;
use super::identifiers::validate_share_id;
use super::node_operations::validate_skipped_operations;
use super::slice_validation::validate_binding_conditions;
use crate::core::pod::scheduling::validate_node_selector;
use crate::declarative::Rules;
use crate::gated::Part;
use crate::generic::{SPEC_AND_METADATA, keep_old, same};
use crate::go_json::{self, ordered};
use crate::validation::{require_one_of, str_field};

static NETWORK: Rules = Rules::own("resource/v1", "NetworkDeviceData");
static DEVICE: Rules = Rules::own("resource/v1", "AllocatedDevice");

const MAX_CONSUMERS: usize = 256;
const MAX_CONDITIONS: usize = 8;
/// The maximum length of the data of a device, in bytes.
const MAX_DATA: usize = 10 * 1024;
const MAX_ADDRESSES: usize = 16;

const CONFIG_SOURCES: [&str; 2] = ["FromClaim", "FromClass"];

/// The strategy for the status of ResourceClaim.
pub(super) struct ClaimStatusStrategy;

impl SubresourceStrategy for ClaimStatusStrategy {
    fn prepare_for_update(&self, context: &StrategyContext, object: &mut Value, old: &Value) {
        for path in SPEC_AND_METADATA {
            keep_old(object, old, path);
        }
        drop_disabled(context, object, old);
        // Nothing is left of disabled fields here.
        drop_deallocated_devices(object, old);
    }

    fn validate_update(&self, context: &StrategyContext, object: &Value, old: &Value) -> Errors {
        validate_status(object, old, context.missing_fields())
    }

    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        Some(&ClaimStatusAccess)
    }
}

/// The results of the allocation of a claim.
pub(super) fn allocation_results(claim: &Value) -> &[Value] {
    claim.items_at(&["status", "allocation", "devices", "results"])
}

/// The status of the devices of a claim.
pub(super) fn device_statuses(claim: &Value) -> &[Value] {
    claim.items_at(&["status", "devices"])
}

fn results_mut(claim: &mut Value) -> impl Iterator<Item = &mut Value> {
    let results = claim.at_mut(&["status", "allocation", "devices", "results"]).and_then(Value::as_array_mut);
    results.into_iter().flatten()
}

/// Drops the fields of disabled features from a status, unless the old claim uses them. The gate of admin access is
/// locked.
fn drop_disabled(context: &StrategyContext, claim: &mut Value, old: &Value) {
    let is_dropped = |feature, in_use: fn(&Value) -> bool| !context.gates.is_enabled(feature) && !in_use(old);
    if is_dropped(Feature::DRA_RESOURCE_CLAIM_DEVICE_STATUS, |old| !device_statuses(old).is_empty()) {
        claim.remove_at(&["status", "devices"]);
    }
    let shares_capacity = |old: &Value| {
        let is_share = |result: &Value| result.get("shareID").is_some() || result.get("consumedCapacity").is_some();
        uses_consumable_capacity(&old["spec"])
            || allocation_results(old).iter().any(is_share)
            || device_statuses(old).iter().any(|device| device.get("shareID").is_some())
    };
    if is_dropped(Feature::DRA_CONSUMABLE_CAPACITY, shares_capacity) {
        for result in results_mut(claim) {
            result.remove("shareID");
            result.remove("consumedCapacity");
        }
        let devices = claim.at_mut(&["status", "devices"]).and_then(Value::as_array_mut);
        for device in devices.into_iter().flatten() {
            device.remove("shareID");
        }
    }
    crate::gated::drop_disabled(&context.gates, Part::ClaimStatus, claim, Some(old));
}

/// The identity of a device, or of a share of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceId<'v>([&'v str; 4]);

impl<'v> DeviceId<'v> {
    /// The identity of the device in an allocation result or in the status of a device.
    pub(super) fn of(device: &'v Value) -> Self {
        Self(["driver", "pool", "device", "shareID"].map(|field| device.str_at(&[field])))
    }

    /// The driver of the device.
    pub(super) fn driver(&self) -> &'v str {
        self.0[0]
    }

    /// The identity as errors print it.
    fn print(&self) -> String {
        let [driver, pool, device, share] = self.0;
        let id = object! { "Driver": driver, "Pool": pool, "Device": device, "ShareID": share };
        ordered(&id, &["Driver", "Pool", "Device", "ShareID"])
    }
}

/// Drops the status of devices that are not allocated any more. Clients that do not know this status need not drop it.
fn drop_deallocated_devices(claim: &mut Value, old: &Value) {
    let allocated: BTreeSet<_> = allocation_results(claim).iter().map(DeviceId::of).collect();
    let is_deallocated = |id: &DeviceId<'_>| !allocated.contains(id);
    let deallocated: BTreeSet<_> = allocation_results(old).iter().map(DeviceId::of).filter(is_deallocated).collect();
    let kept: Vec<Value> =
        device_statuses(claim).iter().filter(|device| !deallocated.contains(&DeviceId::of(device))).cloned().collect();
    if kept.is_empty() {
        claim.remove_at(&["status", "devices"]);
    } else if kept.len() < device_statuses(claim).len() {
        claim.set_at(&["status", "devices"], kept);
    }
}

fn validate_status(claim: &Value, old: &Value, missing: MissingFields) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("status");
    let status = &claim["status"];
    let consumers = status.items_at(&["reservedFor"]);
    let consumers_path = path.child("reservedFor");
    validate_set(&mut errors, consumers, MAX_CONSUMERS, &consumers_path, validate_consumer, |consumer| {
        json(&Value::from(consumer.str_at(&["uid"])))
    });
    let allocated: BTreeSet<_> = allocation_results(claim).iter().map(DeviceId::of).collect();
    validate_set(
        &mut errors,
        status.items_at(&["devices"]),
        usize::MAX,
        &path.child("devices"),
        |errors, device, path| validate_device_status(errors, device, &allocated, missing, path),
        |device| DeviceId::of(device).print(),
    );
    let allocation = status.get("allocation");
    if !consumers.is_empty() {
        let old_consumers = old.items_at(&["status", "reservedFor"]);
        if allocation.is_none() {
            errors.forbidden(&consumers_path, "may not be specified when `allocated` is not set");
        } else if claim.is_terminating() && !consumers.iter().all(|consumer| old_consumers.contains(consumer)) {
            let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(&consumers_path, detail);
        }
    }
    let Some(allocation) = allocation else { return errors };
    let path = path.child("allocation");
    match old.at(&["status", "allocation"]) {
        // A stored allocation is not validated again.
        Some(old) if same(Some(allocation), Some(old)) => {}
        Some(_) => errors.push(go_json::invalid(&path, allocation, &ALLOCATION, metadata::IMMUTABLE_TEXT)),
        None => validate_allocation(&mut errors, allocation, &RequestNames::of(&claim["spec"]), &path),
    }
    errors
}

fn validate_consumer(errors: &mut Errors, consumer: &Value, path: &FieldPath<'_>) {
    crate::validation::require_fields(errors, consumer, &["resource", "name", "uid"], path);
}

fn validate_allocation(errors: &mut Errors, allocation: &Value, names: &RequestNames<'_>, path: &FieldPath<'_>) {
    let devices = path.child("devices");
    validate_list(
        errors,
        allocation.items_at(&["devices", "results"]),
        MAX_REQUESTS,
        &devices.child("results"),
        |errors, result, path| validate_result(errors, result, names, path),
    );
    validate_list(
        errors,
        allocation.items_at(&["devices", "config"]),
        2 * MAX_CONFIGS,
        &devices.child("config"),
        |errors, config, path| {
            require_one_of(errors, &path.child("source"), config.str_at(&["source"]), &CONFIG_SOURCES);
            names.validate_references(errors, config, path);
            validate_configuration(errors, config, false, path);
        },
    );
    if let Some(selector) = allocation.get("nodeSelector") {
        validate_node_selector(errors, selector, false, &path.child("nodeSelector"));
    }
}

fn validate_result(errors: &mut Errors, result: &Value, names: &RequestNames<'_>, path: &FieldPath<'_>) {
    names.validate_reference(errors, result.str_at(&["request"]), &path.child("request"));
    DEVICE.validate_part(errors, result, path);
    validate_binding_conditions(errors, result, path);
    validate_tolerations(errors, result.items_at(&["tolerations"]), &path.child("tolerations"));
    validate_share(errors, result, path);
    validate_skipped_operations(errors, result, path);
}

fn validate_share(errors: &mut Errors, device: &Value, path: &FieldPath<'_>) {
    if let Some(share) = str_field(device, "shareID") {
        validate_share_id(errors, share, &path.child("shareID"));
    }
}

fn validate_device_status(
    errors: &mut Errors,
    device: &Value,
    allocated: &BTreeSet<DeviceId<'_>>,
    missing: MissingFields,
    path: &FieldPath<'_>,
) {
    DEVICE.validate_part(errors, device, path);
    validate_share(errors, device, path);
    let id = DeviceId::of(device);
    if !allocated.contains(&id) {
        let error = FieldError::invalid(path, Value::Null, "must be an allocated device in the claim");
        errors.push(error.showing(id.print()));
    }
    let conditions_path = path.child("conditions");
    let conditions = device.items_at(&["conditions"]).len();
    if conditions > MAX_CONDITIONS {
        errors.push(FieldError::too_many(&conditions_path, conditions, MAX_CONDITIONS));
    }
    errors.append(metadata::validate_conditions(&device["conditions"], missing, &conditions_path));
    if let Some(data) = device.get("data").filter(|data| !data.is_null()) {
        validate_raw(errors, Some(data), MAX_DATA, &path.child("data"));
    }
    if let Some(network) = device.get("networkData") {
        validate_network_data(errors, network, &path.child("networkData"));
    }
}

fn validate_network_data(errors: &mut Errors, network: &Value, path: &FieldPath<'_>) {
    NETWORK.validate_part(errors, network, path);
    validate_set(
        errors,
        network.items_at(&["ips"]),
        MAX_ADDRESSES,
        &path.child("ips"),
        |errors, address, path| errors.append(valid_interface_address(path, address.as_str().unwrap_or_default())),
        |address| quote(address.as_str().unwrap_or_default()),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, gated_context, messages, object};

    const SHARE: &str = "00000000-0000-0000-0000-00000000000a";

    /// A claim with requests `a` and `b`, whose alternative is `x`, and this status.
    fn claim(status: &str) -> Value {
        object(&format!(
            r#"{{"spec":{{"devices":{{"requests":[{{"name":"a","exactly":{{}}}},{{"name":"b","firstAvailable":[{{"name":"x"}}]}}]}}}},
                "status":{status}}}"#
        ))
    }

    #[track_caller]
    fn check(status: &str, old: &str, expect: &[&str]) {
        assert_eq!(messages(&ClaimStatusStrategy.validate_update(&context(), &claim(status), &claim(old))), expect);
    }

    fn list(count: usize, item: impl Fn(usize) -> String) -> String {
        format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
    }

    fn result(device: &str) -> String {
        format!(r#"{{"request":"a","driver":"d.example.com","pool":"p","device":"{device}"}}"#)
    }

    fn allocated(status: &str) -> String {
        format!(r#"{{"allocation":{{"devices":{{"results":[{}]}}}}{status}}}"#, result("one"))
    }

    #[test]
    fn reservations() {
        let consumer = |i: usize| format!(r#"{{"resource":"pods","name":"p","uid":"{i}"}}"#);
        let reserved = |n: usize| allocated(&format!(r#","reservedFor":{}"#, list(n, consumer)));
        check(&reserved(256), "{}", &[]);
        check(&reserved(257), "{}", &["status.reservedFor: Too many: 257: must have at most 256 items"]);
        check(
            r#"{"reservedFor":[{"uid":"a<b"},{"resource":"pods","name":"q","uid":"a<b"},{"resource":"pods","name":"q"}]}"#,
            "{}",
            &[
                "status.reservedFor[0].resource: Required value",
                "status.reservedFor[0].name: Required value",
                "status.reservedFor[2].uid: Required value",
                "status.reservedFor[1]: Duplicate value: \"a\\u003cb\"",
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ],
        );
    }

    #[test]
    fn a_terminating_claim_gets_no_new_reservations() {
        let consumer = |uid: &str, name: &str| format!(r#"{{"resource":"pods","name":"{name}","uid":"{uid}"}}"#);
        let reserved = |consumers: &[String]| {
            let mut found = claim(&allocated(&format!(r#","reservedFor":[{}]"#, consumers.join(","))));
            found.set_at(&["metadata", "deletionTimestamp"], "2020-01-01T00:00:00Z");
            found
        };
        let (one, two) = (consumer("1", "p"), consumer("2", "p"));
        let old = reserved(&[one.clone(), two.clone()]);
        let forbidden = "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or \
                         `deletionTimestamp` are set";
        for (consumers, expect) in [
            (vec![two.clone(), one.clone()], &[][..]),
            (vec![one.clone()], &[]),
            (vec![], &[]),
            (vec![one, consumer("3", "p")], &[forbidden]),
            (vec![consumer("1", "other")], &[forbidden]),
        ] {
            let errors = ClaimStatusStrategy.validate_update(&context(), &reserved(&consumers), &old);
            assert_eq!(messages(&errors), expect);
        }
    }

    #[test]
    fn allocations() {
        check(
            &format!(
                r#"{{"allocation":{{"devices":{{"results":[
                    {{"request":"b/x","driver":"d.example.com","pool":"p/q","device":"one","shareID":"{SHARE}","adminAccess":true,
                      "bindingConditions":["Ready"],"bindingFailureConditions":["Failed"],"tolerations":[{{"operator":"Exists"}}]}}],
                    "config":[{{"source":"FromClass","requests":["a","b"],"opaque":{{"driver":"d","parameters":{{}}}}}}]}},
                    "nodeSelector":{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["n"]}}]}}]}}}}}}"#
            ),
            "{}",
            &[],
        );
        check(
            r#"{"allocation":{"devices":{"results":[
                {"request":"n","driver":"","pool":"","device":"?","shareID":"x","bindingConditions":["a"],"tolerations":[{}]}],
                "config":[{"requests":["n"]},{"source":"Here","opaque":{"driver":"d"}}]},"nodeSelector":{}}}"#,
            "{}",
            &[
                "status.allocation.devices.results[0].request: Invalid value: \"n\": must be the name of a request in the claim \
                 or the name of a request and a subrequest separated by '/'",
                "status.allocation.devices.results[0].driver: Required value",
                "status.allocation.devices.results[0].pool: Required value",
                "status.allocation.devices.results[0].device: Invalid value: \"?\": a lowercase RFC 1123 label must consist of \
                 lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. \
                 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "status.allocation.devices.results[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions \
                 are required to use bindingConditions",
                "status.allocation.devices.results[0].tolerations[0].operator: Required value",
                "status.allocation.devices.results[0].shareID: Invalid value: \"x\": error validating uid: invalid UUID length: 1",
                "status.allocation.devices.config[0].source: Required value",
                "status.allocation.devices.config[0].requests[0]: Invalid value: \"n\": must be the name of a request in the \
                 claim or the name of a request and a subrequest separated by '/'",
                "status.allocation.devices.config[0].opaque: Required value",
                "status.allocation.devices.config[1].source: Unsupported value: \"Here\": supported values: \"FromClaim\", \
                 \"FromClass\"",
                "status.allocation.devices.config[1].opaque.parameters: Required value",
                "status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
            ],
        );
        let results = list(33, |i| result(&format!("d{i}")));
        let configs = list(65, |_| "{}".to_owned());
        check(
            &format!(r#"{{"allocation":{{"devices":{{"results":{results},"config":{configs}}}}}}}"#),
            "{}",
            &[
                "status.allocation.devices.results: Too many: 33: must have at most 32 items",
                "status.allocation.devices.config: Too many: 65: must have at most 64 items",
            ],
        );
    }

    #[test]
    fn allocations_are_immutable_while_they_are_there() {
        check("{}", &allocated(""), &[]);
        check(&allocated(""), &allocated(""), &[]);
        let invalid = r#"{"allocation":{"devices":{"results":[{"request":"n"}]}}}"#;
        check(invalid, invalid, &[]);
        check(
            invalid,
            &allocated(""),
            &[
                "status.allocation: Invalid value: {\"Devices\":{\"Results\":[{\"Request\":\"n\",\"Driver\":\"\",\"Pool\":\"\",\
               \"Device\":\"\",\"AdminAccess\":null,\"Tolerations\":null,\"BindingConditions\":null,\
               \"BindingFailureConditions\":null,\"ShareID\":null,\"ConsumedCapacity\":null}],\"Config\":null},\
               \"NodeSelector\":null,\"AllocationTimestamp\":null}: field is immutable",
            ],
        );
    }

    #[test]
    fn device_statuses_are_of_allocated_devices() {
        let device =
            |name: &str, fields: &str| format!(r#"{{"driver":"d.example.com","pool":"p","device":"{name}"{fields}}}"#);
        let with = |devices: &[String]| allocated(&format!(r#","devices":[{}]"#, devices.join(",")));
        let condition = |i: usize| {
            format!(
                r#"{{"type":"T{i}","status":"True","reason":"R","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}}"#
            )
        };
        check(
            &with(&[device(
                "one",
                &format!(
                    r#","conditions":{},"data":{{"a":1}},"networkData":{{"interfaceName":"eth0","ips":["10.0.0.1/8","2001:db8::1/64"],
                        "hardwareAddress":"ea:9f:cb:40:b8:3b"}}"#,
                    list(8, condition)
                ),
            )]),
            "{}",
            &[],
        );
        let shared = format!(r#","shareID":"{SHARE}""#);
        check(
            &with(&[device("one", &shared), device("one", r#","shareID":"x""#), device("one", ""), device("one", "")]),
            "{}",
            &[
                &format!(
                    "status.devices[0]: Invalid value: {{\"Driver\":\"d.example.com\",\"Pool\":\"p\",\"Device\":\"one\",\
                     \"ShareID\":\"{SHARE}\"}}: must be an allocated device in the claim"
                ),
                "status.devices[1].shareID: Invalid value: \"x\": error validating uid: invalid UUID length: 1",
                "status.devices[1]: Invalid value: {\"Driver\":\"d.example.com\",\"Pool\":\"p\",\"Device\":\"one\",\
                 \"ShareID\":\"x\"}: must be an allocated device in the claim",
                "status.devices[3]: Duplicate value: {\"Driver\":\"d.example.com\",\"Pool\":\"p\",\"Device\":\"one\",\
                 \"ShareID\":\"\"}",
            ],
        );
        let long = |n: usize| "x".repeat(n);
        let data = |length: usize| format!(r#"{{"a":"{}"}}"#, long(length - r#"{"a":""}"#.len()));
        check(
            &with(&[device(
                "one",
                &format!(
                    r#","conditions":{},"data":{},"networkData":{{"interfaceName":"{}","hardwareAddress":"{}",
                        "ips":["10.0.0.1","10.0.0.1/8","010.0.0.1/8","10.0.0.1/8"]}}"#,
                    list(9, condition),
                    data(10_241),
                    long(257),
                    long(129)
                ),
            )]),
            "{}",
            &[
                "status.devices[0].conditions: Too many: 9: must have at most 8 items",
                "status.devices[0].data: Too long: may not be more than 10240 bytes",
                "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
                "status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
                "status.devices[0].networkData.ips[0]: Invalid value: \"10.0.0.1\": must be a valid address in CIDR form, (e.g. \
                 10.9.8.7/24 or 2001:db8::1/64)",
                "status.devices[0].networkData.ips[2]: Invalid value: \"010.0.0.1/8\": must be in canonical form \
                 (\"10.0.0.1/8\")",
                "status.devices[0].networkData.ips[3]: Duplicate value: \"10.0.0.1/8\"",
            ],
        );
        let addresses = list(17, |i| format!("\"10.0.0.{i}/8\""));
        check(
            &with(&[device("one", &format!(r#","data":[],"conditions":[{{}}],"networkData":{{"ips":{addresses}}}"#))]),
            "{}",
            &[
                "status.devices[0].conditions[0].type: Invalid value: \"\": name part must be non-empty",
                "status.devices[0].conditions[0].type: Invalid value: \"\": name part must consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "status.devices[0].conditions[0].status: Unsupported value: \"\": supported values: \"False\", \"True\", \
                 \"Unknown\"",
                "status.devices[0].conditions[0].lastTransitionTime: Required value",
                "status.devices[0].conditions[0].reason: Required value",
                "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
                "status.devices[0].networkData.ips: Too many: 17: must have at most 16 items",
            ],
        );
    }

    /// Compares a status after the preparation of its update.
    #[track_caller]
    fn check_prepared(gates: &[(&str, bool)], status: &str, old: &str, expect: &str) {
        let mut new = claim(status);
        ClaimStatusStrategy.prepare_for_update(&gated_context(gates), &mut new, &claim(old));
        assert_eq!(new, claim(expect));
    }

    #[test]
    fn specs_and_metadata_are_kept() {
        let old = object(r#"{"metadata":{"labels":{"a":"1"}},"spec":{"devices":{}},"status":{}}"#);
        let mut new =
            object(r#"{"metadata":{"labels":{"a":"2"},"finalizers":["f"]},"spec":{},"status":{"allocation":{}}}"#);
        ClaimStatusStrategy.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(
            new,
            object(r#"{"metadata":{"labels":{"a":"1"}},"spec":{"devices":{}},"status":{"allocation":{}}}"#)
        );
    }

    #[test]
    fn the_status_of_deallocated_devices_is_dropped() {
        let of = |results: &[&str], devices: &[&str]| {
            let results: Vec<_> = results.iter().map(|name| result(name)).collect();
            let devices: Vec<_> = devices.iter().map(|name| result(name)).collect();
            let allocation = match results.is_empty() {
                true => String::new(),
                false => format!(r#""allocation":{{"devices":{{"results":[{}]}}}},"#, results.join(",")),
            };
            match devices.is_empty() {
                true => format!("{{{}}}", allocation.trim_end_matches(',')),
                false => format!(r#"{{{allocation}"devices":[{}]}}"#, devices.join(",")),
            }
        };
        let old = of(&["one", "two"], &["one", "two"]);
        check_prepared(&[], &of(&["one", "two"], &["one", "two"]), &old, &of(&["one", "two"], &["one", "two"]));
        check_prepared(&[], &of(&["two"], &["one", "two"]), &old, &of(&["two"], &["two"]));
        check_prepared(&[], &of(&[], &["one", "two"]), &old, "{}");
        // Devices that were not allocated are left to the validation.
        check_prepared(&[], &of(&[], &["one", "three"]), &old, &of(&[], &["three"]));
        // A share is another device.
        let share = |id: &str| format!(r#"{{"request":"a","driver":"d","pool":"p","device":"x","shareID":"{id}"}}"#);
        let status = |results: &str, devices: &str| {
            format!(r#"{{"allocation":{{"devices":{{"results":[{results}]}}}},"devices":[{devices}]}}"#)
        };
        let (one, two) = (share("1"), share("2"));
        check_prepared(
            &[],
            &status(&two, &format!("{one},{two}")),
            &status(&format!("{one},{two}"), &format!("{one},{two}")),
            &status(&two, &two),
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_they_are_in_use() {
        let device_status = [
            ("DRAResourceClaimDeviceStatus", false),
            ("DRADeviceBindingConditions", false),
            ("DRAResourceClaimGranularStatusAuthorization", false),
        ];
        let allocation = r#""allocation":{"devices":{"results":[{"device":"x"}]}}"#;
        let (with, without) =
            (format!(r#"{{{allocation},"devices":[{{"device":"x"}}]}}"#), format!("{{{allocation}}}"));
        check_prepared(&[], &with, "{}", &with);
        check_prepared(&device_status, &with, "{}", &without);
        check_prepared(&device_status, &with, r#"{"devices":[{}]}"#, &with);

        let capacity = [("DRAConsumableCapacity", false)];
        let with = r#"{"allocation":{"devices":{"results":[{"device":"x","shareID":"1","consumedCapacity":{"a":"1"}}]}},
            "devices":[{"device":"x","shareID":"1"}]}"#;
        let without = r#"{"allocation":{"devices":{"results":[{"device":"x"}]}},"devices":[{"device":"x"}]}"#;
        check_prepared(&[], with, "{}", with);
        check_prepared(&capacity, with, "{}", without);
        for used in [
            r#"{"allocation":{"devices":{"results":[{"shareID":"2"}]}}}"#,
            r#"{"allocation":{"devices":{"results":[{"consumedCapacity":{}}]}}}"#,
            r#"{"devices":[{"shareID":"2"}]}"#,
        ] {
            check_prepared(&capacity, with, used, with);
        }

        let binding = [("DRADeviceBindingConditions", false)];
        let with =
            r#"{"allocation":{"devices":{"results":[{"bindingConditions":["a"],"bindingFailureConditions":["b"]}]}}}"#;
        let without = r#"{"allocation":{"devices":{"results":[{}]}}}"#;
        check_prepared(&[], with, "{}", with);
        check_prepared(&binding, with, "{}", without);
        check_prepared(&binding, with, r#"{"allocation":{"devices":{"results":[{"bindingConditions":["a"]}]}}}"#, with);
    }
}
