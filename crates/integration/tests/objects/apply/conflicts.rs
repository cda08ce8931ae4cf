//! Conflicts: their messages and causes, forced applies, and fields that pass between managers.

use super::scenario::{CONFIGMAP, Conflict, Managed, Unchanged, check};

#[test]
fn fields_of_other_managers_can_only_be_applied_by_force() {
    check(
        CONFIGMAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "m": "1"}}"#, Managed(201, "{}", &["a Apply v1: .data.k .data.m"])),
            (
                "apply b",
                r#"{"data": {"k": "2"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a": .data.k"#,
                    &[(".data.k", r#"conflict with "a""#)],
                ),
            ),
            (
                "force b",
                r#"{"data": {"k": "2"}}"#,
                Managed(200, r#"{"data": {"k": "2", "m": "1"}}"#, &["a Apply v1: .data.m", "b Apply v1: .data.k"]),
            ),
            ("force b", r#"{"data": {"k": "2"}}"#, Unchanged),
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b": .data.k"#,
                    &[(".data.k", r#"conflict with "b""#)],
                ),
            ),
            // A manager that applies the same value shares the field, and owns it alone when the other gives it up.
            (
                "apply a",
                r#"{"data": {"k": "2", "m": "1"}}"#,
                Managed(200, "{}", &["a Apply v1: .data.k .data.m", "b Apply v1: .data.k"]),
            ),
            ("apply b", "{}", Managed(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k .data.m"])),
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Managed(200, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k .data.m"]),
            ),
        ],
    );
}

#[test]
fn conflicts_are_grouped_by_manager() {
    check(
        CONFIGMAP,
        ".data",
        &[
            ("apply z", r#"{"data": {"k": "1", "m": "1"}}"#, Managed(201, "{}", &["z Apply v1: .data.k .data.m"])),
            (
                "merge c",
                r#"{"data": {"u": "1"}}"#,
                Managed(200, "{}", &["z Apply v1: .data.k .data.m", "c Update v1: .data.u"]),
            ),
            (
                "apply b",
                r#"{"data": {"k": "2", "m": "2", "u": "2"}}"#,
                Conflict(
                    "Apply failed with 3 conflicts: conflicts with \"c\" using v1:\n- .data.u\nconflicts with \"z\":\n- .data.k\n- .data.m",
                    &[
                        (".data.u", r#"conflict with "c" using v1"#),
                        (".data.k", r#"conflict with "z""#),
                        (".data.m", r#"conflict with "z""#),
                    ],
                ),
            ),
            (
                "force b",
                r#"{"data": {"k": "2", "m": "2", "u": "2"}}"#,
                Managed(200, "{}", &["b Apply v1: .data.k .data.m .data.u"]),
            ),
        ],
    );
}

#[test]
fn updates_take_ownership_without_conflicts() {
    check(
        CONFIGMAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "m": "1"}}"#, Managed(201, "{}", &["a Apply v1: .data.k .data.m"])),
            (
                "put a",
                r#"{"data": {"k": "2"}}"#,
                Managed(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.m", "a Update v1: .data.k"]),
            ),
            // An update and an apply by the same manager name are different managers.
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a" using v1: .data.k"#,
                    &[(".data.k", r#"conflict with "a" using v1"#)],
                ),
            ),
            // A removed field has no manager any more.
            ("merge c", r#"{"data": {"k": null, "m": null}}"#, Managed(200, r#"{"data": null}"#, &[])),
            ("apply b", r#"{"data": {"k": "9"}}"#, Managed(200, "{}", &["b Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn fields_pass_from_manager_to_manager() {
    check(
        CONFIGMAP,
        "",
        &[
            ("create c", r#"{"data": {"k": "1"}}"#, Managed(201, "{}", &["c Update v1: .data .data.k"])),
            (
                "apply a",
                r#"{"data": {"k": "1"}}"#,
                Managed(200, "{}", &["a Apply v1: .data.k", "c Update v1: .data .data.k"]),
            ),
            // The other manager still owns the field.
            ("apply a", "{}", Managed(200, r#"{"data": {"k": "1"}}"#, &["c Update v1: .data .data.k"])),
            ("force a", r#"{"data": {"k": "2"}}"#, Managed(200, "{}", &["a Apply v1: .data.k", "c Update v1: .data"])),
            ("apply a", "{}", Managed(200, r#"{"data": null}"#, &["c Update v1: .data"])),
        ],
    );
}
