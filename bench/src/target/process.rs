//! A server as a process of its own: started, waited for until it answers, and ended.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};

use super::{Meter, Server, kubeconfig};
use crate::Result;
use crate::client::{Access, Endpoint, Protocol, get};

/// How long a server may take to say where it is, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Process {
    child: Child,
    /// Kept, so that what the server prints later has somewhere to go.
    _output: BufReader<ChildStdout>,
    /// How to speak to it and weigh it.
    pub(crate) server: Server,
    /// From the start of the process to the line that says where it is.
    pub(crate) until_line: Duration,
    /// From the start of the process to the first answer over TLS.
    pub(crate) until_answer: Duration,
}

impl Process {
    /// Starts `pintle serve` on a data folder.
    pub(crate) async fn pintle(binary: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(folder);
        let file = folder.join("admin.kubeconfig");
        Self::start(command, |_| kubeconfig::read(&file, None), "/readyz").await
    }

    /// Starts a command that says in a line `url: …` where it serves, and waits until it answers at `path`.
    pub(crate) async fn start(
        mut command: Command,
        access: impl FnOnce(&str) -> Result<Access>,
        path: &str,
    ) -> Result<Self> {
        let started = Instant::now();
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
        let output = child.stdout.take().ok_or("the server has no output")?;
        let mut output = BufReader::new(output);
        let url = loop {
            let mut line = String::new();
            if output.read_line(&mut line)? == 0 {
                let _ = child.kill();
                return Err(format!("the server ended early: {}", child.wait()?).into());
            }
            if let Some(url) = line.strip_prefix("url:") {
                break url.trim().to_owned();
            }
        };
        let until_line = started.elapsed();
        let endpoint = Endpoint::new(&access(&url)?)?;
        endpoint.connect(Protocol::Http1).await?.exchange(get(path), StatusCode::OK).await?;
        let until_answer = started.elapsed();
        let server = Server { endpoint, meter: Meter::new(vec![child.id()]) };
        Ok(Self { child, _output: output, server, until_line, until_answer })
    }

    /// Tells the server to end and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("the server has no id")?;
        kill_process(id, Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                return Err("the server does not end".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
