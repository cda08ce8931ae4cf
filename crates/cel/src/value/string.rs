//! Strings and bytes, borrowed or shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A string.
#[derive(Clone)]
pub enum CelString<'a> {
    /// Borrowed from the input data or the program.
    Borrowed(&'a str),
    /// Created by the evaluation.
    Owned(Arc<str>),
}

impl CelString<'_> {
    /// The number of code points.
    #[must_use]
    pub fn char_count(&self) -> u64 {
        self.chars().count() as u64
    }
}

impl Deref for CelString<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl fmt::Debug for CelString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Bytes.
#[derive(Clone)]
pub enum CelBytes<'a> {
    /// Borrowed from the input data or the program.
    Borrowed(&'a [u8]),
    /// Created by the evaluation.
    Owned(Arc<[u8]>),
}

impl Deref for CelBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for CelBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
