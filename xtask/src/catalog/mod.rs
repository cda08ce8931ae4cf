//! `cargo xtask import-catalog`: runs the importer (a Go program in `xtask/import`, which reads the published API
//! modules) and keeps its result. `--check` only tells whether the checked-in file is what the importer writes.

mod compare;

use std::process::Command;

use crate::{root, say};

/// Runs the command.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let target = root().join("crates/catalog/data/types.txt");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let text = import()?;
            std::fs::write(&target, &text).map_err(|e| format!("{}: {e}", target.display()))?;
            say(&format!("{}: {} lines\n", target.display(), text.lines().count()));
            Ok(())
        }
        ["--check"] => {
            let kept = std::fs::read_to_string(&target).map_err(|e| format!("{}: {e}", target.display()))?;
            if kept == import()? { Ok(()) } else { Err("the checked-in facts are not what the importer writes".into()) }
        }
        ["--compare", file] => {
            let kept = std::fs::read_to_string(&target).map_err(|e| format!("{}: {e}", target.display()))?;
            let other = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
            compare::report(&kept, &other)
        }
        _ => Err("usage: cargo xtask import-catalog [--check | --compare FILE]".into()),
    }
}

/// The importer's output.
fn import() -> Result<String, String> {
    let output = Command::new("go")
        .args(["run", "."])
        .current_dir(root().join("xtask/import"))
        .output()
        .map_err(|e| format!("go is needed to read the published modules: {e}"))?;
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
        .map_err(|e| format!("go is needed to fetch the published modules: {e}"))?;
    if status.success() { Ok(()) } else { Err("go mod download failed".into()) }
}
