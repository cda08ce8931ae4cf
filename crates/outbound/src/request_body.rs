//! Request bodies: bytes or a stream, in one type, so that all requests share the pool of connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::http2::StreamPermit;

/// An error of a streamed request body.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request. hyper drops the body when it was sent completely, or when sending failed.
pub(crate) struct RequestBody {
    source: BodySource,
    progress: Arc<RequestProgress>,
    /// The HTTP/2 stream on which the body is sent.
    permit: Option<Arc<StreamPermit>>,
}

enum BodySource {
    Full(Full<Bytes>),
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl RequestBody {
    fn new(source: BodySource) -> Self {
        Self { source, progress: Arc::new(RequestProgress::new()), permit: None }
    }

    /// A body with these bytes.
    pub(crate) fn full(bytes: Bytes) -> Self {
        Self::new(BodySource::Full(Full::new(bytes)))
    }

    /// A streamed body. A body that is known to be empty needs no stream.
    pub(crate) fn stream<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if body.is_end_stream() {
            return Self::full(Bytes::new());
        }
        Self::new(BodySource::Stream(Box::pin(body.map_err(Into::into))))
    }

    /// A copy to send again; `None` for a stream, which can be read only once.
    pub(crate) fn try_clone(&self) -> Option<Self> {
        match &self.source {
            BodySource::Full(full) => Some(Self::new(BodySource::Full(full.clone()))),
            BodySource::Stream(_) => None,
        }
    }

    /// Sets the HTTP/2 stream on which the body is sent; `None` on HTTP/1.1. The body keeps the stream in use until it
    /// was sent.
    pub(crate) fn set_permit(&mut self, permit: Option<Arc<StreamPermit>>) {
        self.permit = permit;
    }

    /// The progress of sending the body.
    pub(crate) fn progress(&self) -> Arc<RequestProgress> {
        self.progress.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.source {
            BodySource::Full(full) => Pin::new(full).poll_frame(cx).map_err(|never: Infallible| match never {}),
            BodySource::Stream(stream) => {
                let frame = ready!(stream.as_mut().poll_frame(cx));
                self.progress.record_frame();
                if let Some(Err(error)) = &frame {
                    self.progress.failure.get_or_init(|| error.to_string());
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Full(full) => full.is_end_stream(),
            BodySource::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Full(full) => full.size_hint(),
            BodySource::Stream(stream) => stream.size_hint(),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.progress.finished.store(true, Ordering::Release);
    }
}

/// The progress of sending a request body.
pub(crate) struct RequestProgress {
    started: Instant,
    /// When the connection last took a frame, in milliseconds after the start.
    last_frame: AtomicU64,
    finished: AtomicBool,
    /// The text of the error with which the body has failed.
    failure: OnceLock<String>,
}

impl RequestProgress {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            last_frame: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    fn record_frame(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_frame.store(elapsed, Ordering::Relaxed);
    }

    /// When the connection last took a frame of the body; before the first frame, the start of the request.
    pub(crate) fn last_frame(&self) -> Instant {
        self.started + Duration::from_millis(self.last_frame.load(Ordering::Relaxed))
    }

    /// The text of the error with which the body has failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// True if the connection no longer needs the body.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }
}
