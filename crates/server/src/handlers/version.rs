//! The document of `/version`.

use std::sync::OnceLock;

use pintle_value::time::Time;
use pintle_value::{Value, object};
use pintle_versions::{EffectiveVersion, Minor};

/// The origin of the program's build.
#[derive(Clone, Debug)]
pub struct BuildInfo {
    /// The commit of the source.
    pub commit: &'static str,
    /// `clean`, or the reason why the source differs from the commit.
    pub tree_state: &'static str,
    /// The date of the build.
    pub date: Time,
}

/// The build information that the program has set. A library knows nothing of the program that links it.
static BUILD: OnceLock<BuildInfo> = OnceLock::new();

/// Sets the program's build information, before it starts a server. Only the first call has an effect.
pub fn set_build_info(build: BuildInfo) {
    let _ = BUILD.set(build);
}

/// The version of a server, as `version.Info`. Its patch release is the one of the Go modules with which
/// it is compared.
#[must_use]
pub fn version(version: EffectiveVersion) -> Value {
    let unknown = BuildInfo { commit: "unknown", tree_state: "unknown", date: Time::from_seconds(0) };
    let build = BUILD.get().unwrap_or(&unknown);
    let (binary, number) = (version.binary(), |minor: Minor| minor.number().to_string());
    object! {
        "major": "1",
        "minor": number(binary),
        "emulationMajor": "1",
        "emulationMinor": number(version.emulation()),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": number(version.min_compatibility()),
        "gitVersion": format!("v{binary}.{}+pintle-{}", binary.patch(), env!("CARGO_PKG_VERSION")),
        "gitCommit": build.commit,
        "gitTreeState": build.tree_state,
        "buildDate": build.date.rfc3339(),
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    }
}

/// The architecture by Go's name.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_libraries() {
        let module = include_str!("../../../../tools/kubectl/go.mod");
        let patch = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubectl v0.")).expect("a version");
        let version = super::version(EffectiveVersion::default());
        assert!(version.str_at(&["gitVersion"]).starts_with(&format!("v1.{patch}+pintle-")), "{version:?}");
    }
}
