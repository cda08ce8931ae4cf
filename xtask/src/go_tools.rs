//! Builds the Go programs in `tools`. They are kubectl and Helm from their published modules, and test clients on
//! client-go and controller-runtime. They are also services that answer access reviews, aggregated API servers, the
//! transformers of encryption at rest, and the timing of Go's serializers. Each `go.mod` pins the versions, so that the
//! programs do not depend on the machine's installed versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::{catalog, print_status, root};

/// Builds the clients for the tests and downloads the Go modules that the catalog is compared with.
pub(crate) fn prepare(arguments: &[String]) -> Result<(), String> {
    catalog::fetch_modules(arguments)?;
    let version = version(&root().join("tools/kubectl/go.mod"))?;
    build("kubectl", &link_flags(&version))?;
    build("client-go", STRIP_SYMBOLS)?;
    build("controller-runtime", STRIP_SYMBOLS)?;
    build("access-services", STRIP_SYMBOLS)?;
    build("kubelet", STRIP_SYMBOLS)?;
    build("aggregated-server", STRIP_SYMBOLS)?;
    build("metrics-server", STRIP_SYMBOLS)?;
    kms_plugin()?;
    build("helm", STRIP_SYMBOLS)?;
    api_server().map(drop)
}

/// Builds the Go API server with which answers and measurements are compared, and its etcd beside it.
pub(crate) fn api_server() -> Result<PathBuf, String> {
    build("apiserver", STRIP_SYMBOLS)?;
    build_package("etcd", "apiserver", "go.etcd.io/etcd/server/v3", STRIP_SYMBOLS)?;
    Ok(binary("apiserver"))
}

/// Builds the transformers of encryption at rest. With the argument `serve` they are a KMS plugin.
pub(crate) fn kms_plugin() -> Result<(), String> {
    build("encryption", STRIP_SYMBOLS)
}

/// Linker flags that strip symbols.
const STRIP_SYMBOLS: &str = "-s -w";

/// Builds the program that times Go's serializers.
pub(crate) fn codec_timings() -> Result<PathBuf, String> {
    build("codec-timings", STRIP_SYMBOLS)?;
    Ok(binary("codec-timings"))
}

/// The path of the binary built from `tools/NAME`.
fn binary(name: &str) -> PathBuf {
    root().join("target/tools").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Builds `tools/NAME` as `target/tools/NAME` unless the binary is up to date.
fn build(name: &str, link_flags: &str) -> Result<(), String> {
    build_package(name, name, ".", link_flags)
}

/// Builds a Go package with the module `tools/MODULE` as `target/tools/NAME` unless the binary is up to date.
fn build_package(name: &str, module: &str, package: &str, link_flags: &str) -> Result<(), String> {
    let folder = root().join("tools").join(module);
    let binary = binary(name);
    if is_current(&binary, &folder)? {
        return Ok(());
    }
    print_status(&format!("building {name} (takes minutes the first time)\n"));
    let built = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", link_flags, "-o"])
        .arg(&binary)
        .arg(package)
        .current_dir(&folder)
        .status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("go build in {} failed: {status}", folder.display())),
        Err(error) => Err(format!("cannot run go, which builds {name}: {error}")),
    }
}

/// Returns true if the binary exists and is newer than every file of its source folder.
fn is_current(binary: &Path, folder: &Path) -> Result<bool, String> {
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let Some(built) = modified(binary) else { return Ok(false) };
    let files = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    // A source with an unknown modification time counts as new.
    Ok(files.flatten().all(|file| modified(&file.path()).unwrap_or_else(SystemTime::now) < built))
}

/// The Kubernetes release of kubectl's `go.mod`: the module `k8s.io/kubectl` v0.X.Y is Kubernetes v1.X.Y.
fn version(go_mod: &Path) -> Result<String, String> {
    let text = fs::read_to_string(go_mod).map_err(|e| format!("{}: {e}", go_mod.display()))?;
    release(&text).ok_or_else(|| format!("{} does not require k8s.io/kubectl v0.X.Y", go_mod.display()))
}

fn release(go_mod: &str) -> Option<String> {
    let line = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubectl v0."))?;
    Some(format!("v1.{}", line.split_whitespace().next()?))
}

/// Linker flags that strip symbols and set the version for `kubectl version` and the User-Agent.
fn link_flags(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut flags = String::from(STRIP_SYMBOLS);
    for package in ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"] {
        for (name, value) in [("gitVersion", version), ("gitMajor", major), ("gitMinor", minor)] {
            flags.push_str(&format!(" -X {package}.{name}={value}"));
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::{link_flags, release};

    #[test]
    fn release_is_derived_from_the_module_version() {
        let check = |text: &str, expect: Option<&str>| assert_eq!(release(text).as_deref(), expect, "{text}");
        check("require (\n\tk8s.io/kubectl v0.36.6\n)", Some("v1.36.6"));
        check("require (\n\tk8s.io/kubectl v0.36.6 // indirect\n)", Some("v1.36.6"));
        check("require k8s.io/api v0.36.6", None);
    }

    #[test]
    fn link_flags_set_the_version_in_both_packages() {
        let flags = link_flags("v1.36.6");
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.6"), "{flags}");
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=36"), "{flags}");
    }
}
