//! The plugin `RuntimeClass` (upstream: `plugin/pkg/admission/runtimeclass`): a new pod gets the overhead and the
//! scheduling constraints of its runtime class, and may not claim another overhead.

use pintle_registry::{ApiError, GroupResource};
use pintle_value::field::quote;
use pintle_value::quantity::Quantity;
use pintle_value::{Object, Value};

use crate::{AdmissionAttributes, Phase, SyncPlugin, tolerations};

/// The admission plugin `RuntimeClass`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RuntimeClass;

const OVERHEAD: [&str; 2] = ["spec", "overhead"];
const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// True if two resource lists have the same quantities, in any notation.
fn are_equal(first: Option<&Value>, second: Option<&Value>) -> bool {
    let entries = |list: Option<&Value>| list.and_then(Value::as_object).cloned().unwrap_or_default();
    let (first, second) = (entries(first), entries(second));
    let is_same = |(first, second): (&Value, &Value)| match (Quantity::from_value(first), Quantity::from_value(second))
    {
        (Ok(first), Ok(second)) => first == second,
        _ => first == second,
    };
    first.keys().eq(second.keys()) && first.values().zip(second.values()).all(is_same)
}

impl RuntimeClass {
    /// The runtime class of a pod, if it has one.
    fn class_of(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<Option<Value>, ApiError> {
        let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else { return Ok(None) };
        match attributes.client.get(&GroupResource::new("node.k8s.io", "runtimeclasses"), "", name)? {
            Some(class) => Ok(Some(class)),
            None => {
                let why = format!("pod rejected: RuntimeClass {} not found", quote(name));
                Err(attributes.forbidden(pod, why))
            }
        }
    }

    fn set_overhead(attributes: &AdmissionAttributes<'_>, pod: &mut Value, class: &Value) -> Result<(), ApiError> {
        let Some(overhead) = class.get("overhead") else { return Ok(()) };
        let (fixed, given) = (overhead.get("podFixed"), pod.at(&OVERHEAD));
        if given.is_some_and(|given| !given.is_empty()) && !are_equal(fixed, given) {
            return Err(attributes.forbidden(pod, OTHER_OVERHEAD));
        }
        match fixed {
            Some(fixed) => pod.set_at(&OVERHEAD, fixed.clone()),
            None => drop(pod.remove_at(&OVERHEAD)),
        }
        Ok(())
    }

    fn set_scheduling(attributes: &AdmissionAttributes<'_>, pod: &mut Value, class: &Value) -> Result<(), ApiError> {
        let Some(scheduling) = class.get("scheduling") else { return Ok(()) };
        let mut selector = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object).cloned().unwrap_or_default();
        for (key, value) in scheduling.entries_at(&["nodeSelector"]) {
            if let Some(given) = selector.insert(key, value.clone()).filter(|given| given != value) {
                let [value, given] = [value, &given].map(|text| text.as_str().unwrap_or_default());
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
                );
                return Err(attributes.forbidden(pod, why));
            }
        }
        let tolerations =
            tolerations::merge(pod.items_at(&["spec", "tolerations"]), scheduling.items_at(&["tolerations"]));
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        set_or_remove(spec, "nodeSelector", selector.into());
        set_or_remove(spec, "tolerations", tolerations.into());
        Ok(())
    }
}

/// Sets a field that a Go struct omits if it is empty.
fn set_or_remove(spec: &mut Object, field: &str, value: Value) {
    if value.is_empty() {
        spec.remove(field);
    } else {
        spec.insert(field, value);
    }
}

impl SyncPlugin for RuntimeClass {
    const NAME: &'static str = "RuntimeClass";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates("", "pods")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if let Some(class) = Self::class_of(attributes, object)? {
            Self::set_overhead(attributes, object, &class)?;
            Self::set_scheduling(attributes, object, &class)?;
        }
        Ok(())
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        let class = Self::class_of(attributes, pod)?;
        let Some(given) = pod.at(&OVERHEAD).filter(|given| !given.is_empty()) else { return Ok(()) };
        match class.as_ref().and_then(|class| class.get("overhead")) {
            Some(overhead) if are_equal(overhead.get("podFixed"), Some(given)) => Ok(()),
            Some(_) => Err(attributes.forbidden(pod, OTHER_OVERHEAD)),
            None => {
                let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                Err(attributes.forbidden(pod, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    fn pod(spec: &str) -> Value {
        json(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#))
    }

    fn scenario() -> Scenario {
        let class = |name: &str, fields: &str| {
            json(&format!(r#"{{"kind":"RuntimeClass","metadata":{{"name":"{name}"}},"handler":"h"{fields}}}"#))
        };
        let scheduling = r#","scheduling":{"nodeSelector":{"a":"1"},
            "tolerations":[{"key":"t","operator":"Exists","effect":"NoSchedule"}]}"#;
        let stored = vec![
            class("plain", ""),
            class("heavy", r#","overhead":{"podFixed":{"cpu":"250m","memory":"1Gi"}}"#),
            class("picky", scheduling),
        ];
        Scenario { stored, ..Scenario::create("", "pods") }
    }

    fn check_mutate(spec: &str, expect: Result<&str, &str>) {
        let expect = expect.map(pod);
        scenario().check_mutate(&RuntimeClass, pod(spec), expect.as_ref().map_err(|text| *text));
    }

    #[test]
    fn a_pod_gets_the_overhead_of_its_class() {
        let heavy = r#"{"runtimeClassName":"heavy","overhead":{"cpu":"250m","memory":"1Gi"}}"#;
        check_mutate(r#"{"runtimeClassName":"heavy"}"#, Ok(heavy));
        check_mutate(r#"{"runtimeClassName":"heavy","overhead":{"cpu":"0.25","memory":"1024Mi"}}"#, Ok(heavy));
        for other in [r#"{"cpu":"250m"}"#, r#"{"cpu":"1","memory":"1Gi"}"#] {
            check_mutate(
                &format!(r#"{{"runtimeClassName":"heavy","overhead":{other}}}"#),
                Err(&format!("pods \"p\" is forbidden: {OTHER_OVERHEAD}")),
            );
        }
        check_mutate(
            r#"{"runtimeClassName":"gone"}"#,
            Err("pods \"p\" is forbidden: pod rejected: RuntimeClass \"gone\" not found"),
        );
        for unchanged in ["{}", r#"{"overhead":{"cpu":"1"}}"#, r#"{"runtimeClassName":"plain"}"#] {
            check_mutate(unchanged, Ok(unchanged));
        }
    }

    #[test]
    fn a_pod_is_scheduled_as_its_class_says() {
        let toleration = r#"{"key":"t","operator":"Exists","effect":"NoSchedule"}"#;
        check_mutate(
            r#"{"runtimeClassName":"picky"}"#,
            Ok(&format!(r#"{{"runtimeClassName":"picky","nodeSelector":{{"a":"1"}},"tolerations":[{toleration}]}}"#)),
        );
        check_mutate(
            r#"{"runtimeClassName":"picky","nodeSelector":{"a":"1","b":"2"},"tolerations":[{"key":"u"}]}"#,
            Ok(&format!(
                r#"{{"runtimeClassName":"picky","nodeSelector":{{"a":"1","b":"2"}},
                    "tolerations":[{{"key":"u"}},{toleration}]}}"#
            )),
        );
        check_mutate(
            r#"{"runtimeClassName":"picky","nodeSelector":{"a":"2"}}"#,
            Err("pods \"p\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = 1; \
                 pod.spec.nodeSelector[a] = 2"),
        );
    }

    #[test]
    fn an_overhead_needs_a_class_that_has_it() {
        let check = |spec: &str, expect: Result<(), &str>| {
            scenario().check_validate(&RuntimeClass, &pod(spec), expect);
        };
        let unfounded = "pods \"p\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass \
                         defined Overhead";
        check("{}", Ok(()));
        check(r#"{"runtimeClassName":"heavy"}"#, Ok(()));
        check(r#"{"runtimeClassName":"heavy","overhead":{"cpu":"250m","memory":"1Gi"}}"#, Ok(()));
        let other = format!("pods \"p\" is forbidden: {OTHER_OVERHEAD}");
        check(r#"{"runtimeClassName":"heavy","overhead":{"cpu":"1"}}"#, Err(&other));
        check(r#"{"runtimeClassName":"plain","overhead":{"cpu":"1"}}"#, Err(unfounded));
        check(r#"{"overhead":{"cpu":"1"}}"#, Err(unfounded));
        check(
            r#"{"runtimeClassName":"gone"}"#,
            Err("pods \"p\" is forbidden: pod rejected: RuntimeClass \"gone\" not found"),
        );
    }
}
