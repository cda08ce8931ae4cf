//! The plugin `TaintNodesByCondition` (upstream: `plugin/pkg/admission/nodetaint`). A new node gets the taint of a node
//! that is not ready. So nothing is scheduled to it before the node controller has seen it.

use pintle_registry::ApiError;
use pintle_value::{Value, object};

use crate::{AdmissionAttributes, Phase, SyncPlugin};

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The admission plugin `TaintNodesByCondition`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaintNodesByCondition;

impl SyncPlugin for TaintNodesByCondition {
    const NAME: &'static str = "TaintNodesByCondition";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates("", "nodes")
    }

    fn mutate(&self, _: &AdmissionAttributes<'_>, node: &mut Value) -> Result<(), ApiError> {
        let is_known = |taint: &Value| taint.str_at(&["key"]) == KEY && taint.str_at(&["effect"]) == EFFECT;
        if node.items_at(&["spec", "taints"]).iter().any(is_known) {
            return Ok(());
        }
        let Some(spec) = node.or_object().and_then(|node| node.entry("spec").or_object()) else { return Ok(()) };
        if let Some(taints) = spec.entry("taints").or_array() {
            taints.push(object! {"key": KEY, "effect": EFFECT});
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn a_new_node_is_tainted_once() {
        let check = |node: &str, expect: &str| {
            Scenario::create("", "nodes").check_mutate(&TaintNodesByCondition, json(node), Ok(&json(expect)));
        };
        let taint = r#"{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"}"#;
        check(
            r#"{"metadata":{"name":"n"}}"#,
            &format!(r#"{{"metadata":{{"name":"n"}},"spec":{{"taints":[{taint}]}}}}"#),
        );
        let other = r#"{"key":"node.kubernetes.io/not-ready","effect":"NoExecute"}"#;
        check(
            &format!(r#"{{"spec":{{"taints":[{other}]}}}}"#),
            &format!(r#"{{"spec":{{"taints":[{other},{taint}]}}}}"#),
        );
        let own = r#"{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","value":"v","effect":"NoSchedule"}]}}"#;
        check(own, own);
    }

    #[test]
    fn an_update_adds_no_taint() {
        let node = json(r#"{"metadata":{"name":"n"},"spec":{}}"#);
        let update = Scenario { old: Some(node.clone()), ..Scenario::update("", "nodes") };
        update.check_mutate(&TaintNodesByCondition, node.clone(), Ok(&node));
    }
}
