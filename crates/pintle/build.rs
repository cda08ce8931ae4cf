//! Tells the program its commit and date, for `/version`. The date is `SOURCE_DATE_EPOCH` or else the date of the
//! commit. So builds of the same commit have the same result. Packagers without git set `PINTLE_COMMIT`. Debug builds
//! do not ask git: otherwise each commit would rebuild this package and all tests.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rerun-if-env-changed=PINTLE_COMMIT");
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let git = if is_release { git_state() } else { None };
    let (mut commit, mut state, mut date) = match git {
        Some(git) => git,
        None if is_release => ("unknown".to_owned(), "not a git tree", "0".to_owned()),
        None => ("unknown".to_owned(), "debug build", "0".to_owned()),
    };
    if let Some(given) = variable("PINTLE_COMMIT") {
        (commit, state) = (given, "archive");
    }
    if let Some(given) = variable("SOURCE_DATE_EPOCH") {
        date = given;
    }
    println!("cargo::rustc-env=PINTLE_BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=PINTLE_BUILD_STATE={state}");
    println!("cargo::rustc-env=PINTLE_BUILD_DATE={date}");
}

/// The commit, whether the working tree has changed since, and the time of the commit. `None` if this is not a working
/// tree of the project: the sources may be unpacked in the working tree of another project.
fn git_state() -> Option<(String, &'static str, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    for name in ["HEAD".to_owned(), "logs/HEAD".to_owned(), git(&["rev-parse", "--symbolic-full-name", "HEAD"])?] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", &name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for changed in ["crates", "Cargo.lock", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(changed).display());
    }
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let state = if changes.is_empty() { "clean" } else { "dirty" };
    Some((git(&["rev-parse", "HEAD"])?, state, git(&["show", "-s", "--format=%ct", "HEAD"])?))
}

/// The output of git.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
