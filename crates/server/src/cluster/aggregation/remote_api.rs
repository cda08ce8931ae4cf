//! A version that another API server serves, and the connections to that server (upstream: kube-aggregator's
//! `BuildTransportConfig` and `proxyHandler`).

use std::fmt;
use std::sync::Arc;

use http::Uri;
use pintle_kinds::RemoteApiService;
use pintle_locks::Mutex;
use pintle_outbound::{Client, ClientCertificate, ClientConfig, Credentials, DialAddress, Dialer, ServerTrust};
use pintle_value::Str;

use crate::client_protocols::default_protocols;
use crate::cluster::front_proxy::FrontProxyCertificate;
use crate::cluster::service_resolver::{self, ResolvedAddress};
use crate::cluster::{AggregationOptions, Cluster};

/// A version that another API server serves.
pub(crate) struct RemoteApi {
    /// The name of the APIService.
    pub(crate) name: Str,
    pub(crate) config: RemoteApiService,
    /// The host and port for which the server's certificate is valid.
    pub(crate) authority: String,
    client: Mutex<Option<BuiltClient>>,
    address: ResolvedAddress,
}

/// A client, or why there is none, with the certificate for which it was built.
struct BuiltClient {
    certificate: Option<Arc<FrontProxyCertificate>>,
    client: Result<Client, String>,
}

impl fmt::Debug for RemoteApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteApi").field("name", &self.name).field("config", &self.config).finish_non_exhaustive()
    }
}

impl RemoteApi {
    pub(crate) fn new(name: &str, config: RemoteApiService) -> Self {
        let authority = format!("{}:{}", config.host(), config.port);
        Self { name: name.into(), config, authority, client: Mutex::default(), address: ResolvedAddress::default() }
    }

    /// The client of the API server. It keeps its connections until the APIService or the client certificate changes.
    ///
    /// # Errors
    /// The authorities of the APIService or the client certificate cannot be used.
    pub(crate) fn client(&self, options: &AggregationOptions, dialer: Dialer) -> Result<Client, String> {
        let certificate = options.client_certificate.borrow();
        let mut built = self.client.lock();
        if let Some(BuiltClient { certificate: used, client }) = &*built
            && used.as_ref().map(Arc::as_ptr) == certificate.as_ref().map(Arc::as_ptr)
        {
            return client.clone();
        }
        let client = self.build(certificate.as_deref(), dialer);
        *built = Some(BuiltClient { certificate: certificate.clone(), client: client.clone() });
        client
    }

    fn build(&self, certificate: Option<&FrontProxyCertificate>, dialer: Dialer) -> Result<Client, String> {
        let server_trust = match self.config.authorities.as_slice() {
            _ if self.config.skips_verification => ServerTrust::InsecureSkipVerify,
            [] => ServerTrust::System,
            authorities => ServerTrust::Authorities(authorities),
        };
        let origin = Uri::builder().scheme("https").authority(self.authority.as_str()).path_and_query("/").build();
        let origin = origin.map_err(|error| error.to_string())?;
        let client_certificate =
            certificate.map(|FrontProxyCertificate { chain, key }| ClientCertificate { chain, key });
        let credentials = Some(Credentials { origin, client_certificate, bearer_token: None });
        let config = ClientConfig { server_trust, credentials, protocols: default_protocols(), dialer };
        Client::new(&config).map_err(|error| error.to_string())
    }

    /// The address to connect to.
    ///
    /// # Errors
    /// Upstream's message if there is no such service or port, or no endpoint.
    pub(crate) fn dial_address(&self, cluster: &Cluster) -> Result<DialAddress, String> {
        let RemoteApiService { namespace, service, port, .. } = &self.config;
        service_resolver::resolve_api_server(
            cluster,
            (namespace, service),
            *port,
            cluster.outbound.routes_to_endpoints(),
            &self.address,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(service: &str, authorities: &[u8]) -> RemoteApi {
        let config = RemoteApiService {
            namespace: "n".into(),
            service: service.into(),
            port: 443,
            authorities: authorities.to_vec(),
            skips_verification: false,
        };
        RemoteApi::new("v1.a", config)
    }

    #[test]
    fn a_service_that_is_no_host_has_no_client() {
        let options = AggregationOptions::default();
        assert!(remote("s", b"").client(&options, Dialer::Direct).is_ok());
        for service in ["a b", "a@b", "", "a/b"] {
            let _ = remote(service, b"").client(&options, Dialer::Direct);
        }
        assert!(remote("a b", b"").client(&options, Dialer::Direct).is_err());
        assert!(
            remote("s", b"-----BEGIN CERTIFICATE-----\nAQ==\n-----END CERTIFICATE-----\n")
                .client(&options, Dialer::Direct)
                .is_err()
        );
    }
}
