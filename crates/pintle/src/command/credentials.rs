//! The commands that make credentials: `pintle kubeconfig` and `pintle token create`.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use http::{Method, Uri};
use pintle::certificates::{CLOCK_SKEW, CertificateAndKey};
use pintle::{CertificateUser, KubeconfigCluster, KubeconfigCredentials, sign_client_certificate};
use pintle_value::object;
use time::OffsetDateTime;

use super::administrator::{Administrator, block_on, url_encoded};
use super::serve::parse_positive_duration;

/// Where a server's credentials are, and how clients reach it.
#[derive(clap::Args)]
struct ServerFlags {
    /// The data directory of the server.
    #[arg(long, value_name = "DIR", default_value = "pintle-data")]
    data_dir: PathBuf,
    /// The URL of the server in the kubeconfig. [default: the advertised address of a server that listens at all
    /// addresses, or else the URL in admin.kubeconfig in --data-dir]
    #[arg(long, value_name = "URL")]
    server: Option<Uri>,
}

impl ServerFlags {
    /// How the administrator reaches the server.
    fn administrators(&self) -> Result<KubeconfigCluster, String> {
        KubeconfigCluster::read(&self.data_dir.join("admin.kubeconfig"))
    }

    /// How the users of the kubeconfig reach the server. Prints the address to standard error, unless a flag gives it.
    fn users(&self) -> Result<KubeconfigCluster, String> {
        let mut cluster = self.administrators()?;
        cluster.server = match (&self.server, cluster.advertised.take()) {
            (Some(server), _) => server.to_string().trim_end_matches('/').to_owned(),
            (None, Some(url)) => {
                note(&format!("the kubeconfig names the address that the server advertises, {url}; see --server"));
                url
            }
            (None, None) => {
                if is_loopback(&cluster.server) {
                    let url = &cluster.server;
                    note(&format!("the server listens on {url}, which other machines do not reach; see --server"));
                }
                cluster.server
            }
        };
        Ok(cluster)
    }
}

/// Tells the user something that is not the result of the command.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "pintle: {text}");
}

/// True if a URL names an address of the loopback interface.
fn is_loopback(url: &str) -> bool {
    let host = url.parse::<Uri>().ok().and_then(|url| url.host().map(|host| host.trim_matches(['[', ']']).to_owned()));
    host.and_then(|host| host.parse::<IpAddr>().ok()).is_some_and(|address| address.is_loopback())
}

/// `pintle kubeconfig`.
#[derive(clap::Args)]
pub(crate) struct KubeconfigCommand {
    /// The name of the user.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A group of the user. May be given more than once.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// How long the certificate is valid, as a duration such as 24h. It cannot be revoked.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_positive_duration)]
    expires: Duration,
    #[command(flatten)]
    server: ServerFlags,
}

impl KubeconfigCommand {
    /// Makes a certificate, and returns the kubeconfig with it.
    pub(crate) fn run(self) -> Result<String, String> {
        if self.user.is_empty() || self.group.iter().any(String::is_empty) {
            return Err("the names of users and groups must not be empty".to_owned());
        }
        let authority = CertificateAndKey::load_authority(&self.server.data_dir).map_err(|error| error.to_string())?;
        let now = OffsetDateTime::now_utc();
        let not_after = time::Duration::try_from(self.expires).ok().and_then(|expires| now.checked_add(expires));
        let not_after = not_after.ok_or("--expires: the duration is too long")?;
        let groups: Vec<&str> = self.group.iter().map(String::as_str).collect();
        let user = CertificateUser { name: &self.user, groups: &groups };
        let certificate = sign_client_certificate(&authority, user, now - CLOCK_SKEW, not_after);
        let certificate = certificate.map_err(|error| error.to_string())?;
        Ok(self.server.users()?.kubeconfig(&self.user, KubeconfigCredentials::Certificate(&certificate)))
    }
}

/// `pintle token`.
#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Print a kubeconfig with a new token of a service account. The server must be running.
    Create(CreateToken),
}

impl TokenCommand {
    pub(crate) fn run(self) -> Result<String, String> {
        let Self::Create(command) = self;
        command.run()
    }
}

/// The output of `pintle token create`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TokenOutput {
    /// A kubeconfig with the token.
    Kubeconfig,
    /// The token alone.
    Token,
}

/// `pintle token create`.
#[derive(clap::Args)]
pub(crate) struct CreateToken {
    /// The name of the service account.
    #[arg(value_name = "SERVICE_ACCOUNT")]
    name: String,
    /// The namespace of the service account.
    #[arg(long, short, default_value = "default")]
    namespace: String,
    /// How long the token is valid, as a duration such as 24h.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_positive_duration)]
    expires: Duration,
    /// An audience of the token. May be given more than once [default: the server].
    #[arg(long, value_name = "AUDIENCE")]
    audience: Vec<String>,
    /// The output.
    #[arg(long, short, value_enum, default_value = "kubeconfig")]
    output: TokenOutput,
    #[command(flatten)]
    server: ServerFlags,
}

impl CreateToken {
    /// Asks the server for a token as its administrator, and returns the output of the command.
    fn run(self) -> Result<String, String> {
        let token = block_on(self.request())?;
        match self.output {
            TokenOutput::Token => Ok(token + "\n"),
            TokenOutput::Kubeconfig => {
                Ok(self.server.users()?.kubeconfig(&self.name, KubeconfigCredentials::Token(&token)))
            }
        }
    }

    async fn request(&self) -> Result<String, String> {
        let seconds = i64::try_from(self.expires.as_secs()).unwrap_or(i64::MAX);
        let body = object! {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": object! { "audiences": self.audience.clone(), "expirationSeconds": seconds },
        };
        let (namespace, name) = (url_encoded(&self.namespace), url_encoded(&self.name));
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let answer = Administrator::of(&self.server.data_dir)?.call(Method::POST, &path, Some(&body)).await?;
        match answer.str_at(&["status", "token"]) {
            "" => Err("the server's answer has no token".to_owned()),
            token => Ok(token.to_owned()),
        }
    }
}
