//! The plugin `PodGroupWorkloadExists` (upstream: `plugin/pkg/admission/podgroup`). The template that a new pod group
//! names must exist in its workload.

use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, BoxFuture, GroupResource};
use pintle_value::Value;
use pintle_value::print::quote;

use crate::{AdmissionAttributes, AdmissionPlugin, Phase};

const GROUP: &str = "scheduling.k8s.io";

/// The admission plugin `PodGroupWorkloadExists`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodGroupWorkloadExists {
    enabled: bool,
}

impl PodGroupWorkloadExists {
    /// The plugin, which does nothing without the feature `GenericWorkload`.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::GENERIC_WORKLOAD) }
    }
}

impl AdmissionPlugin for PodGroupWorkloadExists {
    fn name(&self) -> &'static str {
        "PodGroupWorkloadExists"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled && attributes.creates(GROUP, "podgroups")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        group: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let Some((reference, template)) = reference(group) else { return Ok(()) };
            let name = reference.str_at(&["workloadName"]);
            let reject = |why: String| Err(attributes.forbidden(group, format!("PodGroup rejected: {why}")));
            let workload = match workload(attributes, name).await {
                Ok(Some(workload)) => workload,
                Ok(None) => return reject(format!("Workload {} not found", quote(name))),
                Err(error) => return Err(ApiError::Internal(error.to_string())),
            };
            if workload.is_terminating() {
                return reject(format!("Workload {} is being deleted", quote(name)));
            }
            if has_template(&workload["spec"], template) {
                return Ok(());
            }
            reject(format!("PodGroupTemplate {} not found in Workload {}", quote(template), quote(name)))
        })
    }
}

/// The reference of a pod group to a workload, and the template that it names. Version 1.36 has another field than later
/// ones.
fn reference(group: &Value) -> Option<(&Value, &str)> {
    let find = |path: &[&str]| group.at(path).filter(|reference| !reference.is_null());
    if let Some(reference) = find(&["spec", "workloadRef"]) {
        return Some((reference, reference.str_at(&["templateName"])));
    }
    let reference = find(&["spec", "podGroupTemplateRef", "workload"])?;
    Some((reference, reference.str_at(&["podGroupTemplateName"])))
}

/// Whether a workload's spec or a composite template has a template of pod groups with this name, at any depth.
fn has_template(owner: &Value, name: &str) -> bool {
    let mut templates = owner.items_at(&["podGroupTemplates"]).iter();
    templates.any(|known| known.str_at(&["name"]) == name)
        || owner.items_at(&["compositePodGroupTemplates"]).iter().any(|inner| has_template(inner, name))
}

/// A workload in the namespace of the write. Another server may just have written it.
async fn workload(attributes: &AdmissionAttributes<'_>, name: &str) -> Result<Option<Value>, ApiError> {
    let resource = GroupResource::new(GROUP, "workloads");
    let read = || attributes.client.get(&resource, attributes.namespace, name);
    if let Some(workload) = read()? {
        return Ok(Some(workload));
    }
    attributes.client.refresh().await?;
    read()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, gates, json};

    fn workload(name: &str, metadata: &str) -> Value {
        json(&format!(
            r#"{{"kind":"Workload","metadata":{{"name":"{name}","namespace":"ns"{metadata}}},
                "spec":{{"podGroupTemplates":[{{"name":"a"}},{{"name":"b"}}]}}}}"#
        ))
    }

    #[test]
    fn the_template_of_a_new_pod_group_exists() {
        let plugin = PodGroupWorkloadExists::new(&gates(&["GenericWorkload"]));
        let stored = vec![workload("w", ""), workload("gone", r#","deletionTimestamp":"2026-01-01T00:00:00Z""#)];
        let create = Scenario { stored, ..Scenario::create(GROUP, "podgroups") };
        let group = |spec: &str| json(&format!(r#"{{"metadata":{{"name":"g","namespace":"ns"}},"spec":{{{spec}}}}}"#));
        let of = |workload: &str, template: &str| {
            group(&format!(
                r#""podGroupTemplateRef":{{"workload":{{"workloadName":"{workload}","podGroupTemplateName":"{template}"}}}}"#
            ))
        };
        for (group, expect) in [
            (group(""), ""),
            (group(r#""podGroupTemplateRef":null"#), ""),
            (group(r#""podGroupTemplateRef":{"workload":null}"#), ""),
            (of("w", "b"), ""),
            (of("w", "c"), r#"PodGroupTemplate "c" not found in Workload "w""#),
            (of("none", "a"), r#"Workload "none" not found"#),
            (of("gone", "a"), r#"Workload "gone" is being deleted"#),
        ] {
            let refused = format!("podgroups.scheduling.k8s.io \"g\" is forbidden: PodGroup rejected: {expect}");
            create.check_validate(&plugin, &group, if expect.is_empty() { Ok(()) } else { Err(&refused) });
        }
        create.check_validate(&PodGroupWorkloadExists::new(&Gates::default()), &of("none", "a"), Ok(()));
        let newer =
            |template: &str| group(&format!(r#""workloadRef":{{"workloadName":"w","templateName":"{template}"}}"#));
        create.check_validate(&plugin, &newer("a"), Ok(()));
        let why = r#"podgroups.scheduling.k8s.io "g" is forbidden: PodGroup rejected: PodGroupTemplate "c" not found in Workload "w""#;
        create.check_validate(&plugin, &newer("c"), Err(why));
        let spec = json(r#"{"compositePodGroupTemplates":[{"name":"c","podGroupTemplates":[{"name":"deep"}]}]}"#);
        assert!(has_template(&spec, "deep") && !has_template(&spec, "c"));
        let unreadable = Scenario { unreadable: "workloads", ..create.clone() };
        let found = unreadable.validate(&plugin, &of("w", "a")).expect_err("refused");
        assert!(matches!(found, ApiError::Internal(_)), "{found:?}");
        let update = Scenario { old: Some(of("w", "a")), ..Scenario::update(GROUP, "podgroups") };
        update.check_validate(&plugin, &of("none", "a"), Ok(()));
    }
}
