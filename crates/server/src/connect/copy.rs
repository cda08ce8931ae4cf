//! Bytes that are copied between a client and a backend, and bodies of backends.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::{BodyExt, Either, Empty};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use pintle_outbound::{RequestError, ResponseBody};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink, split};
use tokio::time::timeout;

use crate::context::RequestContext;
use crate::http::{Body, Response, UpgradeEnd};

/// The time for which the other direction continues after one direction has ended. Upstream closes both at once, which
/// may lose the last bytes.
const REMAINING_TIME: Duration = Duration::from_secs(5);
/// Maximum size of a body that is sent with the head of the response, in bytes.
const MAX_WITH_HEAD: u64 = 64 << 10;

/// A connection of a client after HTTP.
pub(super) type ClientStream = TokioIo<Upgraded>;

/// A part of a backend's body.
type ReceivedFrame = Result<Frame<Bytes>, RequestError>;

/// Serves the connection of a client after the response has switched protocols, until the client disconnects or the
/// server stops. Meanwhile the request counts as long-running.
pub(super) fn take_over<F>(
    request: &Arc<RequestContext>,
    upgrade: OnUpgrade,
    mut response: Response,
    serve: impl FnOnce(ClientStream) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (end, guard) = UpgradeEnd::new();
    response.extensions_mut().insert(end);
    // Without a connection, the client has disconnected.
    let Some(connection) = request.connection.upgrade() else { return response };
    let request = request.clone();
    tokio::spawn(async move {
        let served = async {
            match upgrade.await {
                Ok(upgraded) => serve(TokioIo::new(upgraded)).await,
                Err(error) => tracing::debug!(%error, "Failed to take over a connection"),
            }
        };
        tokio::select! {
            () = served => {}
            () = connection.closed() => {}
            () = request.cluster.shutdown() => {}
        }
        drop(request);
        drop(guard);
    });
    response
}

/// The body of a request to a backend: the body of the client's request, or no body.
pub(super) type BackendBody = Either<Incoming, Empty<Bytes>>;

/// The body of the client's request, as it arrives.
pub(super) fn body_for_backend(request: &RequestContext) -> BackendBody {
    request.body.lock().take().map_or_else(no_body, Either::Left)
}

/// No body.
pub(super) fn no_body() -> BackendBody {
    Either::Right(Empty::new())
}

/// Copies bytes in both directions until either side ends.
pub(super) async fn copy_both<C, B>(client: C, backend: B)
where
    C: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    let (mut from_client, mut to_client) = split(client);
    let (mut from_backend, mut to_backend) = split(backend);
    // An error ends its direction, because either side may break off at any time.
    let upwards = async {
        if copy(&mut from_client, &mut to_backend).await.is_err() {
            // The backend has closed the connection. If this server closed the connection while its client still sends,
            // TCP would reset it. Then the client would lose bytes that it has not read yet. So the server reads the
            // rest and drops it.
            let _ = copy(&mut from_client, &mut sink()).await;
        }
        let _ = to_backend.shutdown().await;
    };
    let downwards = async {
        let _ = copy(&mut from_backend, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    let (mut upwards, mut downwards) = (pin!(upwards), pin!(downwards));
    tokio::select! {
        () = &mut upwards => drop(timeout(REMAINING_TIME, downwards).await),
        () = &mut downwards => drop(timeout(REMAINING_TIME, upwards).await),
    }
}

/// A body that sends the bytes of a backend as they arrive. If the backend's body breaks off, this body breaks off,
/// too.
pub(super) fn streamed(request: &RequestContext, mut backend: ResponseBody) -> Body {
    // A short body of known length has often arrived with its head. Then both are sent at once.
    let mut arrived = Vec::new();
    let is_short = backend.size_hint().exact().is_some_and(|length| length <= MAX_WITH_HEAD);
    if is_short && take_arrived(&mut backend, &mut arrived) {
        let data = arrived.into_iter().flatten().filter_map(|frame| frame.into_data().ok());
        return Body::Full(joined(data.collect()));
    }
    let mut arrived = arrived.into_iter();
    let shutdown = request.cluster.shutdown();
    let flow = request.flow.clone();
    Body::from_writer(move |sender| async move {
        // A watch counts until its body ends.
        let _flow = flow;
        let copied = async {
            loop {
                let frame = match arrived.next() {
                    None => backend.frame().await,
                    frame => frame,
                };
                let Some(frame) = frame else { return };
                match frame {
                    Ok(frame) => {
                        if let Ok(bytes) = frame.into_data() {
                            sender.send(bytes.into()).await;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "Backend broke off its response");
                        sender.break_off();
                        return;
                    }
                }
            }
        };
        tokio::select! {
            () = copied => {}
            () = shutdown => sender.break_off(),
        }
    })
}

/// Takes the frames that have arrived. Returns true if the body has ended with them, without an error.
fn take_arrived(backend: &mut ResponseBody, arrived: &mut Vec<ReceivedFrame>) -> bool {
    while arrived.last().is_none_or(Result::is_ok) {
        match backend.frame().now_or_never() {
            Some(Some(frame)) => arrived.push(frame),
            ended => return ended.is_some(),
        }
    }
    false
}

/// The bytes of several frames. Most bodies have one.
fn joined(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() < 2 { frames.pop().unwrap_or_default() } else { frames.concat().into() }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_before_an_end_arrives() {
        for client_ends in [true, false] {
            let (mut client, client_side) = duplex(16);
            let (mut backend, backend_side) = duplex(16);
            let copying = tokio::spawn(copy_both(client_side, backend_side));
            client.write_all(b"question").await.expect("written");
            backend.write_all(b"answer").await.expect("written");
            let (first, last) = if client_ends { (&mut client, &mut backend) } else { (&mut backend, &mut client) };
            first.shutdown().await.expect("ended");
            let mut received = Vec::new();
            last.read_to_end(&mut received).await.expect("read");
            assert_eq!(received, if client_ends { &b"question"[..] } else { b"answer" });
            // The rest of the other direction arrives, too.
            last.write_all(b" and more").await.expect("written");
            last.shutdown().await.expect("ended");
            received.clear();
            first.read_to_end(&mut received).await.expect("read");
            assert_eq!(received, if client_ends { &b"answer and more"[..] } else { b"question and more" });
            copying.await.expect("no panic");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_sends_to_a_backend_that_has_gone_is_dropped() {
        let (mut client, client_side) = duplex(16);
        let (mut backend, backend_side) = duplex(16);
        let copying = tokio::spawn(copy_both(client_side, backend_side));
        backend.write_all(b"answer").await.expect("written");
        drop(backend);
        let (mut from_server, mut to_server) = split(client);
        let mut answer = Vec::new();
        from_server.read_to_end(&mut answer).await.expect("read");
        assert_eq!(answer, b"answer");
        // The size is much more than the buffers hold.
        to_server.write_all(&[0; 100_000]).await.expect("the connection is still open");
        client = from_server.unsplit(to_server);
        client.shutdown().await.expect("ended");
        copying.await.expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_does_not_end_is_given_up() {
        let (mut client, client_side) = duplex(16);
        let (_backend, backend_side) = duplex(16);
        client.shutdown().await.expect("ended");
        copy_both(client_side, backend_side).await;
    }
}
