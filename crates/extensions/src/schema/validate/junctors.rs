//! `anyOf`, `oneOf`, `allOf` and `not` (upstream: `schemaPropsValidator`). What is in them is judged without regard to
//! an old value.

use pintle_value::{Value, print};

use super::check as check_value;
use super::failure::{Failure, Outcome};
use crate::schema::model::{Keyword, Span};
use crate::schema::part::Part;
use crate::schema::path::Path;

pub(super) fn check(part: Part<'_>, value: &Value, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let branches = |span: &Span| {
        let outcomes = span.of(&part.schema.branches).iter();
        outcomes.map(|branch| check_value(part.schema.part(*branch), value, None, path))
    };
    for keyword in part.keywords() {
        match keyword {
            Keyword::AnyOf(span) => any_of(branches(span), path, &mut outcome),
            Keyword::OneOf(span) => one_of(branches(span), path, &mut outcome),
            Keyword::AllOf(span) => all_of(branches(span), path, &mut outcome),
            Keyword::Not(branch) => {
                if check_value(part.schema.part(*branch), value, None, path).is_valid() {
                    outcome.push(must(path, "must not validate the schema (not)"));
                }
            }
            // Junctors come first.
            _ => break,
        }
    }
    outcome.matched();
    outcome
}

fn must(path: &Path<'_>, what: &str) -> Failure {
    Failure::loose(format!("{} {what}", print::quote(&path.to_string())))
}

/// Keeps the outcome in which more fitted; of equal ones the first.
fn better(best: &mut Option<Outcome>, other: Outcome) {
    if best.as_ref().is_none_or(|best| other.matches() > best.matches()) {
        *best = Some(other);
    }
}

fn any_of(branches: impl Iterator<Item = Outcome>, path: &Path<'_>, outcome: &mut Outcome) {
    let mut best = None;
    for branch in branches {
        if branch.is_valid() {
            outcome.merge(branch);
            return;
        }
        better(&mut best, branch);
    }
    outcome.push(must(path, "must validate at least one schema (anyOf)"));
    best.into_iter().for_each(|best| outcome.merge(best));
}

fn one_of(branches: impl Iterator<Item = Outcome>, path: &Path<'_>, outcome: &mut Outcome) {
    let (mut best, mut first) = (None, None);
    let mut valid = 0;
    for branch in branches {
        if branch.is_valid() {
            valid += 1;
            first.get_or_insert(branch);
        } else if valid == 0 {
            better(&mut best, branch);
        }
    }
    match (valid, first) {
        (1, Some(first)) => outcome.merge(first),
        (0, _) => {
            outcome.push(must(path, "must validate one and only one schema (oneOf). Found none valid"));
            best.into_iter().for_each(|best| outcome.merge(best));
        }
        (valid, _) => {
            let found = format!("must validate one and only one schema (oneOf). Found {valid} valid alternatives");
            outcome.push(must(path, &found));
        }
    }
}

fn all_of(branches: impl ExactSizeIterator<Item = Outcome>, path: &Path<'_>, outcome: &mut Outcome) {
    let all = branches.len();
    let mut valid = 0;
    for branch in branches {
        valid += usize::from(branch.is_valid());
        outcome.merge(branch);
    }
    if valid != all {
        let none = if valid == 0 { ". None validated" } else { "" };
        outcome.push(must(path, &format!("must validate all the schemas (allOf){none}")));
    }
}
