//! Calls of gRPC over a Unix socket, with one message each way. The texts of errors are grpc-go's. The format is gRPC's over
//! HTTP/2 (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>). Messages are not compressed.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, Method, Request, StatusCode, Version};
use percent_encoding::percent_decode;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::KmsError;

/// The length of a message's prefix: a byte for compression, and the length in four bytes.
const PREFIX_LENGTH: usize = 5;
/// The maximum length of an answer in bytes, as in grpc-go.
const MAX_MESSAGE: usize = 4 << 20;
/// The pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The names of codes, as Go prints them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const UNKNOWN: u32 = 2;
const DEADLINE_EXCEEDED: u32 = 4;
const RESOURCE_EXHAUSTED: u32 = 8;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

/// The error with which a call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RpcError {
    code: u32,
    message: String,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", self.status(), self.message)
    }
}

impl From<RpcError> for KmsError {
    fn from(error: RpcError) -> Self {
        Self::with_status(error.status(), error.to_string())
    }
}

impl RpcError {
    fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The name of the code.
    fn status(&self) -> Cow<'static, str> {
        let name = usize::try_from(self.code).ok().and_then(|code| CODES.get(code));
        name.map_or_else(|| format!("Code({})", self.code).into(), |name| Cow::Borrowed(*name))
    }

    fn lost(error: &h2::Error) -> Self {
        Self::new(UNAVAILABLE, format!("error reading from server: {error}"))
    }

    /// The status in the headers before or after a body. `None` without one.
    fn find(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = headers.get("grpc-status")?.to_str().ok().and_then(|code| code.parse().ok()).unwrap_or(UNKNOWN);
        let message = headers.get("grpc-message").map(|message| percent_decode(message.as_bytes()));
        let message = message.map(|message| message.decode_utf8_lossy().into_owned()).unwrap_or_default();
        Some(if code == 0 { Ok(()) } else { Err(Self { code, message }) })
    }
}

/// A connection that is made when it is needed, and made again after it was lost.
#[derive(Debug)]
pub(super) struct UnixChannel {
    path: PathBuf,
    timeout: Duration,
    connection: Mutex<Option<SendRequest<Bytes>>>,
}

/// The end of an attempt.
enum Attempt {
    Answered(Bytes),
    Failed(RpcError),
    /// The server has not looked at the call.
    NotSent,
}

impl UnixChannel {
    /// A channel to a socket. A path that begins with a zero byte names an abstract socket. Each call ends after the time.
    pub(super) fn new(path: PathBuf, timeout: Duration) -> Self {
        Self { path, timeout, connection: Mutex::default() }
    }

    /// Calls a method. Until the time is over, the call waits for the server (gRPC: `WaitForReady`).
    pub(super) async fn call(&self, method: &str, message: &[u8]) -> Result<Bytes, RpcError> {
        let mut framed = BytesMut::with_capacity(PREFIX_LENGTH + message.len());
        framed.put_u8(0);
        let length =
            u32::try_from(message.len()).map_err(|_| RpcError::new(RESOURCE_EXHAUSTED, "message too large"))?;
        framed.put_u32(length);
        framed.put_slice(message);
        let framed = framed.freeze();
        let attempts = async {
            let mut pause = FIRST_PAUSE;
            loop {
                match self.attempt(method, framed.clone()).await {
                    Attempt::Answered(answer) => return Ok(answer),
                    Attempt::Failed(error) => return Err(error),
                    Attempt::NotSent => {
                        *self.connection.lock().await = None;
                        sleep(pause).await;
                        pause = LAST_PAUSE.min(pause * 2);
                    }
                }
            }
        };
        let deadline = |_| RpcError::new(DEADLINE_EXCEEDED, "context deadline exceeded");
        timeout(self.timeout, attempts).await.map_err(deadline)?
    }

    async fn connect(&self) -> SendRequest<Bytes> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return connection.clone();
        }
        let mut pause = FIRST_PAUSE;
        loop {
            if let Ok(stream) = UnixStream::connect(&self.path).await
                && let Ok((sender, task)) = h2::client::handshake(stream).await
            {
                // The task ends with the connection, or when nobody can send any more.
                drop(tokio::spawn(task));
                return connection.insert(sender).clone();
            }
            sleep(pause).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    async fn attempt(&self, method: &str, message: Bytes) -> Attempt {
        let Ok(mut sender) = self.connect().await.ready().await else { return Attempt::NotSent };
        let request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(format!("http://localhost{method}"))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header("grpc-timeout", format!("{}m", self.timeout.as_millis().min(99_999_999)))
            .body(());
        let Ok(request) = request else { return Attempt::Failed(RpcError::new(INTERNAL, "the method is no path")) };
        let Ok((response, mut body)) = sender.send_request(request, false) else { return Attempt::NotSent };
        // If sending fails, the response has the error.
        let _ = body.send_data(message, true);
        let response = match response.await {
            Ok(response) => response,
            Err(error) if error.reason() == Some(Reason::REFUSED_STREAM) => return Attempt::NotSent,
            Err(error) => {
                *self.connection.lock().await = None;
                return Attempt::Failed(RpcError::lost(&error));
            }
        };
        match answer(response).await {
            Ok(answer) => Attempt::Answered(answer),
            Err(error) => Attempt::Failed(error),
        }
    }
}

/// The only message of a response.
async fn answer(response: http::Response<RecvStream>) -> Result<Bytes, RpcError> {
    let (head, mut body) = response.into_parts();
    // A call that fails at once has its status in the head.
    if let Some(status) = RpcError::find(&head.headers) {
        status?;
    }
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if head.status != StatusCode::OK || !content_type.starts_with("application/grpc") {
        let problem = format!("unexpected HTTP status {}; content-type {content_type:?}", head.status);
        return Err(RpcError::new(UNKNOWN, problem));
    }
    let mut received = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(|error| RpcError::lost(&error))?;
        body.flow_control().release_capacity(data.len()).map_err(|error| RpcError::lost(&error))?;
        if received.len() + data.len() > MAX_MESSAGE + PREFIX_LENGTH {
            return Err(RpcError::new(RESOURCE_EXHAUSTED, "grpc: received message larger than max"));
        }
        received.extend_from_slice(&data);
    }
    let trailers = body.trailers().await.map_err(|error| RpcError::lost(&error))?;
    match trailers.as_ref().and_then(RpcError::find) {
        Some(status) => status?,
        None => return Err(RpcError::new(INTERNAL, "server closed the stream without sending trailers")),
    }
    let mut received = received.freeze();
    if received.len() < PREFIX_LENGTH {
        return Err(RpcError::new(INTERNAL, "the server has sent no message"));
    }
    let (compressed, length) = (received.get_u8(), received.get_u32());
    if compressed != 0 || usize::try_from(length) != Ok(received.len()) {
        return Err(RpcError::new(INTERNAL, "the server has not sent exactly one message without compression"));
    }
    Ok(received)
}
