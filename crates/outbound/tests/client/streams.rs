//! Streamed requests and responses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pintle_locks::Mutex;
use pintle_outbound::{Client, ErrorCause, ResponseBody, StreamOptions};
use tokio::sync::oneshot;

use crate::support::{
    AfterFrames, FRAME, GENEROUS, ServerBody, TestBody, empty, get, insecure_client, serve, text, within,
};

/// A size above the capacity of all buffers of the sockets and of hyper, in both directions together.
const BUFFERS: u64 = 32 << 20;

/// The bytes of the next frame; 0 at the end.
async fn next(response: &mut Response<ResponseBody>) -> u64 {
    match response.body_mut().frame().await {
        Some(frame) => frame.expect("a frame").data_ref().map_or(0, |data| data.len() as u64),
        None => 0,
    }
}

/// Reads the rest of a body. Returns its length.
async fn drain(response: &mut Response<ResponseBody>) -> u64 {
    let mut total = 0;
    loop {
        match next(response).await {
            0 => return total,
            length => total += length,
        }
    }
}

async fn echo(_: usize, request: Request<Incoming>) -> Response<ServerBody> {
    Response::new(request.into_body().map_err(std::io::Error::other).boxed_unsync())
}

/// Posts a body of 128 MiB to a server that echoes it. Checks that the rest of the body is produced only as fast as the
/// echo is read.
async fn echo_large_body(client: &Client, url: &str) {
    let frames = 2048;
    let (body, _dropped) = TestBody::new(frames, AfterFrames::End);
    let produced = body.produced.clone();
    let request = Request::post(url).body(body).expect("a request");
    let mut response = client.stream(request, StreamOptions::default()).await.expect("a response");
    let mut read = 0;
    loop {
        let length = next(&mut response).await;
        if length == 0 {
            break;
        }
        read += length;
        assert!(produced.load(Ordering::Relaxed) - read < BUFFERS, "the body is buffered");
    }
    assert_eq!(read, frames * FRAME.len() as u64);
}

#[tokio::test]
async fn bodies_of_unknown_length_are_sent_with_every_method() {
    within(async {
        let url = format!("http://{}/", serve(None, echo).await);
        let client = insecure_client();
        for method in [Method::GET, Method::DELETE, Method::OPTIONS, Method::POST] {
            let (body, _dropped) = TestBody::new(2, AfterFrames::End);
            let request = Request::builder().method(method.clone()).uri(&url).body(body).expect("a request");
            let mut response = client.stream(request, StreamOptions::default()).await.expect("a response");
            assert_eq!(drain(&mut response).await, 2 * FRAME.len() as u64, "{method}");
        }
    })
    .await;
}

#[tokio::test]
async fn large_bodies_stream_in_both_directions_without_buffering() {
    within(async {
        let address = serve(None, echo).await;
        echo_large_body(&insecure_client(), &format!("http://{address}/")).await;
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_pauses_slows_the_server_down() {
    within(async {
        let (body, dropped) = TestBody::new(u64::MAX, AfterFrames::End);
        let (produced, body) = (body.produced.clone(), Arc::new(Mutex::new(Some(body))));
        let endless = serve(None, move |_, _| {
            let body = body.lock().take().expect("one request");
            async { Response::new(body.boxed_unsync()) }
        })
        .await;
        let client = insecure_client();
        let url = format!("http://{endless}/");
        let mut response = client.stream(get(&url), StreamOptions::default()).await.expect("a response");
        assert!(next(&mut response).await > 0);
        // In this time, a faulty server would produce more than it should.
        let address = serve(None, echo).await;
        echo_large_body(&client, &format!("http://{address}/")).await;
        assert!(produced.load(Ordering::Relaxed) < BUFFERS);
        // Dropping the body closes the connection, so the server stops.
        drop(response);
        assert!(dropped.await.is_err());
    })
    .await;
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    within(async {
        // The handler drops its sender when the request body has ended. The body ends only with the connection.
        let (started, mut waiting) = tokio::sync::mpsc::unbounded_channel();
        let address = serve(None, move |_, request: Request<Incoming>| {
            let (sender, receiver) = oneshot::channel::<()>();
            started.send(receiver).expect("the test waits");
            async move {
                let _sender = sender;
                let _ = request.into_body().collect().await;
                Response::new(empty())
            }
        })
        .await;
        let client = insecure_client();
        let request = Request::post(format!("http://{address}/"));
        let (body, body_dropped) = TestBody::new(1, AfterFrames::Stall);
        let request = request.body(body).expect("a request");
        let handler = tokio::select! {
            _ = client.stream(request, StreamOptions::default()) => panic!("there is no response"),
            handler = waiting.recv() => handler.expect("the server runs"),
        };
        assert!(handler.await.is_err());
        assert!(body_dropped.await.is_err());
    })
    .await;
}

#[tokio::test]
async fn dropping_a_response_stops_a_stalled_upload() {
    within(async {
        let address = serve(None, async |_, request: Request<Incoming>| {
            // Responds at once, and keeps the request body open.
            let (response, _) = TestBody::new(1, AfterFrames::Stall);
            let mut response = Response::new(response.boxed_unsync());
            response.extensions_mut().insert(Arc::new(Mutex::new(request.into_body())));
            response
        })
        .await;
        let (body, body_dropped) = TestBody::new(1, AfterFrames::Stall);
        let request = Request::post(format!("http://{address}/")).body(body).expect("a request");
        let mut response = insecure_client().stream(request, StreamOptions::default()).await.expect("a response");
        assert!(next(&mut response).await > 0);
        drop(response);
        assert!(body_dropped.await.is_err());
    })
    .await;
}

/// Responds with the number of the connection. Some paths have special responses.
async fn number(number: usize, request: Request<Incoming>) -> Response<ServerBody> {
    match request.uri().path() {
        // The response does not fit into the client's buffer.
        "/long" => Response::new(TestBody::new(1000, AfterFrames::End).0.boxed_unsync()),
        // The response does not wait for the request body.
        "/early" => Response::new(text(&number.to_string())),
        "/empty" => {
            let response = Response::builder().status(StatusCode::NO_CONTENT).header("connection-number", number);
            response.body(empty()).expect("a response")
        }
        _ => {
            request.into_body().collect().await.expect("a request body");
            Response::new(text(&number.to_string()))
        }
    }
}

#[tokio::test]
async fn connections_are_reused_after_complete_responses_only() {
    within(async {
        let address = serve(None, number).await;
        let url = |path: &str| format!("http://{address}{path}");
        let client = insecure_client();
        let stream =
            async |path: &str| client.stream(get(&url(path)), StreamOptions::default()).await.expect("a response");
        let connection = async |path: &str| {
            let body = stream(path).await.into_body().collect().await.expect("a body").to_bytes();
            String::from_utf8_lossy(&body).into_owned()
        };
        assert_eq!(connection("/").await, "1");
        assert_eq!(connection("/").await, "1");
        // Bounded calls use the same connections.
        let request = Request::post(url("/")).body(Bytes::from_static(b"body")).expect("a request");
        assert_eq!(client.send(request, GENEROUS).await.expect("a response").into_body().bytes, "1");
        // A response without a body is complete with its head, even if the client does not read it.
        let unread = stream("/empty").await;
        assert_eq!(unread.headers()["connection-number"], "1");
        assert_eq!(connection("/").await, "1");
        drop(unread);
        // The response to `/` is read completely while the other response is under way.
        let mut long = stream("/long").await;
        assert_eq!(connection("/").await, "2");
        assert_eq!(drain(&mut long).await, 1000 * FRAME.len() as u64);
        // Both connections are idle now. The drop of an incomplete response closes its connection.
        drop(stream("/long").await);
        drop(stream("/long").await);
        assert_eq!(connection("/").await, "3");
        // A response that does not wait for the request body closes its connection, too.
        let (body, body_dropped) = TestBody::new(1, AfterFrames::Stall);
        let request = Request::post(url("/early")).body(body).expect("a request");
        let mut early = client.stream(request, StreamOptions::default()).await.expect("a response");
        drain(&mut early).await;
        assert!(body_dropped.await.is_err());
        assert_eq!(connection("/").await, "4");
    })
    .await;
}

#[tokio::test]
async fn an_error_of_the_request_body_fails_the_request() {
    within(async {
        let url = format!("http://{}/", serve(None, number).await);
        let (body, _dropped) = TestBody::new(1, AfterFrames::Fail);
        let request = Request::post(&url).body(body).expect("a request");
        let error = insecure_client().stream(request, StreamOptions::default()).await.expect_err("no response");
        assert!(matches!(error.cause, ErrorCause::RequestBody(_)));
        assert_eq!(error.to_string(), format!("Post \"{url}\": the body failed"));
    })
    .await;
}
