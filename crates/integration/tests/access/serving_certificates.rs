//! The server's serving certificates, and the client certificates that it accepts: files, names, and changes of the
//! files while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pintle::{CertificateFiles, ManualClock, NamedCertificate, RequestHeaderNames, Timestamp, TlsOptions};
use pintle_integration::{AccessOptions, Cluster, Options, Protocol, bootstrapped, eventually, run};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a common name and names, and its key, in PEM.
    pub(crate) fn sign(&self, common_name: &str, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        self.sign_params(common_name, CertificateParams::new(names).expect("valid names"))
    }

    /// A certificate for a common name that ends at a time, and its key, in PEM.
    pub(crate) fn sign_until(&self, common_name: &str, end: SystemTime) -> (String, String) {
        let mut params = CertificateParams::default();
        params.not_after = end.into();
        self.sign_params(common_name, params)
    }

    fn sign_params(&self, common_name: &str, mut params: CertificateParams) -> (String, String) {
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.0).expect("a certificate").pem(), key.serialize_pem())
    }
}

/// Writes a certificate and its key.
fn write(folder: &Path, name: &str, (certificate, key): &(String, String)) -> CertificateFiles {
    let file = |kind: &str, text: &str| -> PathBuf {
        let path = folder.join(format!("{name}.{kind}"));
        std::fs::write(&path, text).expect("the file is written");
        path
    };
    CertificateFiles { certificate: file("crt", certificate), key: file("key", key) }
}

/// Connects as a client that trusts an authority, asks for a name, and may present a certificate. It returns `Err` if
/// the TLS handshake fails.
pub(crate) async fn connect(
    cluster: &Cluster,
    authority: &str,
    name: &str,
    client: Option<&(String, String)>,
) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().expect("TLS versions").with_root_certificates(roots);
    let config = match client {
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            config.with_client_auth_cert(chain, key).expect("a client certificate")
        }
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(cluster.url().trim_start_matches("https://")).await.expect("the server listens");
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|e| e.to_string())
}

/// Lists namespaces as a client that trusts an authority, asks for a name, may present a certificate, and sends these
/// headers. Returns `Err` if the TLS handshake fails.
async fn get(
    cluster: &Cluster,
    authority: &str,
    name: &str,
    client: Option<&(String, String)>,
    headers: &[&str],
) -> Result<String, String> {
    let mut stream = connect(cluster, authority, name, client).await?;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// True if a client that trusts an authority and asks for a name reaches the server.
async fn is_served(cluster: &Cluster, authority: &str, name: &str) -> bool {
    get(cluster, authority, name, None, &[]).await.is_ok_and(|response| response.starts_with("HTTP/1.1 401"))
}

/// True if the server presents the serving certificate of its data directory.
async fn presents_stored_certificate(cluster: &Cluster) -> bool {
    let socket = cluster.connect().await;
    let presented = socket.get_ref().1.peer_certificates().and_then(<[_]>::first).expect("a certificate").to_vec();
    let path = cluster.data_dir().expect("a folder").join("pki/apiserver.crt");
    let stored = std::fs::read(path).expect("a file");
    *CertificateDer::from_pem_slice(&stored).expect("a certificate") == *presented
}

/// The status of a list of namespaces by a client with this certificate.
async fn list_status(cluster: &Cluster, client: &(String, String)) -> String {
    let response = get(cluster, &cluster.authority(), "localhost", Some(client), &[]).await;
    response.expect("a response").split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn certificates_are_chosen_by_name_and_read_again_when_they_change() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second, named) = (Authority::new("first"), Authority::new("second"), Authority::new("named"));
        let files = write(folder.path(), "default", &first.sign("server", &["127.0.0.1", "api.example.com"]));
        let by_own_name = write(folder.path(), "own", &named.sign("own.example.com", &["own.example.com"]));
        let wildcard = named.sign("wild", &["*.wild.example.com", "api.example.com"]);
        let by_pattern = NamedCertificate {
            files: write(folder.path(), "wildcard", &wildcard),
            names: vec!["*.wild.example.com".to_owned()],
        };
        let tls = TlsOptions {
            certificate: Some(files),
            named_certificates: vec![NamedCertificate { files: by_own_name, names: Vec::new() }, by_pattern],
            ..TlsOptions::default()
        };
        let cluster = Cluster::with_options(Options { tls, ..Options::default() }).await;
        assert!(is_served(&cluster, &first.pem(), "127.0.0.1").await);
        assert!(is_served(&cluster, &first.pem(), "api.example.com").await);
        assert!(is_served(&cluster, &named.pem(), "own.example.com").await);
        assert!(is_served(&cluster, &named.pem(), "a.wild.example.com").await);
        assert!(!is_served(&cluster, &named.pem(), "api.example.com").await);
        // The administrator's kubeconfig still works.
        assert!(cluster.kubeconfig().contains("    tls-server-name: apiserver-loopback-client\n"));
        assert!(is_served(&cluster, &cluster.authority(), "apiserver-loopback-client").await);

        // Two files cannot change at once. Until both have changed, the old pair is in use.
        let changed = second.sign("server", &["127.0.0.1"]);
        std::fs::write(folder.path().join("default.crt"), &changed.0).expect("the file is written");
        assert!(is_served(&cluster, &first.pem(), "127.0.0.1").await);
        std::fs::write(folder.path().join("default.key"), &changed.1).expect("the file is written");
        let authority = second.pem();
        eventually("the new pair is in use", || is_served(&cluster, &authority, "127.0.0.1")).await;
        assert!(!is_served(&cluster, &first.pem(), "127.0.0.1").await);
        cluster.stop().await;
    });
}

#[test]
fn a_client_that_asks_for_no_name_gets_the_certificate_of_the_address() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (default, named, by_address) =
            (Authority::new("default"), Authority::new("named"), Authority::new("address"));
        let files = write(folder.path(), "default", &default.sign("server", &["127.0.0.1", "api.example.com"]));
        // Addresses in a certificate do not count; only addresses in the option do.
        let names = ["127.0.0.1", "own.example.com", "shared.example.com"];
        let own_names = write(folder.path(), "own", &named.sign("common.example.com", &names));
        let of_address = by_address.sign("address", &["127.0.0.1", "shared.example.com"]);
        let of_address = NamedCertificate {
            files: write(folder.path(), "address", &of_address),
            names: vec!["127.0.0.1".to_owned(), "shared.example.com".to_owned()],
        };
        let own_names = NamedCertificate { files: own_names, names: Vec::new() };
        let tls = TlsOptions { certificate: Some(files.clone()), ..TlsOptions::default() };
        let options = |named_certificates| Options {
            tls: TlsOptions { named_certificates, ..tls.clone() },
            ..Options::default()
        };
        let cluster = Cluster::with_options(options(vec![own_names.clone()])).await;
        assert!(is_served(&cluster, &default.pem(), "127.0.0.1").await);
        cluster.stop().await;
        let cluster = Cluster::with_options(options(vec![own_names, of_address])).await;
        // A client that connects by address sends no name.
        assert!(is_served(&cluster, &by_address.pem(), "127.0.0.1").await);
        assert!(!is_served(&cluster, &default.pem(), "127.0.0.1").await);
        // Names count before the address, and names in options before names in certificates.
        assert!(is_served(&cluster, &named.pem(), "own.example.com").await);
        assert!(is_served(&cluster, &by_address.pem(), "shared.example.com").await);
        assert!(is_served(&cluster, &default.pem(), "api.example.com").await);
        cluster.stop().await;
    });
}

#[test]
fn own_certificates_are_renewed_while_the_server_runs() {
    run(async {
        // The clock of the server stays behind, so that its certificates, which last 3,650 days, are valid all the
        // time.
        let behind = Duration::from_secs(3600 * 24 * 3600);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let start = now - behind - Duration::from_secs(10 * 24 * 3600);
        let start = Timestamp(u64::try_from(start.as_millis()).expect("a time"));
        let clock = Arc::new(ManualClock::new(start));
        let cluster = Cluster::durable_with_options(Options { clock: clock.clone(), ..Options::default() }).await;
        let folder = cluster.data_dir().expect("a folder").to_owned();
        let file = |path: &str| std::fs::read_to_string(folder.join(path)).expect("a file");
        let authority = cluster.authority();
        assert!(is_served(&cluster, &authority, "localhost").await);
        let parts = ["ca", "apiserver", "admin", "front-proxy-ca", "front-proxy-client"];
        let before: Vec<String> = parts.iter().map(|part| file(&format!("pki/{part}.crt"))).collect();
        let (ca_key, kubeconfig) = (file("pki/ca.key"), file("admin.kubeconfig"));
        // No renewal is due.
        clock.advance(Duration::from_secs(2 * 3600));
        let _ = cluster.get("/readyz/certificates").await.expect(200);
        assert_eq!(file("admin.kubeconfig"), kubeconfig);
        clock.advance(behind);
        let is_renewed = || async {
            // The server may not have looked at the clock yet. The step is small, so that the clock stays behind.
            clock.advance(Duration::from_secs(60));
            file("admin.kubeconfig") != kubeconfig
        };
        eventually("the certificates are renewed", is_renewed).await;
        for (part, before) in parts.iter().zip(&before) {
            assert_ne!(&file(&format!("pki/{part}.crt")), before, "{part}");
        }
        assert_eq!(file("pki/ca.key"), ca_key);
        // The server serves clients of the old and of the new authority, with old and new certificates.
        eventually("the renewed certificate is in use", || presents_stored_certificate(&cluster)).await;
        assert!(is_served(&cluster, &authority, "localhost").await);
        assert!(is_served(&cluster, &file("pki/ca.crt"), "localhost").await);
        let renewed = (file("pki/admin.crt"), file("pki/admin.key"));
        assert_eq!(list_status(&cluster, &renewed).await, "200");
        let _ = cluster.client(Protocol::Any).request("GET", "/api/v1/namespaces").send().await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn client_certificates_of_further_authorities_are_accepted() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (Authority::new("first"), Authority::new("second"));
        let path = folder.path().join("clients.crt");
        std::fs::write(&path, first.pem()).expect("the file is written");
        let tls = TlsOptions { client_ca: Some(path.clone()), ..TlsOptions::default() };
        let cluster = Cluster::with_options(Options { tls, ..Options::default() }).await;
        let (of_first, of_second) = (first.sign("jane", &[]), second.sign("joe", &[]));
        assert_eq!(list_status(&cluster, &of_first).await, "200");
        assert_eq!(list_status(&cluster, &of_second).await, "401");
        std::fs::write(&path, second.pem()).expect("the file is written");
        let is_trusted = || async { list_status(&cluster, &of_second).await == "200" };
        eventually("the other authority is trusted", is_trusted).await;
        let _ = cluster.get("/api/v1/namespaces").await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn front_proxies_name_users_in_headers() {
    run(async {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (proxies, users) = (Authority::new("proxies"), Authority::new("users"));
        let file = |name: &str, authority: &Authority| {
            let path = folder.path().join(name);
            std::fs::write(&path, authority.pem()).expect("the file is written");
            Some(path)
        };
        let tls = TlsOptions {
            client_ca: file("users.crt", &users),
            request_header_ca: file("proxies.crt", &proxies),
            ..TlsOptions::default()
        };
        let texts = |text: &str| vec![text.to_owned()];
        let access = AccessOptions {
            request_headers: RequestHeaderNames {
                username: texts("X-Remote-User"),
                group: texts("X-Remote-Group"),
                allowed_names: texts("front"),
                ..RequestHeaderNames::default()
            },
            ..AccessOptions::default()
        };
        let options = bootstrapped();
        let access = AccessOptions { authorization_modes: options.access.authorization_modes.clone(), ..access };
        let cluster = Cluster::with_options(Options { tls, access, ..options }).await;
        let trust = cluster.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await;
        let trust = trust.expect(200).json()["data"].take();
        assert_eq!(trust["client-ca-file"], format!("{}{}", cluster.authority(), users.pem()).replace("\r\n", "\n"));
        assert_eq!(trust["requestheader-client-ca-file"], proxies.pem().replace("\r\n", "\n"));
        assert_eq!(trust["requestheader-username-headers"], r#"["X-Remote-User"]"#);
        assert_eq!(trust["requestheader-allowed-names"], r#"["front"]"#);
        let (front, other, user) = (proxies.sign("front", &[]), proxies.sign("other", &[]), users.sign("front", &[]));
        let (jane, masters) = ("X-Remote-User: jane", "X-Remote-Group: system:masters");
        for (client, headers, expect) in [
            (Some(&front), &[jane, masters][..], "HTTP/1.1 200"),
            (Some(&front), &[jane], "User \\\"jane\\\" cannot list"),
            (Some(&front), &[masters], "HTTP/1.1 401"),
            (Some(&other), &[jane, masters], "HTTP/1.1 401"),
            (Some(&user), &[jane, masters], "User \\\"front\\\" cannot list"),
            (None, &[jane, masters], "User \\\"system:anonymous\\\" cannot list"),
        ] {
            let response = get(&cluster, &cluster.authority(), "localhost", client, headers).await.expect("a response");
            assert!(response.contains(expect), "{headers:?} {expect}: {response}");
        }
        cluster.stop().await;
    });
}

#[test]
fn the_built_in_front_proxy_is_trusted_by_aggregated_servers_only() {
    run(async {
        let cluster = Cluster::durable_with_options(bootstrapped()).await;
        let folder = cluster.data_dir().expect("a folder").join("pki");
        let file = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
        let trust = cluster.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication").await;
        let trust = trust.expect(200).json()["data"].take();
        let expect = serde_json::json!({
            "client-ca-file": file("ca.crt").replace("\r\n", "\n"),
            "requestheader-allowed-names": r#"["front-proxy-client"]"#,
            "requestheader-client-ca-file": file("front-proxy-ca.crt").replace("\r\n", "\n"),
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
        });
        assert_eq!(trust, expect);
        // This server trusts only authorities of front proxies that are configured.
        let client = (file("front-proxy-client.crt"), file("front-proxy-client.key"));
        for headers in [&["X-Remote-User: jane", "X-Remote-Group: system:masters"][..], &[]] {
            let response = get(&cluster, &cluster.authority(), "localhost", Some(&client), headers).await;
            let response = response.expect("a response");
            assert!(response.contains("HTTP/1.1 401"), "{headers:?}: {response}");
        }
        cluster.stop().await;
    });
}
