//! The version that a server is and the version as which it behaves.

use std::fmt;

use crate::Minor;

/// The version that a server is, the version that it emulates, and the oldest version with which it is compatible
/// (upstream: `EffectiveVersion` of `k8s.io/component-base/compatibility`).
///
/// - The *binary* version decides which types, fields and rules exist.
/// - The *emulation* version decides which of them are switched on: kinds by their life cycle, features by their gates.
/// - The *minimum compatibility* version decides what other servers of the cluster must be able to read: storage
///   versions and the newest libraries of CEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectiveVersion {
    binary: Minor,
    emulation: Minor,
    min_compatibility: Minor,
}

/// Versions that do not fit together, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    /// The emulation version is newer than the binary version or too old.
    #[error("emulation version {emulation} is not between [{floor}, {binary}.0]")]
    Emulation {
        /// The requested version.
        emulation: Minor,
        /// The oldest version that can be emulated.
        floor: Minor,
        /// The binary version.
        binary: Minor,
    },
    /// The minimum compatibility version is newer than the emulation version or too old.
    #[error("minCompatibilityVersion version {min_compatibility} is not between [{floor}, {emulation}]")]
    MinCompatibility {
        /// The requested version.
        min_compatibility: Minor,
        /// The oldest version that is allowed.
        floor: Minor,
        /// The emulation version.
        emulation: Minor,
    },
}

impl EffectiveVersion {
    /// A server that is this version and emulates no other.
    #[must_use]
    pub const fn of(binary: Minor) -> Self {
        Self { binary, emulation: binary, min_compatibility: binary.previous() }
    }

    /// A server of this version that emulates another one.
    ///
    /// # Errors
    /// The emulated version is newer than the binary version or too old.
    pub fn emulating(binary: Minor, emulation: Minor) -> Result<Self, EmulationError> {
        let floor = Self::of(binary).floor();
        if emulation > binary || emulation < floor {
            return Err(EmulationError::Emulation { emulation, floor, binary });
        }
        Ok(Self { binary, emulation, min_compatibility: emulation.previous().max(floor) })
    }

    /// The same versions with another minimum compatibility version.
    ///
    /// # Errors
    /// The version is newer than the emulation version or too old.
    pub fn compatible_with(self, min_compatibility: Minor) -> Result<Self, EmulationError> {
        let floor = self.floor();
        if min_compatibility > self.emulation || min_compatibility < floor {
            return Err(EmulationError::MinCompatibility { min_compatibility, floor, emulation: self.emulation });
        }
        Ok(Self { min_compatibility, ..self })
    }

    /// The oldest version that the binary version can emulate: three minors back, as upstream.
    #[must_use]
    pub const fn floor(self) -> Minor {
        Minor::new(self.binary.number().saturating_sub(3))
    }

    /// The version that the server is.
    #[must_use]
    pub const fn binary(self) -> Minor {
        self.binary
    }

    /// The version as which the server behaves.
    #[must_use]
    pub const fn emulation(self) -> Minor {
        self.emulation
    }

    /// The oldest version of other servers of the cluster.
    #[must_use]
    pub const fn min_compatibility(self) -> Minor {
        self.min_compatibility
    }

    /// Whether the server emulates an older version than its own.
    #[must_use]
    pub fn is_emulating(self) -> bool {
        self.emulation < self.binary
    }
}

impl Default for EffectiveVersion {
    fn default() -> Self {
        Self::of(Minor::DEFAULT)
    }
}

impl fmt::Display for EffectiveVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{BinaryVersion: {}, EmulationVersion: {}, MinCompatibilityVersion: {}}}",
            self.binary, self.emulation, self.min_compatibility
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINARY: Minor = Minor::new(37);

    fn check(emulation: u8, min_compatibility: Option<u8>, expect: Result<&str, &str>) {
        let emulating = EffectiveVersion::emulating(BINARY, Minor::new(emulation));
        let found = match min_compatibility {
            Some(version) => emulating.and_then(|emulating| emulating.compatible_with(Minor::new(version))),
            None => emulating,
        };
        let found = found.map(|version| version.to_string()).map_err(|error| error.to_string());
        assert_eq!(found, expect.map(str::to_owned).map_err(str::to_owned), "{emulation} {min_compatibility:?}");
    }

    #[test]
    fn versions_have_to_fit_together() {
        check(37, None, Ok("{BinaryVersion: 1.37, EmulationVersion: 1.37, MinCompatibilityVersion: 1.36}"));
        check(36, None, Ok("{BinaryVersion: 1.37, EmulationVersion: 1.36, MinCompatibilityVersion: 1.35}"));
        check(34, None, Ok("{BinaryVersion: 1.37, EmulationVersion: 1.34, MinCompatibilityVersion: 1.34}"));
        check(37, Some(37), Ok("{BinaryVersion: 1.37, EmulationVersion: 1.37, MinCompatibilityVersion: 1.37}"));
        check(36, Some(34), Ok("{BinaryVersion: 1.37, EmulationVersion: 1.36, MinCompatibilityVersion: 1.34}"));
        check(38, None, Err("emulation version 1.38 is not between [1.34, 1.37.0]"));
        check(33, None, Err("emulation version 1.33 is not between [1.34, 1.37.0]"));
        check(36, Some(37), Err("minCompatibilityVersion version 1.37 is not between [1.34, 1.36]"));
        check(36, Some(33), Err("minCompatibilityVersion version 1.33 is not between [1.34, 1.36]"));
    }
}
