//! Connections that have switched from HTTP to another protocol (RFC 9110, section 7.8), such as WebSocket.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::response_body::ResponseBody;

/// The response to a request for an upgrade.
#[derive(Debug)]
pub enum UpgradeResponse {
    /// The server has switched protocols (status 101). The body is the connection.
    Upgraded(Response<UpgradedStream>),
    /// Any other response.
    NotUpgraded(Box<Response<ResponseBody>>),
}

/// The bytes of a connection after the upgrade. The drop closes the connection.
pub struct UpgradedStream(TokioIo<Upgraded>);

impl UpgradedStream {
    pub(crate) fn new(upgraded: Upgraded) -> Self {
        Self(TokioIo::new(upgraded))
    }
}

impl AsyncRead for UpgradedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for UpgradedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl fmt::Debug for UpgradedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradedStream").finish_non_exhaustive()
    }
}
