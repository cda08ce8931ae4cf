//! Audit levels and stages (upstream: `apiserver/pkg/apis/audit`).

/// How much of a request is recorded. A higher level records everything that the levels below it record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    #[default]
    None,
    /// Who requested what and when, and the status of the response.
    Metadata,
    /// Also the object of the request.
    Request,
    /// Also the object of the response.
    RequestResponse,
}

impl Level {
    /// All levels, from the lowest to the highest.
    pub const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The name in policies and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    /// The level with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The point in the life of a request at which an event is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The server has received the request.
    #[default]
    RequestReceived,
    /// The head of the response of a long-running request is sent.
    ResponseStarted,
    /// The response is sent.
    ResponseComplete,
    /// The handler has panicked.
    Panic,
}

impl Stage {
    /// All stages, in upstream's order.
    pub const ALL: [Self; 4] = [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The name in policies and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// The stage with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// Returns whether the set has a stage.
    #[must_use]
    pub const fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }

    /// The stages of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The stages of the set, in upstream's order.
    pub fn iter(self) -> impl Iterator<Item = Stage> {
        Stage::ALL.into_iter().filter(move |stage| self.contains(*stage))
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<T: IntoIterator<Item = Stage>>(stages: T) -> Self {
        Self(stages.into_iter().fold(0, |set, stage| set | 1 << stage as u8))
    }
}
