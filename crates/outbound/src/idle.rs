//! Connections on which nothing happens, for the next call to the same server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Server;

/// How long a connection is kept for nothing (Go: `IdleConnTimeout`).
const PATIENCE: Duration = Duration::from_secs(90);
/// How many are kept (client-go: `idleConnsPerHost`).
const MOST: usize = 25;

/// One end of a connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// The idle connections of a client.
#[derive(Clone, Default)]
pub(crate) struct Idle(Arc<Mutex<Vec<Waiting>>>);

struct Waiting {
    server: Server,
    sender: Sender,
    since: Instant,
}

impl Idle {
    /// The connection to a server that was used last, if there is one.
    pub(crate) async fn take(&self, server: &Server) -> Option<Sender> {
        loop {
            let mut sender = {
                let mut idle = self.0.lock();
                idle.retain(|waiting| !waiting.sender.is_closed() && waiting.since.elapsed() < PATIENCE);
                let newest = idle.iter().rposition(|waiting| waiting.server == *server)?;
                idle.remove(newest).sender
            };
            // The connection may have noticed only now that it was closed.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(crate) fn put(&self, server: Server, sender: Sender) {
        if sender.is_closed() {
            return;
        }
        let mut idle = self.0.lock();
        if idle.len() == MOST {
            idle.remove(0);
        }
        idle.push(Waiting { server, sender, since: Instant::now() });
    }
}
