//! The plugin `LimitRanger` (upstream: `plugin/pkg/admission/limitranger`). It gives the containers of new pods the
//! default requests and limits of the limit ranges of their namespace. It refuses pods and claims that are out of
//! range.
//!
//! - `constraints`: minimum, maximum and ratio of one resource.

mod constraints;
#[cfg(test)]
mod tests;

use pintle_kinds::{ResourceList, aggregate_container_resources, is_pod_level, resource_list};
use pintle_registry::{ApiError, GroupResource};
use pintle_value::{Object, Value};

use self::constraints::Usage;
use crate::pods::{LISTS, containers};
use crate::{AdmissionAttributes, AdmissionOperation, Phase, SyncPlugin};

/// The annotation that says which requests and limits were set by default.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
const PODS: &str = "pods";
const CLAIMS: &str = "persistentvolumeclaims";

/// The admission plugin `LimitRanger`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitRanger;

impl SyncPlugin for LimitRanger {
    const NAME: &'static str = "LimitRanger";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    /// Objects that are being deleted are ignored.
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let applies = match attributes.operation {
            AdmissionOperation::Create => attributes.is_object_of("", PODS) || attributes.is_object_of("", CLAIMS),
            // The containers of a pod change only by a resize.
            AdmissionOperation::Update => {
                attributes.is_object_of("", CLAIMS)
                    || attributes.resource.is("", PODS) && attributes.subresource == "resize"
            }
            AdmissionOperation::Delete | AdmissionOperation::Connect => false,
        };
        applies && !attributes.old.is_some_and(Value::is_terminating)
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if !attributes.resource.is("", PODS) {
            return Ok(());
        }
        for limit_range in limit_ranges(attributes, object)? {
            ContainerDefaults::of(&limit_range).set(object);
        }
        Ok(())
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        let check = if attributes.resource.is("", PODS) { check_pod } else { check_claim };
        for limit_range in limit_ranges(attributes, object)? {
            let mut errors = Vec::new();
            items(&limit_range).for_each(|item| check(object, item, &mut errors));
            if let Some(why) = aggregate(errors) {
                return Err(attributes.forbidden(object, why));
            }
        }
        Ok(())
    }
}

/// The limit ranges of the namespace of a write.
fn limit_ranges(attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<Vec<Value>, ApiError> {
    let limit_ranges = attributes.client.list(&GroupResource::new("", "limitranges"), attributes.namespace);
    limit_ranges.map_err(|_| {
        let (operation, resource) = (attributes.operation.text(), attributes.resource);
        let why = format!(
            "unable to {operation} {}/{}, Resource={} at this time because there was an error enforcing limit ranges",
            resource.group, resource.version, resource.plural
        );
        attributes.forbidden(object, why)
    })
}

/// The default requests and limits of containers. Later items of a limit range override earlier ones.
#[derive(Default)]
struct ContainerDefaults {
    requests: Object,
    limits: Object,
}

impl ContainerDefaults {
    fn of(limit_range: &Value) -> Self {
        let mut defaults = Self::default();
        for item in items(limit_range).filter(|item| item.str_at(&["type"]) == "Container") {
            for (list, field) in [(&mut defaults.requests, "defaultRequest"), (&mut defaults.limits, "default")] {
                for (name, quantity) in item.entries_at(&[field]) {
                    list.insert(name, quantity.clone());
                }
            }
        }
        defaults
    }

    /// Sets the defaults that the containers of a pod lack, and records that in an annotation.
    fn set(&self, pod: &mut Value) {
        let mut notes = Vec::new();
        for (field, description) in [("containers", "container"), ("initContainers", "init container")] {
            for container in pod.at_mut(&["spec", field]).and_then(Value::as_array_mut).into_iter().flatten() {
                for (defaults, kind, noun) in
                    [(&self.requests, "requests", "request"), (&self.limits, "limits", "limit")]
                {
                    let mut names = Vec::new();
                    for (name, quantity) in defaults.iter() {
                        if container.at(&["resources", kind, name]).is_none() {
                            container.set_at(&["resources", kind, name], quantity.clone());
                            names.push(name);
                        }
                    }
                    if !names.is_empty() {
                        names.sort_unstable();
                        notes.push(format!(
                            "{} {noun} for {description} {}",
                            names.join(", "),
                            container_name(container)
                        ));
                    }
                }
            }
        }
        if !notes.is_empty() {
            pod.annotate(ANNOTATION, format!("LimitRanger plugin set: {}", notes.join("; ")));
        }
    }
}

fn container_name(container: &Value) -> &str {
    container.str_at(&["name"])
}

/// The items of a limit range.
fn items(limit_range: &Value) -> impl Iterator<Item = &Value> {
    limit_range.items_at(&["spec", "limits"]).iter()
}

/// Checks the containers of a pod, or the pod as a whole.
fn check_pod(pod: &Value, item: &Value, errors: &mut Vec<String>) {
    let spec = &pod["spec"];
    match item.str_at(&["type"]) {
        limit_type @ "Container" => {
            for container in containers(spec, &LISTS) {
                let list = |kind| resource_list(container, &["resources", kind]);
                Usage { limit_type, requests: list("requests"), limits: list("limits") }.check(item, errors);
            }
        }
        limit_type @ "Pod" => {
            let (requests, limits) = (pod_resources(spec, "requests"), pod_resources(spec, "limits"));
            Usage { limit_type, requests, limits }.check(item, errors);
        }
        _ => {}
    }
}

/// The requests or limits of a pod: the sum of its containers' resources, unless the pod itself has resources. Its
/// overhead does not count.
fn pod_resources(spec: &Value, kind: &str) -> ResourceList {
    let mut resources = aggregate_container_resources(spec, kind);
    let own = resource_list(spec, &["resources", kind]);
    resources.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    resources
}

/// Checks the requests of a claim. Its limits do not count.
fn check_claim(claim: &Value, item: &Value, errors: &mut Vec<String>) {
    let limit_type = "PersistentVolumeClaim";
    if item.str_at(&["type"]) == limit_type {
        let requests = resource_list(claim, &["spec", "resources", "requests"]);
        Usage { limit_type, requests, limits: ResourceList::new() }.check_requests(item, errors);
    }
}

/// The text of several errors (upstream: `utilerrors.NewAggregate`). Equal errors are named once.
fn aggregate(mut errors: Vec<String>) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match &*errors {
        [] => None,
        [_] => errors.pop(),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
