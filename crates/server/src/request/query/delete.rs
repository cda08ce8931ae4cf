//! `DeleteOptions`, from a body or from query parameters, checked in upstream's words (upstream: `ValidateDeleteOptions`).

use pintle_admission::RequestOptions;
use pintle_gates::{Feature, Gates};
use pintle_registry::{ApiError, DeletionPropagation};
use pintle_value::{Errors, FieldPath, Value};

use super::{Query, dry_run, invalid, options_object};

/// The option that deletes what cannot be read.
pub(crate) const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// What an object has to be for a delete to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preconditions {
    /// The uid that it must have.
    pub(crate) uid: Option<String>,
    /// The resourceVersion that it must have.
    pub(crate) version: Option<String>,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Nothing is to be stored.
    pub(crate) dry_run: bool,
    /// Seconds before the object goes.
    pub(crate) grace_period_seconds: Option<i64>,
    /// What happens to dependents.
    pub(crate) propagation: Option<DeletionPropagation>,
    /// The deprecated form of `propagation`.
    pub(crate) orphan_dependents: Option<bool>,
    /// What the object must be.
    pub(crate) preconditions: Preconditions,
    /// The object is to go because it cannot be read.
    pub(crate) ignores_read_error: bool,
}

impl RequestOptions for DeleteOptions {
    fn to_object(&self) -> Value {
        let mut object = options_object("DeleteOptions", self.dry_run);
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
        if self.ignores_read_error {
            object.set(UNSAFE, true);
        }
        object
    }
}

/// Options before they are checked.
#[derive(Default)]
struct Given<'a> {
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
    /// A value that is malformed or not allowed.
    pub(crate) fn from_query(query: &Query, gates: &Gates) -> Result<Self, ApiError> {
        let text = |key| query.get(key).filter(|text| !text.is_empty()).map(str::to_owned);
        let preconditions = Preconditions { uid: text("uid"), version: text("resourceVersion") };
        let given = Given {
            dry_run: query.all("dryRun").collect(),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation: query.get("propagationPolicy"),
            orphan_dependents: query.optional_flag("orphanDependents"),
            preconditions: Some(preconditions).filter(|wanted| *wanted != Preconditions::default()),
            ignores_read_error: query.flag(UNSAFE),
        };
        given.checked(gates)
    }

    /// Reads the options from a normalised `DeleteOptions` object.
    ///
    /// # Errors
    /// A value that is not allowed.
    pub(crate) fn from_body(body: &Value, gates: &Gates) -> Result<Self, ApiError> {
        let preconditions = body.at(&["preconditions"]).filter(|wanted| !wanted.is_null()).map(|wanted| {
            let text = |key: &str| wanted.at(&[key]).and_then(Value::as_str).map(str::to_owned);
            Preconditions { uid: text("uid"), version: text("resourceVersion") }
        });
        let given = Given {
            dry_run: body.items_at(&["dryRun"]).iter().map(|value| value.as_str().unwrap_or_default()).collect(),
            grace_period_seconds: body.int_at(&["gracePeriodSeconds"]),
            propagation: body.at(&["propagationPolicy"]).and_then(Value::as_str),
            orphan_dependents: body.at(&["orphanDependents"]).and_then(Value::as_bool),
            preconditions,
            ignores_read_error: body.bool_at(&[UNSAFE]),
        };
        given.checked(gates)
    }
}

impl Given<'_> {
    fn checked(mut self, gates: &Gates) -> Result<DeleteOptions, ApiError> {
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
            self.check_alone(&mut errors);
        }
        invalid("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: self.grace_period_seconds,
            propagation,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions.unwrap_or_default(),
            ignores_read_error: self.ignores_read_error,
        })
    }

    /// Of an object that cannot be read nothing else can be asked.
    fn check_alone(&self, errors: &mut Errors) {
        let others = [
            (!self.dry_run.is_empty(), "dryRun"),
            (self.propagation.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
            (self.preconditions.is_some(), "preconditions"),
        ];
        for (_, other) in others.into_iter().filter(|(given, _)| *given) {
            errors.invalid(&FieldPath::new(UNSAFE), true, format!("cannot be set together with .{other}"));
        }
    }
}
