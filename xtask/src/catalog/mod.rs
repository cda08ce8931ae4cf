//! `cargo xtask import-catalog`: runs the importer (a Go program in `xtask/import` that reads the published API
//! modules) and stores its output. `--check` only checks that the stored file is up to date.

mod compare;

use std::process::Command;

use crate::{print_status, root};

/// Runs the command.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let target = root().join("crates/catalog/data/types.txt");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let text = import()?;
            std::fs::write(&target, &text).map_err(|e| format!("{}: {e}", target.display()))?;
            print_status(&format!("{}: {} lines\n", target.display(), text.lines().count()));
            Ok(())
        }
        ["--check"] => {
            let stored = std::fs::read_to_string(&target).map_err(|e| format!("{}: {e}", target.display()))?;
            if stored == import()? {
                Ok(())
            } else {
                Err("the stored file is not up to date; run cargo xtask import-catalog".into())
            }
        }
        ["--compare", file] => {
            let stored = std::fs::read_to_string(&target).map_err(|e| format!("{}: {e}", target.display()))?;
            let other = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
            compare::report(&stored, &other)
        }
        _ => Err("usage: cargo xtask import-catalog [--check | --compare FILE]".into()),
    }
}

/// Runs the importer and returns its output.
fn import() -> Result<String, String> {
    let output = Command::new("go")
        .args(["run", "."])
        .current_dir(root().join("xtask/import"))
        .output()
        .map_err(|e| format!("cannot run go, which the importer needs: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}

/// Downloads the modules that `xtask/import/go.mod` pins.
pub(crate) fn fetch_modules(_arguments: &[String]) -> Result<(), String> {
    let status = Command::new("go")
        .args(["mod", "download"])
        .current_dir(root().join("xtask/import"))
        .status()
        .map_err(|e| format!("cannot run go, which downloads the modules: {e}"))?;
    if status.success() { Ok(()) } else { Err("go mod download failed".into()) }
}
