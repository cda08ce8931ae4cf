//! The plugin `PersistentVolumeClaimResize` (upstream: `plugin/pkg/admission/storage/persistentvolume/resize`). A claim
//! may request more storage only while it is bound, and only if its storage class allows expansion.

use std::cmp::Ordering;

use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;
use pintle_value::quantity::Quantity;

use crate::default_class::CLAIM_CLASS_ANNOTATION;
use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The admission plugin `PersistentVolumeClaimResize`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PersistentVolumeClaimResize;

impl SyncPlugin for PersistentVolumeClaimResize {
    const NAME: &'static str = "PersistentVolumeClaimResize";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Update && attributes.is_object_of("", "persistentvolumeclaims")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, claim: &Value) -> Result<(), ApiError> {
        let Some(old) = attributes.old else { return Ok(()) };
        if requested_storage(claim).cmp(&requested_storage(old)) != Ordering::Greater {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != "Bound" {
            return Err(attributes.forbidden(claim, "Only bound persistent volume claims can be expanded"));
        }
        if !allows_expansion(attributes, claim, old) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
                       support resize";
            return Err(attributes.forbidden(claim, why));
        }
        Ok(())
    }
}

fn requested_storage(claim: &Value) -> Quantity {
    let storage = claim.at(&["spec", "resources", "requests", "storage"]);
    storage.and_then(|storage| Quantity::from_value(storage).ok()).unwrap_or_default()
}

/// True if the storage class of a claim exists and allows volumes to be expanded.
fn allows_expansion(attributes: &AdmissionAttributes<'_>, claim: &Value, old: &Value) -> bool {
    let class = class_of(claim);
    if class.is_empty() || class != class_of(old) {
        return false;
    }
    let classes = GroupResource::new("storage.k8s.io", "storageclasses");
    let found = attributes.client.get(&classes, "", class).ok().flatten();
    found.is_some_and(|class| class.bool_at(&["allowVolumeExpansion"]))
}

/// The storage class of a claim; empty if it has none.
fn class_of(claim: &Value) -> &str {
    claim.annotation(CLAIM_CLASS_ANNOTATION).unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    /// A claim with a class, a size and a phase.
    fn claim(class: &str, size: &str, phase: &str) -> Value {
        json(&format!(
            r#"{{"metadata":{{"name":"c","namespace":"ns"}},"spec":{{"storageClassName":"{class}",
                "resources":{{"requests":{{"storage":"{size}"}}}}}},"status":{{"phase":"{phase}"}}}}"#
        ))
    }

    fn scenario(old: Value) -> Scenario {
        let class = |name: &str, fields: &str| {
            json(&format!(r#"{{"kind":"StorageClass","metadata":{{"name":"{name}"}}{fields}}}"#))
        };
        let stored = vec![
            class("gold", r#","allowVolumeExpansion":true"#),
            class("silver", r#","allowVolumeExpansion":false"#),
            class("plain", ""),
        ];
        Scenario { stored, old: Some(old), ..Scenario::update("", "persistentvolumeclaims") }
    }

    #[track_caller]
    fn check(scenario: &Scenario, claim: &Value, expect: &str) {
        let found = scenario.validate(&PersistentVolumeClaimResize, claim).map_err(|error| error.to_string());
        let found = found.err().unwrap_or_default();
        let expect = if expect.is_empty() {
            String::new()
        } else {
            format!("persistentvolumeclaims \"c\" is forbidden: {expect}")
        };
        assert_eq!(found, expect);
    }

    const NOT_BOUND: &str = "Only bound persistent volume claims can be expanded";
    const NOT_ALLOWED: &str = "only dynamically provisioned pvc can be resized and the storageclass that provisions \
                               the pvc must support resize";

    #[test]
    fn bound_claims_are_expanded_if_their_class_allows_it() {
        for (class, size, phase, expect) in [
            ("gold", "2Gi", "Bound", ""),
            ("gold", "2Gi", "Pending", NOT_BOUND),
            ("gold", "2Gi", "Lost", NOT_BOUND),
            ("gold", "1024Mi", "Pending", ""),
            ("gold", "1Mi", "Pending", ""),
            ("silver", "2Gi", "Bound", NOT_ALLOWED),
            ("plain", "2Gi", "Bound", NOT_ALLOWED),
            ("absent", "2Gi", "Bound", NOT_ALLOWED),
            ("", "2Gi", "Bound", NOT_ALLOWED),
        ] {
            check(&scenario(claim(class, "1Gi", phase)), &claim(class, size, phase), expect);
        }
    }

    #[test]
    fn the_class_is_that_of_the_annotation_first_and_does_not_change() {
        let annotated = |name: &str, size: &str| {
            let mut claim = claim("gold", size, "Bound");
            claim.annotate(CLAIM_CLASS_ANNOTATION, name);
            claim
        };
        check(&scenario(annotated("silver", "1Gi")), &annotated("silver", "2Gi"), NOT_ALLOWED);
        check(&scenario(annotated("gold", "1Gi")), &annotated("gold", "2Gi"), "");
        check(&scenario(claim("silver", "1Gi", "Bound")), &claim("gold", "2Gi", "Bound"), NOT_ALLOWED);
    }

    #[test]
    fn subresources_are_not_checked() {
        let status = Scenario { subresource: "status", ..scenario(claim("plain", "1Gi", "Bound")) };
        check(&status, &claim("plain", "2Gi", "Bound"), "");
    }
}
