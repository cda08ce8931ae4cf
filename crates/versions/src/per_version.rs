//! Values that are made once for each version.

use std::sync::OnceLock;

use crate::Minor;

/// The number of known versions.
const KNOWN: usize = (Minor::NEWEST.number() - Minor::OLDEST.number()) as usize + 1;

/// A value for each known version, made when it is needed first.
#[derive(Debug)]
pub struct PerVersion<T>([OnceLock<T>; KNOWN]);

impl<T> PerVersion<T> {
    /// No value has been made.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { OnceLock::new() }; KNOWN])
    }

    /// The value of a version, or of the nearest known one.
    pub fn get_or_init(&self, minor: Minor, make: impl FnOnce(Minor) -> T) -> &T {
        let minor = minor.clamp(Minor::OLDEST, Minor::NEWEST);
        self.0[usize::from(minor.number() - Minor::OLDEST.number())].get_or_init(|| make(minor))
    }
}

impl<T> Default for PerVersion<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_own_value() {
        let values = PerVersion::new();
        let made = |minor: u8| *values.get_or_init(Minor::new(minor), Minor::number);
        assert_eq!([made(36), made(35), made(36)], [36, 35, 36]);
        assert_eq!([made(1), made(99)], [Minor::OLDEST.number(), Minor::NEWEST.number()]);
    }
}
