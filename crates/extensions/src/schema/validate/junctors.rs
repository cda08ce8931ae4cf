//! `anyOf`, `oneOf`, `allOf` and `not` (upstream: `schemaPropsValidator`). What is in them is judged without regard to
//! an old value.

use std::fmt;

use pintle_value::{Value, print};

use super::check as check_value;
use super::failure::Outcome;
use crate::schema::model::{Keyword, Span};
use crate::schema::part::Part;
use crate::schema::path::Path;

pub(super) fn check(part: Part<'_>, value: &Value, path: &Path<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for keyword in part.keywords() {
        let (span, judge): (_, fn(&Branches<'_>, &Path<'_>, &mut Outcome)) = match keyword {
            Keyword::AnyOf(span) => (*span, any_of),
            Keyword::OneOf(span) => (*span, one_of),
            Keyword::AllOf(span) => (*span, all_of),
            Keyword::Not(branch) => {
                if check_value(part.schema.part(*branch), value, None, &path.silently()).is_valid() {
                    must(&mut outcome, path, format_args!("must not validate the schema (not)"));
                }
                continue;
            }
            // Junctors come first.
            _ => break,
        };
        judge(&Branches { part, span, value }, path, &mut outcome);
    }
    outcome.matched();
    outcome
}

/// The alternatives for a value.
struct Branches<'s> {
    part: Part<'s>,
    span: Span,
    value: &'s Value,
}

impl Branches<'_> {
    /// What comes out for each of them.
    fn outcomes(&self, path: &Path<'_>) -> impl ExactSizeIterator<Item = Outcome> {
        let branches = self.span.of(&self.part.schema.branches).iter();
        branches.map(move |branch| check_value(self.part.schema.part(*branch), self.value, None, path))
    }

    /// The outcome in which most fitted, if all failed; of equal ones the first.
    fn best_failure(&self, path: &Path<'_>) -> Option<Outcome> {
        let better = |best: Outcome, other: Outcome| if other.matches() > best.matches() { other } else { best };
        self.outcomes(path).reduce(better)
    }
}

fn must(outcome: &mut Outcome, path: &Path<'_>, what: fmt::Arguments<'_>) {
    outcome.loose(path, format_args!("{} {what}", print::quote(&path.to_string())));
}

/// Alternatives are tried in silence first: mostly one fits, and then nobody wants to know why others do not.
fn any_of(branches: &Branches<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    if let Some(valid) = branches.outcomes(&path.silently()).find(Outcome::is_valid) {
        return outcome.merge(valid);
    }
    must(outcome, path, format_args!("must validate at least one schema (anyOf)"));
    merge_best(branches, path, outcome);
}

fn merge_best(branches: &Branches<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    if !path.is_silent()
        && let Some(best) = branches.best_failure(path)
    {
        outcome.merge(best);
    }
}

fn one_of(branches: &Branches<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    let silent = path.silently();
    let mut valid = branches.outcomes(&silent).filter(Outcome::is_valid);
    match (valid.next(), valid.count()) {
        (Some(only), 0) => outcome.merge(only),
        (Some(_), more) => {
            let count = more + 1;
            let what = "must validate one and only one schema (oneOf)";
            must(outcome, path, format_args!("{what}. Found {count} valid alternatives"));
        }
        (None, _) => {
            must(outcome, path, format_args!("must validate one and only one schema (oneOf). Found none valid"));
            merge_best(branches, path, outcome);
        }
    }
}

fn all_of(branches: &Branches<'_>, path: &Path<'_>, outcome: &mut Outcome) {
    let outcomes = branches.outcomes(path);
    let all = outcomes.len();
    let mut valid = 0;
    for branch in outcomes {
        valid += usize::from(branch.is_valid());
        outcome.merge(branch);
    }
    if valid != all {
        let none = if valid == 0 { ". None validated" } else { "" };
        must(outcome, path, format_args!("must validate all the schemas (allOf){none}"));
    }
}
