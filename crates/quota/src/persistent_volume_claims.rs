//! Claims: their number and their storage, as a whole and for each storage class (upstream:
//! `evaluator/core/persistent_volume_claims.go`).

use pintle_kinds::{ResourceList, resource_list};
use pintle_registry::GroupResource;
use pintle_value::quantity::Quantity;
use pintle_value::time::Time;
use pintle_value::{Str, Value};

use crate::resource_list::count;
use crate::{Evaluator, ObjectScopes, QuotaContext, QuotaFeatures, QuotaWrite};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// The text between the name of a storage class and the name of a limit.
const CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Measures claims.
pub(crate) struct PersistentVolumeClaims;

impl Evaluator for PersistentVolumeClaims {
    fn resource(&self) -> GroupResource {
        GroupResource::new("", CLAIMS)
    }

    fn handles(&self, write: QuotaWrite<'_>) -> bool {
        match (write.subresource, write.old) {
            ("", _) => true,
            ("status", Some(old)) => self.replenishes(old, write.object, Time::ZERO),
            _ => false,
        }
    }

    fn counts(&self, name: &str, _: QuotaFeatures) -> bool {
        name == COUNT || matches!(name.rsplit_once(CLASS_SUFFIX).map_or(name, |(_, limit)| limit), CLAIMS | STORAGE)
    }

    fn usage(&self, claim: &Value, _: &dyn QuotaContext) -> ResourceList {
        let class = claim.annotation(CLASS_ANNOTATION).unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]));
        let mut usage = ResourceList::from([(COUNT.to_owned(), count(1))]);
        let mut charge = |limit: &str, quantity: Quantity| {
            if !class.is_empty() {
                usage.insert(format!("{class}{CLASS_SUFFIX}{limit}"), quantity.clone());
            }
            usage.insert(limit.to_owned(), quantity);
        };
        charge(CLAIMS, count(1));
        if let Some(storage) = storage(claim) {
            charge(STORAGE, storage);
        }
        usage
    }

    fn scopes(&self, claim: &Value) -> ObjectScopes {
        let names = vec![("VolumeAttributesClass", attributes_classes(claim))];
        ObjectScopes { flags: Vec::new(), names }
    }

    fn may_replenish(&self, _: &[u8]) -> bool {
        true
    }

    fn replenishes(&self, old: &Value, new: &Value, _: Time) -> bool {
        allocated(old) != allocated(new) || attributes_classes(old) != attributes_classes(new)
    }
}

/// The storage that was allocated for a claim, which may be more than the claim requests now.
fn allocated(claim: &Value) -> Option<Quantity> {
    resource_list(claim, &["status", "allocatedResources"]).remove("storage")
}

/// The storage that a claim uses, in whole bytes.
fn storage(claim: &Value) -> Option<Quantity> {
    let mut storage = resource_list(claim, &["spec", "resources", "requests"]).remove("storage")?;
    if let Some(allocated) = allocated(claim).filter(|allocated| *allocated > storage) {
        storage = allocated;
    }
    let mut rounded = storage.clone();
    Some(if rounded.round_up(0) { storage } else { rounded })
}

/// The names of the volume attributes classes that a claim has, had or will have, sorted.
fn attributes_classes(claim: &Value) -> Vec<Str> {
    let names = [
        claim.str_at(&["spec", "volumeAttributesClassName"]),
        claim.str_at(&["status", "currentVolumeAttributesClassName"]),
        claim.str_at(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
    ];
    let mut names: Vec<Str> = names.into_iter().filter(|name| !name.is_empty()).map(Str::from).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_counted, check_usage, json};

    #[test]
    fn claims_use_storage_of_their_class() {
        let check = |claim: &str, expect: &str| check_usage("", "persistentvolumeclaims", claim, expect);
        let claims = "count/persistentvolumeclaims=1";
        check(r#"{"spec":{}}"#, &format!("{claims},persistentvolumeclaims=1"));
        check(
            r#"{"spec":{"resources":{"requests":{"storage":"10Gi"}}}}"#,
            &format!("{claims},persistentvolumeclaims=1,requests.storage=10Gi"),
        );
        let gold = format!(
            "{claims},gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2"
        );
        check(r#"{"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"1001m"}}}}"#, &gold);
        check(
            r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"gold"}},
                "spec":{"storageClassName":"silver","resources":{"requests":{"storage":"2"}}}}"#,
            &gold,
        );
    }

    #[test]
    fn allocated_storage_counts_if_it_is_more() {
        let check = |requested: &str, allocated: &str, expect: &str| {
            let claim = json(&format!(
                r#"{{"spec":{{"resources":{{"requests":{{"storage":"{requested}"}}}}}},
                    "status":{{"allocatedResources":{{"storage":"{allocated}"}}}}}}"#
            ));
            assert_eq!(storage(&claim).map(|storage| storage.to_string()).as_deref(), Some(expect));
        };
        check("5G", "10G", "10G");
        check("10G", "5G", "10G");
        check("1", "1500m", "2");
    }

    #[test]
    fn limits_may_be_those_of_a_class() {
        let counted = [
            "count/persistentvolumeclaims",
            "persistentvolumeclaims",
            "requests.storage",
            "gold.storageclass.storage.k8s.io/requests.storage",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        ];
        let others = ["storage", "ephemeral-storage", "bronze.storageclass.storage.k8s.io/storage", "gold.k8s.io/pods"];
        check_counted("", "persistentvolumeclaims", &counted, &others);
    }

    #[test]
    fn writes_of_the_status_matter_if_they_change_storage_or_class() {
        let check = |old: &str, new: &str, expect: bool| {
            let (old, new) = (json(old), json(new));
            let write = QuotaWrite { subresource: "status", object: &new, old: Some(&old) };
            assert_eq!(PersistentVolumeClaims.handles(write), expect, "{old:?} {new:?}");
        };
        let allocated = r#"{"status":{"allocatedResources":{"storage":"1Gi"}}}"#;
        check("{}", "{}", false);
        check("{}", r#"{"status":{"phase":"Bound"}}"#, false);
        check("{}", allocated, true);
        check(allocated, r#"{"status":{"allocatedResources":{"storage":"1024Mi"}}}"#, false);
        check("{}", r#"{"status":{"currentVolumeAttributesClassName":"a"}}"#, true);
        check(
            r#"{"spec":{"volumeAttributesClassName":"a"}}"#,
            r#"{"spec":{"volumeAttributesClassName":"a"},"status":{"currentVolumeAttributesClassName":"a"}}"#,
            false,
        );
    }
}
