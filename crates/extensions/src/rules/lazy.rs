//! The rules of a custom kind, compiled when the first object is judged: most definitions of a cluster have no objects.

use std::sync::OnceLock;

use pintle_registry::CostBudget;
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Value};

use super::tree::Rules;
use super::walk::{Limits, Subject, Verdict};
use crate::schema::Schema;

/// What all rules may cost for one object.
const BUDGET: i64 = 10_000_000;
/// What they may cost with little effort: some milliseconds.
const LITTLE: u32 = 50_000;

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct LazyRules(OnceLock<Option<Rules>>);

impl LazyRules {
    /// Applies the rules to an object, if there are any and what was found wrong with it before allows that. Returns
    /// warnings of what is wrong but was so before, or `None` if that takes more effort.
    pub(crate) fn judge(
        &self,
        schema: &Schema,
        object: &Value,
        old: Option<&Value>,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        let Some(rules) = self.0.get_or_init(|| Rules::of(schema.root(), true)) else { return Some(Vec::new()) };
        if found.0.iter().any(|error| is_blocking(error.kind)) {
            // Upstream has no path for the object as a whole, and prints that.
            found.push(FieldError::invalid(&FieldPath::new("<nil>"), Value::Null, NOT_CHECKED));
            return Some(Vec::new());
        }
        let subject = Subject { part: schema.root(), new: object, old, ratchets: true };
        let limits = match budget {
            CostBudget::Limited => Limits::together(LITTLE),
            CostBudget::Unlimited => Limits::of(BUDGET),
        };
        let Verdict { errors, warnings, budget: remaining } = rules.judge(subject, limits, &FieldPath::root());
        if remaining < 0 && budget == CostBudget::Limited {
            return None;
        }
        found.append(errors);
        Some(warnings)
    }
}

/// True for what says that a value is not of the form that rules are written for.
fn is_blocking(kind: ErrorKind) -> bool {
    use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
