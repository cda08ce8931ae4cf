//! The plugin `ExtendedResourceToleration` (upstream: `plugin/pkg/admission/extendedresourcetoleration`). A pod that
//! requests an extended resource tolerates the taint with its name. So nodes with the resource can be reserved.

use std::collections::BTreeSet;

use pintle_registry::ApiError;
use pintle_value::{Value, names, object};

use crate::pods::{LISTS, containers};
use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The admission plugin `ExtendedResourceToleration`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExtendedResourceToleration;

/// True for extended resources, such as the resources of device plugins (upstream: `IsExtendedResourceName`).
fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

impl SyncPlugin for ExtendedResourceToleration {
    const NAME: &'static str = "ExtendedResourceToleration";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
    }

    fn mutate(&self, _: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
        let containers = containers(&pod["spec"], &LISTS);
        let requested = containers.flat_map(|container| container.entries_at(&["resources", "requests"]));
        let extended = requested.map(|(name, _)| name).filter(|name| is_extended(name));
        let extended: BTreeSet<String> = extended.map(str::to_owned).collect();
        if extended.is_empty() {
            return Ok(());
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let Some(tolerations) = spec.entry("tolerations").or_array() else { return Ok(()) };
        let toleration = |name: &str| object! {"key": name, "operator": "Exists", "effect": "NoSchedule"};
        let mut missing = extended.clone();
        for known in tolerations.iter_mut() {
            let name = known.str_at(&["key"]);
            let others = ["operator", "effect", "value"].map(|field| known.str_at(&[field]));
            if others == ["Exists", "NoSchedule", ""] && extended.contains(name) {
                missing.remove(name);
                // A toleration with a time limit becomes a toleration without one.
                *known = toleration(name);
            }
        }
        tolerations.extend(missing.iter().map(|name| toleration(name)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn extended_resources_are_tolerated() {
        let check = |requests: [&str; 2], tolerations: &str, expect: &str| {
            let pod = |tolerations: &str| {
                let [container, init] = requests;
                json(&format!(
                    r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"resources":{{"requests":{{{container}}}}}}}],
                        "initContainers":[{{"resources":{{"requests":{{{init}}}}}}}]{tolerations}}}}}"#
                ))
            };
            let plugin = &ExtendedResourceToleration;
            Scenario::create("", "pods").check_mutate(plugin, pod(tolerations), Ok(&pod(expect)));
            let status = Scenario { subresource: "status", ..Scenario::create("", "pods") };
            status.check_mutate(plugin, pod(tolerations), Ok(&pod(tolerations)));
        };
        let tolerated = |name: &str| format!(r#"{{"key":"{name}","operator":"Exists","effect":"NoSchedule"}}"#);
        check([r#""cpu":"1","kubernetes.io/x":"1""#, r#""requests.a/b":"1""#], "", "");
        let (fpga, gpu) = (tolerated("example.com/fpga"), tolerated("example.com/gpu"));
        let both = [r#""example.com/gpu":"1""#, r#""example.com/gpu":"1","example.com/fpga":"2""#];
        check(both, "", &format!(r#","tolerations":[{fpga},{gpu}]"#));
        check(
            [r#""example.com/gpu":"1""#, ""],
            r#","tolerations":[{"key":"example.com/gpu","operator":"Exists","effect":"NoSchedule","tolerationSeconds":5},
                {"key":"b"}]"#,
            &format!(r#","tolerations":[{gpu},{{"key":"b"}}]"#),
        );
        check(
            [r#""example.com/gpu":"1""#, ""],
            r#","tolerations":[{"key":"example.com/gpu","operator":"Equal","effect":"NoSchedule"}]"#,
            &format!(r#","tolerations":[{{"key":"example.com/gpu","operator":"Equal","effect":"NoSchedule"}},{gpu}]"#),
        );
    }
}
