//! Names that are reserved for admission configurations from files (upstream: `static_suffix.go` of
//! `pkg/apis/admissionregistration/validation`).

use pintle_value::Value;

/// The end of these names.
const SUFFIX: &str = ".static.k8s.io";

/// The warnings for the name of a webhook configuration, a policy or a binding. Such names are errors only in a server that
/// reads configurations from files.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let warning = format!(
        "metadata.name: names ending with \"{SUFFIX}\" are reserved for static manifest-based configurations and cannot be \
         managed via the API"
    );
    if object.name().ends_with(SUFFIX) { vec![warning] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::admissionregistration::strategy;
    use crate::testing::{context, object};

    #[test]
    fn reserved_names_are_warned_about_in_creates_and_updates() {
        let warning = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
                       configurations and cannot be managed via the API";
        for plural in [
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ] {
            let strategy = strategy("v1", plural).expect("a strategy");
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
