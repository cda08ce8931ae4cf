//! Gathers the writes of an HTTP/2 connection.
//!
//! Each request and watch has a task. After every frame with a body, h2 asks for a flush, so it writes the frames of
//! one task before the next task runs. A connection with many tasks therefore needed a system call for each request,
//! response and event, and with TLS a record. This layer delays a flush until all ready tasks have run once, and then
//! writes everything at once.
//!
//! ```
//! use pintle_gathered_writes::{GatheredWrites, OpenRequests};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! /// A connection with one open request, whose flushes have nothing to wait for.
//! struct OneRequest;
//!
//! impl OpenRequests for OneRequest {
//!     fn open_requests(&self) -> usize {
//!         1
//!     }
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::io::Result<()> {
//!     let (server, mut client) = tokio::io::duplex(1024);
//!     let mut stream = GatheredWrites::new(server, OneRequest, true);
//!     // Frames are gathered until the flush.
//!     stream.write_all(b"one ").await?;
//!     stream.write_all(b"two").await?;
//!     stream.flush().await?;
//!     let mut received = [0; 7];
//!     client.read_exact(&mut received).await?;
//!     assert_eq!(&received, b"one two");
//!     Ok(())
//! }
//! ```

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum size of the buffer, which fits into a TLS record. Longer pieces are written without the buffer.
const CAPACITY: usize = 16 * 1024;

/// The initial capacity of the buffer.
const FIRST_CAPACITY: usize = 2 * 1024;

/// Counts the open requests of a connection. A flush is delayed only if several requests are open, because then other
/// requests may be about to write.
pub trait OpenRequests {
    /// The number of open requests.
    fn open_requests(&self) -> usize;
}

/// A stream that delays flushes while several requests are open.
///
/// One task polls its user, which asks for a flush at the end of each poll, as h2 does. Such a poll is a turn: it
/// begins with reads and ends with writes.
#[derive(Debug)]
pub struct GatheredWrites<S, R> {
    stream: S,
    requests: R,
    /// False for HTTP/1.1, whose connections have one response at a time.
    is_enabled: bool,
    buffer: Vec<u8>,
    /// The number of turns with writes.
    turn: u64,
    /// Whether the user has read since the last write. Then the task is in another turn.
    has_read: bool,
    /// The turn in which the flush was first delayed.
    put_off: Option<u64>,
    /// The last turn in which the task was woken for a later flush.
    woken: Option<u64>,
    /// Whether the user has written since it last asked for a flush.
    is_growing: bool,
}

impl<S, R: OpenRequests> GatheredWrites<S, R> {
    /// A layer above a stream. For HTTP/1.1 it delays nothing.
    pub fn new(stream: S, requests: R, is_http2: bool) -> Self {
        Self {
            stream,
            requests,
            is_enabled: is_http2,
            buffer: Vec::new(),
            turn: 0,
            has_read: false,
            put_off: None,
            woken: None,
            is_growing: false,
        }
    }

    /// Counts a new turn. Every write and flush calls it first.
    fn count_turn(&mut self) {
        self.turn += u64::from(std::mem::take(&mut self.has_read));
    }

    /// Delays a flush to a later turn, for which it wakes the task. False if the flush was delayed long enough, or if a
    /// delay gains nothing.
    fn puts_off(&mut self, cx: &Context<'_>) -> bool {
        if self.buffer.is_empty() || self.requests.open_requests() < 2 {
            return false;
        }
        let turns = self.turn - *self.put_off.get_or_insert(self.turn);
        let is_growing = std::mem::take(&mut self.is_growing);
        // As long as the second turn brings frames, they join the gathered frames.
        if turns > 1 || (turns == 1 && !is_growing) {
            return false;
        }
        if self.woken.replace(self.turn) != Some(self.turn) {
            cx.waker().wake_by_ref();
        }
        true
    }
}

impl<S: AsyncWrite + Unpin, R> GatheredWrites<S, R> {
    /// Writes the gathered bytes.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut written = 0;
        while written < self.buffer.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.buffer[written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(length)) => written += length,
                unfinished => {
                    self.buffer.drain(..written);
                    return unfinished.map_ok(drop);
                }
            }
        }
        // An idle connection keeps no memory for the buffer.
        self.buffer = Vec::new();
        self.put_off = None;
        Poll::Ready(Ok(()))
    }

    /// Makes room for a number of bytes. False if they do not fit into the buffer.
    fn poll_room(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<io::Result<bool>> {
        if self.buffer.len() + length > CAPACITY {
            ready!(self.poll_drain(cx))?;
        }
        Poll::Ready(Ok(self.is_enabled && length <= CAPACITY / 2))
    }
}

impl<S: AsyncRead + Unpin, R: Unpin> AsyncRead for GatheredWrites<S, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.has_read = true;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin, R: OpenRequests + Unpin> AsyncWrite for GatheredWrites<S, R> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.as_mut().poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.count_turn();
        let length = slices.iter().map(|slice| slice.len()).sum();
        if !ready!(self.poll_room(cx, length))? {
            // The gathered bytes come first.
            ready!(self.poll_drain(cx))?;
            return Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        }
        if self.buffer.is_empty() {
            self.buffer.reserve(length.max(FIRST_CAPACITY));
        }
        slices.iter().for_each(|slice| self.buffer.extend_from_slice(slice));
        self.is_growing = true;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        self.is_enabled || self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.count_turn();
        if self.puts_off(cx) {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    /// Records the bytes of each write, and takes at most a number of bytes at a time.
    struct Written {
        writes: Vec<Vec<u8>>,
        flushes: usize,
        at_once: usize,
    }

    impl AsyncRead for Written {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Written {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            if self.at_once == 0 {
                return Poll::Pending;
            }
            let length = bytes.len().min(self.at_once);
            self.writes.push(bytes[..length].to_vec());
            Poll::Ready(Ok(length))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// The number of open requests.
    struct Requests(usize);

    impl OpenRequests for Requests {
        fn open_requests(&self) -> usize {
            self.0
        }
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection with some open requests. It is driven like a connection of h2.
    struct Connection {
        stream: GatheredWrites<Written, Requests>,
        wakes: Arc<Wakes>,
    }

    impl Connection {
        fn new(requests: usize, is_http2: bool) -> Self {
            let written = Written { writes: Vec::new(), flushes: 0, at_once: usize::MAX };
            let stream = GatheredWrites::new(written, Requests(requests), is_http2);
            Self { stream, wakes: Arc::default() }
        }

        /// One turn: reads, writes each frame and asks for a flush after it, and asks for another flush at the end.
        /// Returns how often the task was woken.
        fn turn(&mut self, frames: &[&[u8]]) -> usize {
            let waker = self.wakes.clone().into();
            let mut cx = Context::from_waker(&waker);
            let before = self.wakes.0.load(Ordering::Relaxed);
            let mut buffer = [0; 16];
            assert!(Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut buffer)).is_pending());
            for frame in frames {
                let (head, rest) = frame.split_at(frame.len() / 2);
                let slices = [IoSlice::new(head), IoSlice::new(rest)];
                let written = Pin::new(&mut self.stream).poll_write_vectored(&mut cx, &slices);
                let Poll::Ready(Ok(length)) = written else { panic!("{written:?}") };
                if length < frame.len() {
                    let written = Pin::new(&mut self.stream).poll_write(&mut cx, &frame[length..]);
                    assert!(matches!(written, Poll::Ready(Ok(rest)) if length + rest == frame.len()));
                }
                assert!(matches!(Pin::new(&mut self.stream).poll_flush(&mut cx), Poll::Ready(Ok(()))));
            }
            let _ = Pin::new(&mut self.stream).poll_flush(&mut cx);
            self.wakes.0.load(Ordering::Relaxed) - before
        }

        /// The writes since the last call.
        fn written(&mut self) -> Vec<String> {
            let writes = std::mem::take(&mut self.stream.stream.writes);
            writes.into_iter().map(|write| String::from_utf8(write).unwrap()).collect()
        }
    }

    #[test]
    fn what_several_tasks_send_is_written_at_once() {
        let mut connection = Connection::new(3, true);
        assert_eq!(connection.turn(&[b"one,", b"two,"]), 1);
        assert_eq!(connection.written(), [""; 0]);
        // The flush takes the frames of the next turn along. The task is woken once more, because no request to flush
        // might follow.
        assert_eq!(connection.turn(&[b"three,"]), 1);
        assert_eq!(connection.written(), ["one,two,three,"]);
        // The next batch starts from the beginning.
        assert_eq!(connection.turn(&[b"four,"]), 1);
        assert_eq!(connection.turn(&[]), 0);
        assert_eq!(connection.written(), ["four,"]);
        assert_eq!(connection.stream.stream.flushes, 2);
        assert_eq!(connection.turn(&[]), 0);
    }

    #[test]
    fn a_flush_that_was_put_off_comes_however_much_follows() {
        let mut connection = Connection::new(3, true);
        let waker = connection.wakes.clone().into();
        let mut cx = Context::from_waker(&waker);
        // As with small frames, each turn asks for one flush, after a write.
        let mut turns = 0;
        while connection.stream.stream.writes.is_empty() {
            turns += 1;
            let mut buffer = [0; 16];
            let _ = Pin::new(&mut connection.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut buffer));
            assert!(Pin::new(&mut connection.stream).poll_write(&mut cx, b"frame").is_ready());
            assert!(Pin::new(&mut connection.stream).poll_flush(&mut cx).is_ready());
            let woken = connection.wakes.0.load(Ordering::Relaxed);
            assert!(
                woken == turns || !connection.stream.stream.writes.is_empty(),
                "the task sleeps with unwritten bytes"
            );
        }
        assert_eq!(turns, 3);
        assert_eq!(connection.written(), ["frameframeframe"]);
    }

    #[test]
    fn single_requests_and_http1_are_not_delayed() {
        for mut connection in [Connection::new(1, true), Connection::new(3, false)] {
            assert_eq!(connection.turn(&[b"one"]), 0);
            assert_eq!(connection.written().concat(), "one");
        }
    }

    #[test]
    fn long_pieces_are_written_after_what_was_gathered() {
        let mut connection = Connection::new(2, true);
        let long = "x".repeat(CAPACITY);
        connection.turn(&[b"short,", long.as_bytes(), b"end"]);
        connection.turn(&[]);
        assert_eq!(connection.written().concat(), format!("short,{long}end"));
        // The buffer gathers only as many bytes as fit.
        let piece = "y".repeat(CAPACITY / 3);
        connection.turn(&[piece.as_bytes(); 5]);
        connection.turn(&[]);
        let written = connection.written();
        assert!(written.iter().all(|write| write.len() <= CAPACITY), "{:?}", written.iter().map(String::len));
        assert_eq!(written.concat(), piece.repeat(5));
    }

    #[test]
    fn a_stream_that_takes_little_gets_everything_in_order() {
        let mut connection = Connection::new(2, true);
        connection.stream.stream.at_once = 3;
        connection.turn(&[b"one,", b"two,"]);
        connection.stream.stream.at_once = 0;
        connection.turn(&[]);
        assert_eq!(connection.written(), [""; 0]);
        connection.stream.stream.at_once = 3;
        connection.turn(&[]);
        assert_eq!(connection.written().concat(), "one,two,");
        let waker = connection.wakes.clone().into();
        let mut cx = Context::from_waker(&waker);
        assert!(Pin::new(&mut connection.stream).poll_write(&mut cx, b"last").is_ready());
        assert!(Pin::new(&mut connection.stream).poll_shutdown(&mut cx).is_ready());
        assert_eq!(connection.written().concat(), "last");
    }
}
