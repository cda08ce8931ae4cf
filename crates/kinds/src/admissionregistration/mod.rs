//! Strategies of the group `admissionregistration.k8s.io`. They only check that CEL expressions are present; the
//! extensions crate compiles them.

mod match_rules;
mod policy;
mod webhook;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    Some(match plural {
        "mutatingwebhookconfigurations" => Arc::new(webhook::Configuration { mutating: true }),
        "validatingwebhookconfigurations" => Arc::new(webhook::Configuration { mutating: false }),
        "mutatingadmissionpolicies" => Arc::new(policy::MutatingPolicy),
        "validatingadmissionpolicies" => Arc::new(policy::ValidatingPolicy),
        "mutatingadmissionpolicybindings" => Arc::new(policy::Binding { validating: false }),
        "validatingadmissionpolicybindings" => Arc::new(policy::Binding { validating: true }),
        _ => return None,
    })
}
