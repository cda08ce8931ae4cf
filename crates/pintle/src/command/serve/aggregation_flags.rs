//! The flags of connections to the API servers of APIServices, with kube-apiserver's names.

use std::path::PathBuf;

use clap::ArgAction;
use pintle::{AggregatorOptions, CertificateFiles};

/// The flags of connections to the API servers of APIServices.
#[derive(clap::Args)]
pub(crate) struct AggregationFlags {
    /// The file with the client certificate, in PEM, with which the server proves its identity to the API servers of
    /// APIServices. It should be signed by an authority of --requestheader-client-ca-file, which is published for them
    /// in the ConfigMap kube-system/extension-apiserver-authentication. It is read again when it changes, as is its key
    /// [default: the server's own certificate, pki/front-proxy-client.crt in --data-dir].
    #[arg(long, value_name = "FILE", requires = "proxy_client_key_file")]
    proxy_client_cert_file: Option<PathBuf>,
    /// The file with the private key of --proxy-client-cert-file.
    #[arg(long, value_name = "FILE", requires = "proxy_client_cert_file")]
    proxy_client_key_file: Option<PathBuf>,
    /// Whether requests for the API servers of APIServices are sent to an endpoint of the service instead of its
    /// cluster IP.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false, action = ArgAction::Set)]
    enable_aggregator_routing: bool,
    /// Whether redirects of the API servers of APIServices are refused instead of passed on to clients.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = ArgAction::Set)]
    aggregator_reject_forwarding_redirect: bool,
}

impl AggregationFlags {
    /// How the API servers of APIServices are called.
    pub(crate) fn options(&self) -> AggregatorOptions {
        let files = self.proxy_client_cert_file.clone().zip(self.proxy_client_key_file.clone());
        AggregatorOptions {
            client_certificate: files.map(|(certificate, key)| CertificateFiles { certificate, key }),
            routes_to_endpoints: self.enable_aggregator_routing,
            forwards_redirects: !self.aggregator_reject_forwarding_redirect,
        }
    }
}
