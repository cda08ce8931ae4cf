//! The commands of the binary.

mod credentials;
mod logging;
mod serve;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::credentials::{KubeconfigCommand, TokenCommand};
use self::serve::Serve;

/// A Kubernetes API server in one binary.
#[derive(Parser)]
#[command(version, about, after_help = "Without a command, pintle runs 'pintle serve' with its defaults.")]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the Kubernetes API.
    Serve(Box<Serve>),
    /// Print a kubeconfig for a user, with a new client certificate of the server's own authority.
    Kubeconfig(KubeconfigCommand),
    /// Manage tokens.
    #[command(subcommand)]
    Token(TokenCommand),
}

/// Runs the command on the command line.
pub(crate) fn run() -> ExitCode {
    match CommandLine::parse().command {
        Some(Command::Serve(serve)) => serve.run(),
        Some(Command::Kubeconfig(command)) => print_result(command.run()),
        Some(Command::Token(command)) => print_result(command.run()),
        None => Serve::parse_from_defaults().run(),
    }
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
