//! `cargo xtask compare`: builds the Go API server and its etcd, and runs the differential test (`compare/`).

use std::process::Command;

use crate::{go_tools, root};

/// Builds everything and runs the test with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    go_tools::api_server()?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "pintle-compare", "--"]).args(arguments).current_dir(root());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the servers differ".to_owned()),
        Err(error) => Err(format!("cargo run: {error}")),
    }
}
