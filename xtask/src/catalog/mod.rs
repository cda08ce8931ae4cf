//! `cargo xtask import-catalog`: runs the importer (a Go program in `xtask/import` that reads the published API
//! modules) and stores its output. `--check` only checks that the stored files are up to date. `--against VERSION`
//! lists the changes of another version of the modules.

mod compare;
mod differences;

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle_catalog::facts::parse;

use crate::{print_status, root};

const TYPES: &str = "crates/catalog/data/types.txt";
/// The modules that the importer reads. They are published together and have the same version.
const MODULES: [&str; 5] = [
    "k8s.io/api",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/apimachinery",
    "k8s.io/client-go",
    "k8s.io/kube-aggregator",
];
const RESOURCES: &str = "crates/catalog/data/resources.txt";

/// The files that the importer writes, and its arguments.
fn imported() -> [(&'static str, Vec<PathBuf>); 4] {
    let of_resources = |mode: &str| vec![mode.into(), root().join(RESOURCES)];
    [
        (TYPES, Vec::new()),
        ("crates/catalog/data/optional.txt", of_resources("optional")),
        ("crates/catalog/data/stored.txt", of_resources("stored")),
        ("crates/catalog/data/rules.txt", of_resources("rules")),
    ]
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
        ["--against", version] => print_differences(version),
        _ => Err("usage: cargo xtask import-catalog [--check | --compare FILE | --against MODULE-VERSION]".into()),
    }
}

fn stored(file: &str) -> Result<String, String> {
    std::fs::read_to_string(root().join(file)).map_err(|e| format!("{file}: {e}"))
}

/// Runs the importer and returns its output.
fn import(arguments: &[PathBuf]) -> Result<String, String> {
    run_go(Command::new("go").args(["run", "."]).args(arguments).current_dir(root().join("xtask/import")))
}

/// Prints the differences of the types in another version of the modules, such as `v0.37.2`, from the stored types.
fn print_differences(version: &str) -> Result<(), String> {
    let folder = std::env::temp_dir().join(format!("pintle-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let newer = import_version(version, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    let (older, newer) = (stored(TYPES)?, newer?);
    let facts = |text: &str| parse(text).map(|packages| compare::of_catalog(&packages)).map_err(|e| e.to_string());
    let list = differences::list(&facts(&older)?, &facts(&newer)?);
    print_status(if list.is_empty() { "No differences\n" } else { &list });
    Ok(())
}

/// Runs the importer with another version of the modules. `folder` is for the temporary module file.
fn import_version(version: &str, folder: &Path) -> Result<String, String> {
    let importer = root().join("xtask/import");
    for file in ["go.mod", "go.sum"] {
        std::fs::copy(importer.join(file), folder.join(file)).map_err(|e| format!("{file}: {e}"))?;
    }
    let module_file = folder.join("go.mod");
    let requires = MODULES.map(|module| format!("-require={module}@{version}"));
    let mut edit = Command::new("go");
    run_go(edit.args(["mod", "edit"]).args(requires).arg(&module_file).current_dir(&importer))?;
    // The importer runs Go itself.
    let flags = format!("-mod=mod -modfile={}", module_file.display());
    run_go(Command::new("go").args(["run", "."]).env("GOFLAGS", flags).current_dir(&importer))
}

/// Runs a command of Go and returns its output.
fn run_go(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("cannot run go, which the importer needs: {e}"))?;
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
