//! The rules of a PodDisruptionBudget for the eviction of a pod (upstream: `EvictionREST`,
//! `component-helpers/apps/poddisruptionbudget`).

use pintle_gates::{Change, Gates};
use pintle_registry::{ApiError, Cause, GroupResource};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

use crate::core::pod::is_ready;
use crate::labels::{matches_labels, parse_selector};

/// The maximum number of entries in `status.disruptedPods` with which a budget allows another eviction (upstream:
/// `MaxDisruptedPodSize`). More entries mean that the disruption controller does not keep up.
const MAX_DISRUPTED_PODS: usize = 2000;
/// Seconds after which a client may ask again while the disruption controller has not seen the last change of a budget.
const OBSERVATION_RETRY: u32 = 10;
/// The condition of a budget that says whether it allows a disruption.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// The reason of that condition if the disruption controller could not compute the budget.
const SYNC_FAILED: &str = "SyncFailed";

/// The causes of errors about budgets whose status does not allow evictions at all.
const NEGATIVE_DISRUPTIONS: &str = "DisruptionBudgetNegativeAllowedDisruptions";
const TOO_MANY_DISRUPTED_PODS: &str = "DisruptionBudgetTooManyDisruptedPods";

/// True if a budget selects a pod of its namespace. A malformed selector selects none.
#[must_use]
pub fn is_covered_by(pod: &Value, budget: &Value) -> bool {
    let selector = parse_selector(budget.at(&["spec", "selector"]));
    selector.is_some_and(|selector| matches_labels(&selector, pod.at(&["metadata", "labels"])))
}

/// True if a budget allows the eviction of an unhealthy pod without a disruption, because it counts only healthy pods.
#[must_use]
pub fn budget_spares(budget: &Value, pod: &Value) -> bool {
    if is_ready(pod) {
        return false;
    }
    let (healthy, desired) = (status_int(budget, "currentHealthy"), status_int(budget, "desiredHealthy"));
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

/// Takes one disruption from the status of a budget, for the eviction of a pod (upstream: `checkAndDecrement`).
///
/// # Errors
/// The budget does not allow it.
pub fn count_disruption(gates: &Gates, budget: &mut Value, pod: &str, now: Time) -> Result<(), ApiError> {
    if status_int(budget, "observedGeneration") < budget.generation() {
        return Err(budget_not_observed(budget.name()));
    }
    let allowed = status_int(budget, "disruptionsAllowed");
    let forbidden = |reason: &str, why: &str| {
        let cause = Cause { reason: reason.into(), message: why.to_owned(), field: String::new() };
        let has_causes = gates.has(Change::UNUSABLE_BUDGETS_HAVE_CAUSES);
        ApiError::Forbidden {
            resource: GroupResource::new("policy", "poddisruptionbudget"),
            name: budget.name().into(),
            why: why.to_owned(),
            causes: Some(cause).filter(|_| has_causes).into_iter().collect(),
        }
    };
    if allowed < 0 {
        return Err(forbidden(NEGATIVE_DISRUPTIONS, "pdb disruptions allowed is negative"));
    }
    if budget.entries_at(&["status", "disruptedPods"]).count() > MAX_DISRUPTED_PODS {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(forbidden(TOO_MANY_DISRUPTED_PODS, why));
    }
    if allowed == 0 {
        return Err(violation(0, exhausted_message(budget)));
    }
    budget.set_at(&["status", "disruptionsAllowed"], allowed - 1);
    if allowed == 1 {
        set_insufficient_pods(budget, now);
    }
    budget.set_at(&["status", "disruptedPods", pod], now.rfc3339());
    Ok(())
}

/// The error for an eviction that cannot be decided until the disruption controller has seen the last change of a
/// budget or pod.
#[must_use]
pub fn budget_not_observed(budget: &str) -> ApiError {
    violation(OBSERVATION_RETRY, format!("The disruption budget {budget} is still being processed by the server."))
}

fn violation(retry_after: u32, why: String) -> ApiError {
    ApiError::TooManyRequests {
        message: "Cannot evict pod as it would violate the pod's disruption budget.".to_owned(),
        retry_after,
        causes: vec![Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() }],
    }
}

/// Says why a budget allows no disruption. The counts mean nothing if they could not be computed.
fn exhausted_message(budget: &Value) -> String {
    let name = budget.name();
    let text = |condition: &Value, key: &str| condition.str_at(&[key]).to_owned();
    let denial = allowance(budget)
        .filter(|condition| text(condition, "status") == "False" && !text(condition, "message").is_empty())
        .map(|condition| (text(condition, "reason"), text(condition, "message")));
    let (healthy, desired) = (status_int(budget, "currentHealthy"), status_int(budget, "desiredHealthy"));
    match denial {
        Some((reason, why)) if reason == SYNC_FAILED => {
            format!("The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}")
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, why)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {why}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// The condition that says whether a budget allows a disruption.
fn allowance(budget: &Value) -> Option<&Value> {
    let mut conditions = budget.items_at(&["status", "conditions"]).iter();
    conditions.find(|condition| condition.str_at(&["type"]) == DISRUPTION_ALLOWED)
}

/// Sets the condition of a budget that allows no further disruption (upstream: `UpdateDisruptionAllowedCondition`).
fn set_insufficient_pods(budget: &mut Value, now: Time) {
    let existing = allowance(budget).filter(|existing| existing.str_at(&["status"]) == "False");
    let since = existing.map(|existing| existing.str_at(&["lastTransitionTime"]).to_owned());
    let observed = status_int(budget, "observedGeneration");
    let mut condition = Object::new();
    condition.insert("type", DISRUPTION_ALLOWED);
    condition.insert("status", "False");
    if observed != 0 {
        condition.insert("observedGeneration", observed);
    }
    condition.insert("lastTransitionTime", since.unwrap_or_else(|| now.rfc3339().to_string()));
    condition.insert("reason", "InsufficientPods");
    condition.insert("message", "");
    let condition = Value::Object(condition);
    if budget.at(&["status", "conditions"]).and_then(Value::as_array).is_none() {
        budget.set_at(&["status", "conditions"], Value::Array(Vec::new()));
    }
    let Some(conditions) = budget.at_mut(&["status", "conditions"]).and_then(Value::as_array_mut) else { return };
    match conditions.iter_mut().find(|condition| condition.str_at(&["type"]) == DISRUPTION_ALLOWED) {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}

fn status_int(budget: &Value, field: &str) -> i64 {
    budget.int_at(&["status", field]).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use pintle_value::print;

    use pintle_versions::{EffectiveVersion, Minor};

    use super::*;
    use crate::testing::object;

    const NOW: Time = Time { seconds: 1_700_000_000, nanos: 0 };
    const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

    /// A budget with the name `b` at generation 2.
    fn budget(status: &str) -> Value {
        object(&format!(r#"{{"metadata":{{"name":"b","generation":2}},"status":{status}}}"#))
    }

    #[test]
    fn budgets_select_pods_by_their_labels() {
        let check = |selector: &str, expect: bool| {
            let budget = object(&format!(r#"{{"spec":{{{selector}}}}}"#));
            let pod = object(r#"{"metadata":{"labels":{"app":"web"}}}"#);
            assert_eq!(is_covered_by(&pod, &budget), expect, "{selector}");
        };
        check("", false);
        check(r#""selector":{}"#, true);
        check(r#""selector":{"matchLabels":{"app":"web"}}"#, true);
        check(r#""selector":{"matchLabels":{"app":"db"}}"#, false);
        check(r#""selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}"#, true);
        check(r#""selector":{"matchExpressions":[{"key":"app","operator":"Maybe"}]}"#, false);
        check(
            r#""selector":{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"Exists"}]}"#,
            false,
        );
    }

    #[test]
    fn unhealthy_pods_go_if_the_policy_allows_or_enough_others_are_healthy() {
        let check = |policy: &str, ready: &str, counts: (i64, i64), expect: bool| {
            let (healthy, desired) = counts;
            let budget = object(&format!(
                r#"{{"spec":{{{policy}}},"status":{{"currentHealthy":{healthy},"desiredHealthy":{desired}}}}}"#
            ));
            let pod = object(&format!(r#"{{"status":{{"conditions":[{ready}]}}}}"#));
            assert_eq!(budget_spares(&budget, &pod), expect, "{policy} {ready} {counts:?}");
        };
        let (always, healthy_budget) =
            (r#""unhealthyPodEvictionPolicy":"AlwaysAllow""#, r#""unhealthyPodEvictionPolicy":"IfHealthyBudget""#);
        let (ready, unready) = (r#"{"type":"Ready","status":"True"}"#, r#"{"type":"Ready","status":"False"}"#);
        for policy in ["", always, healthy_budget] {
            check(policy, ready, (2, 1), false);
            check(policy, unready, (2, 2), true);
            check(policy, "", (2, 2), true);
            check(policy, unready, (1, 2), policy == always);
            check(policy, unready, (0, 0), policy == always);
        }
    }

    #[test]
    fn a_disruption_is_taken_from_the_budget() {
        let check = |status: &str, expect: &str| {
            let mut budget = budget(status);
            count_disruption(&Gates::default(), &mut budget, "p", NOW).expect("allowed");
            assert_eq!(budget["status"], object(expect), "{}", print::json(&budget));
        };
        check(
            r#"{"observedGeneration":2,"disruptionsAllowed":2}"#,
            r#"{"observedGeneration":2,"disruptionsAllowed":1,"disruptedPods":{"p":"2023-11-14T22:13:20Z"}}"#,
        );
        // The last one changes the condition.
        check(
            r#"{"observedGeneration":2,"disruptionsAllowed":1,"disruptedPods":{"o":"2023-01-01T00:00:00Z"},
                "conditions":[{"type":"Other","status":"True"},{"type":"DisruptionAllowed","status":"True",
                "observedGeneration":1,"lastTransitionTime":"2023-01-01T00:00:00Z","reason":"SufficientPods","message":""}]}"#,
            r#"{"observedGeneration":2,"disruptionsAllowed":0,
                "disruptedPods":{"o":"2023-01-01T00:00:00Z","p":"2023-11-14T22:13:20Z"},
                "conditions":[{"type":"Other","status":"True"},{"type":"DisruptionAllowed","status":"False",
                "observedGeneration":2,"lastTransitionTime":"2023-11-14T22:13:20Z","reason":"InsufficientPods","message":""}]}"#,
        );
        check(
            r#"{"observedGeneration":2,"disruptionsAllowed":1,"conditions":[{"type":"DisruptionAllowed","status":"False",
                "observedGeneration":2,"lastTransitionTime":"2023-01-01T00:00:00Z","reason":"SyncFailed","message":"no"}]}"#,
            r#"{"observedGeneration":2,"disruptionsAllowed":0,"conditions":[{"type":"DisruptionAllowed","status":"False",
                "observedGeneration":2,"lastTransitionTime":"2023-01-01T00:00:00Z","reason":"InsufficientPods","message":""}],
                "disruptedPods":{"p":"2023-11-14T22:13:20Z"}}"#,
        );
    }

    #[test]
    fn a_budget_without_disruptions_refuses_and_says_why() {
        let check = |status: &str, retry: u32, expect: &str| {
            let mut budget = budget(status);
            let before = budget.clone();
            match count_disruption(&Gates::default(), &mut budget, "p", NOW).expect_err("not allowed") {
                ApiError::TooManyRequests { message, retry_after, causes } => {
                    let why: Vec<_> = causes.iter().map(|cause| (&*cause.reason, &*cause.message)).collect();
                    assert_eq!(
                        (&*message, retry_after, &why[..]),
                        (VIOLATION, retry, &[("DisruptionBudget", expect)][..])
                    );
                }
                error => assert_eq!((retry, &*error.to_string()), (0, expect)),
            }
            assert_eq!(budget, before);
        };
        let unobserved = "The disruption budget b is still being processed by the server.";
        check("{}", 10, unobserved);
        check(r#"{"observedGeneration":1,"disruptionsAllowed":5}"#, 10, unobserved);
        let negative = r#"poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative"#;
        check(r#"{"observedGeneration":2,"disruptionsAllowed":-1}"#, 0, negative);
        let pods: Vec<String> = (0..=MAX_DISRUPTED_PODS).map(|i| format!(r#""p{i}":"2023-01-01T00:00:00Z""#)).collect();
        let many = |pods: &[String]| {
            let pods = pods.join(",");
            format!(r#"{{"observedGeneration":2,"disruptionsAllowed":1,"disruptedPods":{{{pods}}}}}"#)
        };
        let too_many = r#"poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller"#;
        check(&many(&pods), 0, too_many);
        assert!(count_disruption(&Gates::default(), &mut budget(&many(&pods[1..])), "p", NOW).is_ok());

        let check_cause = |status: &str, expect: &str| {
            for (minor, expect) in [(36, &[][..]), (37, &[expect][..])] {
                let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
                let refused = count_disruption(&gates, &mut budget(status), "p", NOW);
                let Err(ApiError::Forbidden { causes, why, .. }) = refused else { panic!("{refused:?}") };
                assert_eq!(causes.iter().map(|cause| &*cause.reason).collect::<Vec<_>>(), expect);
                assert!(causes.iter().all(|cause| cause.message == why && cause.field.is_empty()));
            }
        };
        check_cause(r#"{"observedGeneration":2,"disruptionsAllowed":-1}"#, NEGATIVE_DISRUPTIONS);
        check_cause(&many(&pods), TOO_MANY_DISRUPTED_PODS);

        let none = |rest: &str| format!(r#"{{"observedGeneration":2,"disruptionsAllowed":0{rest}}}"#);
        let condition = |status: &str, reason: &str, message: &str| {
            format!(
                r#","conditions":[{{"type":"DisruptionAllowed","status":"{status}","reason":"{reason}","message":"{message}"}}]"#
            )
        };
        let counts = r#","currentHealthy":2,"desiredHealthy":2"#;
        let counted = "The disruption budget b needs 2 healthy pods and has 2 currently";
        check(&none(counts), 0, counted);
        check(&none(&format!("{counts}{}", condition("False", "InsufficientPods", "few"))), 0, counted);
        check(
            &none(&format!("{counts}{}", condition("False", "SyncFailed", "no scale"))),
            0,
            "The disruption budget b does not allow evicting pods currently because it failed sync: no scale",
        );
        let enough = r#","currentHealthy":3,"desiredHealthy":2"#;
        let unexplained = "The disruption budget b does not allow evicting pods currently";
        check(&none(enough), 0, unexplained);
        check(&none(&format!("{enough}{}", condition("True", "SufficientPods", "some"))), 0, unexplained);
        check(&none(&format!("{enough}{}", condition("False", "SyncFailed", ""))), 0, unexplained);
        check(
            &none(&format!("{enough}{}", condition("False", "Paused", "later"))),
            0,
            "The disruption budget b does not allow evicting pods currently (Paused): later",
        );
    }
}
