//! Client certificates on persistent connections: the server authenticates each request again, as upstream does.

use std::time::{Duration, SystemTime};

use pintle::TlsOptions;
use pintle_integration::{Cluster, Options, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::serving_certificates::{Authority, connect};

/// A cluster that trusts client certificates of an authority in a file, and the file's folder.
async fn cluster_with(authority: &Authority) -> (Cluster, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("clients.crt");
    std::fs::write(&path, authority.pem()).expect("the file is written");
    let tls = TlsOptions { client_ca: Some(path), ..TlsOptions::default() };
    (Cluster::with_options(Options { tls, ..Options::default() }).await, folder)
}

/// The status of a request over a persistent connection.
async fn status(connection: &mut TlsStream<TcpStream>) -> String {
    connection.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("the request is sent");
    let mut response = Vec::new();
    // The bodies of this path and of errors are JSON objects with one or two levels.
    while !response.ends_with(b"}") && !response.ends_with(b"}\n") {
        assert_ne!(connection.read_buf(&mut response).await.expect("a response"), 0, "the connection ends");
    }
    String::from_utf8_lossy(&response).split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn a_certificate_is_refused_from_the_moment_of_its_end() {
    run(async {
        let authority = Authority::new("clients");
        let (cluster, _folder) = cluster_with(&authority).await;
        // The times in certificates are whole seconds.
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs() + 3;
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let jane = authority.sign_until("jane", end);
        let mut connection = connect(&cluster, &cluster.authority(), "localhost", Some(&jane)).await.expect("connects");
        loop {
            let sent = SystemTime::now();
            let status = status(&mut connection).await;
            match status.as_str() {
                "200" => assert!(sent <= end, "accepted {:?} late", sent.duration_since(end)),
                "401" => break assert!(SystemTime::now() > end, "refused too early"),
                other => panic!("{other}"),
            }
        }
        cluster.stop().await;
    });
}

#[test]
fn other_authorities_count_for_connections_that_exist() {
    run(async {
        let (first, second) = (Authority::new("first"), Authority::new("second"));
        let (cluster, folder) = cluster_with(&first).await;
        let server = cluster.authority();
        let [jane, joe] = [&first, &second].map(|authority| authority.sign("user", &[]));
        let mut of_first = connect(&cluster, &server, "localhost", Some(&jane)).await.expect("connects");
        let mut of_second = connect(&cluster, &server, "localhost", Some(&joe)).await.expect("connects");
        assert_eq!((&*status(&mut of_first).await, &*status(&mut of_second).await), ("200", "401"));
        std::fs::write(folder.path().join("clients.crt"), second.pem()).expect("the file is written");
        while status(&mut of_second).await != "200" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(status(&mut of_first).await, "401");
        cluster.stop().await;
    });
}
