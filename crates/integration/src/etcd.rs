//! Servers over an etcd for tests.

use std::ops::Deref;
use std::time::Duration;

use pintle::{EtcdCertificateFiles, EtcdConfig};
use pintle_etcd_process::EtcdProcess;

/// A running etcd with one member. It ends when this value is dropped.
pub struct Etcd {
    process: EtcdProcess,
    url: String,
}

impl Deref for Etcd {
    type Target = EtcdProcess;
    fn deref(&self) -> &EtcdProcess {
        &self.process
    }
}

impl Etcd {
    /// Starts an empty etcd. It answers when this returns.
    ///
    /// # Panics
    /// Panics if etcd does not start.
    #[must_use]
    pub fn start() -> Self {
        let process = EtcdProcess::start();
        Self { url: process.url(), process }
    }

    /// The URL of etcd.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The flags for a server with this key prefix.
    #[must_use]
    pub fn flags<'a>(&'a self, prefix: &'a str) -> [&'a str; 6] {
        ["--storage-backend", "etcd3", "--etcd-servers", &self.url, "--etcd-prefix", prefix]
    }

    /// The options of a server with kube-apiserver's key prefix.
    #[must_use]
    pub fn config(&self) -> EtcdConfig {
        Self::config_of([self.url.clone()])
    }

    /// The options of a server with these etcd members.
    #[must_use]
    pub fn config_of(servers: impl IntoIterator<Item = String>) -> EtcdConfig {
        EtcdConfig {
            servers: servers.into_iter().collect(),
            overrides: Vec::new(),
            prefix: "/registry".to_owned(),
            protobuf: true,
            certificates: EtcdCertificateFiles::default(),
            compaction_interval: Duration::ZERO,
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            max_feed_lag: Duration::from_secs(10),
            lease_reuse: Duration::from_secs(60),
        }
    }
}
