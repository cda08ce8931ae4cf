//! Runs a server as a child process: start, wait until it responds, stop.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};

use super::{ProcessMeter, Server, kubeconfig};
use crate::Result;
use crate::client::{ConnectionConfig, Endpoint, Protocol, get};

/// The timeout for stopping a server.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A running server process.
pub(crate) struct ServerProcess {
    child: Child,
    /// Kept open, because the server may print more later.
    _output: BufReader<ChildStdout>,
    /// Its address and its meter.
    pub(crate) server: Server,
    /// The time from the start of the process until it printed its URL.
    pub(crate) time_to_address: Duration,
    /// The time from the start of the process until the first response over TLS.
    pub(crate) time_to_first_response: Duration,
}

impl ServerProcess {
    /// Starts `pintle serve` with a data directory.
    pub(crate) async fn pintle(binary: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(folder);
        let file = folder.join("admin.kubeconfig");
        Self::start(command, |_| kubeconfig::read(&file, None), "/readyz").await
    }

    /// Starts a command that prints a line `url: ...`, and waits until the server responds at `path`.
    pub(crate) async fn start(
        mut command: Command,
        config: impl FnOnce(&str) -> Result<ConnectionConfig>,
        path: &str,
    ) -> Result<Self> {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let mut output = BufReader::new(output);
        let url = loop {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                let _ = child.kill();
                return Err(format!("the server exited early: {}", child.wait()?).into());
            }
            if let Some(url) = line.strip_prefix("url:") {
                break url.trim().to_owned();
            }
        };
        let time_to_address = started.elapsed();
        let endpoint = Endpoint::new(&config(&url)?)?;
        endpoint.connect(Protocol::Http1).await?.execute(get(path), StatusCode::OK).await?;
        let time_to_first_response = started.elapsed();
        let server = Server { endpoint, meter: ProcessMeter::new(vec![child.id()]) };
        Ok(Self { child, _output: output, server, time_to_address, time_to_first_response })
    }

    /// Sends SIGTERM to the server and waits until it has exited.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("the server has no process ID")?;
        kill_process(id, Signal::TERM)?;
        let deadline = Instant::now() + TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err("the server did not exit in time".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
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
