//! `cargo xtask import-catalog`: runs the importer for each known version of Kubernetes and stores the merged output. The
//! importer is a Go program in `xtask/import` that reads the published API modules. `--check` only checks that the
//! stored files are up to date. `--against VERSION` lists the changes of another version of the modules.

mod compare;
mod differences;
mod merge;

use std::path::{Path, PathBuf};
use std::process::Command;

use pintle_catalog::facts::parse;
use pintle_catalog::release_lines;
use pintle_versions::Minor;

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

/// A file that the importer writes.
struct Imported {
    file: &'static str,
    /// The importer's mode. `None` is the mode of `types.txt`; the other modes read the resources of the version.
    mode: Option<&'static str>,
}

const IMPORTED: [Imported; 4] = [
    Imported { file: TYPES, mode: None },
    Imported { file: "crates/catalog/data/optional.txt", mode: Some("optional") },
    Imported { file: "crates/catalog/data/stored.txt", mode: Some("stored") },
    Imported { file: "crates/catalog/data/rules.txt", mode: Some("rules") },
];

/// Runs the command.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => in_temporary_folder(|folder| {
            for imported in &IMPORTED {
                let (target, text) = (root().join(imported.file), import(imported, folder)?);
                std::fs::write(&target, &text).map_err(|e| format!("{}: {e}", imported.file))?;
                print_status(&format!("{}: {} lines\n", imported.file, text.lines().count()));
            }
            Ok(())
        }),
        ["--check"] => in_temporary_folder(|folder| {
            for imported in &IMPORTED {
                if stored(imported.file)? != import(imported, folder)? {
                    return Err(format!("{} is not up to date; run cargo xtask import-catalog", imported.file));
                }
            }
            Ok(())
        }),
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

fn in_temporary_folder<T>(run: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
    let folder = std::env::temp_dir().join(format!("pintle-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let result = run(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    result
}

/// Imports a file from the modules of all known versions. `folder` is for temporary files.
fn import(imported: &Imported, folder: &Path) -> Result<String, String> {
    let resources = stored(RESOURCES)?;
    let mut versions = Vec::new();
    for minor in Minor::known() {
        let mut importer = Command::new("go");
        importer
            .args(["run", "."])
            .current_dir(root().join(IMPORTER))
            .env("GOFLAGS", module_flags(&module_file(minor)));
        if let Some(mode) = imported.mode {
            let lines: Vec<&str> = release_lines(&resources, minor).map(|line| line.text).collect();
            let file = folder.join(format!("resources-{minor}.txt"));
            std::fs::write(&file, lines.join("\n")).map_err(|e| format!("{}: {e}", file.display()))?;
            importer.arg(mode).arg(file);
        }
        versions.push((minor, run_go(&mut importer).map_err(|e| format!("{} of {minor}: {e}", imported.file))?));
    }
    Ok(merge::merge(&versions))
}

const IMPORTER: &str = "xtask/import";

/// The file that pins the modules of a version.
fn module_file(minor: Minor) -> PathBuf {
    root().join(IMPORTER).join("versions").join(format!("{minor}.mod"))
}

/// The flags with which Go uses another module file than `go.mod`. The importer runs Go itself.
fn module_flags(file: &Path) -> String {
    format!("-mod=mod -modfile={}", file.display())
}

/// Prints the differences of the types in another version of the modules, such as `v0.38.0`, from the stored types of the
/// newest known version.
fn print_differences(version: &str) -> Result<(), String> {
    let newer = in_temporary_folder(|folder| import_version(version, folder))?;
    let facts = |text: &str, minor| {
        parse(text, minor).map(|packages| compare::of_catalog(&packages)).map_err(|e| e.to_string())
    };
    let list = differences::list(&facts(&stored(TYPES)?, Minor::NEWEST)?, &facts(&newer, Minor::NEWEST)?);
    print_status(if list.is_empty() { "No differences\n" } else { &list });
    Ok(())
}

/// Runs the importer with another version of the modules. `folder` is for the temporary module file.
fn import_version(version: &str, folder: &Path) -> Result<String, String> {
    let importer = root().join(IMPORTER);
    let file = folder.join("other.mod");
    std::fs::copy(module_file(Minor::NEWEST), &file).map_err(|e| format!("{}: {e}", file.display()))?;
    let requires = MODULES.map(|module| format!("-require={module}@{version}"));
    let mut edit = Command::new("go");
    run_go(edit.args(["mod", "edit"]).args(requires).arg(&file).current_dir(&importer))?;
    run_go(Command::new("go").args(["run", "."]).env("GOFLAGS", module_flags(&file)).current_dir(&importer))
}

/// Runs a command of Go and returns its output.
fn run_go(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("cannot run go, which the importer needs: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    String::from_utf8(output.stdout).map_err(|e| e.to_string())
}

/// Downloads the modules of all known versions.
pub(crate) fn fetch_modules(_arguments: &[String]) -> Result<(), String> {
    for minor in Minor::known() {
        let flags = module_flags(&module_file(minor));
        let mut download = Command::new("go");
        run_go(download.args(["mod", "download"]).env("GOFLAGS", flags).current_dir(root().join(IMPORTER)))?;
    }
    Ok(())
}
