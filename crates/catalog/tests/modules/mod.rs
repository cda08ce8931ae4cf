//! Locates published Go modules for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle_versions::Minor;

/// The folder of a module that `xtask/import` pins for a version, in the Go module cache.
pub(crate) fn folder(name: &str, minor: Minor) -> PathBuf {
    let importer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask/import");
    let modules = importer.join("versions").join(format!("{minor}.mod"));
    let output = Command::new("go")
        .args(["mod", "download", "-json", name])
        .env("GOPROXY", "off")
        .env("GOFLAGS", format!("-modfile={}", modules.display()))
        .current_dir(importer)
        .output()
        .expect("go is needed for this test");
    let module: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match module["Dir"].as_str() {
        Some(folder) => PathBuf::from(folder),
        None => panic!(
            "{name} is not in the Go module cache; run `cargo xtask fetch-modules` ({} {})",
            module["Error"],
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}
