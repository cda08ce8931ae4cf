//! The benchmark behind `cargo xtask bench`: starts the `pintle` binary on fresh folders, loads it, and prints what it
//! does as ratios to a bare HTTP server and to the disk in the same run, beside the budgets of the design.

mod bare;
mod client;
mod load;
mod machine;
mod objects;
mod process;
mod read;
mod report;
mod start;
mod watch;
mod write;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::process::Process;
use crate::report::Report;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Whatever keeps a measurement from going on.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "usage: pintle-bench PINTLE [--quick] [--only start,read,write,watch] [--folder DIR] [--json FILE]";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long a loop runs.
    pub(crate) time: Duration,
    /// How many times each loop runs; the median counts.
    pub(crate) rounds: usize,
    /// How many starts are timed.
    pub(crate) starts: usize,
    /// How many objects are listed.
    pub(crate) listed: usize,
    /// How many objects a start finds stored.
    pub(crate) stored: usize,
    /// How many objects a connection deletes in a loop.
    pub(crate) deletes: u64,
}

impl Plan {
    const FULL: Plan =
        Plan { time: Duration::from_secs(2), rounds: 3, starts: 5, listed: 10_000, stored: 100_000, deletes: 500 };
    const QUICK: Plan =
        Plan { time: Duration::from_millis(500), rounds: 1, starts: 3, listed: 10_000, stored: 20_000, deletes: 50 };
}

/// What the command line asks for.
struct Arguments {
    pintle: PathBuf,
    plan: Plan,
    only: Option<Vec<String>>,
    folder: Option<PathBuf>,
    json: Option<PathBuf>,
}

impl Arguments {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut arguments = arguments.iter();
        let pintle = arguments.next().filter(|path| !path.starts_with('-')).ok_or(USAGE)?;
        let mut read = Self { pintle: pintle.into(), plan: Plan::FULL, only: None, folder: None, json: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--quick" => read.plan = Plan::QUICK,
                "--only" => read.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--folder" => read.folder = Some(value()?.into()),
                "--json" => read.json = Some(value()?.into()),
                other => return Err(format!("{other} is not known\n{USAGE}").into()),
            }
        }
        Ok(read)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == part))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, rest)) if command == "bare" => bare::run(rest),
        _ => Arguments::read(&arguments).and_then(|arguments| run(&arguments)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "pintle-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(measure(arguments))?;
    let mut out = std::io::stdout();
    out.write_all(report.text().as_bytes())?;
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&report.json())?)?;
    }
    Ok(())
}

async fn measure(arguments: &Arguments) -> Result<Report> {
    let Arguments { pintle, plan, .. } = arguments;
    // Beside the binaries by default: the folder for temporary files may be in memory, where a sync costs nothing.
    let beside = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => std::env::current_exe()?.parent().map_or_else(|| PathBuf::from("."), Path::to_owned),
    };
    let scratch = tempfile::Builder::new().prefix("pintle-bench-").tempdir_in(beside)?;
    let scratch = scratch.path();
    let mut report = Report::new(machine::describe());
    if arguments.wants("start") {
        progress("starts");
        start::empty(pintle, scratch, plan, &mut report).await?;
        start::full(pintle, scratch, plan, &mut report).await?;
    }
    if ["read", "write", "watch"].into_iter().any(|part| arguments.wants(part)) {
        let folder = scratch.join("data");
        let server = Process::pintle(pintle, &folder).await?;
        if arguments.wants("read") {
            progress("reads");
            read::measure(&server, &folder, scratch, plan, &mut report).await?;
        }
        if arguments.wants("write") {
            progress("writes");
            write::measure(&server, scratch, plan, &mut report).await?;
        }
        if arguments.wants("watch") {
            progress("watches");
            watch::measure(&server, plan, &mut report).await?;
        }
        report.section("memory at the end");
        report.row("resident, after all of the above", server.resident()? as f64 / 1e6, "MB");
        server.stop().await?;
    }
    Ok(report)
}

/// Tells who waits what is being done.
fn progress(what: &str) {
    let _ = writeln!(std::io::stderr(), "measuring {what} …");
}
