//! Streamed response bodies.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Uri};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::error::{ErrorCause, RequestError};
use crate::exchange::Exchange;
use crate::idle_timer::IdleTimer;

/// The body of a response, read from the connection as it is polled. After its end, the connection takes other
/// requests. An earlier drop closes an HTTP/1.1 connection, or resets an HTTP/2 stream.
pub struct ResponseBody {
    incoming: Incoming,
    /// The exchange; `None` once the body has ended or failed.
    exchange: Option<Exchange>,
    idle_timer: Option<IdleTimer>,
    /// The number of bytes that may still be read.
    remaining: Option<u64>,
    /// True if the body has more bytes than may be read. The next poll reports it.
    is_too_large: bool,
    method: Method,
    uri: Uri,
}

impl ResponseBody {
    pub(crate) fn new(
        incoming: Incoming,
        exchange: Exchange,
        idle_timer: Option<IdleTimer>,
        limit: Option<u64>,
        (method, uri): (Method, Uri),
    ) -> Self {
        let exchange = Some(exchange);
        let mut body = Self { incoming, exchange, idle_timer, remaining: limit, is_too_large: false, method, uri };
        body.finish_at_end();
        body
    }

    /// Makes an error of this body's request.
    pub(crate) fn error(&self, cause: ErrorCause) -> RequestError {
        RequestError { method: self.method.clone(), uri: self.uri.clone(), cause }
    }

    /// Releases the connection if the body is known to have ended: a reader may stop without asking for another frame.
    fn finish_at_end(&mut self) {
        if self.incoming.is_end_stream() && !self.is_too_large {
            self.exchange.take().into_iter().for_each(Exchange::finish);
        }
    }

    /// Ends the body with an error, and cancels the exchange.
    fn fail(&mut self, cause: ErrorCause) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        self.exchange = None;
        Poll::Ready(Some(Err(self.error(cause))))
    }

    /// Truncates a frame at the limit.
    fn limit(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let (Some(remaining), Some(data)) = (&mut self.remaining, frame.data_ref()) else { return frame };
        let length = data.len() as u64;
        if length <= *remaining {
            *remaining -= length;
            return frame;
        }
        self.is_too_large = true;
        // The remaining limit is less than the length of the data, so the conversion does not fail.
        Frame::data(data.slice(..usize::try_from(*remaining).unwrap_or(data.len())))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = RequestError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RequestError>>> {
        let this = &mut *self;
        if this.exchange.is_none() {
            return Poll::Ready(None);
        }
        if this.is_too_large {
            return this.fail(ErrorCause::BodyTooLarge);
        }
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            let is_idle = this.idle_timer.as_mut().is_some_and(|timer| timer.poll_expired(cx).is_ready());
            return if is_idle { this.fail(ErrorCause::BodyIdleTimeout) } else { Poll::Pending };
        };
        if let Some(timer) = &mut this.idle_timer {
            timer.reset();
        }
        match frame {
            Some(Ok(frame)) => {
                let frame = this.limit(frame);
                if this.is_too_large && frame.data_ref().is_some_and(Bytes::is_empty) {
                    return this.fail(ErrorCause::BodyTooLarge);
                }
                this.finish_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => this.fail(ErrorCause::Body(error)),
            // An HTTP/2 server may end a stream with `NO_ERROR` in the middle of a body, which hyper reports as an end.
            None if this.incoming.size_hint().exact().is_some_and(|missing| missing > 0) => {
                this.fail(ErrorCause::BodyTooShort)
            }
            None => {
                this.exchange.take().into_iter().for_each(Exchange::finish);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.exchange.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.exchange.is_none() { SizeHint::with_exact(0) } else { self.incoming.size_hint() }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").field("uri", &self.uri).field("ended", &self.exchange.is_none()).finish()
    }
}
