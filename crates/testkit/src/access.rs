//! The access of clients to a cluster: its URL, its certificate authority, and the certificates of users.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::AuthInfo;
use pintle::certificates::{CLOCK_SKEW, CertificateAndKey, Certificates};
use pintle::{CertificateUser, KubeconfigCluster, KubeconfigCredentials, sign_client_certificate};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use time::{Duration, OffsetDateTime};

/// The user of the kit's own requests, which have no faults and are not recorded.
pub(crate) const KIT_USER: &str = "system:pintle-testkit";
/// The group of administrators.
const ADMINISTRATORS: &str = "system:masters";
/// How long the certificates of users are valid.
const VALIDITY: Duration = Duration::days(3650);

/// The data for clients of a cluster.
#[derive(Clone)]
pub(crate) struct Access(Arc<AccessParts>);

struct AccessParts {
    url: String,
    kubeconfig: String,
    certificates: Certificates,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("url", &self.0.url).finish_non_exhaustive()
    }
}

/// The credentials of a user.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    Certificate(CertificateAndKey),
    Token(String),
}

impl Access {
    pub(crate) fn new(url: &str, kubeconfig: &str, certificates: &Certificates) -> Self {
        let (url, kubeconfig) = (url.to_owned(), kubeconfig.to_owned());
        Self(Arc::new(AccessParts { url, kubeconfig, certificates: certificates.clone() }))
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &str {
        &self.0.kubeconfig
    }

    /// The administrator's certificate.
    pub(crate) fn administrator(&self) -> Credentials {
        Credentials::Certificate(self.0.certificates.admin.clone())
    }

    /// A certificate for a user.
    pub(crate) fn certificate(&self, name: &str, groups: &[String]) -> Credentials {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let user = CertificateUser { name, groups: &groups };
        let now = OffsetDateTime::now_utc();
        let signed = sign_client_certificate(&self.0.certificates.authority, user, now - CLOCK_SKEW, now + VALIDITY);
        Credentials::Certificate(signed.expect("the authority of the cluster signs certificates"))
    }

    /// The kubeconfig of a user.
    pub(crate) fn kubeconfig_of(&self, user: &str, credentials: &Credentials) -> String {
        let cluster = KubeconfigCluster::new(&self.0.url, None, &self.0.certificates.authority.certificate);
        let credentials = match credentials {
            Credentials::Certificate(pair) => KubeconfigCredentials::Certificate(pair),
            Credentials::Token(token) => KubeconfigCredentials::Token(token),
        };
        cluster.kubeconfig(user, credentials)
    }

    /// The configuration of a client.
    pub(crate) fn config(&self, credentials: &Credentials) -> kube::Config {
        let url = self.0.url.parse().expect("the URL of the server is valid");
        let authority = CertificateDer::from_pem_slice(self.0.certificates.authority.certificate.as_bytes());
        let mut config = kube::Config::new(url);
        config.root_cert = Some(vec![authority.expect("the authority of the server is valid").to_vec()]);
        // The value is deserialized, because kube does not export the type of its secrets.
        let auth_info = match credentials {
            Credentials::Certificate(pair) => json!({
                "client-certificate-data": STANDARD.encode(&pair.certificate),
                "client-key-data": STANDARD.encode(&pair.key),
            }),
            Credentials::Token(token) => json!({ "token": token }),
        };
        config.auth_info = serde_json::from_value::<AuthInfo>(auth_info).expect("the credentials have their form");
        config
    }

    /// A client.
    pub(crate) fn client(&self, credentials: &Credentials) -> kube::Client {
        kube::Client::try_from(self.config(credentials)).expect("the configuration of the client is valid")
    }

    /// The kit's own client.
    pub(crate) fn own_client(&self) -> kube::Client {
        self.client(&self.certificate(KIT_USER, &[ADMINISTRATORS.to_owned()]))
    }
}
