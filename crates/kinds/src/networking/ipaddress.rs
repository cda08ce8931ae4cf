//! The strategy for IPAddress, which records the owner of an allocated address (upstream:
//! `pkg/apis/networking/validation`, `pkg/registry/networking/ipaddress`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::ip::valid_ip;
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::declarative::Rules;
use crate::generic::same;
use crate::go_json::{self, GoType};

static RULES: Rules = Rules::own("networking/v1", "IPAddressSpec");

const PARENT: [&str; 2] = ["spec", "parentRef"];
/// How a parent reference prints.
const PARENT_REF: GoType = GoType::Of("networking/v1.ParentReference");

/// The strategy for IPAddress.
pub(crate) struct IpAddressStrategy;

impl Strategy for IpAddressStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        RULES.validate_part(&mut errors, &object["spec"], &FieldPath::new("spec"));
        if old.is_some_and(|old| !same(object.at(&PARENT), old.at(&PARENT))) {
            errors.push(parent_immutable_error(object));
        }
        errors
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        valid_ip(&FieldPath::root(), name).iter().map(|error| error.detail.clone()).collect()
    }
}

/// Returns the error about a changed parent.
fn parent_immutable_error(object: &Value) -> FieldError {
    let shown = go_json::internal(object.at(&PARENT), &GoType::Pointer(&PARENT_REF));
    FieldError::invalid(&FieldPath::new("spec.parentRef"), Value::Null, IMMUTABLE_TEXT).showing(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn ip_addresses_require_a_parent() {
        let check = |spec: &str, expect: &[&str]| {
            let address = object(&format!(r#"{{"spec":{spec}}}"#));
            assert_eq!(messages(&IpAddressStrategy.validate(&context(), &address)), expect, "{spec}");
        };
        check(r#"{"parentRef":{"resource":"services","namespace":"n","name":"s"}}"#, &[]);
        check("{}", &["spec.parentRef: Required value"]);
        check(
            r#"{"parentRef":{"resource":"","name":"a/b"}}"#,
            &[
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        );
        let old = object(r#"{"spec":{"parentRef":{"resource":"services","namespace":"n","name":"s"}}}"#);
        let new = object(r#"{"spec":{"parentRef":{"resource":"services","namespace":"n","name":"t"}}}"#);
        assert_eq!(
            messages(&IpAddressStrategy.validate_update(&context(), &new, &old)),
            [
                r#"spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"n","Name":"t"}: field is immutable"#,
            ]
        );
    }

    #[test]
    fn the_name_must_be_a_canonical_address() {
        assert!(IpAddressStrategy.validate_name("10.0.0.1", false).is_empty());
        assert_eq!(
            IpAddressStrategy.validate_name("2001:DB8::1", false),
            ["must be in canonical form (\"2001:db8::1\")"]
        );
    }
}
