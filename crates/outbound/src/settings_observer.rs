//! Detects when the settings of an HTTP/2 server have taken effect, because hyper does not report it (RFC 9113, section
//! 3.4).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The length of a frame's head, and the number of bytes in it that hold the payload's length.
const FRAME_HEAD_BYTES: usize = 9;
const LENGTH_BYTES: usize = 3;

/// A stream that reports when its reader has handled the first frame, which has the settings. The sign is that the
/// reader reads again after the frame.
pub(crate) struct SettingsObserver<S> {
    stream: S,
    /// The state of the wait; `None` once the settings have taken effect or the stream has failed.
    waiting: Option<Waiting>,
}

struct Waiting {
    settled: oneshot::Sender<io::Result<()>>,
    /// The number of received bytes, and the payload's length as far as it was received.
    received: usize,
    payload_length: usize,
}

impl Waiting {
    fn is_complete(&self) -> bool {
        self.received >= FRAME_HEAD_BYTES + self.payload_length
    }

    fn receive(&mut self, bytes: &[u8]) {
        let missing = LENGTH_BYTES.saturating_sub(self.received);
        for byte in bytes.iter().take(missing) {
            self.payload_length = self.payload_length << 8 | usize::from(*byte);
        }
        self.received = self.received.saturating_add(bytes.len());
    }
}

impl<S> SettingsObserver<S> {
    /// An observer, and a receiver of its result. The result is an error if the stream fails or ends before the
    /// settings take effect.
    pub(crate) fn new(stream: S) -> (Self, oneshot::Receiver<io::Result<()>>) {
        let (settled, receiver) = oneshot::channel();
        (Self { stream, waiting: Some(Waiting { settled, received: 0, payload_length: 0 }) }, receiver)
    }

    fn settle(&mut self, result: io::Result<()>) {
        if let Some(waiting) = self.waiting.take() {
            // The receiver is gone if the caller's time is over.
            let _ = waiting.settled.send(result);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SettingsObserver<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.waiting.as_ref().is_some_and(Waiting::is_complete) {
            self.settle(Ok(()));
        }
        let filled = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        if let Some(waiting) = &mut self.waiting {
            match read {
                Ok(()) if buffer.filled().len() == filled => self.settle(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(()) => waiting.receive(buffer.filled().get(filled..).unwrap_or_default()),
                Err(error) => {
                    let kind = error.kind();
                    self.settle(Err(error));
                    return Poll::Ready(Err(kind.into()));
                }
            }
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SettingsObserver<S> {
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// A frame with a payload of 300 bytes.
    fn frame() -> Vec<u8> {
        [&[0, 1, 44, 4, 0, 0, 0, 0, 0][..], &[7; 300]].concat()
    }

    #[tokio::test]
    async fn settings_have_taken_effect_when_the_next_read_begins() {
        for pieces in [1, 2, 50] {
            let (mut server, client) = duplex(4096);
            let (mut observer, mut settled) = SettingsObserver::new(client);
            let mut read = Vec::new();
            for piece in frame().chunks(pieces) {
                assert!(settled.try_recv().is_err());
                server.write_all(piece).await.expect("an open stream");
                read.resize(read.len() + piece.len(), 0);
                let start = read.len() - piece.len();
                observer.read_exact(&mut read[start..]).await.expect("a piece");
            }
            assert_eq!(read, frame());
            assert!(settled.try_recv().is_err());
            server.write_all(b"x").await.expect("an open stream");
            observer.read_u8().await.expect("a byte");
            assert!(settled.try_recv().expect("a result").is_ok());
        }
    }

    #[tokio::test]
    async fn a_stream_that_ends_before_is_an_error() {
        let (mut server, client) = duplex(4096);
        let (mut observer, settled) = SettingsObserver::new(client);
        server.write_all(&frame()[..20]).await.expect("an open stream");
        drop(server);
        let _ = observer.read_to_end(&mut Vec::new()).await;
        let error = settled.await.expect("a result").expect_err("no settings");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
