//! `cargo xtask import-catalog`: runs the importer (a Go program in `xtask/import` that reads the published API
//! modules) and stores its output. `--check` only checks that the stored files are up to date.

mod compare;

use std::path::PathBuf;
use std::process::Command;

use crate::{print_status, root};

const TYPES: &str = "crates/catalog/data/types.txt";
const RESOURCES: &str = "crates/catalog/data/resources.txt";

/// The files that the importer writes, and its arguments.
fn imported() -> [(&'static str, Vec<PathBuf>); 2] {
    [(TYPES, Vec::new()), ("crates/catalog/data/stored.txt", vec![root().join(RESOURCES)])]
}

/// Runs the command.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            for (file, arguments) in imported() {
                let (target, text) = (root().join(file), import(&arguments)?);
                std::fs::write(&target, &text).map_err(|e| format!("{file}: {e}"))?;
                print_status(&format!("{file}: {} lines\n", text.lines().count()));
            }
            Ok(())
        }
        ["--check"] => {
            for (file, arguments) in imported() {
                if stored(file)? != import(&arguments)? {
                    return Err(format!("{file} is not up to date; run cargo xtask import-catalog"));
                }
            }
            Ok(())
        }
        ["--compare", file] => {
            let other = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
            compare::report(&stored(TYPES)?, &other)
        }
        _ => Err("usage: cargo xtask import-catalog [--check | --compare FILE]".into()),
    }
}

fn stored(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))
}

/// Runs the importer and returns its output.
fn import(arguments: &[PathBuf]) -> Result<String, String> {
    let output = Command::new("go")
        .args(["run", "."])
        .args(arguments)
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
