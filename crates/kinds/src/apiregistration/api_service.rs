//! The strategy for APIService (upstream: kube-aggregator's `pkg/registry/apiservice` and
//! `pkg/apis/apiregistration/validation`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_schema::base64;
use pintle_value::{Errors, FieldPath, Value, names};

use super::availability::{ApiServiceAvailability, set_availability};
use super::local::is_local_api_service;
use super::remote::DEFAULT_PORT;
use crate::generic::{StatusStrategy, reset_status};
use crate::validation::invalid_each;

const HIGHEST_GROUP_PRIORITY: i64 = 20_000;
const HIGHEST_VERSION_PRIORITY: i64 = 1000;

/// The strategy for APIService.
pub(crate) struct ApiServiceStrategy;

impl Strategy for ApiServiceStrategy {
    fn defaults(&self, object: &mut Value) {
        if let Some(service) = object.at_mut(&["spec", "service"]) {
            service.set_default("port", i64::from(DEFAULT_PORT));
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        if old.is_none() && is_local_api_service(object) {
            // Local API services are available immediately.
            set_availability(object, &ApiServiceAvailability::local(), context.now);
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let spec = &object["spec"];
        let path = FieldPath::new("spec");
        let (group, version) = (spec.str_at(&["group"]), spec.str_at(&["version"]));
        // The name derives from group and version, so it is validated here.
        let required = format!("{version}.{group}");
        let name = object.name();
        if names::path_segment_name(name, false).is_empty() && name != required {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
            errors.invalid(&FieldPath::new("metadata.name"), name, detail);
        }
        if group.is_empty() {
            if version != "v1" {
                let detail = "only v1 may have an empty group and it better be legacy kube";
                errors.required(&path.child("group"), detail);
            }
        } else {
            invalid_each(&mut errors, &path.child("group"), group, names::dns1123_subdomain(group));
        }
        invalid_each(&mut errors, &path.child("version"), version, names::dns1035_label(version));
        for (field, highest) in
            [("groupPriorityMinimum", HIGHEST_GROUP_PRIORITY), ("versionPriority", HIGHEST_VERSION_PRIORITY)]
        {
            let priority = spec.int_at(&[field]).unwrap_or(0);
            if !(1..=highest).contains(&priority) {
                errors.invalid(&path.child(field), priority, format!("must be positive and less than {highest}"));
            }
        }
        validate_backend(&mut errors, spec, &path);
        errors
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::path_segment_name(name, prefix)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        const STATUS: StatusStrategy = StatusStrategy::new(validate_status).preserving(&[
            &["spec"],
            &["metadata", "labels"],
            &["metadata", "annotations"],
            &["metadata", "finalizers"],
            &["metadata", "ownerReferences"],
        ]);
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_backend(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let bundle = spec.str_at(&["caBundle"]);
    let insecure = spec.bool_at(&["insecureSkipTLSVerify"]);
    let Some(service) = spec.get("service") else {
        if !bundle.is_empty() {
            let size = base64::decode(bundle.as_bytes()).map_or(bundle.len(), |bytes| bytes.len());
            let detail = "local APIServices may not have a caBundle";
            errors.invalid(&path.child("caBundle"), format!("{size} bytes"), detail);
        }
        if insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&path.child("insecureSkipTLSVerify"), true, detail);
        }
        return;
    };
    let service_path = path.child("service");
    for field in ["namespace", "name"] {
        if service.str_at(&[field]).is_empty() {
            errors.required(&service_path.child(field), "");
        }
    }
    let port = service.int_at(&["port"]).unwrap_or(0);
    let problems = names::port_number(port);
    if !problems.is_empty() {
        errors.invalid(&service_path.child("port"), port, format!("port is not valid: {}", problems.join(", ")));
    }
    if insecure && !bundle.is_empty() {
        errors.invalid(&path.child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present");
    }
}

/// Validates the conditions of a status.
fn validate_status(_: &StrategyContext, object: &Value, _: &Value) -> Errors {
    const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
    let mut errors = Errors::new();
    let list = FieldPath::new("status.conditions");
    for (i, condition) in object.items_at(&["status", "conditions"]).iter().enumerate() {
        let status = condition.str_at(&["status"]);
        if !STATUSES.contains(&status) {
            // The known values are sorted in the message.
            errors.not_supported(&list.index(i).child("status"), status, &STATUSES);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn services() {
        let check = |service: &str, expect: &[&str]| {
            let mut service = object(service);
            ApiServiceStrategy.defaults(&mut service);
            assert_eq!(messages(&ApiServiceStrategy.validate(&context(), &service)), expect);
        };
        let good = |more: &str| {
            format!(
                r#"{{"metadata":{{"name":"v1.example.com"}},"spec":{{"group":"example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":15{more}}}}}"#
            )
        };
        check(&good(""), &[]);
        check(&good(r#","service":{"namespace":"n","name":"s"}"#), &[]);
        check(
            &good(r#","caBundle":"YWJj","insecureSkipTLSVerify":true"#),
            &[
                "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ],
        );
        check(
            r#"{"metadata":{"name":"x"},"spec":{"version":"v2","service":{"port":0}}}"#,
            &[
                "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v2.\"",
                "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ],
        );
    }

    #[test]
    fn local_api_services_are_available() {
        let mut local = object(r#"{"spec":{"version":"v1"}}"#);
        ApiServiceStrategy.prepare_for_create(&context(), &mut local);
        assert_eq!(local["status"]["conditions"][0].str_at(&["reason"]), "Local");
        let mut remote = object(r#"{"spec":{"version":"v1","service":{}},"status":{"conditions":[{}]}}"#);
        ApiServiceStrategy.prepare_for_create(&context(), &mut remote);
        assert_eq!(remote["status"], Value::object());
    }
}
