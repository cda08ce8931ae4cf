//! Validates the paths and modes of files in volumes (upstream: `validatePathNoBacksteps`,
//! `validateLocalDescendingPath` and `validateLocalNonReservedPath` of `pkg/apis/core/validation`).

use pintle_value::{Errors, FieldPath, names};

use crate::validation::invalid_each;

/// Rejects a number that is not a valid file mode.
pub(crate) fn validate_file_mode(errors: &mut Errors, path: &FieldPath<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Rejects a number that is not a valid mode of a directory, with its sticky bit.
pub(crate) fn validate_directory_mode(errors: &mut Errors, path: &FieldPath<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o1777).contains(m)) {
        errors.invalid(path, mode, "must be a number between 0 and 01777 (octal), both inclusive");
    }
}

/// Rejects an owner of files that is not a valid user.
pub(crate) fn validate_file_user(errors: &mut Errors, path: &FieldPath<'_>, user: Option<i64>) {
    if let Some(user) = user {
        invalid_each(errors, path, user, names::user_id(user));
    }
}

/// Rejects a path with an element `..`.
pub(crate) fn validate_no_backsteps(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    if target.split('/').any(|part| part == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Rejects an absolute path, and a path with an element `..`.
pub(crate) fn validate_local_descending_path(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    validate_no_backsteps(errors, path, target);
}

/// Like [`validate_local_descending_path`], but also rejects names that start with `..`, which are reserved for the
/// kubelet.
pub(crate) fn validate_local_non_reserved_path(errors: &mut Errors, path: &FieldPath<'_>, target: &str) {
    validate_local_descending_path(errors, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

    #[test]
    fn file_paths() {
        let check = |target: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            validate_local_non_reserved_path(&mut errors, &FieldPath::new("p"), target);
            assert_eq!(messages(&errors), expect, "{target}");
        };
        check("a/b", &[]);
        check("/a", &["p: Invalid value: \"/a\": must be a relative path"]);
        check("a/../b", &["p: Invalid value: \"a/../b\": must not contain '..'"]);
        check("..a", &["p: Invalid value: \"..a\": must not start with '..'"]);
        check("../a", &["p: Invalid value: \"../a\": must not contain '..'"]);
    }
}
