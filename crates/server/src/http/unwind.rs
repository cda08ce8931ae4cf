//! Keeps a panic inside the request that caused it. The connection and its other requests continue.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use http::StatusCode;
use http::header::{HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::{Response, text};

/// The payload of a panic.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs a future. After a panic, the future is not polled again.
///
/// # Errors
/// The future panicked.
pub(crate) async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// The text of a panic, for the log.
pub(crate) fn panic_text(panic: &Panic) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown cause")
}

/// The response to a request that panicked (upstream: `WithPanicRecovery`).
pub(crate) fn panic_response() -> Response {
    let mut response = text(
        StatusCode::INTERNAL_SERVER_ERROR,
        "This request caused apiserver to panic. Look in the logs for details.\n",
    );
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
