//! Egress selection: the dialers of the networks that the server calls (upstream: apiserver's
//! `pkg/server/egressselector`).

mod configuration;
mod validate;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use pintle_metrics::{Counter, Exposition, Histogram, Kind, Stability};
use pintle_outbound::{DialMetrics, Dialer};
use pintle_registry::{WebhookClientConfig, WebhookTarget};

/// A network that the server calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressType {
    /// The other components of the control plane, such as webhooks of authentication and authorization.
    ControlPlane,
    /// The store.
    Etcd,
    /// Nodes, pods and services.
    Cluster,
}

impl EgressType {
    /// All networks.
    pub const ALL: [Self; 3] = [Self::ControlPlane, Self::Etcd, Self::Cluster];

    /// The name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "controlplane",
            Self::Etcd => "etcd",
            Self::Cluster => "cluster",
        }
    }
}

impl fmt::Display for EgressType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// True for the port of the service `kubernetes`, whose endpoints are the API servers themselves. Nothing has to listen
/// at its cluster IP (upstream calls itself: `NewLoopbackServiceResolver`).
pub(crate) fn is_own_service(namespace: &str, name: &str, port: u16) -> bool {
    (namespace, name, port) == ("default", "kubernetes", 443)
}

/// The dialers of the networks. By default, nothing is configured, and all calls go out directly. Clones share the
/// proxies.
#[derive(Clone, Debug, Default)]
pub struct EgressSelector(Option<Arc<[(EgressType, Dialer)]>>);

impl EgressSelector {
    /// Reads a configuration file (`--egress-selector-config-file`), and the certificates that it names.
    ///
    /// # Errors
    /// A file cannot be read, or the configuration is invalid; with upstream's message.
    pub fn read(file: &Path) -> Result<Self, String> {
        configuration::read(file)
    }

    /// The dialer of a network. A network without a configuration is called directly.
    #[must_use]
    pub fn dialer(&self, network: EgressType) -> Dialer {
        self.configured(network).cloned().unwrap_or_default()
    }

    fn configured(&self, network: EgressType) -> Option<&Dialer> {
        let found = self.0.iter().flat_map(|selections| selections.iter()).find(|(other, _)| *other == network);
        found.map(|(_, dialer)| dialer)
    }

    /// The dialer of an issuer of tokens that names its network. An issuer without a network is called directly.
    ///
    /// # Errors
    /// The network is not configured.
    pub(crate) fn issuer_dialer(&self, network: &str) -> Result<Dialer, String> {
        if network.is_empty() {
            return Ok(Dialer::Direct);
        }
        let Some(found) = EgressType::ALL.into_iter().find(|other| other.name() == network) else {
            return Err(format!("oidc: unknown egress selector type {network:?}"));
        };
        if self.0.is_none() {
            return Err(format!("oidc: egress lookup required with egress selector type {network:?}"));
        }
        let dialer = self.configured(found).cloned();
        dialer.ok_or_else(|| format!("oidc: egress lookup for {network:?} is not configured"))
    }

    /// The dialer of an admission or conversion webhook: services are in the cluster, and other hosts belong to the
    /// control plane (upstream: `NewDefaultAuthenticationInfoResolverWrapper`). The server calls itself directly.
    pub(crate) fn webhook_dialer(&self, config: &WebhookClientConfig) -> Dialer {
        match &config.target {
            WebhookTarget::Url(_) => self.dialer(EgressType::ControlPlane),
            WebhookTarget::Service { namespace, name, port, .. } if is_own_service(namespace, name, *port) => {
                Dialer::Direct
            }
            WebhookTarget::Service { .. } => self.dialer(EgressType::Cluster),
        }
    }

    /// The metrics of dials through proxies. A series appears with its first event.
    pub(crate) fn write_metrics(&self, out: &mut Exposition) {
        for transport in ["tcp", "uds"] {
            let metrics: Vec<&DialMetrics> = self.metrics_of(transport).collect();
            let labels = [("protocol", "http_connect"), ("transport", transport)];
            let sum = |counter: fn(&DialMetrics) -> &Counter| metrics.iter().map(|it| counter(it).get()).sum::<u64>();
            let starts = sum(|it| &it.starts);
            if starts > 0 {
                let help = "Dials through egress proxies, by protocol and transport.";
                out.family("apiserver_egress_dialer_dial_start_total", Kind::Counter, Stability::Alpha, help)
                    .value(&labels, starts as f64);
            }
            let failures = [("connect", sum(|it| &it.connect_failures)), ("proxy", sum(|it| &it.proxy_failures))];
            for (stage, count) in failures.into_iter().filter(|(_, count)| *count > 0) {
                let help = "Failed dials through egress proxies, by protocol, transport and stage.";
                let [protocol, transport] = labels;
                out.family("apiserver_egress_dialer_dial_failure_count", Kind::Counter, Stability::Alpha, help)
                    .value(&[protocol, transport, ("stage", stage)], count as f64);
            }
            let durations: Vec<&Histogram> =
                metrics.iter().map(|it| &it.durations).filter(|durations| durations.count() > 0).collect();
            if !durations.is_empty() {
                let help = "Duration of dials through egress proxies in seconds, by protocol and transport.";
                out.family("apiserver_egress_dialer_dial_duration_seconds", Kind::Histogram, Stability::Alpha, help)
                    .merged(&labels, &durations, DialMetrics::BUCKETS);
            }
        }
    }

    fn metrics_of(&self, transport: &'static str) -> impl Iterator<Item = &DialMetrics> {
        let dialers = self.0.iter().flat_map(|selections| selections.iter()).map(|(_, dialer)| dialer);
        dialers.filter_map(move |dialer| match dialer {
            Dialer::HttpConnect(proxy) if proxy.transport() == transport => Some(proxy.metrics()),
            Dialer::HttpConnect(_) | Dialer::Direct => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use pintle_outbound::HttpConnectProxy;

    use super::*;

    /// A selector whose proxies are Unix sockets with the names of the networks.
    fn selector(networks: &[EgressType]) -> EgressSelector {
        let proxy = |network: &EgressType| Dialer::HttpConnect(Arc::new(HttpConnectProxy::unix(network.name().into())));
        EgressSelector(Some(networks.iter().map(|network| (*network, proxy(network))).collect()))
    }

    fn shown(dialer: &Dialer) -> String {
        format!("{dialer:?}")
    }

    fn proxy(network: EgressType) -> String {
        format!("HttpConnect(HttpConnectProxy({:?}))", network.name())
    }

    #[test]
    fn webhooks_are_in_the_cluster_or_in_the_control_plane() {
        let selector = selector(&EgressType::ALL);
        let dialer = |target| shown(&selector.webhook_dialer(&WebhookClientConfig { target, authorities: Vec::new() }));
        let service = |namespace: &str, name: &str, port| {
            dialer(WebhookTarget::Service { namespace: namespace.into(), name: name.into(), port, path: "".into() })
        };
        assert_eq!(dialer(WebhookTarget::Url("https://a".into())), proxy(EgressType::ControlPlane));
        assert_eq!(service("default", "hook", 443), proxy(EgressType::Cluster));
        assert_eq!(service("default", "kubernetes", 8443), proxy(EgressType::Cluster));
        assert_eq!(service("default", "kubernetes", 443), "Direct");
    }

    #[test]
    fn issuers_name_a_configured_network() {
        let check = |selector: &EgressSelector, network: &str, expect: Result<String, &str>| {
            let found = selector.issuer_dialer(network).map(|dialer| shown(&dialer));
            assert_eq!(found, expect.map_err(str::to_owned), "{network}");
        };
        let none = EgressSelector::default();
        check(&none, "", Ok("Direct".to_owned()));
        check(&none, "cluster", Err("oidc: egress lookup required with egress selector type \"cluster\""));
        let selector = selector(&[EgressType::Cluster]);
        check(&selector, "", Ok("Direct".to_owned()));
        check(&selector, "cluster", Ok(proxy(EgressType::Cluster)));
        check(&selector, "controlplane", Err("oidc: egress lookup for \"controlplane\" is not configured"));
        assert_eq!(shown(&selector.dialer(EgressType::ControlPlane)), "Direct");
    }
}
