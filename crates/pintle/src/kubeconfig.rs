//! Kubeconfigs of the administrator and of other users.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::certificates::CertificateAndKey;

/// The field of an extension with the URL for clients on other machines.
const ADVERTISED: &str = "advertised: ";

/// How clients reach a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigCluster {
    /// The base URL.
    pub server: String,
    /// The server name that clients ask for, if it differs from the URL's host.
    pub server_name: Option<String>,
    /// The base URL for clients on other machines, if it differs.
    pub advertised: Option<String>,
    /// The authority of the server's certificate, in PEM, encoded with base64.
    authority: String,
}

/// The credentials of a user.
#[derive(Clone, Copy, Debug)]
pub enum KubeconfigCredentials<'a> {
    /// A client certificate.
    Certificate(&'a CertificateAndKey),
    /// A bearer token.
    Token(&'a str),
}

impl KubeconfigCluster {
    /// A server whose certificate is signed by this authority (in PEM).
    #[must_use]
    pub fn new(server: &str, server_name: Option<&str>, authority: &str) -> Self {
        Self {
            server: server.to_owned(),
            server_name: server_name.map(str::to_owned),
            advertised: None,
            authority: STANDARD.encode(authority),
        }
    }

    /// Reads the server from a kubeconfig that [`KubeconfigCluster::kubeconfig`] has made.
    ///
    /// # Errors
    /// The file cannot be read, or another program has written it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let field = |name: &str| text.lines().find_map(|line| line.trim_start().strip_prefix(name)).map(str::to_owned);
        let missing = || format!("{}: not a kubeconfig of this server", path.display());
        Ok(Self {
            server: field("server: ").ok_or_else(missing)?,
            server_name: field("tls-server-name: "),
            advertised: field(ADVERTISED),
            authority: field("certificate-authority-data: ").ok_or_else(missing)?,
        })
    }

    /// The authority, in PEM.
    ///
    /// # Errors
    /// The field is not valid base64.
    pub fn authority(&self) -> Result<Vec<u8>, String> {
        STANDARD.decode(&self.authority).map_err(|error| format!("certificate-authority-data: {error}"))
    }

    /// The kubeconfig of a user, with the credentials inline.
    #[must_use]
    pub fn kubeconfig(&self, user: &str, credentials: KubeconfigCredentials<'_>) -> String {
        let Self { server, server_name, advertised, authority } = self;
        let advertised = advertised
            .as_ref()
            .map(|url| format!("    extensions:\n    - name: pintle\n      extension:\n        {ADVERTISED}{url}\n"));
        let advertised = advertised.unwrap_or_default();
        let server_name = server_name.as_ref().map(|name| format!("    tls-server-name: {name}\n")).unwrap_or_default();
        let credentials = match credentials {
            KubeconfigCredentials::Certificate(pair) => format!(
                "    client-certificate-data: {}\n    client-key-data: {}\n",
                STANDARD.encode(&pair.certificate),
                STANDARD.encode(&pair.key)
            ),
            KubeconfigCredentials::Token(token) => format!("    token: {token}\n"),
        };
        let user = yaml_text(user);
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: pintle\n\
             \x20 cluster:\n\
             \x20   server: {server}\n\
             \x20   certificate-authority-data: {authority}\n{server_name}{advertised}\
             users:\n\
             - name: {user}\n\
             \x20 user:\n{credentials}\
             contexts:\n\
             - name: pintle\n\
             \x20 context:\n\
             \x20   cluster: pintle\n\
             \x20   user: {user}\n\
             current-context: pintle\n"
        )
    }
}

/// A text as YAML. A word that YAML cannot take for another type stays as it is; other texts get quotes.
fn yaml_text(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::new();
    pintle_value::print::json_string(&mut quoted, text);
    quoted
}
