//! Conflicts: what clients are told, and how they get their way.

use crate::scene::{Conflict, MAP, Owners, Same, check};

#[test]
fn what_others_own_is_taken_by_force_alone() {
    check(
        MAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "m": "1"}}"#, Owners(201, "{}", &["a Apply v1: .data.k .data.m"])),
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
                Owners(200, r#"{"data": {"k": "2", "m": "1"}}"#, &["a Apply v1: .data.m", "b Apply v1: .data.k"]),
            ),
            ("force b", r#"{"data": {"k": "2"}}"#, Same),
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "b": .data.k"#,
                    &[(".data.k", r#"conflict with "b""#)],
                ),
            ),
            // Who agrees comes to share, and can have it back when the other leaves it.
            (
                "apply a",
                r#"{"data": {"k": "2", "m": "1"}}"#,
                Owners(200, "{}", &["a Apply v1: .data.k .data.m", "b Apply v1: .data.k"]),
            ),
            ("apply b", "{}", Owners(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.k .data.m"])),
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Owners(200, r#"{"data": {"k": "1"}}"#, &["a Apply v1: .data.k .data.m"]),
            ),
        ],
    );
}

#[test]
fn several_conflicts_are_told_by_manager() {
    check(
        MAP,
        ".data",
        &[
            ("apply z", r#"{"data": {"k": "1", "m": "1"}}"#, Owners(201, "{}", &["z Apply v1: .data.k .data.m"])),
            (
                "merge c",
                r#"{"data": {"u": "1"}}"#,
                Owners(200, "{}", &["z Apply v1: .data.k .data.m", "c Update v1: .data.u"]),
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
                Owners(200, "{}", &["b Apply v1: .data.k .data.m .data.u"]),
            ),
        ],
    );
}

#[test]
fn who_updates_takes_without_asking() {
    check(
        MAP,
        "",
        &[
            ("apply a", r#"{"data": {"k": "1", "m": "1"}}"#, Owners(201, "{}", &["a Apply v1: .data.k .data.m"])),
            (
                "put a",
                r#"{"data": {"k": "2"}}"#,
                Owners(200, r#"{"data": {"k": "2"}}"#, &["a Apply v1: .data.m", "a Update v1: .data.k"]),
            ),
            // Who updates is another manager than who applies, even by the same name.
            (
                "apply a",
                r#"{"data": {"k": "1", "m": "1"}}"#,
                Conflict(
                    r#"Apply failed with 1 conflict: conflict with "a" using v1: .data.k"#,
                    &[(".data.k", r#"conflict with "a" using v1"#)],
                ),
            ),
            // What is taken out of the object is nobody's any more.
            ("merge c", r#"{"data": {"k": null, "m": null}}"#, Owners(200, r#"{"data": null}"#, &[])),
            ("apply b", r#"{"data": {"k": "9"}}"#, Owners(200, "{}", &["b Apply v1: .data.k"])),
        ],
    );
}

#[test]
fn fields_pass_from_manager_to_manager() {
    check(
        MAP,
        "",
        &[
            ("create c", r#"{"data": {"k": "1"}}"#, Owners(201, "{}", &["c Update v1: .data .data.k"])),
            (
                "apply a",
                r#"{"data": {"k": "1"}}"#,
                Owners(200, "{}", &["a Apply v1: .data.k", "c Update v1: .data .data.k"]),
            ),
            // The other one still holds what is given up.
            ("apply a", "{}", Owners(200, r#"{"data": {"k": "1"}}"#, &["c Update v1: .data .data.k"])),
            ("force a", r#"{"data": {"k": "2"}}"#, Owners(200, "{}", &["a Apply v1: .data.k", "c Update v1: .data"])),
            ("apply a", "{}", Owners(200, r#"{"data": null}"#, &["c Update v1: .data"])),
        ],
    );
}
