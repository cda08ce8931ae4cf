//! How the internal types of dynamic resource allocation print in errors (upstream: `pkg/apis/resource`).

use pintle_value::Value;
use pintle_value::print::json_string;

use crate::go_json::{GoType, internal, ordered};

const STRINGS: GoType = GoType::NULLABLE;
const NUMBER: GoType = GoType::Plain("0");

/// The requirements of a node selector's term.
const NODE_REQUIREMENTS: GoType = GoType::List(&GoType::Struct(&[
    ("Key", "key", GoType::STRING),
    ("Operator", "operator", GoType::STRING),
    ("Values", "values", STRINGS),
]));

/// The terms of a node selector.
pub(super) const NODE_SELECTOR_TERMS: GoType = GoType::List(&GoType::Struct(&[
    ("MatchExpressions", "matchExpressions", NODE_REQUIREMENTS),
    ("MatchFields", "matchFields", NODE_REQUIREMENTS),
]));

const NODE_SELECTOR: GoType =
    GoType::Pointer(&GoType::Struct(&[("NodeSelectorTerms", "nodeSelectorTerms", NODE_SELECTOR_TERMS)]));

const SELECTORS: GoType = GoType::List(&GoType::Struct(&[(
    "CEL",
    "cel",
    GoType::Pointer(&GoType::Struct(&[("Expression", "expression", GoType::STRING)])),
)]));

const TOLERATIONS: GoType = GoType::List(&GoType::Struct(&[
    ("Key", "key", GoType::STRING),
    ("Operator", "operator", GoType::STRING),
    ("Value", "value", GoType::STRING),
    ("Effect", "effect", GoType::STRING),
    ("TolerationSeconds", "tolerationSeconds", GoType::NULLABLE),
]));

const CAPACITY: GoType = GoType::Pointer(&GoType::Struct(&[("Requests", "requests", GoType::NULLABLE)]));

const EXACT_REQUEST: GoType = GoType::Pointer(&GoType::Struct(&[
    ("DeviceClassName", "deviceClassName", GoType::STRING),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", GoType::STRING),
    ("Count", "count", NUMBER),
    ("AdminAccess", "adminAccess", GoType::NULLABLE),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]));

const SUBREQUESTS: GoType = GoType::List(&GoType::Struct(&[
    ("Name", "name", GoType::STRING),
    ("DeviceClassName", "deviceClassName", GoType::STRING),
    ("Selectors", "selectors", SELECTORS),
    ("AllocationMode", "allocationMode", GoType::STRING),
    ("Count", "count", NUMBER),
    ("Tolerations", "tolerations", TOLERATIONS),
    ("Capacity", "capacity", CAPACITY),
]));

const OPAQUE: GoType = GoType::Pointer(&GoType::Struct(&[
    ("Driver", "driver", GoType::STRING),
    ("Parameters", "parameters", GoType::NULLABLE),
]));

/// The spec of a claim.
pub(super) const CLAIM_SPEC: GoType = GoType::Struct(&[(
    "Devices",
    "devices",
    GoType::Struct(&[
        (
            "Requests",
            "requests",
            GoType::List(&GoType::Struct(&[
                ("Name", "name", GoType::STRING),
                ("Exactly", "exactly", EXACT_REQUEST),
                ("FirstAvailable", "firstAvailable", SUBREQUESTS),
            ])),
        ),
        (
            "Constraints",
            "constraints",
            GoType::List(&GoType::Struct(&[
                ("Requests", "requests", STRINGS),
                ("MatchAttribute", "matchAttribute", GoType::NULLABLE),
                ("DistinctAttribute", "distinctAttribute", GoType::NULLABLE),
            ])),
        ),
        (
            "Config",
            "config",
            GoType::List(&GoType::Struct(&[("Requests", "requests", STRINGS), ("Opaque", "opaque", OPAQUE)])),
        ),
    ]),
)]);

/// The spec of a claim template. The metadata is embedded.
pub(super) const TEMPLATE_SPEC: GoType = GoType::Custom(|spec| {
    let metadata = spec.and_then(|spec| spec.get("metadata")).cloned().unwrap_or_else(Value::object);
    let mut text = ordered(&metadata, &["name", "generateName", "namespace", "uid", "labels", "annotations"]);
    // The struct embeds the fields of the metadata.
    text.pop();
    if text.len() > 1 {
        text.push(',');
    }
    json_string(&mut text, "Spec");
    text.push(':');
    text.push_str(&internal(spec.and_then(|spec| spec.get("spec")), &CLAIM_SPEC));
    text.push('}');
    text
});

/// The result of an allocation.
pub(super) const ALLOCATION: GoType = GoType::Struct(&[
    (
        "Devices",
        "devices",
        GoType::Struct(&[
            (
                "Results",
                "results",
                GoType::List(&GoType::Struct(&[
                    ("Request", "request", GoType::STRING),
                    ("Driver", "driver", GoType::STRING),
                    ("Pool", "pool", GoType::STRING),
                    ("Device", "device", GoType::STRING),
                    ("AdminAccess", "adminAccess", GoType::NULLABLE),
                    ("Tolerations", "tolerations", TOLERATIONS),
                    ("BindingConditions", "bindingConditions", STRINGS),
                    ("BindingFailureConditions", "bindingFailureConditions", STRINGS),
                    ("ShareID", "shareID", GoType::NULLABLE),
                    ("ConsumedCapacity", "consumedCapacity", GoType::NULLABLE),
                ])),
            ),
            (
                "Config",
                "config",
                GoType::List(&GoType::Struct(&[
                    ("Source", "source", GoType::STRING),
                    ("Requests", "requests", STRINGS),
                    ("Opaque", "opaque", OPAQUE),
                ])),
            ),
        ]),
    ),
    ("NodeSelector", "nodeSelector", NODE_SELECTOR),
    ("AllocationTimestamp", "allocationTimestamp", GoType::NULLABLE),
]);

/// An attribute of a device.
pub(super) const ATTRIBUTE: GoType = GoType::Struct(&[
    ("IntValue", "int", GoType::NULLABLE),
    ("BoolValue", "bool", GoType::NULLABLE),
    ("StringValue", "string", GoType::NULLABLE),
    ("VersionValue", "version", GoType::NULLABLE),
    ("IntValues", "ints", GoType::NULLABLE),
    ("BoolValues", "bools", GoType::NULLABLE),
    ("StringValues", "strings", GoType::NULLABLE),
    ("VersionValues", "versions", GoType::NULLABLE),
]);

#[cfg(test)]
mod tests {
    use super::*;
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
