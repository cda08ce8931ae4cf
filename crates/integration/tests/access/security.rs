//! Attacks over the API that were published as vulnerabilities of kube-apiserver or its dependencies. The table in
//! `docs/security.md` names the test for each vulnerability.

use std::sync::Arc;
use std::time::Duration;

use pintle_integration::{Cluster, Response, Socket};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Asserts that the server refused a request and still serves others.
async fn expect_refused(cluster: &Cluster, what: &str, response: Response, codes: &[u16]) {
    let code = response.status.as_u16();
    assert!(codes.contains(&code), "{what}: {code} {}", &response.text()[..response.text().len().min(300)]);
    let _ = cluster.get(CONFIGMAPS).await.expect(200);
}

/// A YAML document whose last anchor expands to `9^levels` values.
fn yaml_bomb(levels: usize) -> String {
    let mut bomb = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..levels {
        let aliases = vec![format!("*a{}", level - 1); 9].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb
}

/// CVE-2019-11253, CVE-2019-11254.
#[test]
fn yaml_bombs_are_refused() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let bodies = [
            ("an expanding document", yaml_bomb(9)),
            ("nested sequences", "[".repeat(200_000)),
            ("nested mappings", "{a: ".repeat(200_000)),
            ("an indentation per line", (0..2000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
            ("a long run of tags", "!".repeat(1_000_000)),
        ];
        for (what, body) in bodies {
            let response = cluster.request("POST", CONFIGMAPS).body("application/yaml", body.clone()).send().await;
            expect_refused(&cluster, what, response, &[400, 413, 422]).await;
            let request = cluster.request("PATCH", &format!("{CONFIGMAPS}/bomb?fieldManager=m"));
            let response = request.body("application/apply-patch+yaml", body).send().await;
            expect_refused(&cluster, what, response, &[400, 404, 413, 422]).await;
        }
        let _ = cluster.get(&format!("{CONFIGMAPS}/bomb")).await.expect(404);
    });
}

/// Nested JSON, as for CVE-2019-11253, in every body and in query parameters.
#[test]
fn nested_json_is_refused() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let nested = format!("{{\"metadata\":{{\"name\":\"n\"}},\"data\":{}", "[".repeat(1_000_000));
        for media_type in ["application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"]
        {
            let (method, path) = match media_type {
                "application/json" => ("POST", CONFIGMAPS.to_owned()),
                _ => ("PATCH", format!("{CONFIGMAPS}/kube-root-ca.crt")),
            };
            let response = cluster.request(method, &path).body(media_type, nested.clone()).send().await;
            expect_refused(&cluster, media_type, response, &[400, 404, 413, 422]).await;
        }
    });
}

/// CVE-2019-1002100.
#[test]
fn json_patches_have_a_bounded_result() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let object = json!({"metadata": {"name": "c"}, "data": {"a": "x".repeat(1000)}});
        let _ = cluster.post(CONFIGMAPS, object.to_string()).await.expect(201);
        let patch = |operations: Vec<Value>| Value::from(operations).to_string();
        let many = patch(vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001]);
        // Each copy doubles the data.
        let copies = (0..64).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/d{n}")})).collect();
        for (what, body, codes) in
            [("many operations", many, &[413][..]), ("copies", patch(copies), &[400, 413, 422][..])]
        {
            let request = cluster.request("PATCH", &format!("{CONFIGMAPS}/c"));
            let response = request.body("application/json-patch+json", body).send().await;
            expect_refused(&cluster, what, response, codes).await;
        }
        let unchanged = cluster.get(&format!("{CONFIGMAPS}/c")).await.expect(200).json();
        assert_eq!(unchanged["data"], object["data"]);
    });
}

/// Creates a CRD, and waits until it is established.
async fn define(cluster: &Cluster, plural: &str, kind: &str, scope: &str) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
    let mut watch = cluster.watch(&format!("{CRDS}?watch=1&fieldSelector=metadata.name%3D{plural}.example.com")).await;
    loop {
        let event = watch.next().await.expect("an event");
        let conditions = event["object"]["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True") {
            return;
        }
    }
}

/// CVE-2019-11247: a role for a namespace must not reach cluster-scoped objects through the path of the namespace.
#[test]
fn custom_resources_are_served_in_their_scope_only() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, "globals", "Global", "Cluster").await;
        define(&cluster, "locals", "Local", "Namespaced").await;
        let object =
            |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "o"}}).to_string();
        let _ = cluster.post("/apis/example.com/v1/globals", object("Global")).await.expect(201);
        let _ = cluster.post("/apis/example.com/v1/namespaces/default/locals", object("Local")).await.expect(201);
        for (method, path) in [
            ("GET", "/apis/example.com/v1/namespaces/default/globals"),
            ("GET", "/apis/example.com/v1/namespaces/default/globals/o"),
            ("GET", "/apis/example.com/v1/namespaces/default/globals?watch=1"),
            ("DELETE", "/apis/example.com/v1/namespaces/default/globals/o"),
            ("DELETE", "/apis/example.com/v1/namespaces/default/globals"),
            ("PATCH", "/apis/example.com/v1/namespaces/default/globals/o"),
            ("PUT", "/apis/example.com/v1/namespaces/default/globals/o"),
            ("POST", "/apis/example.com/v1/namespaces/default/globals"),
            ("GET", "/apis/example.com/v1/locals/o"),
            ("PUT", "/apis/example.com/v1/locals/o"),
            ("DELETE", "/apis/example.com/v1/locals/o"),
        ] {
            let body = if path.contains("globals") { object("Global") } else { object("Local") };
            let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let response = cluster.request(method, path).body(media_type, body).send().await;
            expect_refused(&cluster, path, response, &[404, 405]).await;
        }
        let _ = cluster.get("/apis/example.com/v1/globals/o").await.expect(200);
    });
}

/// CVE-2022-3162, CVE-2015-5305: names, namespaces and groups never lead to keys of other kinds.
#[test]
fn paths_do_not_lead_to_objects_of_other_kinds() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        define(&cluster, "widgets", "Widget", "Namespaced").await;
        define(&cluster, "gadgets", "Gadget", "Namespaced").await;
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hidden"}}).to_string();
        let _ = cluster.post("/api/v1/namespaces/default/secrets", secret).await.expect(201);
        let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g", "labels":
            {"text": "hidden"}}});
        let _ = cluster.post("/apis/example.com/v1/namespaces/default/gadgets", gadget.to_string()).await.expect(201);
        for path in [
            "/apis/example.com/v1/namespaces/..%2Fgadgets/widgets",
            "/apis/example.com/v1/namespaces/..%2Fgadgets%2Fdefault/widgets",
            "/apis/example.com/v1/namespaces/../gadgets/widgets",
            "/apis/example.com/v1/namespaces/../widgets",
            "/apis/example.com/v1/namespaces/%2e%2e/widgets",
            "/apis/example.com/v1/namespaces/default/widgets/..%2F..%2Fgadgets%2Fdefault%2Fg",
            "/apis/example.com/v1/namespaces/default/widgets/..",
            "/apis/example.com/v1/namespaces/default%2F..%2F..%2Fgadgets%2Fdefault/widgets/g",
            "/apis/example.com/v1/namespaces/default/widgets?fieldSelector=metadata.name%3D..%2F..%2Fgadgets%2Fdefault%2Fg",
            "/apis/example.com/v1/widgets?fieldSelector=metadata.namespace%3D..%2Fgadgets%2Fdefault",
            "/api/v1/namespaces/default/configmaps/..%2F..%2Fsecrets%2Fdefault%2Fs",
            "/api/v1/namespaces/..%2Fsecrets%2Fdefault/configmaps/s",
            "/api/v1/namespaces/default/configmaps/%2e%2e/%2e%2e/secrets/default/s",
        ] {
            let response = cluster.get(path).await;
            assert!(response.status.is_success() || response.status.is_client_error(), "{path}: {}", response.status);
            assert!(!response.text().contains("hidden"), "{path}: {}", response.text());
        }
        for name in ["..", ".", "a/b", "../secrets/default/s", "%2e%2e"] {
            let body = json!({"metadata": {"name": name}}).to_string();
            let response = cluster.post(CONFIGMAPS, body).await;
            expect_refused(&cluster, name, response, &[400, 422]).await;
        }
    });
}

/// CVE-2019-11248: profiles are not served, least of all without authentication.
#[test]
fn profiles_are_not_served() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        for path in ["/debug/pprof", "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/heap", "/debug/flags/v"] {
            let _ = cluster.get(path).await.expect(404);
            let response = cluster.request("GET", path).anonymous().send().await;
            assert!(matches!(response.status.as_u16(), 401 | 403 | 404), "{path}: {}", response.status);
        }
    });
}

/// The status of `GET /api` with a key pair from the data directory as client certificate, or `None` if the server
/// refuses the connection.
async fn status_with_certificate(cluster: &Cluster, name: &str) -> Option<String> {
    let directory = cluster.data_dir().expect("a durable cluster").join("pki");
    let read = |file: String| std::fs::read(directory.join(file)).expect("a file");
    let certificate = |pem: &[u8]| CertificateDer::from_pem_slice(pem).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(&read("ca.crt".to_owned()))).expect("an authority");
    let key = PrivateKeyDer::from_pem_slice(&read(format!("{name}.key"))).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(&read(format!("{name}.crt")))], key)
        .expect("a certificate that matches its key");
    let stream = TcpStream::connect(cluster.url().trim_start_matches("https://")).await.expect("the server listens");
    let server = ServerName::try_from("localhost").expect("a server name");
    let mut socket = TlsConnector::from(Arc::new(config)).connect(server, stream).await.ok()?;
    socket.write_all(b"GET /api HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.ok()?;
    let mut response = Vec::new();
    socket.read_to_end(&mut response).await.ok()?;
    Some(String::from_utf8_lossy(&response).split(' ').nth(1)?.to_owned())
}

/// CVE-2016-7075: a certificate authenticates a client only if it is a client certificate.
#[test]
fn serving_certificates_do_not_authenticate_clients() {
    pintle_integration::run(async {
        let cluster = Cluster::durable().await;
        assert_eq!(status_with_certificate(&cluster, "admin").await.as_deref(), Some("200"));
        let refused = status_with_certificate(&cluster, "apiserver").await;
        assert!(matches!(refused.as_deref(), None | Some("401")), "{refused:?}");
        cluster.stop().await;
    });
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM_AND_HEADERS: u8 = 5;
const ACK: u8 = 1;

/// The header block of `GET /`.
fn get_root() -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x84, 0x41, 9];
    block.extend(b"localhost");
    block
}

/// Opens an HTTP/2 connection and sends a request on stream 1. The server answers it.
async fn connect_http2(cluster: &Cluster) -> Socket {
    let mut socket = request_http2(cluster.connect().await).await;
    while read_frame(&mut socket).await.expect("a frame").0 != HEADERS {}
    socket
}

/// Opens an HTTP/2 connection on a TLS connection, and sends a request on stream 1.
async fn request_http2(mut socket: Socket) -> Socket {
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("the connection is open");
    socket.write_all(&frame(SETTINGS, 0, 0, &[])).await.expect("the connection is open");
    let request = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &get_root());
    socket.write_all(&request).await.expect("the connection is open");
    socket
}

/// The type and the payload of the next frame.
async fn read_frame(socket: &mut Socket) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).await?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    socket.read_exact(&mut payload).await?;
    Ok((head[3], payload))
}

/// Sends frames until the server closes the connection, while other clients are served. Reads the server's frames at
/// the same time.
async fn flood(cluster: &Cluster, what: &str, frames: impl Iterator<Item = Vec<u8>>) {
    let (mut reader, mut writer) = tokio::io::split(connect_http2(cluster).await);
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while reader.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    let mut is_closed = false;
    for (n, frame) in frames.enumerate() {
        if writer.write_all(&frame).await.is_err() || reading.is_finished() {
            is_closed = true;
            break;
        }
        if n.is_multiple_of(1000) {
            let _ = cluster.get(CONFIGMAPS).await.expect(200);
        }
    }
    assert!(is_closed, "{what}: the server does not close the connection");
    let _ = cluster.get(CONFIGMAPS).await.expect(200);
}

/// CVE-2023-44487, CVE-2023-39325.
#[test]
fn rapid_resets_end_the_connection() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let frames = (0..200_000).map(|n| {
            let stream = 2 * n + 3;
            let mut frames = frame(HEADERS, END_STREAM_AND_HEADERS, stream, &get_root());
            frames.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
            frames
        });
        flood(&cluster, "rapid resets", frames).await;
    });
}

/// CVE-2023-44487: clients without valid credentials get only one answer on an HTTP/2 connection.
#[test]
fn clients_without_credentials_do_not_keep_connections() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut socket = request_http2(cluster.connect_anonymously().await).await;
        let closed = async {
            let mut goes_away = false;
            while let Ok((kind, payload)) = read_frame(&mut socket).await {
                goes_away |= kind == GOAWAY;
                if kind == PING {
                    let _ = socket.write_all(&frame(PING, ACK, 0, &payload)).await;
                }
            }
            goes_away
        };
        let told = tokio::time::timeout(Duration::from_secs(20), closed).await.expect("the connection is closed");
        assert!(told, "the client is told before");
        let mut socket = connect_http2(&cluster).await;
        socket.write_all(&frame(HEADERS, END_STREAM_AND_HEADERS, 3, &get_root())).await.expect("an open connection");
        while read_frame(&mut socket).await.expect("a frame").0 != HEADERS {}
        cluster.stop().await;
    });
}

/// CVE-2023-45288.
#[test]
fn endless_headers_end_the_connection() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut header = vec![0, 1, b'a', 0x7f, 0x81, 0x7d];
        header.extend(vec![b'x'; 16_256]);
        let first = frame(HEADERS, 0, 3, &get_root());
        let rest = (0..10_000).map(move |_| frame(CONTINUATION, 0, 3, &header));
        flood(&cluster, "endless headers", [first].into_iter().chain(rest)).await;
    });
}
