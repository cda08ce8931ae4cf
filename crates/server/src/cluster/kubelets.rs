//! Connections to kubelets (upstream: `kubelet/client`): their addresses, the client certificate of this server, and
//! the authority of their certificates.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use http::Uri;
use pintle_gates::{Feature, Gates};
use pintle_outbound::{
    Client, ClientCertificate, ClientConfig, Credentials, DialAddress, Dialer, Protocols, ServerTrust,
};
use pintle_registry::ApiError;
use pintle_value::Value;

use super::webhook_clients::RecentClients;

/// The host and port of a URL (Go: `net.JoinHostPort`).
pub(crate) fn join_host_port(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The configuration of connections to kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletOptions {
    /// The files with the client certificate and its key (`--kubelet-client-certificate`, `--kubelet-client-key`).
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The file with the authority of the certificates of kubelets. Without it, the certificates are not verified
    /// (`--kubelet-certificate-authority`).
    pub certificate_authority: Option<PathBuf>,
    /// The types of node addresses in the order of preference (`--kubelet-preferred-address-types`).
    pub preferred_address_types: Vec<String>,
    /// The port of a kubelet whose node names no port (`--kubelet-port`).
    pub port: u16,
    /// Addresses of nodes and pods that are reached at other addresses, for a program outside of their network. No flag
    /// sets it.
    pub routes: BTreeMap<IpAddr, IpAddr>,
}

impl Default for KubeletOptions {
    /// kube-apiserver's defaults.
    fn default() -> Self {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        Self {
            client_certificate: None,
            certificate_authority: None,
            preferred_address_types: types.map(str::to_owned).into(),
            port: 10250,
            routes: BTreeMap::new(),
        }
    }
}

/// The address of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletAddress {
    pub(crate) host: String,
    pub(crate) port: String,
    /// The address to connect to, if it differs from the address of the host.
    pub(crate) dial_address: Option<DialAddress>,
    /// True if the kubelet serves WebSockets itself.
    pub(crate) serves_websockets: bool,
}

/// The files of a client: the certificate, its key, and the authority. They must not be printed.
#[derive(Clone, Default, PartialEq, Eq)]
struct ClientFiles {
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    authority: Option<Vec<u8>>,
}

/// The authority and TLS settings of a client. A client is replaced when its files have changed.
#[derive(Clone, PartialEq, Eq)]
struct ClientKey {
    authority: String,
    skip_verify: bool,
    files: Arc<ClientFiles>,
}

/// The clients of kubelets. There is one client for each kubelet, because a client presents its certificate to one
/// server only.
pub(crate) struct KubeletClient {
    options: KubeletOptions,
    extends_websockets: bool,
    dialer: Dialer,
    clients: RecentClients<ClientKey, Client>,
    /// The client of pods, services and other ports of nodes.
    proxy: OnceLock<Client>,
}

impl fmt::Debug for KubeletClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeletClient").field("options", &self.options).finish_non_exhaustive()
    }
}

impl KubeletClient {
    pub(crate) fn new(options: KubeletOptions, gates: &Gates, dialer: Dialer) -> Self {
        let extends_websockets = gates.is_enabled(Feature::EXTEND_WEB_SOCKETS_TO_KUBELET);
        Self { options, extends_websockets, dialer, clients: RecentClients::default(), proxy: OnceLock::new() }
    }

    /// The address of a node's kubelet (upstream: `GetConnectionInfo` and `GetPreferredNodeAddress`).
    ///
    /// # Errors
    /// The node has no address of a preferred type.
    pub(crate) fn address(&self, node: &Value) -> Result<KubeletAddress, ApiError> {
        let addresses = node.items_at(&["status", "addresses"]);
        let wanted = self.options.preferred_address_types.iter();
        let found =
            wanted.flat_map(|kind| addresses.iter().filter(move |entry| entry.str_at(&["type"]) == kind)).next();
        let Some(found) = found else {
            let known = addresses.iter().map(|a| format!("{{{} {}}}", a.str_at(&["type"]), a.str_at(&["address"])));
            let known = known.collect::<Vec<_>>().join(" ");
            return Err(ApiError::Unclassified(format!("no preferred addresses found; known addresses: [{known}]")));
        };
        let port = node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]).filter(|port| *port > 0);
        let declared = node.items_at(&["status", "declaredFeatures"]);
        let feature = Feature::EXTEND_WEB_SOCKETS_TO_KUBELET.name();
        let host = found.str_at(&["address"]);
        let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(self.options.port);
        let route = host.parse().ok().and_then(|address| self.options.routes.get(&address));
        Ok(KubeletAddress {
            host: host.to_owned(),
            port: port.to_string(),
            dial_address: route.map(|route| DialAddress { host: route.to_string(), port }),
            serves_websockets: self.extends_websockets && declared.iter().any(|name| name.as_str() == Some(feature)),
        })
    }

    /// The address to dial for an IP address and port, after `routes`.
    pub(crate) fn dial_address(&self, address: IpAddr, port: u16) -> DialAddress {
        DialAddress { host: self.options.routes.get(&address).unwrap_or(&address).to_string(), port }
    }

    /// The client of a kubelet.
    ///
    /// # Errors
    /// A file cannot be read or used, or the address is not valid in a URL.
    pub(crate) async fn client(&self, address: &KubeletAddress, skip_verify: bool) -> Result<Client, ApiError> {
        let failed =
            |why: String| ApiError::Unclassified(format!("failed to prepare the connection to the kubelet: {why}"));
        let files = Arc::new(self.read_files().await.map_err(failed)?);
        let authority = join_host_port(&address.host, &address.port);
        let key = ClientKey { authority, skip_verify, files };
        if let Some(client) = self.clients.get(|other| *other == key) {
            return Ok(client);
        }
        let origin = Uri::builder().scheme("https").authority(key.authority.as_str()).path_and_query("/").build();
        let origin = origin.map_err(|error| failed(error.to_string()))?;
        let certificate = key.files.certificate.as_ref().map(|(chain, key)| ClientCertificate { chain, key });
        let credentials =
            certificate.map(|it| Credentials { origin, client_certificate: Some(it), bearer_token: None });
        // As in upstream, the server does not verify kubelets without an authority.
        let server_trust = match &key.files.authority {
            Some(authority) if !skip_verify => ServerTrust::Authorities(authority),
            _ => ServerTrust::InsecureSkipVerify,
        };
        let config =
            ClientConfig { server_trust, credentials, protocols: Protocols::Http1, dialer: self.dialer.clone() };
        let client = Client::new(&config).map_err(|error| failed(error.to_string()))?;
        Ok(self.clients.add(key, client))
    }

    /// The client of pods, services and ports of nodes, except for ports of kubelets. Like upstream's, it does not
    /// verify certificates.
    ///
    /// # Errors
    /// TLS cannot be configured.
    pub(crate) fn proxy_client(&self) -> Result<Client, ApiError> {
        if let Some(client) = self.proxy.get() {
            return Ok(client.clone());
        }
        let (server_trust, dialer) = (ServerTrust::InsecureSkipVerify, self.dialer.clone());
        let config = ClientConfig { server_trust, dialer, ..ClientConfig::default() };
        let client = Client::new(&config).map_err(|error| ApiError::Internal(error.to_string()))?;
        Ok(self.proxy.get_or_init(|| client).clone())
    }

    /// Reads the files of the options, which may be renewed at any time.
    async fn read_files(&self) -> Result<ClientFiles, String> {
        let read = async |path: &PathBuf| {
            let file = path.clone();
            let read =
                tokio::task::spawn_blocking(move || std::fs::read(file)).await.map_err(|error| error.to_string())?;
            read.map_err(|error| format!("{}: {error}", path.display()))
        };
        let mut files = ClientFiles::default();
        if let Some((certificate, key)) = &self.options.client_certificate {
            files.certificate = Some((read(certificate).await?, read(key).await?));
        }
        if let Some(path) = &self.options.certificate_authority {
            files.authority = Some(read(path).await?);
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    fn node(addresses: &[(&str, &str)], port: i64, declared: &[&str]) -> Value {
        let addresses: Vec<Value> =
            addresses.iter().map(|(kind, address)| object! { "type": *kind, "address": *address }).collect();
        object! {
            "status": object! {
                "addresses": addresses,
                "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": port } },
                "declaredFeatures": declared.iter().map(|name| Value::from(*name)).collect::<Vec<_>>(),
            },
        }
    }

    fn check(types: &[&str], node: &Value, expect: Result<&str, &str>) {
        let types = types.iter().map(|kind| (*kind).to_owned()).collect();
        let options = KubeletOptions { preferred_address_types: types, ..KubeletOptions::default() };
        let found = KubeletClient::new(options, &Gates::default(), Dialer::Direct).address(node);
        let found = found.map(|found| format!("{}:{} {}", found.host, found.port, found.serves_websockets));
        assert_eq!(found.map_err(|error| error.to_string()), expect.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn the_address_of_the_most_preferred_type_is_used() {
        let both = node(&[("InternalIP", "10.0.0.1"), ("ExternalIP", "9.9.9.9"), ("InternalIP", "10.0.0.2")], 10, &[]);
        check(&["Hostname", "InternalIP", "ExternalIP"], &both, Ok("10.0.0.1:10 false"));
        check(&["ExternalIP", "InternalIP"], &both, Ok("9.9.9.9:10 false"));
        check(
            &["Hostname"],
            &both,
            Err("no preferred addresses found; known addresses: [{InternalIP 10.0.0.1} {ExternalIP 9.9.9.9} \
                 {InternalIP 10.0.0.2}]"),
        );
        check(&["Hostname"], &node(&[], 0, &[]), Err("no preferred addresses found; known addresses: []"));
    }

    #[test]
    fn kubelets_without_a_port_listen_at_the_default_one() {
        let address = [("Hostname", "n")];
        check(&["Hostname"], &node(&address, 0, &["Other"]), Ok("n:10250 false"));
        check(&["Hostname"], &node(&address, 0, &["ExtendWebSocketsToKubelet"]), Ok("n:10250 true"));
    }
}
