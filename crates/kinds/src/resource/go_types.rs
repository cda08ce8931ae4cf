//! How the internal types of dynamic resource allocation print in errors (upstream: `pkg/apis/resource`).

use crate::go_json::GoType;

/// The terms of a node selector.
pub(super) const NODE_SELECTOR_TERMS: GoType = GoType::List(&GoType::Of("core/v1.NodeSelectorTerm"));

/// The spec of a claim.
pub(super) const CLAIM_SPEC: GoType = GoType::Of("resource/v1.ResourceClaimSpec");

/// The spec of a claim template. The metadata is embedded.
pub(super) const TEMPLATE_SPEC: GoType = GoType::Of("resource/v1.ResourceClaimTemplateSpec");

/// The result of an allocation.
pub(super) const ALLOCATION: GoType = GoType::Of("resource/v1.AllocationResult");

/// An attribute of a device.
pub(super) const ATTRIBUTE: GoType = GoType::Of("resource/v1.DeviceAttribute");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go_json::internal;
    use crate::testing::object;

    #[test]
    fn template_specs_have_the_fields_of_their_metadata() {
        let check = |json: &str, expect: &str| assert_eq!(internal(Some(&object(json)), &TEMPLATE_SPEC), expect);
        let empty = r#""Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}"#;
        check("{}", &format!("{{{empty}}}"));
        check(
            r#"{"metadata":{"annotations":{"b":"2"},"labels":{"a":"1"}},"spec":{}}"#,
            &format!(r#"{{"labels":{{"a":"1"}},"annotations":{{"b":"2"}},{empty}}}"#),
        );
    }
}
