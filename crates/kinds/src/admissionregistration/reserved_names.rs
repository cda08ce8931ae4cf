//! Names that are reserved for admission configurations from files (upstream: `static_suffix.go` of
//! `pkg/apis/admissionregistration/validation`).

use pintle_gates::Feature;
use pintle_registry::StrategyContext;
use pintle_value::{Errors, FieldPath, Value};

/// The end of these names.
const SUFFIX: &str = ".static.k8s.io";

/// True if the server reads configurations from files, so that such names are errors.
fn are_errors(context: &StrategyContext) -> bool {
    context.gates.is_enabled(Feature::MANIFEST_BASED_ADMISSION_CONTROL_CONFIG)
}

/// Adds an error if the name of a new webhook configuration, policy or binding is reserved.
pub(super) fn validate(errors: &mut Errors, context: &StrategyContext, object: &Value, old: Option<&Value>) {
    if old.is_none() && are_errors(context) && object.name().ends_with(SUFFIX) {
        let why = format!(
            "names ending with \"{SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed via \
             the API"
        );
        errors.invalid(&FieldPath::new("metadata").child("name"), object.name(), why);
    }
}

/// The warnings for the name of a webhook configuration, policy or binding. A server that rejects such names in new
/// objects does not warn about them.
pub(super) fn warnings(context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
    if !object.name().ends_with(SUFFIX) || (old.is_none() && are_errors(context)) {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: names ending with \"{SUFFIX}\" are reserved for static manifest-based configurations and cannot be \
         managed via the API"
    )]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pintle_gates::FeatureGatesFlag;

    use crate::testing::{context, object};

    const PLURALS: [&str; 6] = [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ];

    #[test]
    fn reserved_names_are_errors_where_files_have_them() {
        let mut flag = FeatureGatesFlag::default();
        flag.add("ManifestBasedAdmissionControlConfig=true");
        let mut context = context();
        context.gates = Arc::new(flag.gates(Default::default()).expect("gates").0);
        let why = "metadata.name: Invalid value: \"a.static.k8s.io\": names ending with \".static.k8s.io\" are reserved for \
                   static manifest-based configurations and cannot be managed via the API";
        for plural in PLURALS {
            let strategy = crate::strategy("admissionregistration.k8s.io", "v1", plural);
            let object = object(r#"{"metadata":{"name":"a.static.k8s.io"},"spec":{"policyName":"p"}}"#);
            let has_error = strategy.validate(&context, &object).iter().any(|error| error.to_string() == why);
            assert!(has_error, "{plural}");
            assert_eq!(strategy.warnings(&context, &object, None), Vec::<String>::new(), "{plural}");
            assert_eq!(strategy.warnings(&context, &object, Some(&object)).len(), 1, "{plural}");
        }
    }

    #[test]
    fn reserved_names_are_warned_about_in_creates_and_updates() {
        let warning = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
                       configurations and cannot be managed via the API";
        for plural in PLURALS {
            let strategy = crate::strategy("admissionregistration.k8s.io", "v1", plural);
            let check = |name: &str, expect: &[&str]| {
                let object = object(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
                assert_eq!(strategy.warnings(&context(), &object, None), expect, "{plural} {name}");
                assert_eq!(strategy.warnings(&context(), &object, Some(&object)), expect, "{plural} {name}");
                if let Some(status) = strategy.subresource("status") {
                    assert_eq!(status.warnings(&context(), &object, &object), expect, "{plural}/status {name}");
                }
            };
            check("a.static.k8s.io", &[warning]);
            check("a.b.static.k8s.io", &[warning]);
            check("a.k8s.io", &[]);
            check("astatic.k8s.io", &[]);
            check("static.k8s.io.a", &[]);
        }
    }
}
