//! What goes wrong while an expression is evaluated.

use std::borrow::Cow;
use std::fmt;

/// An error of an evaluation. Small, since every step may return one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError(Box<Failure>);

/// What kind of error it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The expression failed: `&&` and `||` may absorb that.
    Message(Cow<'static, str>),
    /// A function has no overload for its arguments.
    NoOverload,
    /// Something that cel-go does not expect, and that ends its evaluation. Nothing absorbs that.
    Internal(&'static str),
    /// The evaluation cost more than it may. Nothing absorbs that.
    CostLimit,
    /// Whoever asked does not want to know any more. Nothing absorbs that.
    Interrupted,
}

impl EvalError {
    /// An error with a text.
    #[must_use]
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Failure::Message(message.into())))
    }

    /// The arguments have types that the function does not take.
    #[must_use]
    pub fn no_overload() -> Self {
        Self(Box::new(Failure::NoOverload))
    }

    pub(crate) fn of(failure: Failure) -> Self {
        Self(Box::new(failure))
    }

    pub(crate) fn no_key(key: impl fmt::Display) -> Self {
        Self::new(format!("no such key: {key}"))
    }

    /// What kind of error it is.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        &self.0
    }

    /// True if nothing may absorb the error.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(*self.0, Failure::Internal(_) | Failure::CostLimit | Failure::Interrupted)
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            Failure::Internal(what) => return write!(f, "internal error: {what}"),
            Failure::Message(message) => message,
            Failure::NoOverload => "no such overload",
            Failure::CostLimit => "operation cancelled: actual cost limit exceeded",
            Failure::Interrupted => "operation interrupted",
        })
    }
}

impl std::error::Error for EvalError {}
