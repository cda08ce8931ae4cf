//! Declarative validation: the rules that upstream has as tags of a kind's types (upstream: `registry/rest/validate.go`).

use pintle_gates::Gates;
use pintle_value::{Errors, Value};

/// The declarative validation of a kind at one version.
pub trait DeclarativeValidation: Send + Sync {
    /// Whether writes of the object (an empty name) or of a subresource have rules. Validation of other writes finds
    /// no errors.
    fn applies(&self, gates: &Gates, subresource: &str) -> bool;

    /// Returns the errors of a write. Errors of rules in beta are marked.
    fn validate(&self, write: &DeclarativeWrite<'_>) -> Errors;
}

/// A write that declarative validation checks.
#[derive(Clone, Copy)]
pub struct DeclarativeWrite<'a> {
    /// The feature gates.
    pub gates: &'a Gates,
    /// Whether an option that rules name is enabled.
    pub has_option: &'a dyn Fn(&str) -> bool,
    /// The object at the version of the rules.
    pub object: &'a Value,
    /// The object before an update, at the version of the rules.
    pub old: Option<&'a Value>,
}
