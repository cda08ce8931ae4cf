//! `cargo xtask optimize`: builds the server with profile-guided optimization. An instrumented build serves the
//! requests of the benchmark and counts branches and calls. The compiler places and inlines code by these counts
//! (<https://doc.rust-lang.org/rustc/profile-guided-optimization.html>). A profile belongs to the source from which it
//! was made, so it is not kept in the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{cargo, run_command, target_folder};
use crate::{go_tools, print_status, root};

/// The scenarios of the benchmark whose requests make the profile.
const SCENARIOS: &str = "start-loaded,get,access,admission,list,create,update,apply,pods,lease-renewals,custom-objects,\
                         conversion,delete,cascading-delete,fanout,filtered-watches,mixed,etcd";

/// Builds `target/optimized/pintle`.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("usage: cargo xtask optimize".to_owned());
    }
    let merge = llvm_profdata()?;
    // Writes over etcd are a part of the profile.
    go_tools::api_server()?;
    let target = std::path::absolute(target_folder()).map_err(|error| format!("the folder of builds: {error}"))?;
    let folder = target.join("optimized");
    let (profiles, profile) = (folder.join("profiles"), folder.join("pintle.profdata"));
    let optimized = folder.join("build");
    // Cargo does not notice that a profile has changed.
    for old in [&profiles, &optimized].into_iter().filter(|old| old.exists()) {
        std::fs::remove_dir_all(old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    print_status("building the instrumented server\n");
    let instrumented = build(&folder.join("instrumented"), &format!("-Cprofile-generate={}", profiles.display()))?;
    run_command(&mut cargo(&["build", "--release", "--package", "pintle-bench"]))?;
    print_status("recording the profile\n");
    let mut bench = Command::new(target.join("release/pintle-bench"));
    run_command(bench.arg("--binary").arg(&instrumented).args(["--quick", "--only", SCENARIOS]))?;
    run_command(Command::new(merge).arg("merge").arg("--output").arg(&profile).arg(&profiles))?;
    print_status("building the server with the profile\n");
    let built = build(&optimized, &format!("-Cprofile-use={}", profile.display()))?;
    let binary = folder.join("pintle");
    std::fs::copy(&built, &binary).map_err(|error| format!("{}: {error}", binary.display()))?;
    print_status(&format!("{}\n", binary.display()));
    Ok(())
}

/// The toolchain's program that merges profiles.
fn llvm_profdata() -> Result<PathBuf, String> {
    let libraries = PathBuf::from(rustc(&["--print", "target-libdir"])?.trim());
    let program = libraries.with_file_name("bin").join("llvm-profdata");
    match program.exists() {
        true => Ok(program),
        false => Err(format!("no {}: run 'rustup component add llvm-tools'", program.display())),
    }
}

/// Builds the server with a flag for the compiler. The target is named, so that the flag does not apply to build
/// scripts and macros.
fn build(folder: &Path, flag: &str) -> Result<PathBuf, String> {
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let mut build = cargo(&["build", "--release", "--package", "pintle", "--target", host, "--target-dir"]);
    // In this variable a flag may have spaces, and the variable takes precedence over others.
    run_command(build.arg(folder).env("CARGO_ENCODED_RUSTFLAGS", flag))?;
    Ok(folder.join(host).join("release/pintle"))
}

/// Runs the compiler with these arguments and returns its output.
fn rustc(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("rustc").args(arguments).current_dir(root()).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("rustc: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
