//! Bounded calls to servers with valid, invalid, slow or missing responses.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use pintle_outbound::{CallLimits, Client, ClientConfig, DialAddress, ServerTrust};
use rcgen::{BasicConstraints, CertificateParams, IsCa};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::{GENEROUS, client, read_head, self_signed, serving_certificate};

/// How a server handles a connection.
#[derive(Clone)]
enum ServerBehavior {
    /// Responds to the request with this text.
    Respond(&'static str),
    /// Sends this text before it receives a request.
    SendFirst(&'static str),
    /// Never responds.
    Silent,
    /// Responds to the request inside TLS.
    RespondWithTls(TlsAcceptor, &'static str),
}

/// Starts a server for one connection. Returns its address.
async fn server(behavior: ServerBehavior) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let Ok((mut stream, _)) = listener.accept().await else { return };
        match behavior {
            ServerBehavior::Respond(text) => respond(stream, text).await,
            ServerBehavior::SendFirst(text) => {
                let _ = stream.write_all(text.as_bytes()).await;
                while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {}
            }
            ServerBehavior::Silent => while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {},
            ServerBehavior::RespondWithTls(acceptor, text) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    respond(stream, text).await;
                }
            }
        }
    });
    address
}

/// Reads the head of a request, responds, and closes the connection.
async fn respond(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &str) {
    if read_head(&mut stream).await.is_err() {
        return;
    }
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Sends a request, and compares the status and body of the response, or the error. In the error, `URL` stands for the
/// server's URL.
async fn check(trust: ServerTrust<'_>, limits: CallLimits, scheme: &str, address: &str, expect: Result<&str, &str>) {
    let url = format!("{scheme}://{address}");
    let request = Request::get(format!("{url}/healthz")).body(Bytes::new()).expect("a request");
    let found = match client(trust).send(request, limits).await {
        Ok(response) => {
            let (status, body) = (response.status().as_u16(), response.body());
            let more = if body.truncated { " and more" } else { "" };
            Ok(format!("{status} {}{more}", String::from_utf8_lossy(&body.bytes)))
        }
        Err(error) => Err(error.to_string().replace(&url, "URL").replace(address, "ADDRESS")),
    };
    assert_eq!(found.as_deref().map_err(String::as_str), expect);
}

#[tokio::test]
async fn responses_are_read_up_to_a_limit() {
    for (text, expect) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Ok("200 ok")),
        ("HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n", Ok("500 bad")),
        ("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", Ok("302 ")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", Ok("200 0123456789")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n01234567890", Ok("200 0123456789 and more")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", Err("unexpected EOF")),
        ("", Err("Get \"URL/healthz\": EOF")),
        (
            "nonsense\r\n\r\n",
            Err("Get \"URL/healthz\": net/http: HTTP/1.x transport connection broken: invalid HTTP version parsed"),
        ),
    ] {
        let address = server(ServerBehavior::Respond(text)).await;
        check(ServerTrust::InsecureSkipVerify, GENEROUS, "http", &address, expect).await;
    }
}

#[tokio::test]
async fn connection_errors_have_the_text_of_go() {
    let closed_port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    let refused = "Get \"URL/healthz\": dial tcp ADDRESS: connect: connection refused";
    check(ServerTrust::InsecureSkipVerify, GENEROUS, "https", &closed_port, Err(refused)).await;
    let slow = "Get \"URL/healthz\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let short = CallLimits { timeout: Duration::from_millis(20), max_body_bytes: 10 };
    check(ServerTrust::InsecureSkipVerify, short, "http", &server(ServerBehavior::Silent).await, Err(slow)).await;
    let scheme = "Get \"URL/healthz\": unsupported protocol scheme \"ftp\"";
    check(ServerTrust::InsecureSkipVerify, GENEROUS, "ftp", &closed_port, Err(scheme)).await;
}

#[tokio::test]
async fn servers_are_verified_as_configured() {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let ((pem, acceptor), (other, _)) = (serving_certificate(), serving_certificate());
    let unknown =
        "Get \"URL/healthz\": tls: failed to verify certificate: x509: certificate signed by unknown authority";
    for (trust, expect) in [
        (ServerTrust::InsecureSkipVerify, Ok("200 ok")),
        (ServerTrust::Authorities(pem.as_bytes()), Ok("200 ok")),
        (ServerTrust::Authorities(other.as_bytes()), Err(unknown)),
    ] {
        let address = server(ServerBehavior::RespondWithTls(acceptor.clone(), text)).await;
        check(trust, GENEROUS, "https", &address, expect).await;
    }
    let plain = "Get \"URL/healthz\": tls: first record does not look like a TLS handshake";
    let address = server(ServerBehavior::SendFirst("HTTP/1.1 400 Bad Request\r\n\r\n")).await;
    check(ServerTrust::InsecureSkipVerify, GENEROUS, "https", &address, Err(plain)).await;
    let malformed = ServerTrust::Authorities(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----");
    assert!(Client::new(&ClientConfig { server_trust: malformed, ..ClientConfig::default() }).is_err());
}

/// A server that responds with the number of the connection, and closes each connection after a number of responses.
async fn numbering(responses: usize, acceptor: TlsAcceptor) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        for connection in 1.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            for _ in 0..responses {
                if read_head(&mut stream).await.is_err() {
                    break;
                }
                let _ = stream
                    .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{connection}").as_bytes())
                    .await;
            }
        }
    });
    address
}

#[tokio::test]
async fn connections_are_reused_per_host_and_dial_address() {
    let (certificate, acceptor) = serving_certificate();
    let address = numbering(3, acceptor).await;
    let http = client(ServerTrust::Authorities(certificate.as_bytes()));
    let (host, port) = address.split_once(':').expect("a port");
    let dial_address = DialAddress { host: host.to_owned(), port: port.parse().expect("a number") };
    let mut connections = Vec::new();
    for _ in 0..7 {
        // The client does not connect to the port in the URI.
        let request = Request::get("https://127.0.0.1:1/").body(Bytes::new()).expect("a request");
        let response = http.send_to(Some(&dial_address), request, GENEROUS).await.expect("a response");
        connections.push(String::from_utf8_lossy(&response.body().bytes).into_owned());
    }
    assert_eq!(connections.concat(), "1112223");
    // The certificate is not valid for another name. The server handles one connection at a time, so the test closes
    // the first connection.
    drop(http);
    let http = client(ServerTrust::Authorities(certificate.as_bytes()));
    let request = Request::get("https://hooks.default.svc/").body(Bytes::new()).expect("a request");
    let refused = http.send_to(Some(&dial_address), request, GENEROUS).await.expect_err("no proof").to_string();
    let why = "certificate is not valid for any names, but wanted to match hooks.default.svc";
    assert_eq!(refused, format!("Get \"https://hooks.default.svc/\": tls: failed to verify certificate: x509: {why}"));
}

#[tokio::test]
async fn a_self_signed_certificate_is_its_own_authority() {
    let own = |name: &str| {
        let mut params = CertificateParams::new([name.to_owned()]).expect("names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    };
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let refused = |why: &str| format!("Get \"URL/healthz\": tls: failed to verify certificate: x509: {why}");
    let (certificate, acceptor) = self_signed(own("127.0.0.1"));
    let trust = ServerTrust::Authorities(certificate.as_bytes());
    check(
        trust,
        GENEROUS,
        "https",
        &server(ServerBehavior::RespondWithTls(acceptor.clone(), text)).await,
        Ok("200 ok"),
    )
    .await;
    let (other, _) = self_signed(own("127.0.0.1"));
    let trust = ServerTrust::Authorities(other.as_bytes());
    let unknown = refused("certificate signed by unknown authority");
    check(trust, GENEROUS, "https", &server(ServerBehavior::RespondWithTls(acceptor, text)).await, Err(&unknown)).await;
    let (certificate, acceptor) = self_signed(own("10.0.0.1"));
    let trust = ServerTrust::Authorities(certificate.as_bytes());
    let elsewhere = refused("certificate is valid for 10.0.0.1, not 127.0.0.1");
    check(trust, GENEROUS, "https", &server(ServerBehavior::RespondWithTls(acceptor, text)).await, Err(&elsewhere))
        .await;
    let mut unnamed = CertificateParams::new(Vec::<String>::new()).expect("no names");
    unnamed.distinguished_name.push(rcgen::DnType::CommonName, "Hooks.default.svc");
    let (certificate, acceptor) = self_signed(unnamed);
    for (name, is_legacy) in [("hooks.default.svc", true), ("other.default.svc", false)] {
        let address = server(ServerBehavior::RespondWithTls(acceptor.clone(), text)).await;
        let (host, port) = address.split_once(':').expect("a port");
        let dial_address = DialAddress { host: host.to_owned(), port: port.parse().expect("a number") };
        let http = client(ServerTrust::Authorities(certificate.as_bytes()));
        let request = Request::get(format!("https://{name}/")).body(Bytes::new()).expect("a request");
        let error = http.send_to(Some(&dial_address), request, GENEROUS).await.expect_err("no names");
        let why = match is_legacy {
            true => "certificate relies on legacy Common Name field, use SANs instead",
            false => "certificate is not valid for any names, but wanted to match other.default.svc",
        };
        let message = format!("Get \"https://{name}/\": tls: failed to verify certificate: x509: {why}");
        assert_eq!((error.to_string(), error.cause.relies_on_common_name()), (message, is_legacy));
    }
    let mut past = own("127.0.0.1");
    past.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let (certificate, acceptor) = self_signed(past);
    let trust = ServerTrust::Authorities(certificate.as_bytes());
    let expired = refused("certificate has expired or is not yet valid");
    check(trust, GENEROUS, "https", &server(ServerBehavior::RespondWithTls(acceptor, text)).await, Err(&expired)).await;
}
