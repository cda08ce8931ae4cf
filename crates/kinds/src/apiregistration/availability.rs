//! The condition of APIServices that says whether their versions are available (upstream: kube-aggregator's
//! `pkg/apis/apiregistration/v1/helper`).

use pintle_value::time::Time;
use pintle_value::{Value, object};

/// True if the condition of an APIService says that its version is available.
#[must_use]
pub fn is_available_api_service(service: &Value) -> bool {
    let condition = available(service).and_then(|index| service.items_at(&["status", "conditions"]).get(index));
    condition.is_some_and(|condition| condition.str_at(&["status"]) == "True")
}

/// The position of the condition that says whether a version is available.
fn available(service: &Value) -> Option<usize> {
    let conditions = service.items_at(&["status", "conditions"]);
    conditions.iter().position(|condition| condition.str_at(&["type"]) == "Available")
}

/// The status, reason and message of the condition `Available` of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiServiceAvailability {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The reason, a word in CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

impl ApiServiceAvailability {
    /// The availability of a version that this server serves itself.
    #[must_use]
    pub fn local() -> Self {
        let message = "Local APIServices are always available".to_owned();
        Self { status: "True", reason: "Local", message }
    }
}

/// Gives an APIService its condition. The time of the last transition stays if the status does (upstream:
/// `SetAPIServiceCondition`).
pub fn set_availability(service: &mut Value, availability: &ApiServiceAvailability, now: Time) {
    let ApiServiceAvailability { status, reason, message } = availability;
    let index = available(service);
    let mut conditions = service.items_at(&["status", "conditions"]).to_vec();
    match index.and_then(|index| conditions.get_mut(index)) {
        Some(condition) => {
            if condition.str_at(&["status"]) != *status {
                condition.set("status", *status);
                condition.set("lastTransitionTime", now.rfc3339());
            }
            condition.set("reason", *reason);
            condition.set("message", message.as_str());
        }
        None => conditions.push(object! {
            "type": "Available",
            "lastTransitionTime": now.rfc3339(),
            "status": *status,
            "reason": *reason,
            "message": message.as_str(),
        }),
    }
    service.set_at(&["status", "conditions"], conditions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn a_condition_is_restored_and_keeps_its_time() {
        let now = Time::from_seconds(0);
        let good = r#""reason":"Local","message":"Local APIServices are always available""#;
        let check = |before: &str, expect: &str| {
            let mut service = object(&format!(r#"{{"status":{{"conditions":[{before}]}}}}"#));
            set_availability(&mut service, &ApiServiceAvailability::local(), now);
            assert_eq!(service, object(&format!(r#"{{"status":{{"conditions":[{expect}]}}}}"#)), "{before}");
            assert!(is_available_api_service(&service), "{before}");
        };
        let at = |time: &str| format!(r#"{{"type":"Available","lastTransitionTime":"{time}","status":"True",{good}}}"#);
        let (epoch, before) = (at("1970-01-01T00:00:00Z"), at("1969-01-01T00:00:00Z"));
        check("", &epoch);
        check(&before, &before);
        check(&before.replace("Local\"", "Other\""), &before);
        check(&before.replace("True", "False"), &epoch);
        check(r#"{"type":"Other","status":"False"}"#, &format!(r#"{{"type":"Other","status":"False"}},{epoch}"#));
    }
}
