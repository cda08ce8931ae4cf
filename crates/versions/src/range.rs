//! Ranges of minor versions.

use std::fmt;
use std::str::FromStr;

use crate::Minor;

/// The minor versions in which a fact holds: `1.35..` (from 1.35 on), `..1.36` (up to and with 1.36), `1.35..1.36`, or
/// one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MinorRange {
    first: Minor,
    last: Minor,
}

/// A text that is not a range of minor versions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of versions such as 1.35.. or ..1.36")]
pub struct ParseRangeError(String);

impl MinorRange {
    /// All versions.
    pub const ALL: MinorRange = MinorRange { first: Minor::new(0), last: Minor::new(u8::MAX) };

    /// All versions from this one on.
    #[must_use]
    pub const fn since(first: Minor) -> Self {
        Self { first, last: Self::ALL.last }
    }

    /// All versions up to this one.
    #[must_use]
    pub const fn until(last: Minor) -> Self {
        Self { first: Self::ALL.first, last }
    }

    /// The known versions from one to another, both included. It is open where it reaches the oldest or the newest known
    /// version.
    #[must_use]
    pub fn of_known(first: Minor, last: Minor) -> Self {
        let first = if first == Minor::OLDEST { Self::ALL.first } else { first };
        let last = if last == Minor::NEWEST { Self::ALL.last } else { last };
        Self { first, last }
    }

    /// The first version of the range.
    #[must_use]
    pub const fn first(self) -> Minor {
        self.first
    }

    /// The last version of the range.
    #[must_use]
    pub const fn last(self) -> Minor {
        self.last
    }

    /// The versions that are in both ranges. If there are none, the range contains no version.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    /// Whether the version is in the range.
    #[must_use]
    pub const fn contains(self, minor: Minor) -> bool {
        self.first.number() <= minor.number() && minor.number() <= self.last.number()
    }
}

impl Default for MinorRange {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Display for MinorRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        if self.first != Self::ALL.first {
            self.first.fmt(f)?;
        }
        f.write_str("..")?;
        if self.last == Self::ALL.last { Ok(()) } else { self.last.fmt(f) }
    }
}

impl FromStr for MinorRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bound = |text: &str, open: Minor| if text.is_empty() { Some(open) } else { text.parse().ok() };
        let range = match text.split_once("..") {
            None => text.parse().ok().map(|minor| Self { first: minor, last: minor }),
            Some((first, last)) => {
                bound(first, Self::ALL.first).zip(bound(last, Self::ALL.last)).map(|(first, last)| Self { first, last })
            }
        };
        range.filter(|range| range.first <= range.last).ok_or_else(|| ParseRangeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_known_versions_are_open_at_the_ends() {
        let check = |first: Minor, last: Minor, expect: &str| {
            assert_eq!(MinorRange::of_known(first, last).to_string(), expect);
        };
        let (second, last_but_one) = (Minor::OLDEST.next(), Minor::NEWEST.previous());
        check(Minor::OLDEST, Minor::NEWEST, "..");
        check(Minor::OLDEST, last_but_one, &format!("..{last_but_one}"));
        check(second, Minor::NEWEST, &format!("{second}.."));
        check(second, second, &second.to_string());
    }

    #[test]
    fn ranges_are_read_and_written() {
        let check = |text: &str, expect: &str| {
            let range: MinorRange = text.parse().expect(text);
            let contained: Vec<String> =
                (33..=38).map(Minor::new).filter(|m| range.contains(*m)).map(|m| m.to_string()).collect();
            assert_eq!(contained.join(" "), expect, "{text}");
            assert_eq!(range.to_string(), text);
        };
        check("1.37..", "1.37 1.38");
        check("..1.34", "1.33 1.34");
        check("1.35..1.36", "1.35 1.36");
        check("1.36", "1.36");
        check("..", "1.33 1.34 1.35 1.36 1.37 1.38");
        for text in ["", "1.37..1.36", "1.36...", "36..", "1.36..x"] {
            assert!(text.parse::<MinorRange>().is_err(), "{text}");
        }
    }
}
