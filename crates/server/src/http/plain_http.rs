//! Detects clients that speak HTTP without TLS. Such a client could not read a TLS alert. So it gets an answer in plain
//! HTTP, as from Go's `net/http`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::layer::{Layer, Layered};

/// The length of the header of a TLS record.
const RECORD_HEADER: usize = 5;
/// The first bytes of detected requests (Go: `tlsRecordHeaderLooksLikeHTTP`).
const STARTS: [&[u8; RECORD_HEADER]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
/// The answer to a request without TLS.
const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The layer that looks at the first bytes of a connection. If they are a request in plain HTTP, reads fail, so that
/// the TLS handshake ends before it sends anything.
#[derive(Debug)]
pub(super) struct PlainHttpCheck<S> {
    stream: S,
    start: [u8; RECORD_HEADER],
    /// The number of bytes of `start` that have arrived.
    arrived: usize,
}

impl<S> PlainHttpCheck<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, start: [0; RECORD_HEADER], arrived: 0 }
    }

    pub(super) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// True if the client speaks HTTP without TLS.
    fn is_plain_http(&self) -> bool {
        self.arrived == RECORD_HEADER && STARTS.contains(&&self.start)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Layer for PlainHttpCheck<S> {
    type Below = S;

    fn below(&self) -> &S {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.arrived < RECORD_HEADER {
            let new = &buffer.filled()[before..];
            let new = &new[..new.len().min(RECORD_HEADER - self.arrived)];
            self.start[self.arrived..][..new.len()].copy_from_slice(new);
            self.arrived += new.len();
            if self.is_plain_http() {
                return Poll::Ready(Err(io::Error::other("client sent an HTTP request to an HTTPS server")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Layered<PlainHttpCheck<S>> {
    /// Answers a client that speaks HTTP without TLS, and closes the connection. Does nothing for other clients.
    pub(super) async fn answer_plain_http(mut self) {
        // A client that has disconnected needs no answer.
        if self.0.is_plain_http() && self.write_all(ANSWER).await.is_ok() {
            let _ = self.shutdown().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Sends the pieces of a client's first bytes. Returns the answer.
    async fn send(pieces: &[&str]) -> String {
        let (mut client, server) = tokio::io::duplex(1000);
        let mut server = Layered(PlainHttpCheck::new(server));
        let mut read = Ok(0);
        for piece in pieces {
            client.write_all(piece.as_bytes()).await.expect("room");
            read = server.read(&mut [0; 100]).await;
        }
        assert_eq!(read.is_err(), server.0.is_plain_http(), "{pieces:?}");
        server.answer_plain_http().await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("a text");
        answer
    }

    #[tokio::test]
    async fn plain_requests_are_answered() {
        let answer = String::from_utf8_lossy(ANSWER);
        for start in [&["GET / HTTP/1.1\r\n"][..], &["HEAD /api"], &["PUT /a"], &["OPTIONS"], &["P", "OS", "T /"]] {
            assert_eq!(send(start).await, answer, "{start:?}");
        }
        for start in
            [&["GET"][..], &["DELETE /"], &["get /"], &["\x16\x03\x01\x00\x01"], &["\x16\x03\x01", "\x00GET /"]]
        {
            assert_eq!(send(start).await, "", "{start:?}");
        }
    }
}
