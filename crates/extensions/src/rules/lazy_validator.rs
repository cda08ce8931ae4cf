//! Compiles the rules of a custom resource when its first object is validated. Most CRDs of a cluster have no objects.

use std::sync::OnceLock;

use pintle_registry::CostBudget;
use pintle_value::{ErrorKind, Errors, FieldError, FieldPath, Value};

use super::validator::CelValidator;
use super::walker::{CelResult, CostLimits, ValidationTarget};
use crate::schema::StructuralSchema;

/// The cost budget of all rules for one object.
const TOTAL_BUDGET: i64 = 10_000_000;
/// The limited cost budget, equal to a few milliseconds of evaluation.
const LIMITED_BUDGET: u32 = 50_000;

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The lazily compiled rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct LazyCelValidator(OnceLock<Option<CelValidator>>);

impl LazyCelValidator {
    /// Validates an object with the rules, unless a preceding error blocks them. Returns the warnings of ratcheted
    /// errors, or `None` if the limited budget is not enough.
    pub(crate) fn validate(
        &self,
        schema: &StructuralSchema,
        object: &Value,
        old: Option<&Value>,
        found: &mut Errors,
        budget: CostBudget,
    ) -> Option<Vec<String>> {
        let Some(validator) = self.0.get_or_init(|| CelValidator::of(schema.root(), true)) else {
            return Some(Vec::new());
        };
        if found.iter().any(|error| is_blocking(error.kind)) {
            // Upstream has no path for the object as a whole, and prints `<nil>`.
            found.push(FieldError::invalid(&FieldPath::new("<nil>"), Value::Null, NOT_CHECKED));
            return Some(Vec::new());
        }
        let target = ValidationTarget { node: schema.root(), new: object, old, allow_ratcheting: true };
        let limits = match budget {
            CostBudget::Limited => CostLimits::shared(LIMITED_BUDGET),
            CostBudget::Unlimited => CostLimits::of(TOTAL_BUDGET),
        };
        let CelResult { errors, warnings, remaining_budget } = validator.validate(target, limits, &FieldPath::root());
        if remaining_budget < 0 && budget == CostBudget::Limited {
            return None;
        }
        found.append(errors);
        Some(warnings)
    }
}

/// True for errors that mean that a value does not have the type that rules expect.
fn is_blocking(kind: ErrorKind) -> bool {
    use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
