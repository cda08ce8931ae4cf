//! A time limit for writes to a connection. If a client reads nothing for too long, its connection is closed. Otherwise
//! it would keep the connection and the unsent data for as long as it likes. HTTP/2 has pings for this purpose,
//! HTTP/1.1 has none.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Sleep, sleep};

use super::layer::{Layer, Layered};

/// A connection that can be closed at once.
pub(super) trait Abort {
    /// Lets a drop close the connection without sending the remaining data. Otherwise the system would keep this data
    /// for a client that does not read.
    fn abort(&mut self);
}

impl<L: Abort> Abort for Layered<L> {
    fn abort(&mut self) {
        self.0.abort();
    }
}

/// The layer whose writes fail if no data could be written for too long.
#[derive(Debug)]
pub(super) struct WriteTimeout<S: Abort> {
    stream: S,
    limit: Duration,
    /// The timer of the limit, while a write waits.
    timer: Option<Pin<Box<Sleep>>>,
    /// Set while dropping the connection without a shutdown means that the client does not get all data.
    is_open: bool,
}

impl<S: Abort> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, timer: None, is_open: false }
    }

    /// Called after the handshake. From now on, dropping the connection without a shutdown aborts it.
    pub(super) fn opened(&mut self) {
        self.is_open = true;
    }
}

impl<S: AsyncRead + AsyncWrite + Abort + Unpin> Layer for WriteTimeout<S> {
    type Below = S;

    fn below(&self) -> &S {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Checks the time limit of a write that waits.
    fn after_write<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        timer.as_mut().poll(cx).map(|()| Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.is_open &= !matches!(shut_down, Poll::Ready(Ok(())));
        shut_down
    }
}

impl<S: Abort> Drop for WriteTimeout<S> {
    fn drop(&mut self) {
        if self.is_open || self.timer.is_some() {
            self.stream.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    impl Abort for tokio::io::DuplexStream {
        fn abort(&mut self) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_if_the_client_takes_nothing_for_too_long() {
        let limit = Duration::from_secs(90);
        let (server, mut client) = tokio::io::duplex(10);
        let mut server = Layered(WriteTimeout::new(server, limit));
        let write = tokio::spawn(async move { server.write_all(&[0; 100]).await });
        let mut buffer = [0; 10];
        // A slow reader is fast enough.
        for _ in 0..8 {
            tokio::time::sleep(limit - Duration::from_secs(1)).await;
            client.read_exact(&mut buffer).await.expect("what was written");
        }
        assert!(!write.is_finished());
        tokio::time::sleep(limit + Duration::from_secs(1)).await;
        let error = write.await.expect("no panic").expect_err("the write fails");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
