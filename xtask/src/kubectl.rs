//! The real Go clients that tests drive, built from `tools`: kubectl, from its published module, and programs on
//! client-go and controller-runtime.
//! Each `go.mod` pins the version, so that nothing depends on what a machine has installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::{catalog, root, say};

/// Prepares what tests need beside Rust: the clients and the Go modules that the catalog is compared with.
pub(crate) fn prepare(arguments: &[String]) -> Result<(), String> {
    catalog::fetch_modules(arguments)?;
    let version = version(&root().join("tools/kubectl/go.mod"))?;
    build("kubectl", &link_flags(&version))?;
    build("client-go", PLAIN)?;
    build("controller-runtime", PLAIN)
}

/// The linker's flags that leave symbols out.
const PLAIN: &str = "-s -w";

/// The program that times Go's codecs; `None` where there is no Go to build it.
pub(crate) fn codecs() -> Option<PathBuf> {
    build("codecs", PLAIN).ok().map(|()| binary("codecs"))
}

/// Where `tools/NAME` is built.
fn binary(name: &str) -> PathBuf {
    root().join("target/tools").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Builds `tools/NAME` as `target/tools/NAME`, unless that is current.
fn build(name: &str, link_flags: &str) -> Result<(), String> {
    let folder = root().join("tools").join(name);
    let binary = binary(name);
    if is_current(&binary, &folder)? {
        return Ok(());
    }
    say(&format!("building {name}, which takes minutes the first time\n"));
    let built = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", link_flags, "-o"])
        .arg(&binary)
        .arg(".")
        .current_dir(&folder)
        .status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("go build in {} failed: {status}", folder.display())),
        Err(error) => Err(format!("go is needed to build {name}: {error}")),
    }
}

/// Whether the binary exists and is newer than every file of the folder that it is made of.
fn is_current(binary: &Path, folder: &Path) -> Result<bool, String> {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let Some(built) = changed(binary) else { return Ok(false) };
    let files = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    // A source whose time is unknown counts as new.
    Ok(files.flatten().all(|file| changed(&file.path()).unwrap_or_else(SystemTime::now) < built))
}

/// The release that kubectl's `go.mod` asks for: the module `k8s.io/kubectl` v0.X.Y is Kubernetes v1.X.Y.
fn version(go_mod: &Path) -> Result<String, String> {
    let text = fs::read_to_string(go_mod).map_err(|e| format!("{}: {e}", go_mod.display()))?;
    release(&text).ok_or_else(|| format!("{} asks for no k8s.io/kubectl v0.X.Y", go_mod.display()))
}

fn release(go_mod: &str) -> Option<String> {
    let line = go_mod.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubectl v0."))?;
    Some(format!("v1.{}", line.split_whitespace().next()?))
}

/// The linker's flags: without symbols, and with the version that `kubectl version` and the User-Agent say.
fn link_flags(version: &str) -> String {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut flags = String::from(PLAIN);
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
    fn the_module_version_names_the_release() {
        let check = |text: &str, expect: Option<&str>| assert_eq!(release(text).as_deref(), expect, "{text}");
        check("require (\n\tk8s.io/kubectl v0.36.6\n)", Some("v1.36.6"));
        check("require (\n\tk8s.io/kubectl v0.36.6 // indirect\n)", Some("v1.36.6"));
        check("require k8s.io/api v0.36.6", None);
    }

    #[test]
    fn the_version_reaches_both_packages_that_print_it() {
        let flags = link_flags("v1.36.6");
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.36.6"), "{flags}");
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=36"), "{flags}");
    }
}
