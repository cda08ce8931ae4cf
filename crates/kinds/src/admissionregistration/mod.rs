//! Strategies of the group `admissionregistration.k8s.io`. CEL expressions are validated by compiling them.

mod expressions;
mod field_ref;
mod match_resources;
mod match_rules;
mod policy;
mod policy_binding;
mod policy_validation;
mod reserved_names;
mod webhook;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(version: &str, plural: &str) -> Option<Arc<dyn Strategy>> {
    let defaults_not_found_action = version == "v1alpha1";
    Some(match plural {
        "mutatingwebhookconfigurations" => Arc::new(webhook::WebhookConfigurationStrategy { mutating: true }),
        "validatingwebhookconfigurations" => Arc::new(webhook::WebhookConfigurationStrategy { mutating: false }),
        "mutatingadmissionpolicies" => Arc::new(policy::MutatingAdmissionPolicyStrategy),
        "validatingadmissionpolicies" => Arc::new(policy::ValidatingAdmissionPolicyStrategy),
        "mutatingadmissionpolicybindings" => {
            Arc::new(policy_binding::PolicyBindingStrategy { validating: false, defaults_not_found_action })
        }
        "validatingadmissionpolicybindings" => {
            Arc::new(policy_binding::PolicyBindingStrategy { validating: true, defaults_not_found_action })
        }
        _ => return None,
    })
}
