//! Drops the fields of features that are off from pods and pod templates that do not use them (upstream:
//! `DropDisabledPodFields`, `DropDisabledTemplateFields`). The fields are in the table of [`crate::gated`].

use pintle_registry::StrategyContext;
use pintle_value::Value;

use crate::gated::{Part, drop_disabled};

/// The lists of container statuses in a pod's status.
pub(crate) const STATUS_LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// Drops disabled fields from a pod template, or from the spec of a pod.
pub(crate) fn drop_disabled_template_fields(context: &StrategyContext, template: &mut Value, old: Option<&Value>) {
    if let Some(spec) = template.get_mut("spec") {
        drop_disabled(&context.gates, Part::PodSpec, spec, old.and_then(|old| old.get("spec")));
    }
}

/// Drops disabled fields from a pod.
pub(crate) fn drop_disabled_pod_fields(context: &StrategyContext, pod: &mut Value, old: Option<&Value>) {
    drop_disabled_template_fields(context, pod, old);
    drop_disabled(&context.gates, Part::Pod, pod, old);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, gated_context, object};

    #[test]
    fn disabled_fields_are_dropped_unless_in_use() {
        let given = r#"{"spec":{"schedulingGroup":{},"containers":[{"lifecycle":{"stopSignal":"SIGHUP"}}],
            "volumes":[{"projected":{"sources":[{"podCertificate":{}}]}}]},
            "status":{"containerStatuses":[{"volumeMounts":[{"volumeStatus":{}}]}]}}"#;
        let check = |old: Option<&str>, expect: &str| {
            let mut pod = object(given);
            drop_disabled_pod_fields(&context(), &mut pod, old.map(object).as_ref());
            assert_eq!(pod, object(expect));
        };
        check(
            None,
            r#"{"spec":{"containers":[{}],"volumes":[{"projected":{"sources":[{}]}}]},
                "status":{"containerStatuses":[{"volumeMounts":[{}]}]}}"#,
        );
        check(Some(given), given);
    }

    #[test]
    fn restart_rules_are_dropped_but_not_sidecars() {
        let given = object(
            r#"{"spec":{"initContainers":[{"restartPolicy":"Always"},{"restartPolicy":"Never"}],
                "containers":[{"restartPolicy":"Never","restartPolicyRules":[{}]}]}}"#,
        );
        let off = gated_context(&[("ContainerRestartRules", false), ("RestartAllContainersOnContainerExits", false)]);
        let mut pod = given.clone();
        drop_disabled_pod_fields(&off, &mut pod, None);
        assert_eq!(pod, object(r#"{"spec":{"initContainers":[{"restartPolicy":"Always"},{}],"containers":[{}]}}"#));
        let sidecar = object(r#"{"spec":{"initContainers":[{"restartPolicy":"Always"}]}}"#);
        let mut pod = given.clone();
        drop_disabled_pod_fields(&off, &mut pod, Some(&sidecar));
        assert_ne!(pod, given);
        let mut pod = given.clone();
        drop_disabled_pod_fields(&off, &mut pod, Some(&given));
        assert_eq!(pod, given);
    }
}
