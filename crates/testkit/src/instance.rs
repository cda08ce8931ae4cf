//! One run of the server, from its start to a graceful stop or a kill.

use std::time::Duration;

use pintle::{Options, Server};
use tokio::runtime::Runtime;

use crate::runtime::worker_runtime;

/// How long the tasks of a killed server may take to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// A running server. A server on a runtime of its own can be killed like a process.
pub(crate) struct ServerInstance {
    pub(crate) server: Option<Server>,
    runtime: Option<Runtime>,
}

impl ServerInstance {
    /// Starts a server on the caller's runtime.
    pub(crate) async fn start(options: Options) -> Self {
        let server = Server::start(options).await.expect("the server starts");
        Self { server: Some(server), runtime: None }
    }

    /// Starts a server on a runtime of its own.
    pub(crate) async fn start_on_own_runtime(options: Options) -> Self {
        let runtime = worker_runtime();
        let started = runtime.spawn(Server::start(options)).await.expect("the start does not panic");
        Self { server: Some(started.expect("the server starts")), runtime: Some(runtime) }
    }

    /// Stops the server gracefully, as the binary does on SIGTERM.
    pub(crate) async fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the server stops");
        }
    }

    /// Kills the server: its tasks end at their next await, connections break, and requests remain unfinished.
    pub(crate) async fn kill(mut self) {
        let (server, runtime) = (self.server.take(), self.runtime.take());
        let runtime = runtime.expect("only a server on a runtime of its own can be killed");
        let ended = tokio::task::spawn_blocking(move || {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
            // The last reference to the store releases the lock of its folder.
            drop(server);
        });
        ended.await.expect("the server ends");
    }
}

impl Drop for ServerInstance {
    fn drop(&mut self) {
        // Tokio panics when a runtime is dropped in an asynchronous context, because the drop blocks.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
