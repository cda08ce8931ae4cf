//! The benchmark behind `cargo xtask bench`. It starts the `pintle` binary, or connects to any Kubernetes API server by
//! kubeconfig. It runs load scenarios against the server, and reports throughput, latency percentiles, CPU time and
//! memory. Each result is compared with a baseline server, the disk and a Go API server in the same run, and with its
//! budget.
//!
//! A scenario (`scenarios/`) measures one thing. `load` sends requests, `watchers` counts watch events, `target`
//! manages the server's process, `report` collects rows and prints them.

mod baseline;
mod callgrind;
mod certificates;
mod client;
mod comparison;
mod kms_plugin;
mod load;
mod machine;
mod objects;
mod options;
mod plan;
mod report;
mod reverse_proxy;
mod scenario;
mod scenarios;
#[cfg(test)]
mod smoke;
mod target;
mod test_clusters;
mod watchers;
mod webhook;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use http::StatusCode;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::client::{Endpoint, get};
use crate::machine::Machine;
use crate::options::Options;
use crate::report::Report;
use crate::scenario::{Scenario, ScenarioContext, ServerSource};
use crate::target::{ProcessMeter, Server, kubeconfig};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The result of a step of a measurement. Any error aborts the scenario.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "baseline" => baseline::run(rest),
        Some((command, rest)) if command == reverse_proxy::COMMAND => reverse_proxy::run(rest),
        Some((command, rest)) if command == test_clusters::COMMAND => test_clusters::run(rest),
        _ => Options::read(&arguments).and_then(|options| run(&options)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_status(&format!("pintle-bench: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    raise_open_file_limit()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (report, failed) = runtime.block_on(run_scenarios(options))?;
    std::io::stdout().write_all(report.text().as_bytes())?;
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
        Some(path) => std::fs::write(path, text()),
        None => Ok(()),
    };
    write(&options.json, &|| format!("{:#}\n", report.json()))?;
    write(&options.markdown, &|| report.markdown())?;
    write(&options.svg, &|| report.svg())?;
    if failed { Err("at least one scenario failed".into()) } else { Ok(()) }
}

/// Runs the selected scenarios. Returns the report, and true if a scenario failed.
async fn run_scenarios(options: &Options) -> Result<(Report, bool)> {
    // The default is next to the binaries. The system's temporary directory may be in memory, where a sync costs
    // nothing.
    let parent = match &options.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_exe()?.parent().map_or_else(|| PathBuf::from("."), Path::to_owned),
    };
    let scratch = tempfile::Builder::new().prefix("pintle-bench-").tempdir_in(parent)?;
    let plan = options.plan;
    let (source, description) = server_source(options).await?;
    let compared = if options.go_api_server.is_some() { "compared with" } else { "without" };
    let subject = format!("{description}, {} plan, {compared} the Go API server", plan.name);
    let report = Report::new(machine::describe(), subject);
    let mut bench = ScenarioContext::new(plan, report, source, scratch.path());
    bench.go_codecs = options.go_codecs.clone();
    bench.kms_plugin = options.kms_plugin();
    bench.profiles = options.profiles.clone();
    let mut failed = false;
    for scenario in scenario::ALL.iter().filter(|scenario| options.is_selected(scenario.name)) {
        if scenario.requires_binary && bench.binary().is_err() {
            bench.report.remark(format!("{}: skipped, requires --binary", scenario.name));
            continue;
        }
        let started = Instant::now();
        print_status(&format!("{}: {} …", scenario.name, scenario.description));
        bench.report.scenario(scenario.name);
        if let Err(error) = (scenario.run)(&mut bench).await {
            failed = true;
            print_status(&format!("{}: FAILED: {error}", scenario.name));
            bench.report.remark(format!("{}: failed: {error}", scenario.name));
        } else if scenario.on_go_api_server
            && let Some(program) = &options.go_api_server
        {
            print_status(&format!("{}: on the Go API server …", scenario.name));
            measure_go_api_server(&mut bench, scenario, program).await?;
        }
        print_status(&format!("{}: {:.1} s", scenario.name, started.elapsed().as_secs_f64()));
    }
    Ok((bench.report, failed))
}

/// Runs a scenario on a new Go API server and adds its results to the rows of `bench`. If the scenario fails, the rows
/// that it completed are added nevertheless.
async fn measure_go_api_server(bench: &mut ScenarioContext, scenario: &Scenario, program: &Path) -> Result<()> {
    let scratch = bench.scratch().join(format!("go-{}", scenario.name));
    std::fs::create_dir_all(&scratch)?;
    let report = Report::new(Machine::default(), String::new());
    let source = ServerSource::GoApiServer(program.to_owned());
    let mut go = ScenarioContext::new(bench.plan, report, source, &scratch);
    go.kms_plugin = bench.kms_plugin.clone();
    if let Err(error) = (scenario.run)(&mut go).await {
        print_status(&format!("{}: FAILED on the Go API server: {error}", scenario.name));
        go.report.remark(format!("{}: failed: {error}", scenario.name));
    }
    bench.report.add_go_results(go.report);
    // The data would take space until the end of the run. An etcd that is still ending may keep some of it.
    let _ = std::fs::remove_dir_all(scratch);
    Ok(())
}

/// The server to measure according to the options, and its description for the report.
async fn server_source(options: &Options) -> Result<(ServerSource, String)> {
    let Some(path) = &options.kubeconfig else {
        let binary = options.binary.clone().ok_or("either --binary or --kubeconfig is required")?;
        return Ok((ServerSource::Binary(binary), "pintle, a new process for each scenario".to_owned()));
    };
    let config = kubeconfig::read(path, options.context.as_deref())?;
    let server = Server { endpoint: Endpoint::new(&config)?, meter: ProcessMeter::new(options.processes.clone()) };
    let version = server.connect().await?.fetch(get("/version"), StatusCode::OK).await?;
    let version: serde_json::Value = serde_json::from_slice(&version)?;
    let version = version["gitVersion"].as_str().unwrap_or("unknown version");
    Ok((ServerSource::Existing(server), format!("the server at {}, {version}", config.url)))
}

/// Raises the soft limit of open files to the hard limit, for this process and for the servers that it starts.
/// Thousands of watches use as many connections.
fn raise_open_file_limit() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Writes a progress line to standard error.
fn print_status(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
