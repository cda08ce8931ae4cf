//! The flags about the version of Kubernetes that the server is, and about the version that it emulates (upstream:
//! `k8s.io/component-base/compatibility`).

use clap::ArgAction;
use pintle::{EmulationOptions, RuntimeConfig};
use pintle_versions::{EffectiveVersion, Minor, ParseMinorError};

use crate::command::string_slice::StringSlice;

/// The component to which the versions belong.
const COMPONENT: &str = "kube";

/// The flags.
#[derive(clap::Args)]
pub(crate) struct VersionFlags {
    /// The version of Kubernetes that the server is. Fields, kinds and features of later versions do
    /// not exist.
    #[arg(long, value_name = "MINOR", default_value_t = Minor::DEFAULT, value_parser = Minor::parse_known)]
    pub(crate) kubernetes_version: Minor,
    /// The version whose capabilities the server emulates, such as 1.36 or kube=1.36. Default: the version of the
    /// server. It can be three minor versions older.
    #[arg(long, value_name = "[kube=]MINOR")]
    emulated_version: Vec<StringSlice>,
    /// The oldest version of the other servers of the cluster, such as 1.35 or kube=1.35. It must not be newer than the
    /// emulated version. Default: one minor version before it.
    #[arg(long, value_name = "[kube=]MINOR")]
    min_compatibility_version: Vec<StringSlice>,
    /// If true, also serve newer versions of the beta and stable APIs that the emulated version serves, even if they
    /// came after it. Needs --emulated-version.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    emulation_forward_compatible: bool,
    /// If true, serve APIs that --runtime-config names by group and version, even if they came after the emulated
    /// version. If false, the server does not start with such APIs. Needs --emulated-version.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    runtime_config_emulation_forward_compatible: bool,
}

impl VersionFlags {
    /// The version of the server, the version that it emulates, and the oldest version that it is compatible with.
    ///
    /// # Errors
    /// A value is malformed, or the versions do not fit together.
    pub(crate) fn effective_version(&self) -> Result<EffectiveVersion, String> {
        let mut version = EffectiveVersion::of(self.kubernetes_version);
        if let Some(emulated) = version_of("--emulated-version", &self.emulated_version)? {
            version = EffectiveVersion::emulating(self.kubernetes_version, emulated).map_err(|why| why.to_string())?;
        }
        if let Some(oldest) = version_of("--min-compatibility-version", &self.min_compatibility_version)? {
            version = version.compatible_with(oldest).map_err(|why| why.to_string())?;
        }
        let needs_emulation = [
            ("EmulationForwardCompatible", self.emulation_forward_compatible),
            ("RuntimeConfigEmulationForwardCompatible", self.runtime_config_emulation_forward_compatible),
        ];
        match needs_emulation.iter().find(|(_, is_set)| *is_set && !version.is_emulating()) {
            Some((name, _)) => Err(format!(
                "ServerRunOptions.{name} cannot be set to true if the emulation version is the same as the binary \
                 version"
            )),
            None => Ok(version),
        }
    }

    /// The configuration with the options of the flags.
    pub(crate) fn runtime_config(&self, config: RuntimeConfig) -> RuntimeConfig {
        config.emulating(EmulationOptions {
            forward_compatible: self.emulation_forward_compatible,
            runtime_config_forward_compatible: self.runtime_config_emulation_forward_compatible,
        })
    }
}

/// The version of the component `kube` in the values of a flag.
fn version_of(flag: &str, values: &[StringSlice]) -> Result<Option<Minor>, String> {
    let mut found: Option<Minor> = None;
    for value in StringSlice::concat(values) {
        let (component, text) = value.split_once('=').unwrap_or((COMPONENT, &value));
        let (component, text) = (component.trim(), text.trim());
        let text = text.strip_prefix('v').unwrap_or(text);
        // A patch of zero is allowed.
        let minor = match text.rsplit_once('.') {
            Some((minor, "0")) if minor.contains('.') => minor.parse(),
            Some((minor, patch)) if minor.contains('.') && patch.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(format!("{flag}: patch version not allowed, got: {component}={text}"));
            }
            _ => text.parse(),
        };
        let minor: Minor = minor.map_err(|why: ParseMinorError| format!("{flag}: {why}"))?;
        if component != COMPONENT {
            return Err(format!("component not registered: {component}"));
        }
        if let Some(known) = found {
            return Err(format!("duplicate version flag, {component}={known} and {component}={minor}"));
        }
        found = Some(minor);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        flags: VersionFlags,
    }

    fn check(flags: &str, expect: Result<&str, &str>) {
        let arguments = ["pintle", "--kubernetes-version=1.37"].into_iter().chain(flags.split_whitespace());
        let found = Command::try_parse_from(arguments).expect(flags).flags.effective_version();
        let shown = found
            .map(|version| format!("{} {} {}", version.binary(), version.emulation(), version.min_compatibility()));
        assert_eq!(shown, expect.map(str::to_owned).map_err(str::to_owned), "{flags}");
    }

    #[test]
    fn versions_are_read_like_upstream() {
        check("", Ok("1.37 1.37 1.36"));
        check("--emulated-version=1.36", Ok("1.37 1.36 1.35"));
        check("--emulated-version=kube=1.36.0", Ok("1.37 1.36 1.35"));
        check("--emulated-version=v1.34 --min-compatibility-version=1.34", Ok("1.37 1.34 1.34"));
        check("--emulated-version=1.36 --emulation-forward-compatible", Ok("1.37 1.36 1.35"));
        check("--emulated-version=1.36.1", Err("--emulated-version: patch version not allowed, got: kube=1.36.1"));
        check("--emulated-version=wardle=1.2", Err("component not registered: wardle"));
        check("--emulated-version=1.36,kube=1.35", Err("duplicate version flag, kube=1.36 and kube=1.35"));
        check("--emulated-version=1.38", Err("emulation version 1.38 is not between [1.34, 1.37.0]"));
        check(
            "--emulated-version=x",
            Err("--emulated-version: \"x\" is not a minor version of Kubernetes such as 1.36"),
        );
        check(
            "--emulation-forward-compatible",
            Err(
                "ServerRunOptions.EmulationForwardCompatible cannot be set to true if the emulation version is the same as the binary version",
            ),
        );
    }

    #[test]
    fn only_known_versions_are_served() {
        let parse = |text: &str| Command::try_parse_from(["pintle", "--kubernetes-version", text]).is_ok();
        assert!(parse("1.34") && parse("1.37"));
        assert!(!parse("1.33") && !parse("1.38") && !parse("36"));
    }
}
