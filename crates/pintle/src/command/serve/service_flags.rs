//! The flags of services, with kube-apiserver's names.

use pintle::{NetworkError, ServiceNetwork};

/// The flags of services.
#[derive(clap::Args)]
pub(crate) struct ServiceFlags {
    /// A CIDR notation IP range from which to assign service cluster IPs, or one of each family, comma separated, the
    /// default family first [default: 10.0.0.0/24].
    #[arg(long, value_name = "CIDR,...", default_value = "", hide_default_value = true)]
    service_cluster_ip_range: String,
    /// The ports for services with NodePort visibility, such as 30000-32767. Both ends are included.
    #[arg(long, value_name = "PORTS", default_value = "30000-32767")]
    service_node_port_range: String,
}

impl ServiceFlags {
    /// The addresses and ports of services that the flags select.
    ///
    /// # Errors
    /// A range is malformed or unsuitable.
    pub(crate) fn network(&self) -> Result<ServiceNetwork, NetworkError> {
        ServiceNetwork::from_flags(&self.service_cluster_ip_range, &self.service_node_port_range)
    }
}
