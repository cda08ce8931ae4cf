//! Requests that are broken below the API: lengths that lie, chunks that are none, headers without end. Each is bytes
//! on a connection of its own, and the status of what comes back; the server has to be there for the next one.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pintle_testkit::Cluster;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// What is expected of a connection.
#[derive(Clone, Copy, Debug)]
enum Expect {
    /// An answer with this status.
    Status(u16),
    /// Nothing, since the connection is closed, or an error that the client may not get to see.
    Closed,
}

use Expect::{Closed, Status};

const POST: &str =
    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
const GET: &str = "GET /api/v1/namespaces/default/configmaps/nobody HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";

fn requests() -> Vec<(&'static str, Vec<u8>, Expect)> {
    let post = |rest: &str| format!("{POST}{rest}").into_bytes();
    let get = |rest: &str| format!("{GET}{rest}").into_bytes();
    let huge = "x".repeat(3_200_000);
    vec![
        ("no request", b"\x00\x01\x02\x03\r\n\r\n".to_vec(), Status(400)),
        ("no version", b"GET /api\r\n\r\n".to_vec(), Status(400)),
        ("a version that there is not", b"GET /api HTTP/9.9\r\nHost: x\r\n\r\n".to_vec(), Status(400)),
        ("a space in the path", b"GET /api v1 HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), Status(400)),
        ("a header without a colon", get("nonsense\r\n\r\n"), Status(400)),
        ("a header with a space in its name", get("a b: c\r\n\r\n"), Status(400)),
        ("a header with a zero byte", get("a: b\0c\r\n\r\n"), Status(400)),
        ("a length that is no number", post("Content-Length: ten\r\n\r\n{}"), Status(400)),
        ("a negative length", post("Content-Length: -1\r\n\r\n{}"), Status(400)),
        ("a length beyond all numbers", post("Content-Length: 99999999999999999999999\r\n\r\n{}"), Status(400)),
        ("two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "), Status(400)),
        ("a length that is too large", post("Content-Length: 1099511627776\r\n\r\n{}"), Status(413)),
        ("a body shorter than its length", post("Content-Length: 100\r\nConnection: close\r\n\r\n{}"), Closed),
        ("chunks that are none", post("Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"), Status(400)),
        ("a chunk without end", post("Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"), Closed),
        (
            "chunks above the limit",
            post(&format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{huge}\r\n0\r\n\r\n", huge.len())),
            Status(413),
        ),
        ("a header of 2 MiB", get(&format!("a: {}\r\n\r\n", "x".repeat(2 << 20))), Status(431)),
        ("a million headers", get(&format!("{}\r\n", "a: b\r\n".repeat(1_000_000))), Closed),
        ("another protocol", b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec(), Status(400)),
        (
            "HTTP/2 with nonsense for frames",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
            Closed,
        ),
    ]
}

/// A value of a kubeconfig, out of its base64.
fn value(kubeconfig: &str, key: &str) -> Vec<u8> {
    let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key)).expect("the key");
    let mut bits = 0u32;
    let mut held = 0;
    let mut out = Vec::new();
    for byte in line.trim_start_matches(':').bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

fn config(kubeconfig: &str) -> Arc<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(&value(kubeconfig, "certificate-authority-data"));
    roots.add(authority.expect("a certificate")).expect("an authority");
    let leaf = CertificateDer::from_pem_slice(&value(kubeconfig, "client-certificate-data")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&value(kubeconfig, "client-key-data")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![leaf], key)
        .expect("a certificate that fits its key");
    Arc::new(config)
}

/// Sends bytes, says that there are no more if that is the point, and reads what comes.
fn exchange(address: &str, config: &Arc<rustls::ClientConfig>, request: &[u8], ends: bool) -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = rustls::ClientConnection::new(config.clone(), name).expect("a connection");
    let mut socket = TcpStream::connect(address).expect("the server listens");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let mut answer = Vec::new();
    let mut stream = rustls::Stream::new(&mut tls, &mut socket);
    // The server may have had enough before it has read everything.
    let written = stream.write_all(request).and_then(|()| stream.flush());
    if written.is_ok() && ends {
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
    // What has come is read without a try to send the rest, which a server that has closed would fail.
    let mut piece = [0; 4096];
    loop {
        match tls.reader().read(&mut piece) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let more = tls.read_tls(&mut socket).is_ok_and(|n| n > 0);
                if !more || tls.process_new_packets().is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
    answer
}

#[test]
fn broken_http_is_refused() {
    pintle_testkit::run(async {
        let cluster = Cluster::start().await;
        let address = cluster.url().trim_start_matches("https://").to_owned();
        let config = config(cluster.kubeconfig());
        let wrong = tokio::task::spawn_blocking(move || {
            let mut wrong = Vec::new();
            for (what, request, expect) in requests() {
                let answer = String::from_utf8_lossy(&exchange(&address, &config, &request, matches!(expect, Closed)))
                    .into_owned();
                let status: Option<u16> = answer.strip_prefix("HTTP/1.1 ").and_then(|a| a.get(..3)?.parse().ok());
                let fits = match expect {
                    Status(code) => status == Some(code),
                    Closed => status.is_none_or(|code| (400..500).contains(&code)),
                };
                if !fits {
                    let start: String = answer.chars().take(300).collect();
                    wrong.push(format!("{what}: expected {expect:?}, found {start:?}"));
                }
            }
            wrong
        })
        .await
        .expect("the exchanges end");
        let _ = cluster.get("/api/v1/namespaces/default/configmaps").await.expect(200);
        cluster.stop().await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
