//! The strategies for ResourceClaim and ResourceClaimTemplate, whose specs are immutable.

use pintle_registry::{ClusterValidation, Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::{Errors, FieldPath, Value, metadata};

use super::access::AdminAccess;
use super::claim_spec::{set_request_defaults, validate_claim_spec};
use super::claim_status::ClaimStatusStrategy;
use super::go_types::{CLAIM_SPEC, TEMPLATE_SPEC};
use super::v1beta1::{self, ApiVersion};
use crate::core::pod::scheduling::validate_labels;
use crate::gated::{Part, drop_disabled};
use crate::generic::{reset_status, same_at};
use crate::go_json::{GoType, invalid};

/// The fields of metadata that are allowed in a template.
const TEMPLATE_METADATA: [&str; 2] = ["annotations", "labels"];

/// The strategy for ResourceClaim.
pub(crate) struct ResourceClaimStrategy {
    pub(crate) version: ApiVersion,
}

impl Strategy for ResourceClaimStrategy {
    fn defaults(&self, object: &mut Value) {
        match self.version {
            ApiVersion::V1Beta1 => v1beta1::set_request_defaults(object.at_mut(&["spec"])),
            ApiVersion::V1 => set_request_defaults(object.at_mut(&["spec"])),
        }
    }

    fn convert_to_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::requests_to_v1(object.at_mut(&["spec"]));
        }
    }

    fn convert_from_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::requests_from_v1(object.at_mut(&["spec"]));
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        drop_disabled_at(context, object, old, &["spec"]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        if let Some(old) = old {
            return validate_immutable_spec(object, old, &CLAIM_SPEC);
        }
        let mut errors = Errors::new();
        validate_claim_spec(&mut errors, &context.gates, &object["spec"], &FieldPath::new("spec"));
        errors
    }

    fn inlined_fields(&self) -> &'static [&'static str] {
        v1beta1::INLINED
    }

    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        const ADMIN_ACCESS: AdminAccess = AdminAccess { requests: &["spec", "devices", "requests"] };
        Some(&ADMIN_ACCESS)
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&ClaimStatusStrategy as &dyn SubresourceStrategy)
    }
}

/// The strategy for ResourceClaimTemplate.
pub(crate) struct ResourceClaimTemplateStrategy {
    pub(crate) version: ApiVersion,
}

impl Strategy for ResourceClaimTemplateStrategy {
    fn defaults(&self, object: &mut Value) {
        match self.version {
            ApiVersion::V1Beta1 => v1beta1::set_request_defaults(object.at_mut(&["spec", "spec"])),
            ApiVersion::V1 => set_request_defaults(object.at_mut(&["spec", "spec"])),
        }
    }

    fn convert_to_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::requests_to_v1(object.at_mut(&["spec", "spec"]));
        }
    }

    fn convert_from_hub(&self, object: &mut Value) {
        if self.version == ApiVersion::V1Beta1 {
            v1beta1::requests_from_v1(object.at_mut(&["spec", "spec"]));
        }
    }

    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(context, object, old, &["spec", "spec"]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        if let Some(old) = old {
            return validate_immutable_spec(object, old, &TEMPLATE_SPEC);
        }
        let mut errors = Errors::new();
        let path = FieldPath::new("spec");
        validate_template_metadata(&mut errors, &object["spec"]["metadata"], &path.child("metadata"));
        validate_claim_spec(&mut errors, &context.gates, &object["spec"]["spec"], &path.child("spec"));
        errors
    }

    fn inlined_fields(&self) -> &'static [&'static str] {
        v1beta1::INLINED
    }

    fn cluster_validation(&self) -> Option<&dyn ClusterValidation> {
        const ADMIN_ACCESS: AdminAccess = AdminAccess { requests: &["spec", "spec", "devices", "requests"] };
        Some(&ADMIN_ACCESS)
    }
}

/// Drops the fields of disabled features from the spec of a claim, which is at a path.
fn drop_disabled_at(context: &StrategyContext, object: &mut Value, old: Option<&Value>, path: &[&str]) {
    if let Some(spec) = object.at_mut(path) {
        drop_disabled(&context.gates, Part::DeviceClaim, spec, old.and_then(|old| old.at(path)));
    }
}

/// Rejects a change of the spec. As upstream, an update validates nothing else.
fn validate_immutable_spec(object: &Value, old: &Value, shape: &GoType) -> Errors {
    let mut errors = Errors::new();
    if !same_at(object, old, &["spec"]) {
        errors.push(invalid(&FieldPath::new("spec"), &object["spec"], shape, metadata::IMMUTABLE_TEXT));
    }
    errors
}

/// Validates the metadata in a template, which may have labels and annotations only.
fn validate_template_metadata(errors: &mut Errors, template: &Value, path: &FieldPath<'_>) {
    errors.append(metadata::validate_annotations(&template["annotations"], &path.child("annotations")));
    validate_labels(errors, template.get("labels"), &path.child("labels"));
    for (field, value) in template.entries_at(&[]) {
        if !TEMPLATE_METADATA.contains(&field) && !value.is_empty() {
            errors.forbidden(&path.child(field), "cannot be set");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_validation as check, context, gated_context, object};
    use pintle_value::print::json;

    const CLAIM: &str = r#"{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}"#;
    const TEMPLATE: &str =
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"c"}}]}}}}"#;

    fn with_defaults(rules: &dyn Strategy, json: &str) -> Value {
        let mut found = object(json);
        rules.defaults(&mut found);
        found
    }

    #[test]
    fn device_requests_default_to_one_device() {
        let claim = r#"{"spec":{"devices":{"requests":[{"exactly":{}},{"firstAvailable":[{"allocationMode":"All"},{"count":2}]}]}}}"#;
        assert_eq!(
            with_defaults(&ResourceClaimStrategy { version: ApiVersion::V1 }, claim),
            object(
                r#"{"spec":{"devices":{"requests":[{"exactly":{"allocationMode":"ExactCount","count":1}},
                    {"firstAvailable":[{"allocationMode":"All"},{"allocationMode":"ExactCount","count":2}]}]}}}"#
            )
        );
    }

    #[test]
    fn claims_and_templates_are_validated() {
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, CLAIM, None, &[]);
        check(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, TEMPLATE, None, &[]);
        let missing = "Required value: exactly one of `exactly` or `firstAvailable` is required";
        check(
            &ResourceClaimStrategy { version: ApiVersion::V1 },
            r#"{"spec":{"devices":{"requests":[{"name":"a"}]}}}"#,
            None,
            &[&format!("spec.devices.requests[0]: {missing}")],
        );
        check(
            &ResourceClaimTemplateStrategy { version: ApiVersion::V1 },
            r#"{"spec":{"metadata":{"name":"n","labels":{"a":"b"}},"spec":{"devices":{"requests":[{"name":"a"}]}}}}"#,
            None,
            &["spec.metadata.name: Forbidden: cannot be set", &format!("spec.spec.devices.requests[0]: {missing}")],
        );
    }

    #[test]
    fn specs_are_immutable() {
        let claim = json(&with_defaults(&ResourceClaimStrategy { version: ApiVersion::V1 }, CLAIM));
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, CLAIM, Some(&claim), &[]);
        check(
            &ResourceClaimStrategy { version: ApiVersion::V1 },
            r#"{"spec":{"devices":{"requests":[{"name":"?","firstAvailable":[{"name":"b"}]}],
                "config":[{"requests":["a"],"opaque":{"driver":"d","parameters":{"b":1,"a":"<"}}}]}}}"#,
            Some(&claim),
            &[
                "spec: Invalid value: {\"Devices\":{\"Requests\":[{\"Name\":\"?\",\"Exactly\":null,\"FirstAvailable\":[{\"Name\":\"b\",\
                 \"DeviceClassName\":\"\",\"Selectors\":null,\"AllocationMode\":\"ExactCount\",\"Count\":1,\"Tolerations\":null,\
                 \"Capacity\":null}]}],\"Constraints\":null,\"Config\":[{\"Requests\":[\"a\"],\"Opaque\":{\"Driver\":\"d\",\
                 \"Parameters\":{\"a\":\"\\u003c\",\"b\":1}}}]}}: field is immutable",
            ],
        );
        let template = json(&with_defaults(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, TEMPLATE));
        check(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, TEMPLATE, Some(&template), &[]);
        check(
            &ResourceClaimTemplateStrategy { version: ApiVersion::V1 },
            r#"{"spec":{"metadata":{"labels":{"a":"b"}},"spec":{}}}"#,
            Some(&template),
            &[
                "spec: Invalid value: {\"labels\":{\"a\":\"b\"},\"Spec\":{\"Devices\":{\"Requests\":null,\"Constraints\":null,\
                 \"Config\":null}}}: field is immutable",
            ],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let off = gated_context(&[("DRAConsumableCapacity", false)]);
        let spec = |fields: &str| {
            format!(r#"{{"devices":{{"requests":[{{"name":"a","exactly":{{"deviceClassName":"c"{fields}}}}}]}}}}"#)
        };
        let (with, without) = (spec(r#","capacity":{}"#), spec(""));
        let claim = |spec: &str| object(&format!(r#"{{"spec":{spec},"status":{{}}}}"#));
        let template = |spec: &str| object(&format!(r#"{{"spec":{{"spec":{spec}}}}}"#));
        let check = |rules: &dyn Strategy, of: &dyn Fn(&str) -> Value| {
            let mut new = of(&with);
            rules.prepare_for_create(&off, &mut new);
            assert_eq!(new, of(&without));
            let mut new = of(&with);
            rules.prepare_for_create(&context(), &mut new);
            assert_eq!(new, of(&with));
            for (old, expect) in [(&without, &without), (&with, &with)] {
                let mut new = of(&with);
                rules.prepare_for_update(&off, &mut new, &of(old));
                assert_eq!(new, of(expect));
            }
        };
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim);
        check(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, &template);
    }

    #[test]
    fn only_the_status_subresource_writes_the_status() {
        let mut claim = object(r#"{"spec":{},"status":{"allocation":{}}}"#);
        ResourceClaimStrategy { version: ApiVersion::V1 }.prepare_for_create(&context(), &mut claim);
        assert_eq!(claim, object(r#"{"spec":{},"status":{}}"#));
        let mut claim = object(r#"{"spec":{},"status":{"allocation":{}}}"#);
        let old = object(r#"{"spec":{},"status":{"reservedFor":[]}}"#);
        ResourceClaimStrategy { version: ApiVersion::V1 }.prepare_for_update(&context(), &mut claim, &old);
        assert_eq!(claim, old);
    }
}
