//! The exchange of one request and its response on a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::connection::Http1Connection;
use crate::http2::StreamPermit;
use crate::pool::ConnectionPool;
use crate::request_body::RequestProgress;

/// How long an HTTP/2 server may delay reading a request after it has responded.
const UNREAD_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// A request in flight. Its drop before the end stops the request at the server, too. The drop closes an HTTP/1.1
/// connection. An HTTP/2 stream is reset by hyper when its future or body is dropped.
pub(crate) struct Exchange {
    /// The channel of the request; `None` after the exchange.
    channel: Option<Channel>,
    pool: ConnectionPool,
    /// The progress of the request body.
    progress: Arc<RequestProgress>,
    /// True if no other request may use the connection.
    is_only: bool,
}

/// The connection or stream on which a request is sent.
enum Channel {
    Http1(Http1Connection),
    Http2 {
        permit: Arc<StreamPermit>,
        /// True once the response head has arrived. Before that, hyper also resets a stream whose request is still
        /// being sent.
        has_response: bool,
    },
}

impl Exchange {
    pub(crate) fn http1(connection: Http1Connection, pool: ConnectionPool, progress: Arc<RequestProgress>) -> Self {
        Self { channel: Some(Channel::Http1(connection)), pool, progress, is_only: false }
    }

    /// An exchange that has begun on a stream.
    pub(crate) fn http2(permit: Arc<StreamPermit>, pool: ConnectionPool, progress: Arc<RequestProgress>) -> Self {
        Self { channel: Some(Channel::Http2 { permit, has_response: false }), pool, progress, is_only: false }
    }

    /// Records that the response head has arrived.
    pub(crate) fn receive_head(&mut self) {
        if let Some(Channel::Http2 { has_response, .. }) = &mut self.channel {
            *has_response = true;
        }
    }

    /// Makes this exchange the only one of its HTTP/1.1 connection.
    pub(crate) fn only(mut self) -> Self {
        self.is_only = true;
        self
    }

    /// Ends the exchange after the whole response was read. An HTTP/1.1 connection returns to the pool if the request
    /// was sent completely; otherwise it is closed, because it cannot take another request. An HTTP/2 server that has
    /// responded without the whole request has some time to read or to reset it.
    pub(crate) fn finish(mut self) {
        let is_sent = self.progress.is_finished();
        match &self.channel {
            Some(Channel::Http1(_)) if is_sent && !self.is_only => {
                if let Some(Channel::Http1(connection)) = self.channel.take() {
                    self.pool.put(connection);
                }
            }
            Some(Channel::Http2 { .. }) if !is_sent => {
                tokio::spawn(async move {
                    sleep(UNREAD_REQUEST_TIMEOUT).await;
                    drop(self);
                });
            }
            _ => {}
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match self.channel.take() {
            Some(Channel::Http1(connection)) => connection.abort(),
            Some(Channel::Http2 { permit, has_response }) => {
                // hyper cannot reset a stream whose response was received and whose request is still being sent. A
                // server that never reads the request would keep it in memory, so the connection has to end.
                if has_response && !self.progress.is_finished() {
                    self.pool.remove(permit.connection());
                    permit.connection().retire();
                }
                permit.end_exchange();
            }
            None => {}
        }
    }
}
