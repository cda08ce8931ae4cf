//! Upgrades to other protocols.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pintle_outbound::{ServerTrust, StreamOptions, UpgradeResponse, UpgradedStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{
    FRAME, ServerBody, client, empty, get, insecure_client, read_head, serve, serving_certificate, text, within,
};

/// Switches to a protocol that echoes all bytes. `/forbidden` refuses, `/silent` never responds.
async fn handle(number: usize, mut request: Request<Incoming>) -> Response<ServerBody> {
    let response = Response::builder().header("connection-number", number);
    let response = match request.uri().path() {
        "/silent" => std::future::pending().await,
        "/forbidden" => response.status(StatusCode::FORBIDDEN).body(text("not here")),
        "/plain" => response.body(text("ok")),
        "/body" => {
            let body = request.body_mut().collect().await.expect("a body").to_bytes();
            assert_eq!(body, "question");
            switch(request, response)
        }
        _ => switch(request, response),
    };
    response.expect("a response")
}

fn switch(
    mut request: Request<Incoming>,
    response: http::response::Builder,
) -> Result<Response<ServerBody>, http::Error> {
    assert_eq!(request.headers()[CONNECTION], "Upgrade");
    let protocol = request.headers()[UPGRADE].clone();
    tokio::spawn(async move {
        let stream = hyper::upgrade::on(&mut request).await.expect("an upgrade");
        let (mut read, mut write) = tokio::io::split(TokioIo::new(stream));
        let _ = tokio::io::copy(&mut read, &mut write).await;
        let _ = write.shutdown().await;
    });
    let response = response.status(StatusCode::SWITCHING_PROTOCOLS);
    response.header(CONNECTION, "Upgrade").header(UPGRADE, protocol).body(empty())
}

#[tokio::test]
async fn the_body_of_the_request_precedes_the_other_protocol() {
    within(async {
        let url = format!("http://{}/body", serve(None, handle).await);
        let request = upgrade(&url).map(|_| Full::new(Bytes::from_static(b"question")));
        let response = insecure_client().upgrade(request, StreamOptions::default()).await.expect("a response");
        let (mut read, mut write) = tokio::io::split(upgraded(response).into_body());
        write.write_all(b"bytes").await.expect("an open connection");
        let mut echoed = [0; 5];
        read.read_exact(&mut echoed).await.expect("the echo");
        assert_eq!(&echoed, b"bytes");
    })
    .await;
}

fn upgrade(url: &str) -> Request<Empty<Bytes>> {
    let request = Request::post(url).header(CONNECTION, "Upgrade").header(UPGRADE, "SPDY/3.1");
    request.body(Empty::new()).expect("a request")
}

fn upgraded(response: UpgradeResponse) -> Response<UpgradedStream> {
    match response {
        UpgradeResponse::Upgraded(response) => response,
        UpgradeResponse::NotUpgraded(response) => panic!("not upgraded: {response:?}"),
    }
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_in_both_directions() {
    within(async {
        let (pem, acceptor) = serving_certificate();
        for (tls, scheme) in [(None, "http"), (Some(acceptor), "https")] {
            let url = format!("{scheme}://{}/", serve(tls, handle).await);
            let client = client(ServerTrust::Authorities(pem.as_bytes()));
            let response = client.upgrade(upgrade(&url), StreamOptions::default()).await.expect("a response");
            let response = upgraded(response);
            assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
            assert_eq!(response.headers()[UPGRADE], "SPDY/3.1");
            let (mut read, mut write) = tokio::io::split(response.into_body());
            let sending = tokio::spawn(async move {
                for _ in 0..100 {
                    write.write_all(&FRAME).await.expect("an open connection");
                }
                write.shutdown().await.expect("an open connection");
            });
            let mut echoed = Vec::new();
            read.read_to_end(&mut echoed).await.expect("the echo");
            assert_eq!(echoed.len(), 100 * FRAME.len());
            sending.await.expect("the sender ends");
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_that_follow_the_response_head_at_once_are_not_lost() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            read_head(&mut stream).await.expect("a request");
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello";
            stream.write_all(head.as_bytes()).await.expect("an open connection");
            // The client closes the connection when it drops the stream.
            stream.read(&mut [0; 1]).await.map_or(0, |length| length)
        });
        let response = insecure_client().upgrade(upgrade(&url), StreamOptions::default()).await.expect("a response");
        let mut stream = upgraded(response).into_body();
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await.expect("five bytes");
        assert_eq!(&hello, b"hello");
        drop(stream);
        assert_eq!(server.await.expect("the server ends"), 0);
    })
    .await;
}

#[tokio::test]
async fn any_other_response_is_streamed() {
    within(async {
        let address = serve(None, handle).await;
        let (client, options) = (insecure_client(), StreamOptions::default());
        let url = format!("http://{address}/forbidden");
        let UpgradeResponse::NotUpgraded(response) = client.upgrade(upgrade(&url), options).await.expect("a response")
        else {
            panic!("upgraded");
        };
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "not here");
        // A plain request can reuse the connection, although an upgrade always opens a new connection.
        let plain = client.stream(get(&format!("http://{address}/plain")), options).await.expect("a response");
        assert_eq!(plain.headers()["connection-number"], "1");
        plain.into_body().collect().await.expect("a body");
        let response = client.upgrade(upgrade(&format!("http://{address}/")), options).await.expect("a response");
        assert_eq!(upgraded(response).headers()["connection-number"], "2");
    })
    .await;
}

#[tokio::test]
async fn the_head_timeout_applies_to_upgrades() {
    within(async {
        let url = format!("http://{}/silent", serve(None, handle).await);
        let options = StreamOptions { head_timeout: Some(Duration::from_millis(50)), ..StreamOptions::default() };
        let error = insecure_client().upgrade(upgrade(&url), options).await.expect_err("no response").to_string();
        let text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        assert_eq!(error, format!("Post \"{url}\": {text}"));
    })
    .await;
}
