//! The commands. The binary runs the command on its command line. Under the names `kube-apiserver` and `etcd` it
//! behaves as these programs do, so that test environments which start them can use it unchanged.

mod administrator;
mod credentials;
mod envtest;
mod flag_text;
mod logging;
mod migrate;
mod serve;
mod store;
mod string_slice;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use pintle_server::BuildInfo;
use pintle_value::time::Time;

use self::credentials::{KubeconfigCommand, TokenCommand};
use self::envtest::{EnvtestCommand, refusal_of};
use self::migrate::MigrateCommand;
use self::serve::ServeCommand;
use self::store::StoreCommand;

/// The command that runs if none is named.
const SERVE: &str = "serve";
/// How many letters of a flag may be wrong for a suggestion.
const MAX_SLIPS: usize = 2;

/// A Kubernetes API server in one binary.
#[derive(Parser)]
#[command(version, about, after_help = "Without a command, pintle runs 'pintle serve' with the flags that follow.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the Kubernetes API.
    #[command(after_help = envtest::missing_help())]
    Serve(Box<ServeCommand>),
    /// Print a kubeconfig for a user, with a new client certificate of the server's own authority.
    Kubeconfig(KubeconfigCommand),
    /// Manage tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Copy all objects from the embedded store into etcd, or back. No server may run during the copy.
    Migrate(Box<MigrateCommand>),
    /// Look at the stored values of a running server, and change how they are encrypted.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Print a folder with kube-apiserver, etcd and kubectl for the variable KUBEBUILDER_ASSETS of envtest.
    Envtest(EnvtestCommand),
}

/// Runs the program under whose name the binary was called.
pub(crate) fn run() -> ExitCode {
    pintle_server::set_build_info(BuildInfo {
        commit: env!("PINTLE_BUILD_COMMIT"),
        tree_state: env!("PINTLE_BUILD_STATE"),
        date: Time::from_seconds(env!("PINTLE_BUILD_DATE").parse().unwrap_or(0)),
    });
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    match Path::new(&program).file_name().and_then(|name| name.to_str()) {
        Some(envtest::KUBE_APISERVER) => envtest::kube_apiserver(Path::new(&program), arguments),
        Some(envtest::ETCD) => envtest::etcd(arguments),
        Some(envtest::KUBECTL) => envtest::kubectl(),
        _ => run_command(),
    }
}

fn run_command() -> ExitCode {
    let arguments = with_command(std::env::args_os().collect());
    let is_serve = arguments.get(1).is_some_and(|command| command == SERVE);
    let line = CommandLine::try_parse_from(arguments).unwrap_or_else(|error| explained(error, is_serve).exit());
    match line.command {
        Command::Serve(serve) => serve.run(),
        Command::Kubeconfig(command) => print_result(command.run()),
        Command::Token(command) => print_result(command.run()),
        Command::Migrate(command) => print_result(command.run()),
        Command::Store(command) => print_result(command.run()),
        Command::Envtest(command) => print_result(command.run()),
    }
}

/// Inserts the command `serve` if the arguments name none, because the flags then belong to `pintle serve`.
fn with_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_serve = match arguments.get(1).map(|first| first.to_string_lossy()) {
        None => true,
        Some(first) => {
            first.starts_with("--") && !["--help", "--version"].contains(&&*first) || first.starts_with("-v")
        }
    };
    if is_serve {
        arguments.insert(arguments.len().min(1), SERVE.into());
    }
    arguments
}

/// Explains the error of a command line. If `pintle serve` does not have a flag of kube-apiserver, the error says why.
/// Another flag is suggested only for a typing error.
fn explained(mut error: clap::Error, is_serve: bool) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = flag.split('=').next().unwrap_or_default().to_owned();
    let refusal = flag.strip_prefix("--").filter(|_| is_serve).and_then(|name| refusal_of(&name.replace('_', "-")));
    if let Some(refusal) = refusal {
        return clap::Error::raw(ErrorKind::UnknownArgument, refusal + "\n");
    }
    let is_slip = matches!(
        error.get(ContextKind::SuggestedArg),
        Some(ContextValue::String(suggested)) if distance(&flag, suggested) <= MAX_SLIPS
    );
    if !is_slip {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// The number of letters to insert, remove or replace to turn one text into the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other_letter) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other_letter);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Prints the result of a command.
fn print_result(result: Result<String, String>) -> ExitCode {
    match result.map(|text| std::io::stdout().write_all(text.as_bytes())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(&error),
        Err(error) => fail(&error),
    }
}

/// Prints an error to standard error.
fn fail(error: &(impl std::fmt::Display + ?Sized)) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "pintle: {error}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_command_the_flags_are_those_of_serve() {
        let check = |line: &str, expect: &str| {
            let arguments = with_command(line.split(' ').map(OsString::from).collect());
            assert_eq!(arguments.join(&OsString::from(" ")), expect);
        };
        check("pintle", "pintle serve");
        check("pintle --data-dir x", "pintle serve --data-dir x");
        check("pintle -v 3", "pintle serve -v 3");
        for unchanged in
            ["pintle serve --data-dir x", "pintle --help", "pintle -h", "pintle --version", "pintle -V", "pintle token"]
        {
            check(unchanged, unchanged);
        }
    }

    #[test]
    fn flags_that_are_not_supported_say_why() {
        let check = |line: &str, expect: &str| {
            let error = CommandLine::try_parse_from(line.split(' ')).err().expect("an error");
            let text = explained(error, line.starts_with("pintle serve ")).to_string();
            let first = text.lines().take_while(|line| !line.starts_with("Usage")).collect::<Vec<_>>().join("\n");
            assert_eq!(first.trim_end(), expect, "{line}");
        };
        let header = "error: --strict-transport-security-directives is not supported: the header is not sent";
        check("pintle serve --strict-transport-security-directives x", header);
        check("pintle serve --strict-transport-security-directives=-", header);
        check("pintle serve --strict_transport_security_directives -", header);
        check("pintle serve --profiling=false", "error: --profiling would have no effect: profiles are not served");
        check(
            "pintle serve --cert-dir x",
            "error: --cert-dir is a flag of the kube-apiserver of 'pintle envtest' only",
        );
        let unknown = |flag: &str| format!("error: unexpected argument '{flag}' found");
        check("pintle serve --authorization-file x", &unknown("--authorization-file"));
        check("pintle kubeconfig --encryption-provider-config x", &unknown("--encryption-provider-config"));
        let tip = "\n\n  tip: a similar argument exists: '--bind-address'";
        check("pintle serve --bind-adress x", &(unknown("--bind-adress") + tip));
    }

    #[test]
    fn help_names_what_is_missing() {
        let help = CommandLine::try_parse_from(["pintle", "serve", "--help"]).err().expect("a text").to_string();
        assert!(help.contains("Not supported yet:\n  authentication: ") && help.contains(" profiles,"), "{help}");
    }
}
