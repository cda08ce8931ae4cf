//! A server as a process of its own: started, watched until it is ready, weighed (CPU time and resident memory, as the
//! kernel counts them) and ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::client::{Endpoint, plain};

/// How long a server may take to say where it is, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Process {
    child: Child,
    /// Kept, so that what the server prints later has somewhere to go.
    _output: BufReader<ChildStdout>,
    /// How to speak to it.
    pub(crate) endpoint: Endpoint,
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
        Self::start(command, folder.join("admin.kubeconfig"), "/readyz").await
    }

    /// Starts the bare server with the certificates of a data folder.
    pub(crate) async fn bare(folder: &Path, object: &Path, list: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bare").arg(folder.join("pki")).arg(object).arg(list);
        Self::start(command, folder.join("admin.kubeconfig"), crate::bare::OBJECT).await
    }

    async fn start(mut command: Command, kubeconfig: PathBuf, path: &str) -> Result<Self> {
        let started = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
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
        let endpoint = Endpoint::new(&url, &std::fs::read_to_string(&kubeconfig)?)?;
        let mut connection = endpoint.connect().await?;
        connection.exchange(plain(http::Method::GET, path), http::StatusCode::OK).await?;
        let until_answer = started.elapsed();
        Ok(Self { child, _output: output, endpoint, until_line, until_answer })
    }

    /// The CPU time that the process has used, in user and kernel mode.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The command's name, in brackets, may hold spaces: the fields are counted from behind it.
        let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let mut ticks = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
        let (Some(user), Some(system)) = (ticks.next(), ticks.next()) else { return Err("no CPU time known".into()) };
        let seconds = (user + system) as f64 / rustix::param::clock_ticks_per_second() as f64;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// The resident memory in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no resident memory known")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
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
