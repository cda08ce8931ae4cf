//! The body of a response whose request counts as open until the connection has written all of it. Over HTTP/2, hyper
//! takes a chunk of a body before the client grants a window for it. Then hyper keeps the chunk until the client grants
//! the window.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use super::activity::OpenRequest;
use super::{Body, Chunk, Response};

/// The deadline of a request, as an extension of its response. Some time after it, the connection is closed if the
/// client has not read the response. The deadline of a response without this extension is the end of its writer.
/// Without a writer, it is now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseDeadline(pub(crate) Instant);

/// Marks the last response on an HTTP/2 connection. With it, the client is told to open another connection (GOAWAY).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastResponse;

/// Sets the deadline of a response to an open request.
pub(super) fn open_response(mut response: Response, open: OpenRequest) -> http::Response<OpenBody> {
    let open = Arc::new(open);
    match response.extensions_mut().remove() {
        Some(ResponseDeadline(deadline)) => open.set_deadline(deadline),
        None => response.body_mut().hold_in_writer(WriterEnd(open.clone())),
    }
    response.map(|body| OpenBody { body, open })
}

/// Sets the deadline of a request to the time at which this is dropped.
struct WriterEnd(Arc<OpenRequest>);

impl Drop for WriterEnd {
    fn drop(&mut self) {
        self.0.set_deadline(Instant::now());
    }
}

/// The body of a response to an open request.
pub(super) struct OpenBody {
    body: Body,
    open: Arc<OpenRequest>,
}

/// A chunk of a body, until it is written.
pub(super) struct OpenChunk {
    chunk: Chunk,
    _open: Arc<OpenRequest>,
}

impl http_body::Body for OpenBody {
    type Data = OpenChunk;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<OpenChunk>, io::Error>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let opened = |frame: Frame<Chunk>| frame.map_data(|chunk| OpenChunk { chunk, _open: self.open.clone() });
        Poll::Ready(polled.map(|frame| frame.map(opened)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Buf for OpenChunk {
    fn remaining(&self) -> usize {
        self.chunk.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.chunk.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.chunk.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.chunk.advance(count);
    }
}
