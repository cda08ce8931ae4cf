//! The plugin `AlwaysPullImages` (upstream: `plugin/pkg/admission/alwayspullimages`). It sets the pull policy of all
//! images to `Always`. So only pods with the credentials can use an image that a node already has.

use std::collections::HashSet;

use pintle_registry::ApiError;
use pintle_value::{Errors, FieldPath, Value};

use crate::pods::{ALL_LISTS, containers};
use crate::{AdmissionAttributes, Phase, SyncPlugin};

const ALWAYS: &str = "Always";

/// The admission plugin `AlwaysPullImages`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlwaysPullImages;

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    containers(&pod["spec"], &ALL_LISTS).map(|container| container.str_at(&["image"]))
}

/// True if the pod is new, or uses an image which it did not use before.
fn is_relevant(attributes: &AdmissionAttributes<'_>, pod: &Value) -> bool {
    let Some(old) = attributes.old else { return true };
    let known: HashSet<&str> = images(old).collect();
    images(pod).any(|image| !known.contains(image))
}

fn set_policies(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    for list in ALL_LISTS {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(|container| container.set("imagePullPolicy", ALWAYS));
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(image) = volume.get_mut("image") {
            image.set("pullPolicy", ALWAYS);
        }
    }
}

/// The errors of containers and volumes with another policy.
fn other_policies(pod: &Value) -> Errors {
    let mut errors = Errors::new();
    let spec = FieldPath::new("spec");
    for list in ALL_LISTS {
        let path = spec.child(list);
        for (i, container) in pod.items_at(&["spec", list]).iter().enumerate() {
            let policy = container.str_at(&["imagePullPolicy"]);
            if policy != ALWAYS {
                errors.not_supported(&path.index(i).child("imagePullPolicy"), policy, &[ALWAYS]);
            }
        }
    }
    let path = spec.child("volumes");
    for (i, volume) in pod.items_at(&["spec", "volumes"]).iter().enumerate() {
        let Some(image) = volume.get("image") else { continue };
        let policy = image.str_at(&["pullPolicy"]);
        if policy != ALWAYS {
            errors.not_supported(&path.index(i).child("image").child("pullPolicy"), policy, &[ALWAYS]);
        }
    }
    errors
}

/// Refuses a pod with other policies. Upstream returns an aggregate of errors, which has no status.
fn check_policies(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let errors = other_policies(pod);
    let refusals: Vec<String> =
        errors.iter().map(|error| attributes.forbidden(pod, error.to_string()).to_string()).collect();
    match &*refusals {
        [] => Ok(()),
        [refusal] => Err(ApiError::Unclassified(refusal.clone())),
        refusals => Err(ApiError::Unclassified(format!("[{}]", refusals.join(", ")))),
    }
}

impl SyncPlugin for AlwaysPullImages {
    const NAME: &'static str = "AlwaysPullImages";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if is_relevant(attributes, object) {
            set_policies(object);
        }
        Ok(())
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        match is_relevant(attributes, object) {
            true => check_policies(attributes, object),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    fn pod(containers: &str) -> Value {
        json(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{containers}}}"#))
    }

    #[test]
    fn all_images_are_pulled_always() {
        let given = pod(r#"{"initContainers":[{"image":"i"}],"containers":[{"image":"a","imagePullPolicy":"Never"}],
                "volumes":[{"name":"v","image":{"reference":"r"}},{"name":"e","emptyDir":{}}]}"#);
        let expect = pod(r#"{"initContainers":[{"image":"i","imagePullPolicy":"Always"}],
                "containers":[{"image":"a","imagePullPolicy":"Always"}],
                "volumes":[{"name":"v","image":{"reference":"r","pullPolicy":"Always"}},{"name":"e","emptyDir":{}}]}"#);
        let create = Scenario::create("", "pods");
        create.check_mutate(&AlwaysPullImages, given.clone(), Ok(&expect));
        create.check_validate(&AlwaysPullImages, &expect, Ok(()));
        let supported = "supported values: \"Always\"";
        create.check_validate(
            &AlwaysPullImages,
            &given,
            Err(&format!(
                "[pods \"p\" is forbidden: spec.initContainers[0].imagePullPolicy: Unsupported value: \"\": {supported}, \
                 pods \"p\" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: \"Never\": {supported}, \
                 pods \"p\" is forbidden: spec.volumes[0].image.pullPolicy: Unsupported value: \"\": {supported}]"
            )),
        );
    }

    #[test]
    fn updates_without_new_images_are_ignored() {
        let old = pod(r#"{"containers":[{"image":"a","imagePullPolicy":"Never"}]}"#);
        let update = Scenario { old: Some(old.clone()), ..Scenario::update("", "pods") };
        update.check_mutate(&AlwaysPullImages, old.clone(), Ok(&old));
        update.check_validate(&AlwaysPullImages, &old, Ok(()));
        let changed = pod(r#"{"containers":[{"image":"b","imagePullPolicy":"Never"}]}"#);
        let expect = pod(r#"{"containers":[{"image":"b","imagePullPolicy":"Always"}]}"#);
        update.check_mutate(&AlwaysPullImages, changed.clone(), Ok(&expect));
        let status = Scenario { subresource: "status", ..update };
        status.check_mutate(&AlwaysPullImages, changed.clone(), Ok(&changed));
    }
}
