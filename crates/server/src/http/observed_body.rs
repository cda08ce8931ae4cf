//! A body that reports its size and its end.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body as _, Frame};

use super::{Body, Chunk};

/// The end of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyEnd {
    /// The number of bytes that the connection took.
    pub bytes: u64,
    /// True if the body could not be completed, so that the client sees that it is truncated. False if it is complete,
    /// or if the client disconnected.
    pub failed: bool,
}

/// Called once, at the end of a body.
pub type BodyObserver = Box<dyn FnOnce(BodyEnd) + Send>;

/// A body with an observer, which is called when the body is complete, fails or is dropped.
pub struct ObservedBody {
    inner: Box<Body>,
    end: BodyEnd,
    observer: Option<BodyObserver>,
}

impl ObservedBody {
    pub(super) fn new(inner: Body, observer: BodyObserver) -> Self {
        Self { inner: Box::new(inner), end: BodyEnd { bytes: 0, failed: false }, observer: Some(observer) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, io::Error>>> {
        let polled = Pin::new(&mut *self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.end.bytes += frame.data_ref().map_or(0, Buf::remaining) as u64;
            }
            Poll::Ready(Some(Err(_))) => {
                self.end.failed = true;
                self.finish();
            }
            Poll::Ready(None) => self.finish(),
            Poll::Pending => {}
        }
        polled
    }

    pub(super) fn inner_mut(&mut self) -> &mut Body {
        &mut self.inner
    }

    fn finish(&mut self) {
        if let Some(observer) = self.observer.take() {
            observer(self.end);
        }
    }
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for ObservedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObservedBody").field(&self.inner).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use bytes::Bytes;
    use pintle_locks::Mutex;

    use super::super::{BodySource, CpuPermits, PullBody};
    use super::*;

    struct FailingSource(usize);

    impl BodySource for FailingSource {
        fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, io::Error>>> {
            self.0 += 1;
            let chunk = if self.0 < 3 { Ok(Bytes::from_static(b"abc")) } else { Err(io::Error::other("failed")) };
            Poll::Ready(Some(chunk))
        }
    }

    async fn check(body: Body, polls: usize, expect: BodyEnd) {
        let found = Arc::new(Mutex::new(Vec::new()));
        let ends = found.clone();
        let mut body = Body::Observed(ObservedBody::new(body, Box::new(move |end| ends.lock().push(end))));
        for _ in 0..polls {
            let _ = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        }
        drop(body);
        assert_eq!(*found.lock(), [expect]);
    }

    #[tokio::test]
    async fn the_observer_is_called_once_at_the_end() {
        let full = || Body::from_writer(|sender| async move { sender.send(Bytes::from_static(b"abcd").into()).await });
        for polls in 1..5 {
            check(full(), polls, BodyEnd { bytes: 4, failed: false }).await;
        }
        let failing = || Body::Pull(PullBody::new(None, Box::new(FailingSource(0)), &CpuPermits::default()));
        check(failing(), 1, BodyEnd { bytes: 3, failed: false }).await;
        check(failing(), 3, BodyEnd { bytes: 6, failed: true }).await;
        check(failing(), 0, BodyEnd { bytes: 0, failed: false }).await;
    }
}
