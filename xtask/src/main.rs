//! The project's commands. `cargo xtask` lists them; each command is a module.

mod bench;
mod catalog;
mod check;
mod commands;
mod compare;
mod dependencies;
mod envtest;
mod fuzz;
mod go_tools;
mod language;
mod optimize;
mod package;
mod release;
mod soak;
mod test_programs;

use std::process::ExitCode;

/// A command: its name, its arguments, its description and its function.
type Command = (&'static str, &'static str, &'static str, fn(&[String]) -> Result<(), String>);

const COMMANDS: &[Command] = &[
    (
        "import-catalog",
        "[--check | --compare FILE]",
        "generate crates/catalog/data/types.txt from the published Go modules, check it, or compare it with other data",
        catalog::run,
    ),
    (
        "test",
        "[--fast | --programs]",
        "run all checks of CI: prepare, format, language, dependencies, lints, documentation, tests, envtest; or only the \
         tests that need no other programs; or all test programs after 'prepare'. Prints the slowest test programs",
        check::run,
    ),
    (
        "prepare",
        "",
        "build the Go programs for the tests (kubectl, clients, API server, etcd) into target/tools and download Go modules",
        go_tools::prepare,
    ),
    (
        "bench",
        "[--quick] [--only NAME,NAME] [--kubeconfig FILE [--context NAME] [--pid N,N]] [--json FILE] [--markdown FILE] \
         [--svg FILE] [--profiles DIR]",
        "run the load tests against the release build and a Go API server, or against the server of a kubeconfig \
         (see bench/README.md)",
        bench::run,
    ),
    (
        "optimize",
        "",
        "build the server with a profile of the benchmark's requests (profile-guided optimization) into target/optimized/pintle; \
         takes a quarter of an hour and needs Go and 'rustup component add llvm-tools'",
        optimize::run,
    ),
    (
        "compare",
        "[--seed N] [--minutes M] [--only AREA,AREA] [--keep-going] [--cbor]",
        "send the same requests to Pintle and to a Go API server and print what they answer differently (see compare/README.md)",
        compare::run,
    ),
    (
        "soak",
        "[[--writes] N] [--kills [N]] [--etcd [N]] [--rotations [N]] [--hostile [SECONDS]] [--seed N]",
        "run the consistency test of lists and watches with a million changes and restarts, about twenty minutes, with a \
         thousand kills of the server's process, and with three servers over etcd in a thousand rounds of faults, about an hour; kill a process two hundred times while it replaces data keys of its store; and send hostile inputs for an hour",
        soak::run,
    ),
    (
        "fuzz",
        "[--executions N] [--only TARGET,TARGET] [--seed N]",
        "run each fuzz target with a million inputs, or N; prints executions, times, panics and inputs above a second",
        fuzz::run,
    ),
    (
        "envtest",
        "[--all] [--built]",
        "run the tests of controller-runtime (core packages, or all), of a scaffolded kubebuilder project and of \
         examples/envtest-go with the programs of 'pintle envtest', after a build of the server or with the one that is there",
        envtest::run,
    ),
    (
        "package",
        "[--release | --binary PATH] [--test]",
        "build the packages for Python, JavaScript and Java with the server inside into target/packages, and test them",
        package::run,
    ),
    (
        "language",
        "[PATH ...]",
        "find sentences in comments and documents that break the rules of CONTRIBUTING.md, in all files or in these",
        language::run,
    ),
    (
        "dependencies",
        "",
        "check the licences and sources of all dependencies with the lists of deny.toml",
        dependencies::run,
    ),
    (
        "release",
        "",
        "check the version, the changelog, the tree and the built files before a release, and print the steps that remain \
         (see docs/releases.md)",
        release::run,
    ),
    ("fetch-modules", "", "download the Go modules that the importer and the tests read", catalog::fetch_modules),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let Some((_, _, _, run)) = COMMANDS.iter().find(|(command, ..)| *command == name) else {
        let mut text = String::from("usage: cargo xtask COMMAND\n");
        for (command, arguments, description, _) in COMMANDS {
            text.push_str(&format!("  {command} {arguments}\n      {description}\n"));
        }
        print_status(&text);
        return ExitCode::from(2);
    };
    match run(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_status(&format!("{name}: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard error. Errors are ignored, because a closed reader is no reason to fail.
pub(crate) fn print_status(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The root directory of the repository.
pub(crate) fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
