//! The document of `/version`.

use pintle_value::{Value, object};

/// The served version of the API, as `version.Info`.
#[must_use]
pub fn version() -> Value {
    object! {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.0+pintle-", env!("CARGO_PKG_VERSION")),
        "gitCommit": option_env!("PINTLE_COMMIT").unwrap_or("unknown"),
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": concat!("linux", "/", "amd64"),
    }
}
