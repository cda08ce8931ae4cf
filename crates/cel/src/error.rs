//! Evaluation errors.

use std::borrow::Cow;
use std::fmt;

use pintle_budget::Exhausted;

/// An evaluation error. It is one pointer wide, since every evaluation step can return one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError(Box<EvalErrorKind>);

/// The kind of an evaluation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// The expression failed. `&&` and `||` can absorb the error.
    Message(Cow<'static, str>),
    /// The function has no overload for its arguments.
    NoOverload,
    /// An error that cel-go does not expect, for example a Go panic. It ends the evaluation and is never absorbed.
    Internal(&'static str),
    /// The evaluation exceeded its cost limit. Never absorbed.
    CostLimit,
    /// The values of the evaluation would hold more memory than an expression may. Never absorbed.
    MemoryLimit,
    /// The budget of the request is exhausted. Never absorbed.
    Interrupted,
}

impl EvalError {
    /// An error with a message.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(EvalErrorKind::Message(message.into())))
    }

    /// The error for arguments of types that the function does not accept.
    #[must_use]
    pub fn no_overload() -> Self {
        Self(Box::new(EvalErrorKind::NoOverload))
    }

    pub(crate) fn from_kind(kind: EvalErrorKind) -> Self {
        Self(Box::new(kind))
    }

    pub(crate) fn no_such_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> &EvalErrorKind {
        &self.0
    }

    /// True if the error ends the evaluation and is never absorbed.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(
            *self.0,
            EvalErrorKind::Internal(_)
                | EvalErrorKind::CostLimit
                | EvalErrorKind::MemoryLimit
                | EvalErrorKind::Interrupted
        )
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            EvalErrorKind::Internal(what) => return write!(f, "internal error: {what}"),
            EvalErrorKind::Message(message) => message,
            EvalErrorKind::NoOverload => "no such overload",
            EvalErrorKind::CostLimit => "operation cancelled: actual cost limit exceeded",
            EvalErrorKind::MemoryLimit => "operation cancelled: memory limit exceeded",
            EvalErrorKind::Interrupted => "operation interrupted",
        })
    }
}

impl std::error::Error for EvalError {}

impl From<Exhausted> for EvalError {
    fn from(why: Exhausted) -> Self {
        Self::from_kind(match why {
            Exhausted::Memory(_) | Exhausted::Pool => EvalErrorKind::MemoryLimit,
            Exhausted::ProcessorTime(_) | Exhausted::Deadline | Exhausted::Disconnected => EvalErrorKind::Interrupted,
        })
    }
}
