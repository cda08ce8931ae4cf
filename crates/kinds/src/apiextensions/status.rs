//! Validates the status of a CustomResourceDefinition (upstream: `ValidateCustomResourceDefinitionStatus` and
//! `...StoredVersions`).

use std::collections::BTreeMap;

use pintle_value::{Errors, FieldPath, Value};

use super::names;
use super::spec::versions;
use crate::validation::strings_at;

/// Validates the status.
pub(super) fn validate(object: &Value) -> Errors {
    let mut errors = Errors::new();
    names::validate(&mut errors, &object["status"]["acceptedNames"], &FieldPath::new("status.acceptedNames"));
    errors
}

/// Requires that `status.storedVersions` names only versions of the spec, and includes the storage version.
pub(super) fn validate_stored_versions(errors: &mut Errors, object: &Value) {
    let status = FieldPath::new("status");
    let path = status.child("storedVersions");
    let stored = strings_at(object, &["status", "storedVersions"]);
    if stored.is_empty() {
        return errors.invalid(&path, Value::Null, "must have at least one stored version");
    }
    let mut missing: BTreeMap<&str, usize> = stored.iter().enumerate().map(|(i, version)| (*version, i)).collect();
    for version in versions(object) {
        let name = version.str_at(&["name"]);
        if missing.remove(name).is_none() && version.bool_at(&["storage"]) {
            errors.invalid(&path, stored.clone(), format!("must have the storage version {name}"));
        }
    }
    for (version, i) in missing {
        let detail = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {version} and removes {version} from \
             status.storedVersions"
        );
        errors.invalid(&path.index(i), version, detail);
    }
}
