//! HTTP clients from kubeconfig files. The cluster of the current context is the server, and its user determines the
//! client's credentials (upstream: client-go's `clientcmd`). Settings that this client does not support are errors, so
//! that it never ignores them silently.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use pintle_auth::config_file::{ConfigScheme, ConfigTypes, system_error};
use pintle_locks::{Mutex, RwLock};
use pintle_outbound::{
    BearerToken, BoundedBody, CallLimits, Client, ClientCertificate, ClientConfig, ClientConfigError, Credentials,
    DialAddress, Dialer, Protocols, RequestError, ServerTrust,
};
use pintle_schema::{Scalar, base64};
use pintle_value::Value;
use pintle_value::print::quote;

use crate::client_protocols::default_protocols;

/// The time for which a token from a file is used before the file is read again.
const TOKEN_LIFETIME: Duration = Duration::from_secs(60);

/// The time for which a client certificate from files is used before the files are read again.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(300);

/// Fields of clusters and users that have no equivalent here.
const UNSUPPORTED_CLUSTER_FIELDS: [&str; 1] = ["proxy-url"];
const UNSUPPORTED_USER_FIELDS: [&str; 6] = ["as", "as-uid", "as-groups", "as-user-extra", "auth-provider", "exec"];

/// The `apiVersion` and the kind of kubeconfigs. A kubeconfig may omit them.
const CONFIG: (&str, &str) = ("v1", "Config");

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, flag) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool));
    let (bytes, any) = (types.scalar(Scalar::Bytes), types.any());
    let (texts, map) = (types.list(text), types.map(text));
    let map_of_lists = types.map(texts);
    let extension = types.object("v1.NamedExtension", &[("name", text), ("extension", any)]);
    let extensions = types.list(extension);
    let preferences = types.object("v1.Preferences", &[("colors", flag), ("extensions", extensions)]);
    let cluster = [
        ("server", text),
        ("tls-server-name", text),
        ("insecure-skip-tls-verify", flag),
        ("certificate-authority", text),
        ("certificate-authority-data", bytes),
        ("proxy-url", text),
        ("disable-compression", flag),
        ("extensions", extensions),
    ];
    let cluster = types.object("v1.Cluster", &cluster);
    let provider = types.object("v1.AuthProviderConfig", &[("name", text), ("config", map)]);
    let variable = types.object("v1.ExecEnvVar", &[("name", text), ("value", text)]);
    let exec = [
        ("command", text),
        ("args", texts),
        ("env", types.list(variable)),
        ("apiVersion", text),
        ("installHint", text),
        ("provideClusterInfo", flag),
        ("interactiveMode", types.named_text("v1.ExecInteractiveMode")),
    ];
    let exec = types.object("v1.ExecConfig", &exec);
    let user = [
        ("client-certificate", text),
        ("client-certificate-data", bytes),
        ("client-key", text),
        ("client-key-data", bytes),
        ("token", text),
        ("tokenFile", text),
        ("as", text),
        ("as-uid", text),
        ("as-groups", texts),
        ("as-user-extra", map_of_lists),
        ("username", text),
        ("password", text),
        ("*auth-provider", provider),
        ("*exec", exec),
        ("extensions", extensions),
    ];
    let user = types.object("v1.AuthInfo", &user);
    let context = [("cluster", text), ("user", text), ("namespace", text), ("extensions", extensions)];
    let context = types.object("v1.Context", &context);
    let mut named = |name: &str, field: &'static str, ty| {
        let item = types.object(name, &[("name", text), (field, ty)]);
        types.list(item)
    };
    let fields = [
        ("kind", text),
        ("apiVersion", text),
        ("preferences", preferences),
        ("clusters", named("v1.NamedCluster", "cluster", cluster)),
        ("users", named("v1.NamedAuthInfo", "user", user)),
        ("contexts", named("v1.NamedContext", "context", context)),
        ("current-context", text),
        ("extensions", extensions),
    ];
    let config = types.object("v1.Config", &fields);
    ConfigScheme {
        name: "k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50",
        strict: false,
        types,
        kinds: vec![(CONFIG.0, CONFIG.1, config)],
    }
});

/// The reason why a kubeconfig cannot be used.
#[derive(Debug)]
pub(crate) struct KubeconfigError(String);

impl fmt::Display for KubeconfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KubeconfigError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// An error of the content, in upstream's words.
    fn invalid(text: impl fmt::Display) -> Self {
        Self(format!("invalid configuration: {text}"))
    }
}

/// A client for the server that a kubeconfig names.
pub(crate) struct KubeconfigClient {
    /// The client. It presents the credentials, except the password and a token from a file.
    client: RwLock<Client>,
    /// The files of the client certificate, if it comes from files.
    certificate: Option<CertificateFiles>,
    /// The URL of the server, with its path.
    server: String,
    /// The address and the `Host` header of a server whose certificate has another name. In this case, the URL contains
    /// the name of the certificate.
    address: Option<(DialAddress, HeaderValue)>,
    password: Option<HeaderValue>,
    token: Option<TokenFile>,
}

/// The files of a client certificate and its key.
struct CertificateFiles {
    /// The settings from which the client is built.
    source: OwnedSelected,
    paths: [PathBuf; 2],
    /// The contents of the files, and the time at which they were read.
    current: Mutex<(FileContents, Instant)>,
}

/// The contents of files; `None` for a file that cannot be read.
type FileContents = [Option<Vec<u8>>; 2];

impl CertificateFiles {
    fn read(paths: &[PathBuf; 2]) -> FileContents {
        paths.each_ref().map(|path| fs::read(path).ok())
    }

    /// Returns whether the files have changed, if the last read is longer ago than `lifetime`.
    fn have_changed(&self, lifetime: Duration) -> bool {
        let mut current = self.current.lock();
        if current.1.elapsed() < lifetime {
            return false;
        }
        current.1 = Instant::now();
        let contents = Self::read(&self.paths);
        let changed = contents != current.0;
        current.0 = contents;
        changed
    }
}

/// A file with a bearer token.
struct TokenFile {
    path: PathBuf,
    /// The header, and the time at which the file was read.
    current: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn read(path: &Path) -> Result<HeaderValue, String> {
        let text = fs::read_to_string(path).map_err(|error| open_error(path, &error))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("read empty token from file {}", quote(&path.to_string_lossy())));
        }
        let mut header = HeaderValue::try_from(format!("Bearer {text}")).map_err(|error| error.to_string())?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// The header with the token. While the file cannot be read, its last token stays in use.
    fn header(&self) -> HeaderValue {
        let mut current = self.current.lock();
        if current.1.elapsed() >= TOKEN_LIFETIME {
            match Self::read(&self.path) {
                Ok(header) => current.0 = header,
                Err(error) => tracing::warn!(%error, "Unable to rotate token"),
            }
            current.1 = Instant::now();
        }
        current.0.clone()
    }
}

static NOTHING: Value = Value::Null;

/// The parts of a kubeconfig that its current context selects.
pub(super) struct Selected<'a> {
    pub(super) cluster: &'a Value,
    pub(super) user: &'a Value,
    pub(super) cluster_name: &'a str,
    pub(super) user_name: &'a str,
    /// The folder of the file. Relative paths start from this folder.
    pub(super) folder: &'a Path,
    /// The protocols that the client offers to the server.
    pub(super) protocols: Protocols,
    /// How the client reaches the server.
    pub(super) dialer: Dialer,
}

/// An owned [`Selected`].
struct OwnedSelected {
    cluster: Value,
    user: Value,
    cluster_name: String,
    user_name: String,
    folder: PathBuf,
    protocols: Protocols,
    dialer: Dialer,
}

impl OwnedSelected {
    fn as_selected(&self) -> Selected<'_> {
        Selected {
            cluster: &self.cluster,
            user: &self.user,
            cluster_name: &self.cluster_name,
            user_name: &self.user_name,
            folder: &self.folder,
            protocols: self.protocols,
            dialer: self.dialer.clone(),
        }
    }
}

impl KubeconfigClient {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, selects no server, or contains a setting that is not supported.
    pub(crate) fn load(path: &Path, dialer: Dialer) -> Result<Self, KubeconfigError> {
        let text = fs::read(path)
            .map_err(|error| KubeconfigError(format!("stat {}: {}", path.display(), system_error(&error))))?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::from_text(&text, folder, dialer)
            .map_err(|KubeconfigError(error)| KubeconfigError(error.replace("$FILE", &path.to_string_lossy())))
    }

    /// Reads the content of a kubeconfig. Its relative paths start from `folder`. Errors contain `$FILE` instead of its
    /// path.
    ///
    /// # Errors
    /// Like [`KubeconfigClient::load`].
    pub(crate) fn from_text(text: &[u8], folder: &Path, dialer: Dialer) -> Result<Self, KubeconfigError> {
        let invalid =
            |error: &dyn fmt::Display| KubeconfigError(format!("error loading config file \"$FILE\": {error}"));
        let config = decode(text).map_err(|error| invalid(&error))?;
        Selected { dialer, ..select(&config, folder)? }.client()
    }

    /// The URL of the server, with its path. Requests have to be for this origin.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Sends a request to the server, with the credentials.
    ///
    /// # Errors
    /// See [`Client::send`].
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
        limits: CallLimits,
    ) -> Result<Response<BoundedBody>, RequestError> {
        self.send_to(None, request, limits).await
    }

    /// Like [`KubeconfigClient::send`], but connects to a given address.
    ///
    /// # Errors
    /// See [`Client::send`].
    pub(super) async fn send_to(
        &self,
        address: Option<&DialAddress>,
        mut request: Request<Bytes>,
        limits: CallLimits,
    ) -> Result<Response<BoundedBody>, RequestError> {
        if let Some(authorization) = self.authorization() {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        if let Some((_, host)) = &self.address {
            request.headers_mut().insert(HOST, host.clone());
        }
        if let Err(error) = self.rotate_certificate(CERTIFICATE_LIFETIME) {
            tracing::warn!(%error, "Unable to rotate client certificate");
        }
        let client = self.client.read().clone();
        let address = address.or(self.address.as_ref().map(|(address, _)| address));
        client.send_to(address, request, limits).await
    }

    /// Uses the new client certificate if its files have changed. The files are compared if the last read is longer ago
    /// than `lifetime`. Returns whether the certificate has changed. As in upstream, the kubeconfig itself is not read
    /// again.
    ///
    /// # Errors
    /// The files cannot be used. Then the previous certificate stays in use.
    pub(super) fn rotate_certificate(&self, lifetime: Duration) -> Result<bool, KubeconfigError> {
        let Some(files) = self.certificate.as_ref().filter(|files| files.have_changed(lifetime)) else {
            return Ok(false);
        };
        *self.client.write() = files.source.as_selected().client()?.client.into_inner();
        Ok(true)
    }

    /// The `Authorization` header of a request, unless the client has one.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        self.token.as_ref().map(TokenFile::header).or_else(|| self.password.clone())
    }
}

/// Decodes a kubeconfig.
pub(super) fn decode(text: &[u8]) -> Result<Value, String> {
    let config = match text {
        [] => Value::Null,
        text => SCHEME.decode_yaml_as(text, CONFIG).map_err(|error| error.to_string())?.value,
    };
    check_names(&config)?;
    Ok(config)
}

/// Checks that no two entries of a list have the same name. Upstream's message then shows the whole list, including
/// passwords.
fn check_names(config: &Value) -> Result<(), String> {
    for (list, ty) in [("clusters", "Cluster"), ("users", "AuthInfo"), ("contexts", "Context")] {
        let mut names = HashSet::new();
        for name in config.items_at(&[list]).iter().map(|item| item.str_at(&["name"])) {
            if !names.insert(name) {
                return Err(format!(
                    "error converting *[]Named{ty} into *map[string]*api.{ty}: duplicate name \"{name}\" in list"
                ));
            }
        }
    }
    Ok(())
}

/// An entry of a list by name. An entry without content has no fields.
pub(super) fn named<'a>(config: &'a Value, list: &str, name: &str, entry: &str) -> Option<&'a Value> {
    let found = config.items_at(&[list]).iter().find(|item| item.str_at(&["name"]) == name)?;
    Some(found.get(entry).unwrap_or(&NOTHING))
}

/// The parts that the current context selects. As in upstream, contexts and users that do not exist count as empty.
/// Only a named current context has to exist.
fn select<'a>(config: &'a Value, folder: &'a Path) -> Result<Selected<'a>, KubeconfigError> {
    let context_name = config.str_at(&["current-context"]);
    let context = named(config, "contexts", context_name, "context");
    let (cluster_name, user_name) =
        context.map_or(("", ""), |context| (context.str_at(&["cluster"]), context.str_at(&["user"])));
    let user = named(config, "users", user_name, "user").unwrap_or(&NOTHING);
    let has_context = context.is_some() || context_name.is_empty();
    let missing = format!("context was not found for specified context: {context_name}");
    match named(config, "clusters", cluster_name, "cluster") {
        Some(cluster) if has_context => {
            let (protocols, dialer) = (default_protocols(), Dialer::Direct);
            Ok(Selected { cluster, user, cluster_name, user_name, folder, protocols, dialer })
        }
        Some(_) => Err(KubeconfigError::invalid(missing)),
        None if has_context => {
            let hint = "try setting KUBERNETES_MASTER environment variable";
            Err(KubeconfigError::invalid(format!("no configuration has been provided, {hint}")))
        }
        None => Err(KubeconfigError::invalid(format!("[{missing}, cluster has no server defined]"))),
    }
}

impl Selected<'_> {
    fn to_owned(&self) -> OwnedSelected {
        OwnedSelected {
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            cluster_name: self.cluster_name.to_owned(),
            user_name: self.user_name.to_owned(),
            folder: self.folder.to_owned(),
            protocols: self.protocols,
            dialer: self.dialer.clone(),
        }
    }

    pub(super) fn client(&self) -> Result<KubeconfigClient, KubeconfigError> {
        for (value, fields) in
            [(self.cluster, &UNSUPPORTED_CLUSTER_FIELDS[..]), (self.user, &UNSUPPORTED_USER_FIELDS[..])]
        {
            if let Some(field) = fields.iter().find(|field| value.get(field).is_some_and(|value| !value.is_empty())) {
                return Err(KubeconfigError::invalid(format!("{field} is not supported")));
            }
        }
        let server = self.cluster.str_at(&["server"]);
        if server.is_empty() {
            return Err(KubeconfigError::invalid(match self.cluster_name {
                "" => "default cluster has no server defined".to_owned(),
                name => format!("no server found for cluster {}", quote(name)),
            }));
        }
        let uri: Uri = server.parse().map_err(|error| KubeconfigError::invalid(format!("server: {error}")))?;
        // As in upstream, a server without TLS gets no credentials, and its certificate name is not used.
        let is_https = uri.scheme_str() == Some("https");
        let (origin, address) = match self.cluster.str_at(&["tls-server-name"]) {
            name if name.is_empty() || !is_https => (uri, None),
            name => {
                with_server_name(&uri, name).map_err(|error| KubeconfigError::invalid(format!("server: {error}")))?
            }
        };
        let server = if address.is_some() { origin.to_string() } else { server.to_owned() };
        let authority =
            self.content(self.cluster, "certificate-authority", self.cluster_name, "certificate-authority")?;
        let certificate = self.content(self.user, "client-certificate", self.user_name, "client-cert")?;
        let key = self.content(self.user, "client-key", self.user_name, "client-key")?;
        if certificate.is_some() && key.is_none() {
            return Err(KubeconfigError::invalid(format!(
                "client-key-data or client-key must be specified for {} to use the clientCert authentication method.",
                self.user_name
            )));
        }
        let server_trust = match (&authority, self.cluster.bool_at(&["insecure-skip-tls-verify"])) {
            (Some(_), true) => {
                return Err(KubeconfigError::new(
                    "specifying a root certificates file with the insecure flag is not allowed",
                ));
            }
            (Some(authority), false) => ServerTrust::Authorities(authority),
            (None, true) => ServerTrust::InsecureSkipVerify,
            (None, false) => ServerTrust::System,
        };
        let token = self.user.str_at(&["token"]);
        let token_path = self.user.str_at(&["tokenFile"]);
        let (name, password) = (self.user.str_at(&["username"]), self.user.str_at(&["password"]));
        let has_password = !name.is_empty() || !password.is_empty();
        if has_password && !token.is_empty() {
            return Err(KubeconfigError::invalid(format!(
                "more than one authentication method found for {}; found [token basicAuth], only one is allowed",
                self.user_name
            )));
        }
        if has_password && !token_path.is_empty() {
            return Err(KubeconfigError::new("username/password or bearer token may be set, but not both"));
        }
        let client_certificate = match (&certificate, &key) {
            (Some(chain), Some(key)) => Some(ClientCertificate { chain, key }),
            _ => None,
        };
        let is_unverified = server_trust == ServerTrust::InsecureSkipVerify;
        if is_unverified && (has_password || !token_path.is_empty()) {
            return Err(KubeconfigError::invalid(ClientConfigError::BearerTokenForUnverifiedServer));
        }
        let bearer_token = Some(BearerToken(token)).filter(|_| !token.is_empty() && token_path.is_empty());
        let credentials = Credentials { origin, client_certificate, bearer_token };
        let config = ClientConfig {
            server_trust,
            credentials: is_https.then_some(credentials),
            protocols: self.protocols,
            dialer: self.dialer.clone(),
        };
        let client = Client::new(&config).map_err(KubeconfigError::invalid)?;
        let token_file = Some(self.folder.join(token_path)).filter(|_| is_https && !token_path.is_empty());
        let token = token_file.map(|path| {
            let header = TokenFile::read(&path).map_err(KubeconfigError)?;
            Ok(TokenFile { path, current: Mutex::new((header, Instant::now())) })
        });
        let paths = ["client-certificate", "client-key"].map(|field| self.user.str_at(&[field]));
        let certificate = paths.iter().all(|path| !path.is_empty()).then(|| {
            let paths = paths.map(|path| self.folder.join(path));
            let current = Mutex::new((CertificateFiles::read(&paths), Instant::now()));
            CertificateFiles { source: self.to_owned(), paths, current }
        });
        Ok(KubeconfigClient {
            client: RwLock::new(client),
            certificate,
            server,
            address,
            password: (is_https && has_password).then(|| basic_authorization(name, password)).flatten(),
            token: token.transpose()?,
        })
    }

    /// The content of the file that a field names, or of the field `…-data` in base64. Both together are an error.
    fn content(
        &self,
        value: &Value,
        field: &str,
        owner: &str,
        shown: &str,
    ) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let (path, data) = (value.str_at(&[field]), value.str_at(&[&format!("{field}-data")]));
        match (path, data) {
            ("", "") => Ok(None),
            // The decoder has already checked the base64.
            ("", data) => base64::decode(data.as_bytes())
                .map(Some)
                .map_err(|error| KubeconfigError::invalid(format!("illegal base64 data at input byte {}", error.0))),
            (path, "") => {
                let path = self.folder.join(path);
                let unreadable = |error: io::Error| {
                    let why = open_error(&path, &error);
                    KubeconfigError::invalid(format!(
                        "unable to read {shown} {} for {owner} due to {why}",
                        path.display()
                    ))
                };
                fs::read(&path).map(Some).map_err(unreadable)
            }
            _ => Err(KubeconfigError::invalid(format!(
                "{field}-data and {field} are both specified for {owner}. {field}-data will override."
            ))),
        }
    }
}

/// The URL of a server with the name in its certificate, and the address and `Host` header that this name replaces.
fn with_server_name(uri: &Uri, name: &str) -> Result<(Uri, Option<(DialAddress, HeaderValue)>), http::Error> {
    let authority = uri.authority().map_or("", Authority::as_str);
    let port = uri.port_u16().unwrap_or(443);
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let host_header = HeaderValue::from_str(authority)?;
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let named = Uri::builder().scheme("https").authority(format!("{name}:{port}")).path_and_query(path).build()?;
    Ok((named, Some((DialAddress { host, port }, host_header))))
}

/// The header of basic authentication.
fn basic_authorization(name: &str, password: &str) -> Option<HeaderValue> {
    let encoded = base64::encode(format!("{name}:{password}").as_bytes());
    let mut header = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Go's text of an error when a file is opened.
fn open_error(path: &Path, error: &io::Error) -> String {
    format!("open {}: {}", path.display(), system_error(error))
}

#[cfg(test)]
mod tests;
