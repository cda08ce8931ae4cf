//! One run of the server, from its start to a graceful stop or a kill.

use pintle::{Options, Server};

/// A running server. It has threads of its own, so that it can be killed like a process.
pub(crate) struct ServerInstance {
    pub(crate) server: Server,
}

impl ServerInstance {
    /// Starts a server.
    pub(crate) async fn start(options: Options) -> Self {
        Self { server: Server::start(options).await.expect("the server starts") }
    }

    /// Stops the server gracefully, as the binary does on SIGTERM.
    pub(crate) async fn stop(self) {
        self.server.stop().await.expect("the server stops");
    }

    /// Kills the server: its tasks end at their next await, connections break, and requests remain unfinished.
    pub(crate) async fn kill(self) {
        tokio::task::spawn_blocking(move || self.server.kill()).await.expect("the server ends");
    }
}
