//! One process of etcd.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use crate::{EtcdTls, ReservedPort};

/// How long a member may take until it serves clients.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How many lines of the log a member that does not serve prints.
const KEPT_LINES: usize = 40;
/// How long a request of [`EtcdProcess::call`] may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of a member.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// True if the member syncs its log, as in production.
    pub syncs: bool,
    /// The size of the database above which writes are refused, in bytes; zero for etcd's default.
    pub quota: u64,
    /// How long a follower waits for its leader before it stands for election. The leader sends heartbeats ten times as
    /// often.
    pub election_timeout: Duration,
    /// The certificates of members and clients for the connections between them; `None` without TLS.
    pub tls: Option<EtcdTls>,
}

impl Default for EtcdSettings {
    fn default() -> Self {
        Self { syncs: false, quota: 0, election_timeout: Duration::from_millis(100), tls: None }
    }
}

/// A running etcd of one member, or a member of a cluster. The process ends when this value is dropped.
#[derive(Debug)]
pub struct EtcdProcess {
    arguments: Vec<String>,
    scheme: &'static str,
    /// `None` after a kill.
    child: Option<Child>,
    /// The port for clients.
    port: ReservedPort,
    _folder: tempfile::TempDir,
}

/// A member that has been started and may not serve yet.
#[derive(Debug)]
pub(crate) struct StartingProcess {
    process: EtcdProcess,
    serves: Receiver<()>,
    log: Arc<Mutex<VecDeque<String>>>,
}

/// The path of the program.
fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/etcd");
    assert!(program.exists(), "{} is missing; run `cargo xtask prepare`", program.display());
    program
}

impl Drop for EtcdProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl EtcdProcess {
    /// Starts an empty etcd of one member. The member serves when this function returns.
    ///
    /// # Panics
    /// Panics if etcd does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with_settings(&EtcdSettings::default())
    }

    /// Like [`Self::start`], with settings.
    ///
    /// # Panics
    /// Panics if etcd does not start.
    #[must_use]
    pub fn with_settings(settings: &EtcdSettings) -> Self {
        let any_port = "http://127.0.0.1:0";
        let cluster = ["--name", "a", "--listen-peer-urls", any_port, "--initial-advertise-peer-urls", any_port];
        let members = format!("a={any_port}");
        Self::spawn(settings, cluster.into_iter().chain(["--initial-cluster", &members])).serving()
    }

    /// Starts a member of a cluster, which the arguments describe.
    pub(crate) fn spawn<'a>(settings: &EtcdSettings, cluster: impl IntoIterator<Item = &'a str>) -> StartingProcess {
        let folder = tempfile::tempdir().expect("a folder");
        let election = settings.election_timeout.as_millis();
        let port = ReservedPort::reserve();
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", port.address());
        let mut arguments: Vec<String> =
            ["--listen-client-urls", &url, "--advertise-client-urls", &url].map(str::to_owned).into();
        arguments.push(format!("--election-timeout={election}"));
        arguments.push(format!("--heartbeat-interval={}", election / 10));
        arguments.push(format!("--quota-backend-bytes={}", settings.quota));
        arguments.push(format!("--data-dir={}", folder.path().display()));
        if !settings.syncs {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        arguments.extend(settings.tls.iter().flat_map(EtcdTls::arguments));
        arguments.extend(cluster.into_iter().map(str::to_owned));
        Self { arguments, scheme, child: None, port, _folder: folder }.run()
    }

    fn run(mut self) -> StartingProcess {
        let mut child = Command::new(program())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcd starts");
        let log = child.stderr.take().expect("its log");
        let (sender, serves) = channel();
        let last_lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = last_lines.clone();
        // The thread reads the whole log, so that etcd never blocks on a full pipe.
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if line.contains("serving client traffic") {
                    let _ = sender.send(());
                }
                let mut kept = kept.lock().expect("the last lines");
                if kept.len() == KEPT_LINES {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
        });
        self.child = Some(child);
        StartingProcess { process: self, serves, log: last_lines }
    }

    /// Ends the process, like SIGKILL. Does nothing if the process has ended.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts etcd again with its data and its address, after a kill.
    ///
    /// # Panics
    /// Panics if etcd does not start.
    #[must_use]
    pub fn restart(self) -> Self {
        self.restarting().serving()
    }

    pub(crate) fn restarting(mut self) -> StartingProcess {
        self.kill();
        self.run()
    }

    /// Stops the process at once without ending it, as on a machine that hangs.
    ///
    /// # Panics
    /// Panics if the process has ended.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets the process go on after [`pause`](Self::pause).
    ///
    /// # Panics
    /// Panics if the process has ended.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("etcd runs");
    }

    /// Fails all further writes of the process to files, as on a full disk. etcd ends at the first failed write.
    ///
    /// # Panics
    /// Panics if the process has ended.
    pub fn fill_disk(&self) {
        let nothing = Rlimit { current: Some(0), maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, nothing).expect("etcd runs");
    }

    /// True while the process runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The process id.
    ///
    /// # Panics
    /// Panics if the process has ended.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().expect("etcd runs"))
    }

    /// The member's URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Calls a method of the member's JSON gateway, for example `maintenance/defragment`, and returns the answer. Does
    /// not support TLS.
    ///
    /// # Panics
    /// Panics if etcd does not answer.
    #[must_use]
    pub fn call(&self, method: &str, request: &serde_json::Value) -> serde_json::Value {
        let mut stream = TcpStream::connect(self.address()).expect("a connection");
        stream.set_read_timeout(Some(CALL_TIMEOUT)).expect("a time limit");
        let body = request.to_string();
        let head = format!("POST /v3/{method} HTTP/1.0\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{method}: {error}: {answer}"))
    }
}

impl StartingProcess {
    /// Waits until the member serves clients.
    pub(crate) fn serving(self) -> EtcdProcess {
        if let Err(error) = self.serves.recv_timeout(START_TIMEOUT) {
            let lines = self.log.lock().expect("the last lines").make_contiguous().join("\n");
            panic!("etcd does not serve: {error}; the end of its log:\n{lines}");
        }
        self.process
    }
}
