//! The plugin `StorageObjectInUseProtection` (upstream: `plugin/pkg/admission/storage/storageobjectinuseprotection`):
//! gives new claims, volumes and volume attributes classes a finalizer. A controller removes it when nothing uses the
//! object any more.

use pintle_registry::{ApiError, Resource};
use pintle_value::Value;
use pintle_value::metadata::{ATTRIBUTES_CLASS_PROTECTION, CLAIM_PROTECTION, VOLUME_PROTECTION};

use crate::finalizers::add_finalizer;
use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The protected resources and their finalizers.
const FINALIZERS: [(&str, &str, &str); 3] = [
    ("", "persistentvolumeclaims", CLAIM_PROTECTION),
    ("", "persistentvolumes", VOLUME_PROTECTION),
    ("storage.k8s.io", "volumeattributesclasses", ATTRIBUTES_CLASS_PROTECTION),
];

fn finalizer_of(resource: &Resource) -> Option<&'static str> {
    let found = FINALIZERS.iter().find(|(group, plural, _)| resource.is(group, plural));
    found.map(|(_, _, finalizer)| *finalizer)
}

/// The admission plugin `StorageObjectInUseProtection`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StorageObjectInUseProtection;

impl SyncPlugin for StorageObjectInUseProtection {
    const NAME: &'static str = "StorageObjectInUseProtection";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        FINALIZERS.iter().any(|(group, plural, _)| attributes.creates(group, plural))
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, object: &mut Value) -> Result<(), ApiError> {
        if let Some(finalizer) = finalizer_of(attributes.resource) {
            add_finalizer(object, finalizer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    #[test]
    fn new_storage_objects_get_their_finalizer_once() {
        let check = |scenario: &Scenario, given: &str, expect: &str| {
            let object = |finalizers: &str| json(&format!(r#"{{"metadata":{{"name":"o"{finalizers}}}}}"#));
            let mut found = object(given);
            scenario.mutate(&StorageObjectInUseProtection, &mut found).expect("no refusal");
            assert_eq!(found, object(expect));
        };
        for (group, plural, finalizer) in FINALIZERS {
            let create = Scenario::create(group, plural);
            let alone = format!(r#","finalizers":["{finalizer}"]"#);
            check(&create, "", &alone);
            check(&create, &alone, &alone);
            check(&create, r#","finalizers":["a/b"]"#, &format!(r#","finalizers":["a/b","{finalizer}"]"#));
            check(&Scenario { old: Some(json("{}")), ..Scenario::update(group, plural) }, "", "");
        }
        check(&Scenario::create("", "pods"), "", "");
        check(&Scenario::create("storage.k8s.io", "storageclasses"), "", "");
    }
}
