//! Starts a server with its options, and stops it.

mod options;
mod runtime;
mod start;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use pintle_audit::Auditor;
use pintle_auth::TokenFileError;
use pintle_server::{ApiServer, ClusterError};
use pintle_store::Store;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

pub use self::options::{DEFAULT_ENCODING_CACHE_MIB, Options};
use self::runtime::OwnRuntime;
use crate::certificates::{CertificateError, Certificates};
use crate::request_log::{RequestLog, RequestLogError};
use crate::serving::ServingError;
use crate::snapshot::Snapshot;

/// Maximum time for open requests to finish when the server stops.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// How long a server may take to stop, after its delay.
pub const MAX_STOP_TIME: Duration = Duration::from_secs(60);

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
    /// The certificates cannot be loaded or created.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// The certificates cannot be used for TLS.
    #[error(transparent)]
    Tls(#[from] ServingError),
    /// The token file is malformed.
    #[error("--token-auth-file: {0}")]
    Tokens(#[from] TokenFileError),
    /// The threads of the server cannot be started.
    #[error("failed to start the server's threads: {0}")]
    Runtime(io::Error),
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] pintle_store::Error),
    /// The store cannot be read.
    #[error("failed to read the stored objects: {0}")]
    Unreadable(pintle_store::Error),
    /// The cluster was served with other keys.
    #[error(
        "the cluster was served with other keys: the {differs}. Credentials that were signed with the others are refused \
         here, and those of this server there. Copy the folder pki of the other server's data directory, or pass \
         --accept-key-change to go on with these keys"
    )]
    OtherKeys {
        /// The keys that differ.
        differs: &'static str,
    },
    /// The cluster cannot be started.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The log of requests cannot be opened.
    #[error(transparent)]
    RequestLog(#[from] RequestLogError),
    /// The server cannot listen on its address.
    #[error("failed to listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// A running server. It runs on threads of its own, because the caller's threads may have stacks that are too small for
/// nested objects. Dropping it ends it abruptly.
pub struct Server {
    /// The base URL.
    pub url: String,
    /// The base URL for clients on other machines, if it differs.
    pub advertised_url: Option<String>,
    /// The certificates in use.
    pub certificates: Certificates,
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
    /// The file with the kubeconfig, if one was written.
    pub kubeconfig_path: Option<PathBuf>,
    /// The duration of the start.
    pub start_time: Duration,
    /// The private key of service accounts, in PEM.
    service_account_key: String,
    store: Arc<dyn Store>,
    /// The running parts; `None` after a stop.
    running: Option<RunningServer>,
    runtime: OwnRuntime,
}

/// The parts of a server that run until it stops.
#[derive(Debug)]
struct RunningServer {
    api_server: Arc<ApiServer>,
    store: Arc<dyn Store>,
    /// The main store and the stores of single resources.
    stores: Vec<Arc<dyn Store>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// Reads changed certificates, and renews the server's own.
    background: JoinSet<()>,
    request_log: Option<RequestLog>,
    auditor: Option<Arc<Auditor>>,
    shutdown_delay: Duration,
}

impl fmt::Debug for Server {
    /// Does not print the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server. It accepts connections when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let runtime = OwnRuntime::start(options.worker_threads).map_err(StartError::Runtime)?;
        // The future is large and would be moved several times, on the stack of the caller.
        match runtime.run(Box::pin(start::start(options))).await {
            Some(parts) => Ok(parts?.into_server(runtime)),
            None => Err(StartError::Runtime(io::Error::other("the runtime ended while the server started"))),
        }
    }

    /// The server's store. A write to it bypasses the server's caches and validation.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// The objects that the server has now, and its keys.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn snapshot(&self) -> Result<Snapshot, pintle_store::Error> {
        Snapshot::of(&self.store, &self.certificates, &self.service_account_key).await
    }

    /// Opens the file of the audit log again, after another program has moved it.
    pub fn reopen_audit_log(&self) {
        if let Some(auditor) = self.running.as_ref().and_then(|running| running.auditor.as_ref()) {
            auditor.reopen_log();
        }
    }

    /// Stops the server. Removes its registration from the cluster, is not ready for [`Options::shutdown_delay`], stops
    /// listening and ends watches. Then waits for open requests and writes, closes the store, and delivers audit events.
    ///
    /// # Errors
    /// The store cannot be closed cleanly. No acknowledged write is lost.
    pub async fn stop(mut self) -> Result<(), pintle_store::Error> {
        let Some(running) = self.running.take() else { return Ok(()) };
        self.runtime.run(running.stop()).await.unwrap_or(Err(pintle_store::Error::Closed))
    }

    /// Ends the server abruptly: its tasks end at their next await, connections break, and requests remain unfinished.
    /// Blocks until its tasks have ended and its store is released.
    pub fn kill(mut self) {
        let thread = self.runtime.thread.take();
        drop(self);
        // The panic hook has reported the thread's panic, if any.
        let _ = thread.map(std::thread::JoinHandle::join);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread has ended only if it panicked.
        let _ = self.runtime.end.send(self.running.take());
    }
}

impl RunningServer {
    async fn stop(mut self) -> Result<(), pintle_store::Error> {
        let begun = Instant::now();
        self.api_server.terminate();
        // As upstream, the server removes its registration at once, so that clients choose another server during the
        // delay.
        let deregister = tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, self.api_server.deregister());
        let (deregistered, ()) = tokio::join!(deregister, tokio::time::sleep(self.shutdown_delay));
        if deregistered.is_err() {
            tracing::warn!("Failed to remove the server's registration from the cluster: timed out");
        }
        self.stop.send_replace(true);
        let _ = self.task.await;
        if let Some(log) = self.request_log
            && tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, log.finish()).await.is_err()
        {
            tracing::warn!("Failed to write the end of the request log: timed out");
        }
        self.background.shutdown().await;
        if tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, self.api_server.wait_for_writes()).await.is_err() {
            tracing::warn!("Closing the store although some writes have not ended: timed out");
        }
        // Nothing makes audit events any more. They get the rest of the time, less a reserve for everything else.
        let limit = (self.shutdown_delay + MAX_STOP_TIME).saturating_sub(SHUTDOWN_GRACE_PERIOD + begun.elapsed());
        let deliver = async {
            if let Some(auditor) = &self.auditor {
                auditor.shutdown(limit).await;
            }
        };
        tokio::join!(close(&self.stores), deliver).0
    }
}

async fn close(stores: &[Arc<dyn Store>]) -> Result<(), pintle_store::Error> {
    let mut closed = Ok(());
    for store in stores {
        closed = closed.and(store.close().await);
    }
    closed
}
