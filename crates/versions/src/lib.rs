//! The versions of Kubernetes that this program can be, and ranges of them. Facts that came, changed or went with a
//! version have a [`MinorRange`]; a server has an [`EffectiveVersion`].
//!
//! ```
//! use pintle_versions::{EffectiveVersion, Minor, MinorRange};
//!
//! let range: MinorRange = "1.35..".parse().expect("a range");
//! assert!(range.contains(Minor::NEWEST));
//! assert!(!range.contains("1.34".parse().expect("a version")));
//!
//! let version = EffectiveVersion::of(Minor::NEWEST);
//! assert_eq!(version.min_compatibility().to_string(), Minor::NEWEST.previous().to_string());
//! ```

mod data;
mod effective;
mod minor;
mod per_version;
mod range;

pub use data::{DataLine, lines_of, nested_lines, split_range};
pub use effective::{EffectiveVersion, EmulationError};
pub use minor::{Minor, ParseMinorError, UnknownMinorError};
pub use per_version::PerVersion;
pub use range::{MinorRange, ParseRangeError};
