//! The plugin `JobValidation` (upstream: `plugin/pkg/admission/job`). It forbids changes of the parallelism of a job
//! whose pods are scheduled as a gang.

use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::print::quote;
use pintle_value::{Value, same};

use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The admission plugin `JobValidation`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobValidation {
    enabled: bool,
}

impl JobValidation {
    /// The plugin, which does nothing without the feature `GenericWorkload`, on which `WorkloadWithJob` depends.
    #[must_use]
    pub(crate) fn new(gates: &Gates) -> Self {
        Self { enabled: gates.is_enabled(Feature::GENERIC_WORKLOAD) }
    }
}

impl SyncPlugin for JobValidation {
    const NAME: &'static str = "JobValidation";
    const PHASES: &'static [Phase] = &[Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.enabled && attributes.operation == AdmissionOperation::Update && attributes.is_object_of("batch", "jobs")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, job: &Value) -> Result<(), ApiError> {
        let parallelism = ["spec", "parallelism"];
        let Some(old) = attributes.old.filter(|old| !same(job.at(&parallelism), old.at(&parallelism))) else {
            return Ok(());
        };
        match gang(attributes, old) {
            Some(group) => {
                let group = quote(group.name());
                let why = format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {group}");
                Err(attributes.forbidden(job, why))
            }
            None => Ok(()),
        }
    }
}

/// The pod group that schedules the pods of a job as a gang. The template of the job names the group, or else the job
/// controls the group. As in upstream, groups that cannot be read do not count.
fn gang(attributes: &AdmissionAttributes<'_>, job: &Value) -> Option<Value> {
    let groups = GroupResource::new("scheduling.k8s.io", "podgroups");
    let (client, namespace) = (attributes.client, job.namespace());
    let is_gang = |group: &Value| group.at(&["spec", "schedulingPolicy", "gang"]).is_some_and(|gang| !gang.is_null());
    let named = job.at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]).and_then(Value::as_str);
    match named {
        Some(name) => client.get(&groups, namespace, name).ok().flatten().filter(is_gang),
        None => {
            let mut groups = client.list(&groups, namespace).unwrap_or_default().into_iter();
            groups.find(|group| is_controlled_by(group, job) && is_gang(group))
        }
    }
}

/// Whether an object has another object as its controller.
fn is_controlled_by(object: &Value, owner: &Value) -> bool {
    let mut owners = object.items_at(&["metadata", "ownerReferences"]).iter();
    let controller = owners.find(|reference| reference.bool_at(&["controller"]));
    controller.is_some_and(|reference| reference.str_at(&["uid"]) == owner.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, gates, json};

    fn group(name: &str, policy: &str, owner: &str) -> Value {
        json(&format!(
            r#"{{"kind":"PodGroup","metadata":{{"name":"{name}","namespace":"ns",
                "ownerReferences":[{{"uid":"other"}},{{"uid":"{owner}","controller":true}}]}},
                "spec":{{"schedulingPolicy":{{"{policy}":{{}}}}}}}}"#
        ))
    }

    fn job(uid: &str, group: &str, parallelism: u8) -> Value {
        json(&format!(
            r#"{{"metadata":{{"name":"j","namespace":"ns","uid":"{uid}"}},
                "spec":{{"parallelism":{parallelism},"template":{{"spec":{{{group}}}}}}}}}"#
        ))
    }

    #[test]
    fn the_parallelism_of_gangs_stays() {
        let plugin = JobValidation::new(&gates(&["GenericWorkload"]));
        let stored = vec![group("basic", "basic", "of-basic"), group("gang", "gang", "of-gang")];
        let check = |plugin: &JobValidation, subresource, uid: &str, group: &str, parallelism, expect: &str| {
            let old = Some(job(uid, group, 1));
            let update = Scenario { stored: stored.clone(), old, subresource, ..Scenario::update("batch", "jobs") };
            let why = "cannot change parallelism for a Job referencing gang-scheduled PodGroup";
            let refused = format!("jobs.batch \"j\" is forbidden: {why} \"{expect}\"");
            let expect = if expect.is_empty() { Ok(()) } else { Err(&*refused) };
            update.check_validate(plugin, &job(uid, "", parallelism), expect);
        };
        let named = |group: &str| format!(r#""schedulingGroup":{{"podGroupName":"{group}"}}"#);
        check(&plugin, "", "u", &named("gang"), 2, "gang");
        check(&plugin, "", "u", &named("gang"), 1, "");
        check(&plugin, "status", "u", &named("gang"), 2, "");
        check(&plugin, "", "u", &named("basic"), 2, "");
        check(&plugin, "", "u", &named("gone"), 2, "");
        // The named group counts, not the group that the job controls.
        check(&plugin, "", "of-gang", &named("basic"), 2, "");
        check(&plugin, "", "of-gang", "", 2, "gang");
        check(&plugin, "", "of-basic", "", 2, "");
        check(&plugin, "", "other", "", 2, "");
        check(&JobValidation::new(&Gates::default()), "", "u", &named("gang"), 2, "");
    }
}
