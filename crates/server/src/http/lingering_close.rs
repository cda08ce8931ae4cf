//! A TCP connection that lingers when it is closed. It closes its sending side, then receives and drops the remaining
//! bytes of the client. A connection that is closed with unread data is reset, and then the client may lose the last
//! answer. Go's `net/http` waits, too (`rstAvoidanceDelay`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::layer::Layer;
use super::write_timeout::Abort;

/// The time for which a closed connection waits for the client to close its side (Go's default).
const LINGER: Duration = Duration::from_millis(500);
/// Maximum number of bytes that are received at a time.
const PIECE: usize = 16 * 1024;

/// The layer of a TCP connection that lingers when it is closed.
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
        // If the socket does not accept the option, it is closed in the usual way.
        let _ = self.stream.set_zero_linger();
    }
}

impl Layer for LingeringClose {
    type Below = TcpStream;

    fn below(&self) -> &TcpStream {
        &self.stream
    }

    fn below_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (end, timer) = match &mut self.lingering {
            Some(lingering) => lingering,
            None => {
                ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
                let end = Instant::now() + LINGER;
                self.lingering.insert((end, Box::pin(sleep_until(end))))
            }
        };
        let mut piece = [0; PIECE];
        // The timer alone does not suffice, because it is not polled while data arrives.
        while Instant::now() < *end {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => break,
                Poll::Pending => ready!(timer.as_mut().poll(cx)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
