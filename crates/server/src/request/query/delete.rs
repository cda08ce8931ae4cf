//! `DeleteOptions`, from a body or from query parameters (upstream: `ValidateDeleteOptions`).

use pintle_admission::{AdmissionOperation, RequestOptions};
use pintle_gates::{Change, Feature, Gates};
use pintle_registry::{ApiError, DeletionPropagation};
use pintle_value::{Errors, FieldPath, Value};

use super::{Query, check_errors, dry_run, options_object};

/// The option that allows deleting objects that cannot be decoded.
pub(crate) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// The conditions that an object must meet to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    /// The required uid.
    pub(crate) uid: Option<String>,
    /// The required resourceVersion.
    pub(crate) version: Option<String>,
}

impl Preconditions {
    /// Reads the preconditions of a normalised `DeleteOptions` object.
    pub(crate) fn from_body(body: &Value) -> Option<Self> {
        let preconditions = body.at(&["preconditions"]).filter(|preconditions| !preconditions.is_null())?;
        let text = |key: &str| preconditions.at(&[key]).and_then(Value::as_str).map(str::to_owned);
        Some(Self { uid: text("uid"), version: text("resourceVersion") })
    }
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// True if nothing is persisted.
    pub(crate) dry_run: bool,
    /// The time until the object is deleted, in seconds.
    pub(crate) grace_period_seconds: Option<i64>,
    /// The propagation policy, which determines what the deletion does to dependents.
    pub(crate) propagation: Option<DeletionPropagation>,
    /// The deprecated alternative to `propagation`.
    pub(crate) orphan_dependents: Option<bool>,
    /// The preconditions.
    pub(crate) preconditions: Preconditions,
    /// True to delete the object because it cannot be decoded.
    pub(crate) ignores_read_error: bool,
}

impl RequestOptions for DeleteOptions {
    fn to_object(&self, _: AdmissionOperation) -> Value {
        let mut object = options_object("DeleteOptions");
        if let Some(seconds) = self.grace_period_seconds {
            object.set("gracePeriodSeconds", seconds);
        }
        for (key, value) in [("uid", &self.preconditions.uid), ("resourceVersion", &self.preconditions.version)] {
            if let Some(value) = value {
                object.set_at(&["preconditions", key], value.as_str());
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            object.set("orphanDependents", orphan);
        }
        if let Some(propagation) = self.propagation {
            object.set("propagationPolicy", propagation.name());
        }
        if self.dry_run {
            object.set("dryRun", vec!["All"]);
        }
        if self.ignores_read_error {
            object.set(IGNORE_READ_ERROR, true);
        }
        object
    }
}

/// Options that are not validated yet.
#[derive(Default)]
struct UnvalidatedOptions<'a> {
    dry_run: Vec<&'a str>,
    grace_period_seconds: Option<i64>,
    propagation: Option<&'a str>,
    orphan_dependents: Option<bool>,
    preconditions: Option<Preconditions>,
    ignores_read_error: bool,
}

impl DeleteOptions {
    /// Reads the options from query parameters.
    ///
    /// # Errors
    /// Returns an error if a value is malformed or invalid.
    pub(crate) fn from_query(query: &Query, gates: &Gates) -> Result<Self, ApiError> {
        let text = |key| query.get(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let preconditions = Preconditions { uid: text("uid"), version: text("resourceVersion") };
        let options = UnvalidatedOptions {
            dry_run: query.all("dryRun").collect(),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation: query.get("propagationPolicy"),
            orphan_dependents: query.optional_flag("orphanDependents"),
            preconditions: Some(preconditions).filter(|preconditions| *preconditions != Preconditions::default()),
            ignores_read_error: query.flag(IGNORE_READ_ERROR),
        };
        options.validate(gates)
    }

    /// Reads the options from a normalised `DeleteOptions` object.
    ///
    /// # Errors
    /// Returns an error if a value is invalid.
    pub(crate) fn from_body(body: &Value, gates: &Gates) -> Result<Self, ApiError> {
        let options = UnvalidatedOptions {
            dry_run: body.items_at(&["dryRun"]).iter().map(|value| value.as_str().unwrap_or_default()).collect(),
            grace_period_seconds: body.int_at(&["gracePeriodSeconds"]),
            propagation: body.at(&["propagationPolicy"]).and_then(Value::as_str),
            orphan_dependents: body.at(&["orphanDependents"]).and_then(Value::as_bool),
            preconditions: Preconditions::from_body(body),
            ignores_read_error: body.bool_at(&[IGNORE_READ_ERROR]),
        };
        options.validate(gates)
    }
}

impl UnvalidatedOptions<'_> {
    fn validate(mut self, gates: &Gates) -> Result<DeleteOptions, ApiError> {
        self.ignores_read_error &= gates.is_enabled(Feature::ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION);
        let mut errors = Errors::new();
        let path = FieldPath::new("propagationPolicy");
        if let (Some(policy), Some(_)) = (self.propagation, self.orphan_dependents) {
            errors.invalid(&path, policy, "orphanDependents and deletionPropagation cannot be both set");
        }
        let propagation = match self.propagation {
            Some("Orphan") => Some(DeletionPropagation::Orphan),
            Some("Background") => Some(DeletionPropagation::Background),
            Some("Foreground") => Some(DeletionPropagation::Foreground),
            Some(other) => {
                errors.not_supported(&path, other, &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
            None => None,
        };
        let dry_run = dry_run(self.dry_run.iter().copied(), &mut errors);
        if self.ignores_read_error {
            self.forbid_other_options(gates, &mut errors);
        }
        check_errors("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: self.grace_period_seconds,
            propagation,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions.unwrap_or_default(),
            ignores_read_error: self.ignores_read_error,
        })
    }

    /// Rejects all other options if the object cannot be decoded.
    fn forbid_other_options(&self, gates: &Gates, errors: &mut Errors) {
        let options = [
            (!self.dry_run.is_empty() && !gates.has(Change::PRECISE_UNSAFE_DELETION), "dryRun"),
            (self.propagation.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
            (self.preconditions.is_some(), "preconditions"),
        ];
        for (_, option) in options.into_iter().filter(|(is_set, _)| *is_set) {
            errors.invalid(&FieldPath::new(IGNORE_READ_ERROR), true, format!("cannot be set together with .{option}"));
        }
    }
}
