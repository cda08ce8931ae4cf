//! The operations of a node that drivers do not need (KEP-5873; upstream: `validateSkipNodeOperations`).

use pintle_value::{Errors, FieldPath, Value};

use crate::validation::strings_at;

const FIELD: &str = "skipNodeOperations";
const PREPARE: &str = "NodePrepareResources";
const UNPREPARE: &str = "NodeUnprepareResources";
const ALL: &str = "*";

/// Validates the operations that a slice or the result of an allocation skips. Nodes cannot unprepare a device that they
/// have not prepared.
pub(super) fn validate_skipped_operations(errors: &mut Errors, owner: &Value, path: &FieldPath<'_>) {
    let skipped = strings_at(owner, &[FIELD]);
    if skipped.contains(&PREPARE) && !skipped.contains(&UNPREPARE) && !skipped.contains(&ALL) {
        let detail = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped";
        errors.invalid(&path.child(FIELD), owner.get(FIELD).cloned(), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[test]
    fn unprepared_devices_are_not_unprepared_again() {
        let check = |skipped: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            let owner = object(&format!(r#"{{"skipNodeOperations":{skipped}}}"#));
            validate_skipped_operations(&mut errors, &owner, &FieldPath::new("spec"));
            assert_eq!(messages(&errors), expect, "{skipped}");
        };
        check("[]", &[]);
        check(r#"["NodeUnprepareResources"]"#, &[]);
        check(r#"["NodePrepareResources","NodeUnprepareResources"]"#, &[]);
        check(r#"["NodePrepareResources","*"]"#, &[]);
        check(
            r#"["NodePrepareResources"]"#,
            &[
                r#"spec.skipNodeOperations: Invalid value: ["NodePrepareResources"]: NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"#,
            ],
        );
    }
}
