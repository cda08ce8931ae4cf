//! The project's own commands: `cargo xtask` lists them. Each lives in a module of its own.

mod bench;
mod catalog;
mod check;
mod kubectl;
mod soak;

use std::process::ExitCode;

/// A command: its name, what follows it, what it does, and the function that does it.
type Command = (&'static str, &'static str, &'static str, fn(&[String]) -> Result<(), String>);

const COMMANDS: &[Command] = &[
    (
        "import-catalog",
        "[--check | --compare FILE]",
        "write crates/catalog/data/types.txt from the published Go modules, check it, or compare it with other facts",
        catalog::run,
    ),
    ("test", "", "check all that CI checks: prepare, format, lints, tests", check::run),
    (
        "prepare",
        "",
        "build kubectl and the programs on client-go and controller-runtime into target/tools and fetch the Go modules, which tests need",
        kubectl::prepare,
    ),
    (
        "bench",
        "[--quick] [--only NAME,NAME] [--kubeconfig FILE [--context NAME] [--pid N,N]] [--json FILE] [--markdown FILE] \
         [--svg FILE]",
        "measure the released server, or the one that a kubeconfig names, beside a bare HTTP server and the disk",
        bench::run,
    ),
    (
        "soak",
        "[WRITES] [--seed N]",
        "hold watches and lists against a million changes, with restarts; takes about twenty minutes",
        soak::run,
    ),
    ("fetch-modules", "", "download the Go modules that the importer and tests read", catalog::fetch_modules),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let Some((_, _, _, run)) = COMMANDS.iter().find(|(command, ..)| *command == name) else {
        let mut text = String::from("usage: cargo xtask COMMAND\n");
        for (command, follows, does, _) in COMMANDS {
            text.push_str(&format!("  {command} {follows}\n      {does}\n"));
        }
        say(&text);
        return ExitCode::from(2);
    };
    match run(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say(&format!("{name}: {problem}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard error; a reader that is gone is no reason to fail.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The repository's root.
pub(crate) fn root() -> std::path::PathBuf {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
