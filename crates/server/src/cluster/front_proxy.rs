//! The identity with which this server calls the API servers of APIServices (upstream: `--proxy-client-cert-file`), and
//! how it reaches them.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// The client certificate with which this server calls the API servers of APIServices, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct FrontProxyCertificate {
    /// The certificate, followed by its chain.
    pub chain: Vec<u8>,
    /// The private key of the certificate.
    pub key: Vec<u8>,
}

impl fmt::Debug for FrontProxyCertificate {
    /// Does not print the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontProxyCertificate").finish_non_exhaustive()
    }
}

/// How the API servers of APIServices are reached.
#[derive(Clone, Debug)]
pub struct AggregationOptions {
    /// The client certificate; `None` if there is none. It changes when it is renewed or when its files change.
    pub client_certificate: watch::Receiver<Option<Arc<FrontProxyCertificate>>>,
    /// True to connect to an endpoint of a service instead of its cluster IP (`--enable-aggregator-routing`).
    pub routes_to_endpoints: bool,
    /// True to pass redirects on to clients, which may send their credentials to the target then
    /// (`--aggregator-reject-forwarding-redirect=false`).
    pub forwards_redirects: bool,
}

impl Default for AggregationOptions {
    /// No client certificate, and connections to cluster IPs.
    fn default() -> Self {
        Self { client_certificate: watch::channel(None).1, routes_to_endpoints: false, forwards_redirects: false }
    }
}
