//! The flags of connections to kubelets, with kube-apiserver's names.

use std::path::PathBuf;

use pintle::KubeletOptions;

use crate::command::string_slice::StringSlice;

/// The flags of connections to kubelets.
#[derive(clap::Args)]
pub(crate) struct KubeletFlags {
    /// The file with the client certificate with which the server calls kubelets, in PEM. It is read again when it
    /// changes, as is its key.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_key")]
    kubelet_client_certificate: Option<PathBuf>,
    /// The file with the private key of --kubelet-client-certificate.
    #[arg(long, value_name = "FILE", requires = "kubelet_client_certificate")]
    kubelet_client_key: Option<PathBuf>,
    /// The file with the authorities of the certificates of kubelets, in PEM. Without it they are not verified.
    #[arg(long, value_name = "FILE")]
    kubelet_certificate_authority: Option<PathBuf>,
    /// The types of node addresses at which kubelets are called, comma separated, the most preferred one first.
    #[arg(long, value_name = "TYPE,...", default_value = "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP")]
    kubelet_preferred_address_types: Vec<StringSlice>,
    /// The port of kubelets whose node does not name one (deprecated).
    #[arg(long, value_name = "PORT", default_value_t = 10250)]
    kubelet_port: u16,
}

impl KubeletFlags {
    /// How kubelets are reached.
    pub(crate) fn options(&self) -> KubeletOptions {
        let certificate = self.kubelet_client_certificate.clone().zip(self.kubelet_client_key.clone());
        KubeletOptions {
            client_certificate: certificate,
            certificate_authority: self.kubelet_certificate_authority.clone(),
            preferred_address_types: StringSlice::concat(&self.kubelet_preferred_address_types),
            port: self.kubelet_port,
            ..KubeletOptions::default()
        }
    }
}
