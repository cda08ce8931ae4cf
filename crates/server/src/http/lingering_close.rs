//! A TCP connection that lingers when it is closed: it closes its sending side, then receives and drops what the
//! client still sends. A connection that is closed with unread data is reset, and the client may lose the last answer
//! (Go's `net/http` waits too: `rstAvoidanceDelay`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::write_timeout::Abort;

/// How long a closed connection waits for the client to close its side (Go's default).
const LINGER: Duration = Duration::from_millis(500);
/// How much is received at a time, in bytes.
const PIECE: usize = 16 * 1024;

/// A TCP connection that lingers when it is closed.
#[derive(Debug)]
pub(super) struct LingeringClose {
    stream: TcpStream,
    /// Set once the sending side is closed.
    lingering: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl LingeringClose {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, lingering: None }
    }
}

impl Abort for LingeringClose {
    fn abort(&mut self) {
        // A socket that does not take it is closed in the usual way.
        let _ = self.stream.set_zero_linger();
    }
}

impl AsyncRead for LingeringClose {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LingeringClose {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (end, timer) = match &mut this.lingering {
            Some(lingering) => lingering,
            None => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                let end = Instant::now() + LINGER;
                this.lingering.insert((end, Box::pin(sleep_until(end))))
            }
        };
        let mut piece = [0; PIECE];
        // The timer alone would not be polled while data arrives.
        while Instant::now() < *end {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut this.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => break,
                Poll::Pending => ready!(timer.as_mut().poll(cx)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
