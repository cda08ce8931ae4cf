//! Requests that an HTTP/2 server refuses, resets or loses, and dead connections.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use pintle_outbound::{CallLimits, Client, Http2HealthCheck, Protocols, StreamOptions};

use crate::http2_server::{
    DATA, ENHANCE_YOUR_CALM, FrameServer, INTERNAL_ERROR, NO_ERROR, PING, PROTOCOL_ERROR, REFUSED_STREAM,
};
use crate::support::{AfterFrames, GENEROUS, HTTP2, TestBody, client_with, within};

/// How a server handles the first request of its first connection.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// Resets the stream with a code.
    Reset(u32),
    /// Announces the end of the connection with a code, without processing the request.
    Unprocessed(u32),
    /// Announces the end of the connection, and responds.
    Processed,
    /// Closes the connection.
    Close,
    /// Sends half of a response, and resets the stream with a code.
    ResetBody(u32),
    /// Sends half of a response, and closes the connection.
    CloseBody,
}

/// Sends a request with a body. Returns the body of the response, or the error with `URL` for the URL.
async fn call(client: &Client, url: &str) -> Result<String, String> {
    let request = Request::post(url).body(Bytes::from_static(b"body")).expect("a request");
    let response = client.send(request, CallLimits { max_body_bytes: 100, ..GENEROUS }).await;
    let response = response.map_err(|error| error.to_string().replace(url, "URL"))?;
    Ok(String::from_utf8_lossy(&response.body().bytes).into_owned())
}

/// Makes `before` calls, and another call that the server lets fail. A request that is sent again gets the response
/// `again`. After that, the client makes another call, which has to succeed.
async fn check(before: usize, failure: Failure, expect: Result<&str, &str>) {
    let server = FrameServer::start().await;
    let url = format!("https://{}/", server.address);
    let client = client_with(HTTP2);
    let serving = async {
        let mut connection = server.accept(100).await;
        for _ in 0..before {
            let stream = connection.request().await;
            connection.respond(stream, "before").await;
        }
        let stream = connection.request().await;
        assert_eq!(connection.request_body(stream).await, "body");
        match failure {
            Failure::Reset(code) => connection.reset(stream, code).await,
            Failure::Unprocessed(code) => connection.go_away(stream - 1, code).await,
            Failure::Processed => {
                connection.go_away(stream, NO_ERROR).await;
                connection.respond(stream, "processed").await;
            }
            Failure::Close => {}
            Failure::ResetBody(_) | Failure::CloseBody => {
                connection.send_head(stream).await;
                connection.send(DATA, 0, stream, b"half").await;
            }
        }
        // The reset of a stream leaves the connection open. After other failures, the client opens a new connection.
        if let Failure::ResetBody(code) = failure {
            connection.reset(stream, code).await;
        }
        if !matches!(failure, Failure::Reset(_) | Failure::ResetBody(_)) {
            if matches!(failure, Failure::Close | Failure::CloseBody) {
                drop(connection);
            }
            connection = server.accept(100).await;
        }
        loop {
            let stream = connection.request().await;
            assert_eq!(connection.request_body(stream).await, "body");
            connection.respond(stream, "again").await;
        }
    };
    let calling = async {
        for _ in 0..before {
            assert_eq!(call(&client, &url).await.as_deref(), Ok("before"));
        }
        let found = call(&client, &url).await;
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{before} {failure:?}");
        assert_eq!(call(&client, &url).await.as_deref(), Ok("again"), "{before} {failure:?}");
    };
    within(async {
        tokio::select! {
            () = calling => {}
            () = serving => {}
        }
    })
    .await;
}

#[tokio::test]
async fn requests_that_were_not_processed_are_sent_again() {
    for before in [0, 1] {
        check(before, Failure::Reset(REFUSED_STREAM), Ok("again")).await;
        check(before, Failure::Reset(PROTOCOL_ERROR), Ok("again")).await;
        check(before, Failure::Unprocessed(NO_ERROR), Ok("again")).await;
    }
    check(1, Failure::Unprocessed(ENHANCE_YOUR_CALM), Ok("again")).await;
    let refused = "Post \"URL\": http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM";
    check(0, Failure::Unprocessed(ENHANCE_YOUR_CALM), Err(refused)).await;
}

#[tokio::test]
async fn requests_that_may_have_been_processed_are_not_sent_again() {
    for before in [0, 1] {
        let id = 1 + 2 * before;
        check(before, Failure::Processed, Ok("processed")).await;
        let reset = format!("stream error: stream ID {id}; INTERNAL_ERROR; received from peer");
        check(before, Failure::Reset(INTERNAL_ERROR), Err(&format!("Post \"URL\": {reset}"))).await;
        check(before, Failure::ResetBody(INTERNAL_ERROR), Err(&reset)).await;
        let unknown =
            format!("Post \"URL\": stream error: stream ID {id}; unknown error code 0x77; received from peer");
        check(before, Failure::Reset(0x77), Err(&unknown)).await;
        check(before, Failure::Close, Err("Post \"URL\": unexpected EOF")).await;
        check(before, Failure::CloseBody, Err("unexpected EOF")).await;
    }
}

#[tokio::test]
async fn a_stream_cannot_be_sent_again() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let client = client_with(HTTP2);
        let request = Request::post(&url).body(TestBody::new(1, AfterFrames::Stall).0).expect("a request");
        let calling = client.stream(request, StreamOptions::default());
        let serving = async {
            let mut connection = server.accept(100).await;
            let stream = connection.request().await;
            connection.next(DATA).await.expect("a frame");
            connection.reset(stream, REFUSED_STREAM).await;
            connection
        };
        let (found, _connection) = tokio::join!(calling, serving);
        let reset = "stream error: stream ID 1; REFUSED_STREAM; received from peer";
        let expect = format!(
            "Post \"{url}\": http2: Transport: cannot retry err [{reset}] after Request.Body was written; define \
             Request.GetBody to avoid this error"
        );
        assert_eq!(found.expect_err("a refused request").to_string(), expect);
    })
    .await;
}

#[tokio::test]
async fn a_dead_connection_is_noticed_and_replaced() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let check = Http2HealthCheck {
            read_idle_timeout: Some(Duration::from_millis(100)),
            ping_timeout: Duration::from_secs(2),
        };
        let client = client_with(Protocols::Http2(check));
        let calling = async {
            let error = call(&client, &url).await.expect_err("no answer");
            assert_eq!(error, "Post \"URL\": http2: client connection lost");
            assert_eq!(call(&client, &url).await.as_deref(), Ok("new"));
        };
        let serving = async {
            let mut dead = server.accept(100).await;
            dead.answers_pings = false;
            dead.request().await;
            let mut connection = server.accept(100).await;
            let stream = connection.request().await;
            connection.respond(stream, "new").await;
            (dead, connection)
        };
        tokio::join!(calling, serving);
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_answers_pings_is_kept() {
    within(async {
        let server = FrameServer::start().await;
        let url = format!("https://{}/", server.address);
        let check = Http2HealthCheck {
            read_idle_timeout: Some(Duration::from_millis(20)),
            ping_timeout: Duration::from_secs(60),
        };
        let client = client_with(Protocols::Http2(check));
        let serving = async {
            let mut connection = server.accept(100).await;
            let stream = connection.request().await;
            for _ in 0..5 {
                connection.next(PING).await.expect("a ping");
            }
            connection.respond(stream, "slow").await;
            connection
        };
        let (found, _connection) = tokio::join!(call(&client, &url), serving);
        assert_eq!(found.as_deref(), Ok("slow"));
    })
    .await;
}
