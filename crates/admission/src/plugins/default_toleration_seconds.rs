//! The plugin `DefaultTolerationSeconds` (upstream: `plugin/pkg/admission/defaulttolerationseconds`): pods tolerate nodes
//! that are not ready or not reachable for some time, unless they say something else.

use pintle_registry::ApiError;
use pintle_value::{Value, object};

use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// How long pods tolerate by default, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// A node that is not ready (`--default-not-ready-toleration-seconds`).
    pub not_ready: i64,
    /// A node that is not reachable (`--default-unreachable-toleration-seconds`).
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> Self {
        Self { not_ready: 300, unreachable: 300 }
    }
}

/// The admission plugin `DefaultTolerationSeconds`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultTolerationSeconds(pub(crate) TolerationSeconds);

const NO_EXECUTE: &str = "NoExecute";

/// True if a toleration is for this taint with the effect `NoExecute`, or for more.
fn is_for(toleration: &Value, taint: &str) -> bool {
    let [key, effect] = ["key", "effect"].map(|field| toleration.str_at(&[field]));
    (key.is_empty() || key == taint) && matches!(effect, "" | NO_EXECUTE)
}

impl SyncPlugin for DefaultTolerationSeconds {
    const NAME: &'static str = "DefaultTolerationSeconds";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
    }

    fn mutate(&self, _: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
        let defaults = [
            ("node.kubernetes.io/not-ready", self.0.not_ready),
            ("node.kubernetes.io/unreachable", self.0.unreachable),
        ];
        let given = pod.items_at(&["spec", "tolerations"]);
        let missing = defaults.map(|(taint, seconds)| {
            let is_missing = !given.iter().any(|toleration| is_for(toleration, taint));
            is_missing.then(|| {
                object! {"key": taint, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}
            })
        });
        if missing.iter().all(Option::is_none) {
            return Ok(());
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if let Some(tolerations) = spec.entry("tolerations").or_array() {
            tolerations.extend(missing.into_iter().flatten());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    fn check(scenario: &Scenario, tolerations: &str, expect: &str) {
        let pod = |tolerations: &str| json(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{tolerations}}}}}"#));
        let plugin = DefaultTolerationSeconds(TolerationSeconds { not_ready: 1, unreachable: 2 });
        scenario.check_mutate(&plugin, pod(tolerations), Ok(&pod(expect)));
    }

    const BOTH: &str = r#""tolerations":[
        {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":1},
        {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":2}]"#;

    #[test]
    fn missing_tolerations_are_added_last() {
        let create = Scenario::create("", "pods");
        check(&create, "", BOTH);
        check(
            &create,
            r#""tolerations":[{"key":"a","operator":"Exists"},
                {"key":"node.kubernetes.io/not-ready","effect":"NoSchedule","operator":"Exists"},
                {"key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":9}]"#,
            r#""tolerations":[{"key":"a","operator":"Exists"},
                {"key":"node.kubernetes.io/not-ready","effect":"NoSchedule","operator":"Exists"},
                {"key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":9},
                {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":1}]"#,
        );
        for all in [r#"{"operator":"Exists"}"#, r#"{"operator":"Exists","effect":"NoExecute"}"#] {
            let tolerations = format!(r#""tolerations":[{all}]"#);
            check(&create, &tolerations, &tolerations);
        }
    }

    #[test]
    fn updates_are_handled_and_subresources_are_not() {
        let update = Scenario { old: Some(json("{}")), ..Scenario::update("", "pods") };
        check(&update, "", BOTH);
        check(&Scenario { subresource: "status", ..update }, "", "");
    }

    #[test]
    fn the_default_is_five_minutes() {
        assert_eq!(TolerationSeconds::default(), TolerationSeconds { not_ready: 300, unreachable: 300 });
    }
}
