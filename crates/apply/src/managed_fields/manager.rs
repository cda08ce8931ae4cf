//! Who a manager is: a name, what it does and through which subresource.

use std::cmp::Ordering;

use pintle_value::{Str, print};

/// What a manager does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applies configurations.
    Apply,
    /// It writes in any other way.
    Update,
}

impl Operation {
    /// The name in `managedFields`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager. One that updates through several versions is several; one that applies is one.
#[derive(Clone, Debug)]
pub struct Manager {
    name: Str,
    operation: Operation,
    version: Str,
    subresource: Str,
    /// Upstream's identifier: the entry as JSON, without what changes. It decides the order.
    identifier: Str,
}

impl Manager {
    /// A manager that writes at a version (`apps/v1`) through a subresource, or the object itself where that is empty.
    #[must_use]
    pub fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let version = if operation == Operation::Apply { "" } else { version };
        let mut identifier = String::from("{");
        let fields =
            [("manager", name), ("operation", operation.name()), ("apiVersion", version), ("subresource", subresource)];
        for (key, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if identifier.len() > 1 {
                identifier.push(',');
            }
            print::json_string(&mut identifier, key);
            identifier.push(':');
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

    /// Stands for whoever does the update that is under way, so that what it does is told from what they did before.
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

    /// What it does.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The version that it updates at; empty for one that applies.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The subresource that it writes through, or empty.
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
