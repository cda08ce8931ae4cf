//! Minor versions of Kubernetes.

use std::fmt;
use std::str::FromStr;

/// A minor version of Kubernetes, such as 1.36. The major version is always 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(u8);

/// A text that is not a minor version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a minor version of Kubernetes such as 1.36")]
pub struct ParseMinorError(pub(crate) String);

/// A text that is not a version whose facts are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMinorError {
    /// The text is no minor version.
    #[error(transparent)]
    Malformed(#[from] ParseMinorError),
    /// The version is too old or too new.
    #[error("this program can be Kubernetes {oldest} to {newest}, not {0}", oldest = Minor::OLDEST, newest = Minor::NEWEST)]
    Unknown(Minor),
}

impl Minor {
    /// The oldest version whose facts are known.
    pub const OLDEST: Minor = Minor(34);
    /// The newest version whose facts are known.
    pub const NEWEST: Minor = Minor(37);
    /// The version that a server is unless it is told otherwise.
    pub const DEFAULT: Minor = Minor(36);

    /// The version `1.minor`.
    #[must_use]
    pub const fn new(minor: u8) -> Self {
        Self(minor)
    }

    /// The number after the dot.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The version before this one.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The versions whose facts are known, the oldest first.
    pub fn known() -> impl DoubleEndedIterator<Item = Minor> {
        (Self::OLDEST.0..=Self::NEWEST.0).map(Minor)
    }

    /// Whether the facts of the version are known.
    #[must_use]
    pub const fn is_known(self) -> bool {
        Self::OLDEST.0 <= self.0 && self.0 <= Self::NEWEST.0
    }

    /// Parses a version whose facts are known.
    ///
    /// # Errors
    /// The text is no minor version, or its facts are not known.
    pub fn parse_known(text: &str) -> Result<Self, UnknownMinorError> {
        let minor: Self = text.parse::<Self>()?;
        if minor.is_known() { Ok(minor) } else { Err(UnknownMinorError::Unknown(minor)) }
    }

    /// The newest patch of the version that the facts are of. Its Go modules are `v0.MINOR.PATCH`.
    #[must_use]
    pub const fn patch(self) -> u8 {
        match self.0 {
            34 => 13,
            35 => 10,
            36 => 6,
            37 => 2,
            _ => 0,
        }
    }
}

impl Default for Minor {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

impl FromStr for Minor {
    type Err = ParseMinorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_prefix("1.").filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        let minor = number.and_then(|number| number.parse().ok()).map(Self);
        minor.ok_or_else(|| ParseMinorError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_read_and_written() {
        let check = |text: &str, expect: Option<u8>| {
            assert_eq!(text.parse::<Minor>().ok().map(Minor::number), expect, "{text}");
        };
        check("1.36", Some(36));
        check("1.0", Some(0));
        for text in ["", "1", "1.", "1.x", "1.+3", "2.36", "v1.36", "1.36.6", "1.300"] {
            check(text, None);
        }
        assert_eq!(Minor::new(36).to_string(), "1.36");
    }

    #[test]
    fn only_known_versions_can_be_chosen() {
        let check = |text: &str, expect: Result<u8, &str>| {
            let found = Minor::parse_known(text).map(Minor::number).map_err(|why| why.to_string());
            assert_eq!(found, expect.map_err(str::to_owned));
        };
        check("1.34", Ok(34));
        check("1.37", Ok(37));
        check("1.33", Err("this program can be Kubernetes 1.34 to 1.37, not 1.33"));
        check("36", Err("\"36\" is not a minor version of Kubernetes such as 1.36"));
    }

    #[test]
    fn every_known_version_has_a_patch() {
        assert!(Minor::known().all(|minor| minor.is_known() && minor.patch() > 0));
        assert!(Minor::DEFAULT.is_known());
        assert_eq!(Minor::known().last(), Some(Minor::NEWEST));
    }
}
