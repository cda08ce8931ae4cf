//! Reads an `EgressSelectorConfiguration` (upstream: `pkg/server/egressselector/config.go`) and makes its dialers
//! (`NewEgressSelector`).

use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use http::Uri;
use pintle_auth::config_file::{ConfigScheme, ConfigTypes, system_error};
use pintle_outbound::{ClientCertificate, ClientConfigError, DialAddress, Dialer, HttpConnectProxy, ServerTrust};
use pintle_schema::Scalar;
use pintle_value::Value;
use pintle_value::print::quote;

use super::validate::{canonical_name, validate};
use super::{EgressSelector, EgressType};

const KIND: &str = "EgressSelectorConfiguration";
/// The other kinds that the scheme has, and their versions.
const OTHER_KINDS: [(&str, &[&str]); 5] = [
    ("AdmissionConfiguration", &["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"]),
    ("EncryptionConfiguration", &["apiserver.config.k8s.io/v1"]),
    ("AuthenticationConfiguration", &CONFIG_VERSIONS),
    ("AuthorizationConfiguration", &CONFIG_VERSIONS),
    ("TracingConfiguration", &CONFIG_VERSIONS),
];
const CONFIG_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, any) = (types.scalar(Scalar::String), types.any());
    let mut kinds = Vec::new();
    for (version, package) in [("apiserver.k8s.io/v1alpha1", "v1alpha1"), ("apiserver.k8s.io/v1beta1", "v1beta1")] {
        let name = |name: &str| format!("{package}.{name}");
        let tls = [("caBundle", text), ("clientKey", text), ("clientCert", text), ("tlsServerName", text)];
        let tls = types.object(&name("TLSConfig"), &tls);
        let tcp = types.object(&name("TCPTransport"), &[("url", text), ("*tlsConfig", tls)]);
        let uds = types.object(&name("UDSTransport"), &[("udsName", text)]);
        let transport = types.object(&name("Transport"), &[("*tcp", tcp), ("*uds", uds)]);
        let protocol = types.named_text(&name("ProtocolType"));
        let connection = [("proxyProtocol", protocol), ("*transport", transport)];
        let connection = types.object(&name("Connection"), &connection);
        let selection = types.object(&name("EgressSelection"), &[("name", text), ("connection", connection)]);
        let selections = types.list(selection);
        let fields = [("kind", text), ("apiVersion", text), ("egressSelections", selections)];
        kinds.push((version, KIND, types.object(&name(KIND), &fields)));
    }
    for (kind, versions) in OTHER_KINDS {
        kinds.extend(versions.iter().map(|version| (*version, kind, any)));
    }
    ConfigScheme { name: "pkg/runtime/scheme.go:111", strict: true, types, kinds }
});

/// Reads a configuration file.
pub(super) fn read(file: &Path) -> Result<EgressSelector, String> {
    let text = fs::read(file).map_err(|error| {
        let why = format!("open {}: {}", file.display(), system_error(&error));
        let file = quote(&file.to_string_lossy());
        format!(
            "failed to read egress selector config: unable to read egress selector configuration from {file} [{why}]"
        )
    })?;
    let config = decode(&text).map_err(|error| format!("failed to read egress selector config: {error}"))?;
    let errors = validate(&config);
    if !errors.is_empty() {
        return Err(format!("failed to validate egress selector configuration: {}", errors.message()));
    }
    build(&config).map_err(|error| format!("failed to setup egress selector: {error}"))
}

fn decode(text: &[u8]) -> Result<Value, String> {
    let decoded = SCHEME.decode(text).map_err(|error| error.to_string())?;
    match decoded.value.str_at(&["kind"]) {
        KIND => Ok(decoded.value),
        kind => Err(format!("unexpected config type: {}, Kind={kind}", decoded.api_version)),
    }
}

/// Makes the dialers of a valid configuration. Without a list of selections, nothing is configured.
fn build(config: &Value) -> Result<EgressSelector, String> {
    let Some(selections) = config.get("egressSelections") else { return Ok(EgressSelector::default()) };
    let selections = selections.items_at(&[]).iter().enumerate();
    let dialers = selections.map(|(index, selection)| {
        let name = canonical_name(selection);
        let network = EgressType::ALL.into_iter().find(|network| network.name() == name);
        let network = network.ok_or_else(|| format!("unrecognized service name {name}"))?;
        let connection = selection.get("connection").unwrap_or(&Value::Null);
        let dialer = dialer(index, connection);
        let failed = |error| format!("failed to create dialer for egressSelection {}: {error}", quote(&name));
        Ok((network, dialer.map_err(failed)?))
    });
    Ok(EgressSelector(Some(dialers.collect::<Result<_, String>>()?)))
}

/// The dialer of the selection with this index.
fn dialer(index: usize, connection: &Value) -> Result<Dialer, String> {
    let proxy = match connection.str_at(&["proxyProtocol"]) {
        "Direct" => return Ok(Dialer::Direct),
        "HTTPConnect" => match connection.at(&["transport", "uds"]) {
            Some(uds) => HttpConnectProxy::unix(uds.str_at(&["udsName"]).into()),
            None => tcp_proxy(connection.at(&["transport", "tcp"]).unwrap_or(&Value::Null))?,
        },
        other => {
            let field = format!("egressSelections[{index}].connection.proxyProtocol");
            return Err(format!("{field}: {} is not supported, only \"Direct\" and \"HTTPConnect\" are", quote(other)));
        }
    };
    Ok(Dialer::HttpConnect(Arc::new(proxy)))
}

/// A proxy with a URL. It has TLS if the configuration has.
fn tcp_proxy(tcp: &Value) -> Result<HttpConnectProxy, String> {
    let address = proxy_address(tcp.str_at(&["url"]))?;
    let Some(tls) = tcp.get("tlsConfig") else { return Ok(HttpConnectProxy::tcp(address)) };
    let text = |field: &str| tls.str_at(&[field]);
    let read = |path: &str| fs::read(path).map_err(|error| format!("open {path}: {}", system_error(&error)));
    let (certificate, key, authorities) = (text("clientCert"), text("clientKey"), text("caBundle"));
    let unusable = |error: String| format!("failed to read key pair {certificate} & {key}, got {error}");
    let (chain, key_text) = (read(certificate).map_err(unusable)?, read(key).map_err(unusable)?);
    let authorities = match authorities {
        "" => None,
        path => Some(read(path).map_err(|error| format!("failed to read cert file {path}, got {error}"))?),
    };
    let trust = authorities.as_deref().map_or(ServerTrust::System, ServerTrust::Authorities);
    let name = Some(text("tlsServerName")).filter(|name| !name.is_empty());
    let identity = ClientCertificate { chain: &chain, key: &key_text };
    HttpConnectProxy::tls(address, name, trust, identity).map_err(|error| match error {
        ClientConfigError::Authorities(_) | ClientConfigError::AuthoritiesPem(_) => {
            "failed to append CA cert to the cert pool".to_owned()
        }
        ClientConfigError::ClientCertificate(_) | ClientConfigError::ClientCertificatePem(_) => {
            unusable(error.to_string())
        }
        other => other.to_string(),
    })
}

/// The host and port of a URL.
fn proxy_address(url: &str) -> Result<DialAddress, String> {
    let parsed: Uri = url.parse().map_err(|error| format!("invalid proxy server url {}: {error}", quote(url)))?;
    let host = parsed.host().unwrap_or_default();
    let Some(port) = parsed.port_u16() else { return Err(format!("address {host}: missing port in address")) };
    Ok(DialAddress { host: host.trim_start_matches('[').trim_end_matches(']').to_owned(), port })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    const HEAD: &str = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n";

    /// The dialers of a configuration, as text, or the error. In the error, `FOLDER` stands for the folder of the file.
    fn load(text: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate");
        fs::write(path("cert"), certificate.cert.pem()).expect("a file");
        fs::write(path("key"), certificate.signing_key.serialize_pem()).expect("a file");
        fs::write(path("empty"), "").expect("a file");
        let shown = folder.path().display().to_string();
        fs::write(path("config"), text.replace("FOLDER", &shown)).expect("a file");
        let selector = read(&path("config")).map_err(|error| error.replace(&shown, "FOLDER"))?;
        let Some(dialers) = selector.0 else { return Ok("nothing".to_owned()) };
        let mut found = String::new();
        for (network, dialer) in &*dialers {
            let _ = write!(found, "{network} {dialer:?};");
        }
        Ok(found)
    }

    fn check(text: &str, expect: Result<&str, &str>) {
        assert_eq!(load(text), expect.map(str::to_owned).map_err(str::to_owned), "{text}");
    }

    /// Checks a connection of the network `cluster`.
    fn check_connection(connection: &str, expect: Result<&str, &str>) {
        let text = format!("{HEAD}egressSelections:\n- name: cluster\n  connection: {connection}\n");
        check(&text, expect);
    }

    #[test]
    fn networks_have_dialers() {
        check(HEAD, Ok("nothing"));
        check(&HEAD.replace("v1beta1", "v1alpha1"), Ok("nothing"));
        check(
            &format!(
                "{HEAD}egressSelections:\n- {{name: Cluster, connection: {{proxyProtocol: Direct}}}}\n\
                 - {{name: master, connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: /s}}}}}}}}\n\
                 - {{name: etcd, connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://[::1]:1/'}}}}}}}}\n"
            ),
            Ok("cluster Direct;controlplane HttpConnect(HttpConnectProxy(\"/s\"));\
                etcd HttpConnect(HttpConnectProxy(\"[::1]:1\"));"),
        );
        check_connection(
            "{proxyProtocol: HTTPConnect, transport: {tcp: {url: 'https://proxy:1', tlsConfig: {caBundle: FOLDER/cert, \
             clientCert: FOLDER/cert, clientKey: FOLDER/key, tlsServerName: other}}}}",
            Ok("cluster HttpConnect(HttpConnectProxy(\"proxy:1\"));"),
        );
    }

    #[test]
    fn other_texts_are_errors() {
        for (text, expect) in [
            ("", "Object 'Kind' is missing in ''"),
            (
                "apiVersion: v1\nkind: Pod\n",
                "no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
            ),
            (
                "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n",
                "unexpected config type: apiserver.config.k8s.io/v1, Kind=AdmissionConfiguration",
            ),
            (
                "apiVersion: apiserver.k8s.io/v1\nkind: EgressSelectorConfiguration\n",
                "no kind \"EgressSelectorConfiguration\" is registered for version \"apiserver.k8s.io/v1\" in scheme \
                 \"pkg/runtime/scheme.go:111\"",
            ),
            (&format!("{HEAD}egressSelection: []\n"), "strict decoding error: unknown field \"egressSelection\""),
            (
                &format!("{HEAD}egressSelections: [{{name: 1}}]\n"),
                "json: cannot unmarshal number into Go struct field EgressSelection.egressSelections.name of type string",
            ),
            (
                &format!("{HEAD}egressSelections: [{{name: a, connection: {{proxyProtocol: 1}}}}]\n"),
                "json: cannot unmarshal number into Go struct field \
                 Connection.egressSelections.connection.proxyProtocol of type v1beta1.ProtocolType",
            ),
            (
                &format!("{HEAD}egressSelections: [{{name: a, connection: {{transport: {{tcp: []}}}}}}]\n"),
                "json: cannot unmarshal array into Go struct field \
                 Transport.egressSelections.connection.transport.tcp of type v1beta1.TCPTransport",
            ),
        ] {
            check(text, Err(&format!("failed to read egress selector config: {expect}")));
        }
        let missing = read(Path::new("/nowhere")).map(drop);
        let expect = "failed to read egress selector config: unable to read egress selector configuration from \
                      \"/nowhere\" [open /nowhere: no such file or directory]";
        assert_eq!(missing, Err(expect.to_owned()));
    }

    #[test]
    fn proxies_that_cannot_be_used_are_refused() {
        let tls = |certificate: &str, key: &str, authority: &str, url: &str| {
            format!(
                "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: '{url}', tlsConfig: {{caBundle: \
                 FOLDER/{authority}, clientCert: FOLDER/{certificate}, clientKey: FOLDER/{key}}}}}}}}}"
            )
        };
        let failed = |error: &str| {
            format!("failed to setup egress selector: failed to create dialer for egressSelection \"cluster\": {error}")
        };
        for (connection, expect) in [
            (
                "{proxyProtocol: GRPC, transport: {uds: {udsName: /s}}}".to_owned(),
                "egressSelections[0].connection.proxyProtocol: \"GRPC\" is not supported, only \"Direct\" and \
                 \"HTTPConnect\" are",
            ),
            (
                tls("empty", "key", "cert", "https://a:1"),
                "failed to read key pair FOLDER/empty & FOLDER/key, got the client certificate cannot be used: peer \
                 sent no certificates",
            ),
            (tls("cert", "key", "empty", "https://a:1"), "failed to append CA cert to the cert pool"),
            (tls("cert", "key", "cert", "https://a"), "address a: missing port in address"),
            (
                tls("cert", "key", "cert", "https://a b:1"),
                "invalid proxy server url \"https://a b:1\": invalid uri character",
            ),
        ] {
            check_connection(&connection, Err(&failed(expect)));
        }
    }
}
