//! Resource claims: their number, and the devices of each class (upstream: `evaluator/core/resource_claims.go`).

use pintle_kinds::ResourceList;
use pintle_registry::GroupResource;
use pintle_value::Value;

use crate::pods::is_limit_on_extended_resource;
use crate::resource_list::{add, add_quantity, count};
use crate::{Evaluator, QuotaContext, QuotaFeatures, QuotaWrite};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// The suffix of the limit on the devices of a device class.
const CLASS_SUFFIX: &str = ".deviceclass.resource.k8s.io/devices";
/// The prefix of the limit on a device class's implicit extended resource.
const IMPLICIT_PREFIX: &str = "requests.deviceclass.resource.kubernetes.io/";
/// The annotation of a claim that the scheduler has created for the extended resources of a pod.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// The maximum number of devices of an allocation (`AllocationResultsMaxSize`).
const MAX_DEVICES: i64 = 32;

/// Measures resource claims.
pub(crate) struct ResourceClaims;

impl Evaluator for ResourceClaims {
    fn resource(&self) -> GroupResource {
        GroupResource::new("resource.k8s.io", "resourceclaims")
    }

    fn handles(&self, write: QuotaWrite<'_>) -> bool {
        write.subresource.is_empty()
    }

    fn counts(&self, name: &str, features: QuotaFeatures) -> bool {
        name == COUNT
            || name.ends_with(CLASS_SUFFIX)
            || features.extended_resources_of_classes && is_limit_on_extended_resource(name)
    }

    fn usage(&self, claim: &Value, context: &dyn QuotaContext) -> ResourceList {
        let mut usage = ResourceList::from([(COUNT.to_owned(), count(1))]);
        let is_of_pod = claim.annotation(EXTENDED_RESOURCE_CLAIM) == Some("true");
        for request in claim.items_at(&["spec", "devices", "requests"]) {
            let alternatives = request.items_at(&["firstAvailable"]);
            if alternatives.is_empty() {
                // The old version of a write may be at v1beta1, where the request has no `exactly`.
                let exactly = request.get("exactly").unwrap_or(request);
                add(&mut usage, &devices(exactly, request.str_at(&["name"]), is_of_pod, context));
                continue;
            }
            // Each class is charged the maximum that any of the alternatives needs of the class.
            let mut most = ResourceList::new();
            for alternative in alternatives {
                for (name, quantity) in devices(alternative, alternative.str_at(&["name"]), is_of_pod, context) {
                    if most.get(&name).is_none_or(|most| quantity > *most) {
                        most.insert(name, quantity);
                    }
                }
            }
            add(&mut usage, &most);
        }
        usage
    }
}

/// The usage of a request for devices of one class.
fn devices(request: &Value, name: &str, is_of_pod: bool, context: &dyn QuotaContext) -> ResourceList {
    let class = request.str_at(&["deviceClassName"]);
    let mut usage = ResourceList::new();
    if class.is_empty() {
        return usage;
    }
    let number = match request.str_at(&["allocationMode"]) {
        "ExactCount" => request.int_at(&["count"]).unwrap_or(0),
        "All" => MAX_DEVICES,
        // An unknown mode is not counted.
        _ => 0,
    };
    let number = count(number);
    add_quantity(&mut usage, &format!("{class}{CLASS_SUFFIX}"), &number);
    if !context.features().extended_resources_of_classes {
        return usage;
    }
    // The pod of such a claim is charged for the resource that the pod names: the class itself, or its extended
    // resource.
    let names_class = name.ends_with("-i");
    if !is_of_pod || !names_class {
        add_quantity(&mut usage, &format!("{IMPLICIT_PREFIX}{class}"), &number);
    }
    if (!is_of_pod || names_class)
        && let Some(resource) = context.extended_resource_of(class)
    {
        add_quantity(&mut usage, &format!("requests.{resource}"), &number);
    }
    usage
}

#[cfg(test)]
mod tests {
    use crate::QuotaFeatures;
    use crate::testing::{check_counted, check_usage, check_usage_with};

    fn check(metadata: &str, requests: &str, expect: &str) {
        let claim = format!(r#"{{"metadata":{{{metadata}}},"spec":{{"devices":{{"requests":[{requests}]}}}}}}"#);
        let expect = format!("count/resourceclaims.resource.k8s.io=1{expect}");
        check_usage("resource.k8s.io", "resourceclaims", &claim, &expect);
    }

    #[test]
    fn claims_use_devices_of_classes() {
        let exactly = |class: &str, mode: &str| {
            format!(r#"{{"name":"r","exactly":{{"deviceClassName":"{class}","allocationMode":"{mode}","count":2}}}}"#)
        };
        let tpu = |number: i64| {
            format!(
                ",requests.deviceclass.resource.kubernetes.io/tpu={number},tpu.deviceclass.resource.k8s.io/devices={number}"
            )
        };
        check("", "", "");
        check("", &exactly("tpu", "ExactCount"), &tpu(2));
        check("", &exactly("tpu", "All"), &tpu(32));
        check("", &exactly("tpu", "Future"), &tpu(0));
        check("", &format!("{0},{0}", exactly("tpu", "ExactCount")), &tpu(4));
        check("", r#"{"name":"r","deviceClassName":"tpu","allocationMode":"ExactCount","count":1}"#, &tpu(1));
        check(
            "",
            &exactly("gpu", "ExactCount"),
            ",gpu.deviceclass.resource.k8s.io/devices=2,requests.deviceclass.resource.kubernetes.io/gpu=2,\
             requests.example.com/gpu=2",
        );
    }

    #[test]
    fn alternatives_use_the_most_of_each_class() {
        let alternative = |class: &str, mode: &str, count: i64| {
            format!(r#"{{"name":"s","deviceClassName":"{class}","allocationMode":"{mode}","count":{count}}}"#)
        };
        let check = |alternatives: &[String], expect: &str| {
            check("", &format!(r#"{{"name":"r","firstAvailable":[{}]}}"#, alternatives.join(",")), expect);
        };
        let usage = |a: i64, b: i64| {
            format!(
                ",a.deviceclass.resource.k8s.io/devices={a},b.deviceclass.resource.k8s.io/devices={b},\
                 requests.deviceclass.resource.kubernetes.io/a={a},requests.deviceclass.resource.kubernetes.io/b={b}"
            )
        };
        let exact = |class: &str, count: i64| alternative(class, "ExactCount", count);
        check(&[exact("a", 1), exact("a", 3), exact("b", 2)], &usage(3, 2));
        check(&[exact("a", 1), alternative("b", "All", 0)], &usage(1, 32));
    }

    #[test]
    fn pods_are_charged_for_their_extended_resources() {
        let annotated = r#""annotations":{"resource.kubernetes.io/extended-resource-claim":"true"}"#;
        let request = |name: &str| {
            format!(
                r#"{{"name":"{name}","exactly":{{"deviceClassName":"gpu","allocationMode":"ExactCount","count":1}}}}"#
            )
        };
        let devices = ",gpu.deviceclass.resource.k8s.io/devices=1";
        let implicit = format!("{devices},requests.deviceclass.resource.kubernetes.io/gpu=1");
        check(annotated, &request("container-0-request-0"), &implicit);
        check(annotated, &request("container-0-request-0-i"), &format!("{devices},requests.example.com/gpu=1"));
    }

    #[test]
    fn classes_are_no_extended_resources_without_the_feature() {
        let features = QuotaFeatures { extended_resources_of_classes: false, ..QuotaFeatures::default() };
        let claim = r#"{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"gpu",
                        "allocationMode":"ExactCount","count":2}}]}}}"#;
        let expect = "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=2";
        check_usage_with(features, "resource.k8s.io", "resourceclaims", claim, expect);
    }

    #[test]
    fn limits_are_those_of_classes() {
        let counted = [
            "count/resourceclaims.resource.k8s.io",
            "gpu.deviceclass.resource.k8s.io/devices",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "requests.example.com/gpu",
        ];
        let others = ["resourceclaims", "requests.storage", "gpu.deviceclass.resource.k8s.io/storage"];
        check_counted("resource.k8s.io", "resourceclaims", &counted, &others);
    }
}
