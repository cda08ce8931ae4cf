//! One run of a server, from its start to a clean stop or a sudden end.

use std::time::Duration;

use pintle::{Options, Server};
use tokio::runtime::Runtime;

use crate::runtime::workers;

/// How long the tasks of a server may take to notice that they are over.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server. On a runtime of its own it can be ended like a process: wherever its tasks are.
pub(crate) struct Instance {
    pub(crate) server: Option<Server>,
    runtime: Option<Runtime>,
}

impl Instance {
    /// Starts a server on the runtime of the caller.
    pub(crate) async fn start(options: Options) -> Self {
        let server = Server::start(options).await.expect("the server starts");
        Self { server: Some(server), runtime: None }
    }

    /// Starts a server on a runtime of its own.
    pub(crate) async fn start_apart(options: Options) -> Self {
        let runtime = workers();
        let started = runtime.spawn(Server::start(options)).await.expect("the start does not panic");
        Self { server: Some(started.expect("the server starts")), runtime: Some(runtime) }
    }

    /// Stops as the binary does when it is asked to.
    pub(crate) async fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the server stops");
        }
    }

    /// Ends without a word to anyone: tasks end where they wait, connections are cut, requests stay half done.
    pub(crate) async fn kill(mut self) {
        let (server, runtime) = (self.server.take(), self.runtime.take());
        let runtime = runtime.expect("only a server on a runtime of its own can be killed");
        let ended = tokio::task::spawn_blocking(move || {
            runtime.shutdown_timeout(PATIENCE);
            // The last to hold the store lets go of its folder.
            drop(server);
        });
        ended.await.expect("the server ends");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A runtime must not be dropped where it could be waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
