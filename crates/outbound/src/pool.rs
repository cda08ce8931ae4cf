//! The idle connections of a client (Go: `http.Transport`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::connection::{Connection, ConnectionTarget};

/// How long an idle connection is kept (Go: `IdleConnTimeout`).
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);
/// Maximum number of idle connections of a client (client-go: `idleConnsPerHost`).
const MAX_IDLE_CONNECTIONS: usize = 25;
/// How long a pooled connection may take to accept the next request. Its task needs one turn after the last response; a
/// connection that takes longer is stuck.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// The idle connections of a client, the least recently used first.
#[derive(Clone, Default)]
pub(crate) struct ConnectionPool(Arc<Mutex<Vec<IdleConnection>>>);

struct IdleConnection {
    connection: Connection,
    idle_since: Instant,
}

impl ConnectionPool {
    /// Takes the most recently used connection to a target.
    pub(crate) async fn take(&self, target: &ConnectionTarget) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut pool = self.0.lock();
                pool.retain(|idle| {
                    !idle.connection.sender.is_closed() && idle.idle_since.elapsed() < IDLE_CONNECTION_TIMEOUT
                });
                let newest = pool.iter().rposition(|idle| idle.connection.target == *target)?;
                pool.remove(newest).connection
            };
            if connection.sender.is_ready() {
                return Some(connection);
            }
            // The task of the connection is still busy with the last response, or has ended because the server closed
            // the connection.
            match timeout(READY_TIMEOUT, connection.sender.ready()).await {
                Ok(Ok(())) => return Some(connection),
                Ok(Err(_)) => {}
                Err(_) => connection.abort(),
            }
        }
    }

    /// Adds a connection whose last response was read to its end.
    pub(crate) fn put(&self, connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let mut pool = self.0.lock();
        if pool.len() == MAX_IDLE_CONNECTIONS {
            pool.remove(0);
        }
        pool.push(IdleConnection { connection, idle_since: Instant::now() });
    }
}
