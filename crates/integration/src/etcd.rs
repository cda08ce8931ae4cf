//! An etcd for tests.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pintle::EtcdConfig;
use rustix::process::{Pid, Signal, kill_process};

use crate::tools::tool_path;

/// A running etcd of one member, which ends when this is dropped.
pub struct Etcd {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Etcd {
    /// Starts an empty etcd. It answers when this returns.
    ///
    /// # Panics
    /// Panics if it does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let any_port = "http://127.0.0.1:0";
        let mut child = Command::new(tool_path("etcd"))
            .args(["--listen-client-urls", any_port, "--advertise-client-urls", any_port])
            .args(["--listen-peer-urls", any_port, "--initial-advertise-peer-urls", any_port])
            .args(["--name", "a", "--initial-cluster", &format!("a={any_port}"), "--unsafe-no-fsync"])
            .args(["--heartbeat-interval", "10", "--election-timeout", "100", "--data-dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcd starts");
        let mut lines = BufReader::new(child.stderr.take().expect("its log")).lines().map_while(Result::ok);
        let serving = lines.find(|line| line.contains("serving client traffic")).expect("etcd serves");
        let serving: serde_json::Value = serde_json::from_str(&serving).expect("JSON");
        let url = format!("http://{}", serving["address"].as_str().expect("an address"));
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url, _folder: folder }
    }

    /// Stops it in the middle of what it does, as on a machine that hangs.
    ///
    /// # Panics
    /// Panics if it has ended.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on after [`pause`](Self::pause).
    ///
    /// # Panics
    /// Panics if it has ended.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("etcd runs");
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The flags for a server with these keys.
    #[must_use]
    pub fn flags<'a>(&'a self, prefix: &'a str) -> [&'a str; 6] {
        ["--storage-backend", "etcd3", "--etcd-servers", &self.url, "--etcd-prefix", prefix]
    }

    /// The options of a server with kube-apiserver's keys.
    #[must_use]
    pub fn config(&self) -> EtcdConfig {
        Self::config_of(self.url.clone())
    }

    /// The options of a server over an etcd of one member.
    #[must_use]
    pub fn config_of(url: String) -> EtcdConfig {
        EtcdConfig {
            servers: vec![url],
            prefix: "/registry".to_owned(),
            protobuf: true,
            certificate_authority: None,
            identity: None,
            compaction_interval: Duration::ZERO,
            health_timeout: Duration::from_secs(2),
            max_feed_lag: Duration::from_secs(10),
            lease_reuse: Duration::from_secs(60),
        }
    }
}
