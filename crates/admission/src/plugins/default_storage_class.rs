//! The plugin `DefaultStorageClass` (upstream: `plugin/pkg/admission/storage/storageclass/setdefault`): gives new claims
//! that name no class the default storage class. A claim with an empty class keeps it.

use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;

use crate::default_class::{CLAIM_CLASS_ANNOTATION, default_class};
use crate::{AdmissionAttributes, Phase, SyncPlugin};

const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The admission plugin `DefaultStorageClass`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultStorageClass;

impl SyncPlugin for DefaultStorageClass {
    const NAME: &'static str = "DefaultStorageClass";
    const PHASES: &'static [Phase] = &[Phase::Mutating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates("", "persistentvolumeclaims")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, claim: &mut Value) -> Result<(), ApiError> {
        let has_class =
            claim.annotation(CLAIM_CLASS_ANNOTATION).is_some() || claim.at(&["spec", "storageClassName"]).is_some();
        if has_class {
            return Ok(());
        }
        let classes = GroupResource::new("storage.k8s.io", "storageclasses");
        if let Some(class) = default_class(attributes, claim, &classes, &DEFAULT_ANNOTATIONS)? {
            claim.set_at(&["spec", "storageClassName"], class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    /// A storage class with these annotations, created in a year.
    fn class(name: &str, year: u16, annotations: &str) -> Value {
        json(&format!(
            r#"{{"kind":"StorageClass","metadata":{{"name":"{name}","creationTimestamp":"{year}-01-01T00:00:00Z",
                "annotations":{{{annotations}}}}}}}"#
        ))
    }

    #[test]
    fn claims_without_a_class_get_the_newest_default_class() {
        let check = |stored: &[Value], metadata: &str, spec: &str, expect: &str| {
            let scenario = Scenario { stored: stored.to_vec(), ..Scenario::create("", "persistentvolumeclaims") };
            let claim = |spec: &str| {
                let metadata = format!(r#"{{"name":"c","namespace":"ns"{metadata}}}"#);
                json(&format!(r#"{{"metadata":{metadata},"spec":{{{spec}}}}}"#))
            };
            let mut found = claim(spec);
            scenario.mutate(&DefaultStorageClass, &mut found).expect("no refusal");
            assert_eq!(found, claim(expect));
        };
        let mark = r#""storageclass.kubernetes.io/is-default-class":"true""#;
        let beta = r#""storageclass.beta.kubernetes.io/is-default-class":"true""#;
        let (a, set) = (class("a", 2020, mark), r#""storageClassName":"a""#);
        check(std::slice::from_ref(&a), "", "", set);
        check(&[class("a", 2020, beta)], "", "", set);
        check(&[], "", "", "");
        check(&[class("a", 2020, ""), class("b", 2020, &mark.replace("true", "false"))], "", "", "");
        check(&[class("z", 2019, mark), a.clone(), class("b", 2020, beta)], "", "", set);
        let stored = [a];
        check(&stored, "", r#""storageClassName":"b""#, r#""storageClassName":"b""#);
        check(&stored, "", r#""storageClassName":"""#, r#""storageClassName":"""#);
        check(&stored, r#","annotations":{"volume.beta.kubernetes.io/storage-class":"b"}"#, "", "");
    }

    #[test]
    fn updates_of_claims_get_no_class() {
        let mark = r#""storageclass.kubernetes.io/is-default-class":"true""#;
        let mut claim = json(r#"{"metadata":{"name":"c","namespace":"ns"},"spec":{}}"#);
        let old = claim.clone();
        let stored = vec![class("a", 2020, mark)];
        let scenario = Scenario { stored, old: Some(old.clone()), ..Scenario::update("", "persistentvolumeclaims") };
        scenario.mutate(&DefaultStorageClass, &mut claim).expect("no refusal");
        assert_eq!(claim, old);
    }
}
