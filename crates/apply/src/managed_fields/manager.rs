//! The identity of a manager: its name, its operation, and the version and subresource that it writes through.

use std::cmp::Ordering;

use pintle_value::{Str, print};

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    /// The value of `operation` in `managedFields`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager. Updates through several versions are separate managers; applies at several versions are
/// one.
#[derive(Clone, Debug)]
pub struct Manager {
    name: Str,
    operation: Operation,
    version: Str,
    subresource: Str,
    /// Upstream's manager identifier: the entry as JSON, without time and fields. It determines the order of managers.
    identifier: Str,
}

impl Manager {
    /// Creates a manager that writes at a version (`apps/v1`) through a subresource; an empty subresource is the main
    /// resource.
    #[must_use]
    pub fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let version = if operation == Operation::Apply { "" } else { version };
        let mut identifier = String::with_capacity(128);
        identifier.push('{');
        let fields = [
            ("\"manager\":", name),
            ("\"operation\":", operation.name()),
            ("\"apiVersion\":", version),
            ("\"subresource\":", subresource),
        ];
        for (key, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if identifier.len() > 1 {
                identifier.push(',');
            }
            identifier.push_str(key);
            print::json_string(&mut identifier, value);
        }
        identifier.push('}');
        Self {
            name: Str::from(name),
            operation,
            version: Str::from(version),
            subresource: Str::from(subresource),
            identifier: Str::from(identifier),
        }
    }

    /// A placeholder for the manager of the current update, which separates its new fields from the fields that it
    /// owned before.
    pub(super) fn current_operation() -> Self {
        let identifier = Str::const_new("current-operation");
        let (name, version, subresource) = (Str::default(), Str::default(), Str::default());
        Self { name, operation: Operation::Update, version, subresource, identifier }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operation.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The version of an update; empty for an apply.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The subresource, or empty.
    #[must_use]
    pub fn subresource(&self) -> &str {
        &self.subresource
    }
}

impl PartialEq for Manager {
    fn eq(&self, other: &Self) -> bool {
        self.identifier == other.identifier
    }
}

impl Eq for Manager {}

impl PartialOrd for Manager {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Manager {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identifier.cmp(&other.identifier)
    }
}
