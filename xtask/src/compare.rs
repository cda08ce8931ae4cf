//! `cargo xtask compare`: builds the Go API server and its etcd, and runs the differential test (`compare/`).

use crate::commands::cargo;
use crate::go_tools;

/// Builds all programs and runs the test with these arguments.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    go_tools::api_server()?;
    match cargo(&["run", "--quiet", "--package", "pintle-compare", "--"]).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the servers differ".to_owned()),
        Err(error) => Err(format!("cargo run: {error}")),
    }
}
