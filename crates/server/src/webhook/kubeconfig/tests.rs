//! Tests of kubeconfigs that are accepted, refused and read again.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::*;

/// A kubeconfig of one cluster and one user.
fn config(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
         clusters: [{{name: k, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    )
}

fn load(text: &str) -> Result<KubeconfigClient, String> {
    KubeconfigClient::from_text(text.as_bytes(), Path::new("/nowhere"), Dialer::Direct)
        .map_err(|error| error.to_string())
}

#[test]
fn the_current_context_selects_the_server_and_the_user() {
    for (cluster, user, server, header) in [
        ("server: 'https://a/b'", "", "https://a/b", None),
        ("server: 'http://a/b'", "token: t", "http://a/b", None),
        ("server: 'https://a'", "token: t", "https://a", None),
        ("server: 'https://a'", "username: u, password: p", "https://a", Some("Basic dTpw")),
        ("server: 'https://a', insecure-skip-tls-verify: true", "", "https://a", None),
    ] {
        let client = load(&config(cluster, user)).expect("a client");
        assert_eq!(client.server, server);
        let found = client.authorization();
        assert_eq!(found.as_ref().map(|header| header.to_str().expect("text")), header);
    }
}

#[test]
fn a_kubeconfig_that_selects_nothing_usable_is_an_error() {
    let server = "server: 'https://a'";
    for (text, expect) in [
        (
            "",
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        ("a: b: c", "error loading config file \"$FILE\": yaml: mapping values are not allowed in this context"),
        (
            "clusters: [{name: k}]",
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        (
            "current-context: c",
            "invalid configuration: [context was not found for specified context: c, cluster has no server defined]",
        ),
        (&config("", ""), "invalid configuration: no server found for cluster \"k\""),
        (
            &config(server, "").replace("name: k", "name: x"),
            "invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable",
        ),
        (&config(server, "").replace("name: u", "name: x"), ""),
        // Entries at the wrong place do not count.
        (
            "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, server: 'https://a'}]",
            "invalid configuration: no server found for cluster \"k\"",
        ),
        (
            &config(server, "").replace("users: [", "users: [{name: u}, "),
            "error loading config file \"$FILE\": error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: \
             duplicate name \"u\" in list",
        ),
        (
            &config(&format!("{server}, certificate-authority: ca.pem"), ""),
            "invalid configuration: unable to read certificate-authority /nowhere/ca.pem for k due to open \
             /nowhere/ca.pem: no such file or directory",
        ),
        (
            &config(server, "client-certificate-data: YQ=="),
            "invalid configuration: client-key-data or client-key must be specified for u to use the clientCert \
             authentication method.",
        ),
        (&config(server, "client-key-data: YQ=="), ""),
        (
            &config(&format!("{server}, certificate-authority-data: YQ==, insecure-skip-tls-verify: true"), ""),
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            &config(&format!("{server}, certificate-authority-data: '*'"), ""),
            "error loading config file \"$FILE\": illegal base64 data at input byte 0",
        ),
        (&config(&format!("{server}, proxy-url: 'http://p'"), ""), "invalid configuration: proxy-url is not supported"),
        (&config(server, "exec: {command: x}"), "invalid configuration: exec is not supported"),
        (&config(server, "as: admin"), "invalid configuration: as is not supported"),
        (
            &config(server, "token: t, username: u"),
            "invalid configuration: more than one authentication method found for u; found [token basicAuth], only one \
             is allowed",
        ),
        (&config(server, "tokenFile: t, username: u"), "username/password or bearer token may be set, but not both"),
        (&config(server, "tokenFile: t"), "open /nowhere/t: no such file or directory"),
        (
            &config(&format!("{server}, insecure-skip-tls-verify: true"), "username: u, password: p"),
            "invalid configuration: a bearer token needs a server whose certificate is verified",
        ),
    ] {
        assert_eq!(load(text).err().unwrap_or_default(), expect, "{text}");
    }
    let error = KubeconfigClient::load(Path::new("/nowhere/k"), Dialer::Direct).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("stat /nowhere/k: no such file or directory"));
}

/// If a token that looks like a number were left out, the client would have no credentials.
#[test]
fn a_kubeconfig_is_decoded_with_its_types() {
    let server = "server: 'https://a'";
    let of_type = |field: &str, kind: &str, ty: &str| {
        format!("json: cannot unmarshal {kind} into Go struct field {field} of type {ty}")
    };
    for (text, expect) in [
        (config(server, "token: 5"), of_type("AuthInfo.users.user.token", "number", "string")),
        (config("server: 5", ""), of_type("Cluster.clusters.cluster.server", "number", "string")),
        (
            config(&format!("{server}, insecure-skip-tls-verify: 'true'"), ""),
            of_type("Cluster.clusters.cluster.insecure-skip-tls-verify", "string", "bool"),
        ),
        (config(server, "as-groups: x"), of_type("AuthInfo.users.user.as-groups", "string", "[]string")),
        (config(server, "exec: 5"), of_type("AuthInfo.users.user.exec", "number", "v1.ExecConfig")),
        (
            format!("{}preferences: 5\n", config(server, "")),
            of_type("Config.preferences", "number", "v1.Preferences"),
        ),
        (
            config(&format!("{server}, certificate-authority-data: 5"), ""),
            of_type("Cluster.clusters.cluster.certificate-authority-data", "number", "[]uint8"),
        ),
        // Entries that are not selected count, too.
        (
            config(server, "").replace("users: [", "users: [{name: z, user: {client-key-data: '*'}}, "),
            "illegal base64 data at input byte 0".to_owned(),
        ),
        (
            "kind: Pod".to_owned(),
            "no kind \"Pod\" is registered for version \"v1\" in scheme \"k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50\"".to_owned(),
        ),
    ] {
        let expect = format!("error loading config file \"$FILE\": {expect}");
        assert_eq!(load(&text).err(), Some(expect), "{text}");
    }
    assert_eq!(load(&config(server, "unknown: 1")).err(), None);
}

#[test]
fn a_server_can_have_a_certificate_for_another_name() {
    let cluster = "server: 'https://[::1]:8443/a', tls-server-name: hook.example.com";
    let client = load(&config(cluster, "token: t")).expect("a client");
    assert_eq!(client.server(), "https://hook.example.com:8443/a");
    let (address, host) = client.address.expect("an address");
    assert_eq!((address, host.as_bytes()), (DialAddress { host: "::1".into(), port: 8443 }, "[::1]:8443".as_bytes()));
}

#[test]
fn files_of_a_client_certificate_are_read_again_when_they_have_changed() {
    let folder = std::env::temp_dir().join(format!("pintle-kubeconfig-rotation-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let write_certificate = || {
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate");
        fs::write(folder.join("cert"), certificate.cert.pem()).expect("a file");
        fs::write(folder.join("key"), certificate.signing_key.serialize_pem()).expect("a file");
    };
    write_certificate();
    let text = config("server: 'https://a'", "client-certificate: cert, client-key: key");
    fs::write(folder.join("config"), text).expect("a file");
    let client = KubeconfigClient::load(&folder.join("config"), Dialer::Direct).expect("a client");
    let files = client.certificate.as_ref().expect("files");
    write_certificate();
    assert!(!files.have_changed(CERTIFICATE_LIFETIME), "the files are read too often");
    assert!(files.have_changed(Duration::ZERO));
    assert!(!files.have_changed(Duration::ZERO));
    // A broken file leaves the client unchanged.
    fs::write(folder.join("key"), "").expect("a file");
    assert!(client.rotate_certificate(Duration::ZERO).is_err());
    write_certificate();
    assert!(client.rotate_certificate(Duration::ZERO).expect("a certificate"));
    fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn a_token_file_is_read() {
    let folder = std::env::temp_dir().join(format!("pintle-kubeconfig-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("token"), "secret\n").expect("a file");
    fs::write(folder.join("config"), config("server: 'https://a'", "tokenFile: token")).expect("a file");
    let client = KubeconfigClient::load(&folder.join("config"), Dialer::Direct).expect("a client");
    assert_eq!(client.authorization().expect("a header"), "Bearer secret");
    fs::remove_dir_all(&folder).expect("a folder");
}

/// An HTTP/2 server that demands a client certificate of an authority. It responds with the number of the connection,
/// and with the index of the client's certificate in `known`. Returns the server's port and certificate.
async fn server(authority: &CertificateDer<'static>, known: [CertificateDer<'static>; 2]) -> (u16, String) {
    use http_body_util::Full;
    use hyper::server::conn::http2;
    use hyper::service::service_fn;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.clone()).expect("an authority");
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("TLS versions").with_client_cert_verifier(verifier.expect("a verifier"));
    let mut config = config.with_single_cert(vec![own.cert.der().clone()], key).expect("a configuration");
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        for number in 1.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (acceptor, known) = (acceptor.clone(), known.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let presented = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                let index = known.iter().position(|known| Some(known) == presented).expect("a known certificate");
                let service = service_fn(move |_| {
                    let body = Full::new(Bytes::from(format!("{number} {index}")));
                    std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(body)))
                });
                let builder = http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, own.cert.pem())
}

#[tokio::test]
async fn a_rotated_certificate_is_presented_on_a_new_http2_connection() {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    let folder = std::env::temp_dir().join(format!("pintle-kubeconfig-http2-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(params, authority_key);
    let leaf = || {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        (params.signed_by(&key, &issuer).expect("a certificate"), key)
    };
    let leaves = [leaf(), leaf()];
    let write = |(certificate, key): &(rcgen::Certificate, KeyPair)| {
        fs::write(folder.join("cert"), certificate.pem()).expect("a file");
        fs::write(folder.join("key"), key.serialize_pem()).expect("a file");
    };
    let known = leaves.each_ref().map(|(certificate, _)| certificate.der().clone());
    let (port, own) = server(authority.der(), known).await;
    let data = base64::encode(own.as_bytes());
    let cluster = format!("server: 'https://127.0.0.1:{port}', certificate-authority-data: {data}");
    write(&leaves[0]);
    fs::write(folder.join("config"), config(&cluster, "client-certificate: cert, client-key: key")).expect("a file");
    let client = KubeconfigClient::load(&folder.join("config"), Dialer::Direct).expect("a client");
    let call = async || {
        let request = Request::get(client.server()).body(Bytes::new()).expect("a request");
        let limits = CallLimits { timeout: Duration::from_secs(60), max_body_bytes: 100 };
        let response = client.send(request, limits).await.expect("a response");
        assert_eq!(response.version(), http::Version::HTTP_2);
        String::from_utf8_lossy(&response.body().bytes).into_owned()
    };
    assert_eq!([call().await, call().await], ["1 0", "1 0"]);
    write(&leaves[1]);
    assert!(client.rotate_certificate(Duration::ZERO).expect("a certificate"));
    assert_eq!([call().await, call().await], ["2 1", "2 1"]);
    fs::remove_dir_all(&folder).expect("a folder");
}
