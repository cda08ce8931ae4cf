//! The benchmark behind `cargo xtask bench`. It starts the `pintle` binary, or takes any Kubernetes API server by its
//! kubeconfig, puts load on it and reports what it does: rates, latencies, CPU time and memory, beside a bare HTTP
//! server and the disk in the same run, beside what the Go peer takes, and beside the budgets of the design.
//!
//! A scenario (`scenarios/`) measures one thing. `load` sends requests, `watchers` counts events, `target` knows the
//! server's process, `report` collects rows and prints them.

mod bare;
mod certificates;
mod client;
mod load;
mod machine;
mod objects;
mod options;
mod peer;
mod plan;
mod report;
mod scenario;
mod scenarios;
#[cfg(test)]
mod smoke;
mod target;
mod turns;
mod watchers;
mod webhook;
mod yardstick;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use http::StatusCode;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::client::{Endpoint, get};
use crate::options::Options;
use crate::report::Report;
use crate::scenario::{Bench, Subject};
use crate::target::{Meter, Server, kubeconfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever keeps a measurement from going on.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "bare" => bare::run(rest),
        _ => Options::read(&arguments).and_then(|options| run(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("pintle-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    allow_connections()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (report, failed) = runtime.block_on(measure(options))?;
    std::io::stdout().write_all(report.text().as_bytes())?;
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => std::fs::write(path, text()),
        None => Ok(()),
    };
    write(&options.json, &|| format!("{:#}\n", report.json()))?;
    write(&options.markdown, &|| report.markdown())?;
    write(&options.svg, &|| report.svg())?;
    if failed { Err("not everything could be measured".into()) } else { Ok(()) }
}

/// Runs the scenarios that are wanted, and says whether one of them failed.
async fn measure(options: &Options) -> Result<(Report, bool)> {
    // Beside the binaries by default: the folder for temporary files may be in memory, where a sync costs nothing.
    let beside = match &options.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_exe()?.parent().map_or_else(|| PathBuf::from("."), Path::to_owned),
    };
    let scratch = tempfile::Builder::new().prefix("pintle-bench-").tempdir_in(beside)?;
    let plan = options.plan;
    let (subject, what) = subject(options).await?;
    let report = Report::new(machine::describe(), format!("{what}, {} plan", plan.name));
    let mut bench = Bench::new(plan, report, subject, scratch.path());
    bench.go_codecs = options.go_codecs.clone();
    let mut failed = false;
    for scenario in scenario::ALL.iter().filter(|scenario| options.wants(scenario.name)) {
        if scenario.starts_servers && bench.binary().is_err() {
            bench.report.remark(format!("{}: not measured, since it starts servers itself", scenario.name));
            continue;
        }
        if !plan.yardstick.is_zero()
            && let Some(pace) = yardstick::pace(scratch.path(), plan.yardstick).await?
        {
            bench.report.pace(pace);
        }
        let started = Instant::now();
        say(&format!("{}: {} …", scenario.name, scenario.does));
        if let Err(error) = (scenario.run)(&mut bench).await {
            failed = true;
            say(&format!("{}: FAILED: {error}", scenario.name));
            bench.report.remark(format!("{}: failed: {error}", scenario.name));
        }
        say(&format!("{}: {:.1} s", scenario.name, started.elapsed().as_secs_f64()));
    }
    Ok((bench.report, failed))
}

/// What the options ask to measure, and how the report calls it.
async fn subject(options: &Options) -> Result<(Subject, String)> {
    let Some(path) = &options.kubeconfig else {
        let binary = options.binary.clone().ok_or("there is neither a binary nor a kubeconfig")?;
        return Ok((Subject::Binary(binary), "pintle, started for each scenario".to_owned()));
    };
    let access = kubeconfig::read(path, options.context.as_deref())?;
    let server = Server { endpoint: Endpoint::new(&access)?, meter: Meter::new(options.processes.clone()) };
    let version = server.connect().await?.fetch(get("/version"), StatusCode::OK).await?;
    let version: serde_json::Value = serde_json::from_slice(&version)?;
    let version = version["gitVersion"].as_str().unwrap_or("of unknown version");
    Ok((Subject::Given(server), format!("the server at {}, {version}", access.url)))
}

/// Raises the number of open files to what may be had: thousands of watches are as many connections, of this process
/// and of the server that it starts.
fn allow_connections() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Tells who waits what is being done.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
