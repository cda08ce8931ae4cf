//! Strings and bytes, borrowed or shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A string.
#[derive(Clone)]
pub enum Text<'a> {
    /// Borrowed from the data or the program.
    Borrowed(&'a str),
    /// Made by the evaluation.
    Owned(Arc<str>),
}

impl Text<'_> {
    /// How many code points there are.
    #[must_use]
    pub fn chars_count(&self) -> u64 {
        self.chars().count() as u64
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Owned(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Bytes.
#[derive(Clone)]
pub enum Blob<'a> {
    /// Borrowed from the data or the program.
    Borrowed(&'a [u8]),
    /// Made by the evaluation.
    Owned(Arc<[u8]>),
}

impl Deref for Blob<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Blob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
