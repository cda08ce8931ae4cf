//! Validation of `anyOf`, `oneOf`, `allOf` and `not` (upstream: `schemaPropsValidator`). Values are validated with
//! their schemas without an old value, so there is no ratcheting.

use std::fmt;

use pintle_value::{Value, print};

use super::check as check_value;
use super::result::ValidationResult;
use crate::schema::model::{IndexRange, Keyword};
use crate::schema::node::SchemaNode;
use crate::schema::value_path::ValuePath;

pub(super) fn check(node: SchemaNode<'_>, value: &Value, path: &ValuePath<'_>) -> ValidationResult {
    let mut result = ValidationResult::default();
    for keyword in node.keywords() {
        let (range, check_branches): (_, fn(&Branches<'_>, &ValuePath<'_>, &mut ValidationResult)) = match keyword {
            Keyword::AnyOf(range) => (*range, any_of),
            Keyword::OneOf(range) => (*range, one_of),
            Keyword::AllOf(range) => (*range, all_of),
            Keyword::Not(branch) => {
                if check_value(node.schema.node(*branch), value, None, &path.silently()).is_valid() {
                    add_junctor_error(&mut result, path, format_args!("must not validate the schema (not)"));
                }
                continue;
            }
            // Junctors precede all other keywords.
            _ => break,
        };
        check_branches(&Branches { node, range, value }, path, &mut result);
    }
    result.increment_match_count();
    result
}

/// The branches of a junctor, and the value to validate.
struct Branches<'s> {
    node: SchemaNode<'s>,
    range: IndexRange,
    value: &'s Value,
}

impl Branches<'_> {
    /// Validates the value with each branch.
    fn outcomes(&self, path: &ValuePath<'_>) -> impl ExactSizeIterator<Item = ValidationResult> {
        let branches = self.range.slice(&self.node.schema.branches).iter();
        branches.map(move |branch| check_value(self.node.schema.node(*branch), self.value, None, path))
    }

    /// Returns the result with the most matches, or the first of several such results. This is used if all branches
    /// fail.
    fn best_failure(&self, path: &ValuePath<'_>) -> Option<ValidationResult> {
        let better = |best: ValidationResult, other: ValidationResult| {
            if other.match_count() > best.match_count() { other } else { best }
        };
        self.outcomes(path).reduce(better)
    }
}

fn add_junctor_error(result: &mut ValidationResult, path: &ValuePath<'_>, what: fmt::Arguments<'_>) {
    result.add_without_path(path, format_args!("{} {what}", print::quote(&path.to_string())));
}

/// Branches are first tried with errors suppressed. Usually one branch is valid, and the errors of the others are not
/// needed.
fn any_of(branches: &Branches<'_>, path: &ValuePath<'_>, result: &mut ValidationResult) {
    if let Some(valid) = branches.outcomes(&path.silently()).find(ValidationResult::is_valid) {
        return result.merge(valid);
    }
    add_junctor_error(result, path, format_args!("must validate at least one schema (anyOf)"));
    merge_best(branches, path, result);
}

fn merge_best(branches: &Branches<'_>, path: &ValuePath<'_>, result: &mut ValidationResult) {
    if !path.is_silent()
        && let Some(best) = branches.best_failure(path)
    {
        result.merge(best);
    }
}

fn one_of(branches: &Branches<'_>, path: &ValuePath<'_>, result: &mut ValidationResult) {
    let silent = path.silently();
    let mut valid = branches.outcomes(&silent).filter(ValidationResult::is_valid);
    match (valid.next(), valid.count()) {
        (Some(only), 0) => result.merge(only),
        (Some(_), more) => {
            let count = more + 1;
            let what = "must validate one and only one schema (oneOf)";
            add_junctor_error(result, path, format_args!("{what}. Found {count} valid alternatives"));
        }
        (None, _) => {
            add_junctor_error(
                result,
                path,
                format_args!("must validate one and only one schema (oneOf). Found none valid"),
            );
            merge_best(branches, path, result);
        }
    }
}

fn all_of(branches: &Branches<'_>, path: &ValuePath<'_>, result: &mut ValidationResult) {
    let outcomes = branches.outcomes(path);
    let all = outcomes.len();
    let mut valid = 0;
    for branch in outcomes {
        valid += usize::from(branch.is_valid());
        result.merge(branch);
    }
    if valid != all {
        let none = if valid == 0 { ". None validated" } else { "" };
        add_junctor_error(result, path, format_args!("must validate all the schemas (allOf){none}"));
    }
}
