//! Runs a server as a child process: start, wait until it responds, stop.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{ProcessMeter, Server, kubeconfig};
use crate::Result;
use crate::client::{ConnectionConfig, Endpoint, Protocol, get};

/// The timeout for stopping a server.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What a server says when it is ready.
pub(crate) struct ReadyServer {
    /// How clients connect.
    pub(crate) config: ConnectionConfig,
    /// The process IDs of its own child processes, whose CPU time and memory count as the server's.
    pub(crate) children: Vec<u32>,
}

/// A running server process.
pub(crate) struct ServerProcess {
    child: Child,
    /// Kept open, because the server may print more later.
    _output: BufReader<ChildStdout>,
    /// The server as the load generator uses it.
    pub(crate) server: Server,
    /// The time from the start of the process until it printed its URL.
    pub(crate) time_to_address: Duration,
    /// The time from the start of the process until the first response over TLS.
    pub(crate) time_to_first_response: Duration,
}

impl ServerProcess {
    /// Starts `pintle serve` with a data directory.
    pub(crate) async fn pintle(binary: &Path, folder: &Path) -> Result<Self> {
        Self::pintle_with(binary, folder, &[]).await
    }

    /// Starts `pintle serve` with the store in memory. Certificates are kept in the data directory.
    pub(crate) async fn pintle_in_memory(binary: &Path, folder: &Path) -> Result<Self> {
        Self::pintle_with(binary, folder, &["--storage-backend", "memory"]).await
    }

    /// Starts `pintle serve` over an etcd.
    pub(crate) async fn pintle_over(binary: &Path, folder: &Path, etcd: &str) -> Result<Self> {
        Self::pintle_with(binary, folder, &over_etcd(etcd)).await
    }

    /// Starts `pintle serve` under valgrind's callgrind, which counts nothing until it is told to. Profiles are written to
    /// files whose names begin with `profile`. The store is embedded, or in an etcd.
    pub(crate) async fn pintle_under_callgrind(
        binary: &Path,
        folder: &Path,
        profile: &Path,
        etcd: Option<&str>,
    ) -> Result<Self> {
        let mut command = Command::new("valgrind");
        let mut output = OsString::from("--callgrind-out-file=");
        output.push(profile);
        command.args(["--tool=callgrind", "--instr-atstart=no", "--quiet"]).arg(output).arg(binary);
        let options = etcd.map(over_etcd);
        Self::pintle_as(command, folder, options.as_ref().map_or(&[][..], |options| options)).await
    }

    /// Starts `pintle serve` with a number of worker threads.
    pub(crate) async fn pintle_with_threads(binary: &Path, folder: &Path, threads: usize) -> Result<Self> {
        let mut command = Command::new(binary);
        // Tokio's variable: a server without a number of its own follows it.
        command.env("TOKIO_WORKER_THREADS", threads.to_string());
        Self::pintle_as(command, folder, &[]).await
    }

    /// Starts `pintle serve` with a data directory and options.
    pub(crate) async fn pintle_with(binary: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        Self::pintle_as(Command::new(binary), folder, options).await
    }

    async fn pintle_as(mut command: Command, folder: &Path, options: &[&str]) -> Result<Self> {
        command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(folder).args(options).stdin(Stdio::null());
        let file = folder.join("admin.kubeconfig");
        let ready = |line: &str| {
            line.strip_prefix("url:")?;
            Some(kubeconfig::read(&file, None).map(|config| ReadyServer { config, children: Vec::new() }))
        };
        Self::start(command, ready, "/readyz").await
    }

    /// Starts the Go API server (`tools/apiserver`) with a data directory. It starts etcd itself.
    pub(crate) async fn go_api_server(program: &Path, folder: &Path) -> Result<Self> {
        Self::go_api_server_with(program, folder, &[]).await
    }

    /// Starts the Go API server with a data directory and options.
    pub(crate) async fn go_api_server_with(program: &Path, folder: &Path, options: &[&str]) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let log = folder.join("log");
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(folder).args(options).stdin(Stdio::piped()).stderr(File::create(&log)?);
        let ready = |line: &str| line.starts_with('{').then(|| go_api_server_is_ready(line));
        Self::start(command, ready, "/readyz").await.map_err(|error| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let last = log.lines().last().unwrap_or_default();
            format!("the Go API server: {error}: {last}").into()
        })
    }

    /// Starts a command and waits until the server responds at `path`. `ready` reads the printed line that says that the
    /// server is ready, and returns `None` for other lines.
    ///
    /// A command whose standard input is a pipe ends when that is closed, any other on SIGTERM.
    pub(crate) async fn start(
        mut command: Command,
        ready: impl Fn(&str) -> Option<Result<ReadyServer>>,
        path: &str,
    ) -> Result<Self> {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let mut output = BufReader::new(output);
        let (ReadyServer { config, children }, time_to_address) = loop {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                let _ = child.kill();
                return Err(format!("the server exited early: {}", child.wait()?).into());
            }
            let printed = started.elapsed();
            if let Some(ready) = ready(&line) {
                break (ready?, printed);
            }
        };
        let endpoint = Endpoint::new(&config)?;
        endpoint.connect(Protocol::Http1).await?.execute(get(path), StatusCode::OK).await?;
        let time_to_first_response = started.elapsed();
        let mut processes = vec![child.id()];
        processes.extend(children);
        let server = Server { endpoint, meter: ProcessMeter::new(processes) };
        Ok(Self { child, _output: output, server, time_to_address, time_to_first_response })
    }

    /// The process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells the server to end and waits until it has exited.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.terminate().await
    }

    /// Like [`ServerProcess::stop`], for a server that is started again in its place.
    pub(crate) async fn terminate(&mut self) -> Result<()> {
        match self.child.stdin.take() {
            Some(input) => drop(input),
            None => {
                let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
                kill_process(id.ok_or("the server has no process ID")?, Signal::TERM)?;
            }
        }
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err("the server did not exit in time".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The options of `pintle serve` over an etcd.
pub(crate) fn over_etcd(etcd: &str) -> [&str; 4] {
    ["--storage-backend", "etcd3", "--etcd-servers", etcd]
}

/// Reads the line in which the Go API server names its kubeconfig, its own process and etcd's.
fn go_api_server_is_ready(line: &str) -> Result<ReadyServer> {
    let ready: Value = serde_json::from_str(line)?;
    let file = ready["kubeconfig"].as_str().ok_or("the line has no kubeconfig")?;
    let processes = ready["processes"].as_array().ok_or("the line has no processes")?;
    let children = processes.iter().skip(1).filter_map(Value::as_u64).map(u32::try_from);
    Ok(ReadyServer {
        config: kubeconfig::read(Path::new(file), None)?,
        children: children.collect::<std::result::Result<_, _>>()?,
    })
}
