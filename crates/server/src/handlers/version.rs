//! The document of `/version`.

use std::sync::OnceLock;

use pintle_value::time::Time;
use pintle_value::{Value, object};

/// The patch release of Kubernetes whose behaviour the server has. It is also the release of the Go modules with which
/// the server is compared.
const KUBERNETES_VERSION: &str = "v1.36.6";

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

/// The served version of the API, as `version.Info`.
#[must_use]
pub fn version() -> Value {
    let unknown = BuildInfo { commit: "unknown", tree_state: "unknown", date: Time::from_seconds(0) };
    let build = BUILD.get().unwrap_or(&unknown);
    object! {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": format!("{KUBERNETES_VERSION}+pintle-{}", env!("CARGO_PKG_VERSION")),
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
        let version =
            module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubectl v0.")).expect("a version");
        assert_eq!(KUBERNETES_VERSION, format!("v1.{version}"));
        assert!(super::version().str_at(&["gitVersion"]).starts_with(&format!("{KUBERNETES_VERSION}+pintle-")));
    }
}
