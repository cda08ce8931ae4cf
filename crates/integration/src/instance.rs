//! One run of the server, from its start to a graceful stop or a kill. It runs within the test's process, or as a
//! process of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pintle::{Options, Server, StoreEncryptionOptions, StoreKeySource};

/// The maximum time from the start of a process until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server.
pub(crate) enum ServerInstance {
    /// A server with its own threads, which can be killed like a process.
    InProcess(Box<Server>),
    /// A process of the `pintle` binary.
    Process(ServerProcess),
}

impl ServerInstance {
    /// Starts a server within this process, or as a process of `program`. A process gets only the options for the data
    /// directory, the port, and the size of the history. Of the options of audit, it gets the policy, the log and its mode. It
    /// gets the configuration of encryption, and a file with keys of the store.
    pub(crate) async fn start(program: Option<&Path>, options: Options) -> Self {
        match program {
            None => Self::InProcess(Box::new(Server::start(options).await.expect("the server starts"))),
            Some(program) => {
                let mut process = ServerProcess::spawn(program, &options);
                process.wait_until_ready().await;
                Self::Process(process)
            }
        }
    }

    /// The server within this process.
    pub(crate) fn server(&self) -> &Server {
        match self {
            Self::InProcess(server) => server,
            Self::Process(_) => panic!("the server is a process of its own"),
        }
    }

    /// Stops the server gracefully, as the binary does on SIGTERM.
    pub(crate) async fn stop(self) {
        match self {
            Self::InProcess(server) => server.stop().await.expect("the server stops"),
            Self::Process(_) => panic!("a process is killed"),
        }
    }

    /// The processor time that a process has used so far. `None` if the system does not report it.
    pub(crate) fn processor_time(&self) -> Option<Duration> {
        match self {
            Self::InProcess(_) => panic!("the server shares the process of the test"),
            Self::Process(process) => processor_time(process.child.id()),
        }
    }

    /// The ID of a process.
    pub(crate) fn process_id(&self) -> u32 {
        match self {
            Self::InProcess(_) => panic!("the server shares the process of the test"),
            Self::Process(process) => process.child.id(),
        }
    }

    /// Kills the server. Within this process its tasks end at their next await, connections break, and requests remain
    /// unfinished. A process gets SIGKILL.
    pub(crate) async fn kill(self) {
        let kill = tokio::task::spawn_blocking(move || match self {
            Self::InProcess(server) => server.kill(),
            Self::Process(process) => drop(process),
        });
        kill.await.expect("the server ends");
    }
}

/// The processor time of a process, in nanoseconds: the sum over its running threads. Threads that have ended are not
/// included.
fn processor_time(process: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let times = threads.filter_map(|thread| {
        let times = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    Some(times.sum())
}

/// A process of the `pintle` binary. The drop sends SIGKILL and waits for the end of the process.
pub(crate) struct ServerProcess {
    child: Child,
    output: Option<BufReader<ChildStdout>>,
    /// The log file of the process.
    log: PathBuf,
    started: Instant,
}

impl ServerProcess {
    /// Starts a process without waiting until it serves.
    pub(crate) fn spawn(program: &Path, options: &Options) -> Self {
        let data_dir = options.data_dir.as_deref().expect("a data directory");
        let log = data_dir.join("log");
        let file = File::options().create(true).append(true).open(&log).expect("a log file");
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(data_dir);
        command.args(["--secure-port", &options.port.to_string()]);
        command.args(["--watch-window-mib", &(options.history.bytes >> 20).to_string()]);
        let audit = &options.audit;
        if !audit.policy_file.is_empty() {
            command.args(["--audit-policy-file", &audit.policy_file, "--audit-log-path", &audit.log.path]);
            command.args(["--audit-log-mode", &audit.log.batch.mode]);
        }
        let encryption = &options.encryption;
        if let Some(file) = &encryption.config_file {
            let reload = format!("--encryption-provider-config-automatic-reload={}", encryption.automatic_reload);
            command.arg("--encryption-provider-config").arg(file).arg(reload);
        }
        if let Some(StoreEncryptionOptions { keys: StoreKeySource::File(file), .. }) = &options.store_encryption {
            command.arg("--encrypt-store").arg("--store-key-file").arg(file);
        }
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn();
        let mut child = child.expect("the program starts");
        let output = child.stdout.take().map(BufReader::new);
        Self { child, output, log, started }
    }

    /// Waits until the process reports on its output that it serves.
    async fn wait_until_ready(&mut self) {
        let mut output = self.output.take().expect("the process was not waited for");
        let (sender, ready) = tokio::sync::oneshot::channel();
        // The thread ends with the process, and keeps its output open until then.
        std::thread::spawn(move || {
            let mut sender = Some(sender);
            let mut line = String::new();
            while output.read_line(&mut line).is_ok_and(|length| length > 0) {
                if line.starts_with("kubeconfig:") {
                    let _ = sender.take().map(|sender| sender.send(()));
                }
                line.clear();
            }
        });
        if !matches!(tokio::time::timeout(START_TIMEOUT, ready).await, Ok(Ok(()))) {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            // The state and the time in clock ticks show whether the process hangs or gets no processor time.
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
            panic!("the process does not serve within {:?}: {stat:?} {last:#?}", self.started.elapsed());
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
