//! Versions by the rules of semver.org.

use std::cmp::Ordering;

/// A semantic version. Versions are ordered by precedence, in which builds do not count.
#[derive(Clone, Debug)]
pub(crate) struct SemanticVersion<'a> {
    /// Major, minor and patch number.
    numbers: [&'a str; 3],
    /// The parts of the prerelease; none for a release.
    prerelease: Vec<&'a str>,
}

impl<'a> SemanticVersion<'a> {
    /// The version 0.0.0.
    pub(crate) const ZERO: SemanticVersion<'static> =
        SemanticVersion { numbers: ["0", "0", "0"], prerelease: Vec::new() };

    /// Parses a version.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (version, build) = text.split_once('+').map_or((text, None), |(version, build)| (version, Some(build)));
        let (numbers, prerelease) =
            version.split_once('-').map_or((version, None), |(numbers, prerelease)| (numbers, Some(prerelease)));
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let is_number = |word: &str| !word.is_empty() && is_digits(word) && (word == "0" || !word.starts_with('0'));
        let numbers: [&str; 3] = numbers.split('.').collect::<Vec<_>>().try_into().ok()?;
        let prerelease: Vec<&str> = prerelease.into_iter().flat_map(|parts| parts.split('.')).collect();
        let is_valid = numbers.iter().all(|number| is_number(number))
            && prerelease.iter().all(|part| is_word(part) && (!is_digits(part) || is_number(part)))
            && build.is_none_or(|parts| parts.split('.').all(is_word));
        is_valid.then_some(Self { numbers, prerelease })
    }

    /// True if the numbers have at most 64 bits, as in many libraries.
    pub(crate) fn is_64_bit(&self) -> bool {
        let numeric = self.prerelease.iter().filter(|part| is_digits(part));
        self.numbers.iter().chain(numeric).all(|number| number.parse::<u64>().is_ok())
    }
}

fn is_digits(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit())
}

/// Compares numbers without leading zeros.
fn compare_numbers(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Compares parts of prereleases: numbers come before words.
fn compare_parts(a: &str, b: &str) -> Ordering {
    match (is_digits(a), is_digits(b)) {
        (true, true) => compare_numbers(a, b),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => a.cmp(b),
    }
}

impl Ord for SemanticVersion<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = self.numbers.iter().zip(&other.numbers).map(|(a, b)| compare_numbers(a, b));
        let parts = || self.prerelease.iter().zip(&other.prerelease).map(|(a, b)| compare_parts(a, b));
        let prereleases = || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => parts()
                .find(|order| order.is_ne())
                .unwrap_or_else(|| self.prerelease.len().cmp(&other.prerelease.len())),
        };
        numbers.into_iter().find(|order| order.is_ne()).unwrap_or_else(prereleases)
    }
}

impl PartialOrd for SemanticVersion<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SemanticVersion<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SemanticVersion<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_precedence() {
        let order = [
            "0.0.0",
            "0.1.9",
            "0.1.10",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0",
            "1.36.0",
            "2.0.0",
        ];
        let versions: Vec<_> = order.iter().map(|text| SemanticVersion::parse(text).expect(text)).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(versions[0], SemanticVersion::ZERO);
        assert_eq!(SemanticVersion::parse("1.0.0+a"), SemanticVersion::parse("1.0.0+b"));
        for malformed in ["", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.x"] {
            assert!(SemanticVersion::parse(malformed).is_none(), "{malformed}");
        }
        let is_64_bit =
            |text| SemanticVersion::parse(text).is_some_and(|version: SemanticVersion<'_>| version.is_64_bit());
        assert!(is_64_bit("1.18446744073709551615.0-a"));
        assert!(!is_64_bit("1.18446744073709551616.0") && !is_64_bit("1.0.0-18446744073709551616"));
    }
}
