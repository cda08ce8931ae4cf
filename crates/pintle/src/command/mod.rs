//! The commands. The binary runs the command on its command line. Under the names `kube-apiserver` and `etcd` it behaves
//! as these programs do, so that test environments which start them can use it unchanged.

mod credentials;
mod envtest;
mod flag_text;
mod logging;
mod migrate;
mod serve;
mod string_slice;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pintle_server::BuildInfo;
use pintle_value::time::Time;

use self::credentials::{KubeconfigCommand, TokenCommand};
use self::envtest::EnvtestCommand;
use self::migrate::MigrateCommand;
use self::serve::ServeCommand;

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
    Serve(Box<ServeCommand>),
    /// Print a kubeconfig for a user, with a new client certificate of the server's own authority.
    Kubeconfig(KubeconfigCommand),
    /// Manage tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Copy all objects from the embedded store into etcd, or back. No server may run meanwhile.
    Migrate(Box<MigrateCommand>),
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
        Some(envtest::KUBE_APISERVER) => envtest::kube_apiserver(arguments),
        Some(envtest::ETCD) => envtest::etcd(arguments),
        Some(envtest::KUBECTL) => envtest::kubectl(),
        _ => run_command(),
    }
}

fn run_command() -> ExitCode {
    match CommandLine::parse().command {
        Some(Command::Serve(serve)) => serve.run(),
        Some(Command::Kubeconfig(command)) => print_result(command.run()),
        Some(Command::Token(command)) => print_result(command.run()),
        Some(Command::Migrate(command)) => print_result(command.run()),
        Some(Command::Envtest(command)) => print_result(command.run()),
        None => ServeCommand::from_defaults().run(),
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
