//! The addresses of pods, services and nodes (upstream: `LogLocation`, `ExecLocation`, `PortForwardLocation` and
//! `ResourceLocation` of pods, services and nodes).

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use pintle_gates::Change;
use pintle_outbound::DialAddress;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;
use pintle_value::print::quote;

use crate::cluster::service_resolver::{primary_family, random_endpoint};
use crate::cluster::{Cluster, KubeletAddress, KubeletClient, join_host_port};
use crate::http::random_share;

/// The scheme, host and port, the path and the query of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) scheme: String,
    /// The host with its port; an IPv6 address is in brackets.
    pub(super) authority: String,
    /// The path, not escaped.
    pub(super) path: String,
    /// The query, escaped.
    pub(super) query: String,
    /// The address to connect to. It is always set if the host was checked, because the host's name may later resolve
    /// to another address. Otherwise the host is looked up.
    pub(super) dial_address: Option<DialAddress>,
    /// The host and port for which the server's certificate has to be valid, if they differ from `authority`.
    pub(super) tls_authority: Option<String>,
}

impl Location {
    /// A location at a kubelet. The parameters are in the order of their names.
    pub(super) fn of_kubelet(kubelet: &KubeletAddress, path: String, parameters: &[(&str, &str)]) -> Self {
        let authority = join_host_port(&kubelet.host, &kubelet.port);
        Self {
            scheme: "https".to_owned(),
            authority,
            path,
            query: encode_query(parameters),
            dial_address: kubelet.dial_address.clone(),
            tls_authority: None,
        }
    }
}

/// Encodes parameters as Go's `url.Values` does.
pub(super) fn encode_query(parameters: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (key, value) in parameters {
        if !out.is_empty() {
            out.push('&');
        }
        escape_parameter(key, &mut out);
        out.push('=');
        escape_parameter(value, &mut out);
    }
    out
}

fn escape_parameter(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// The parts of `name`, `name:port` or `scheme:name:port` (upstream: `net.SplitSchemeNamePort`).
pub(super) struct NamedPort<'n> {
    pub(super) scheme: &'n str,
    pub(super) name: &'n str,
    pub(super) port: &'n str,
}

impl<'n> NamedPort<'n> {
    /// `None` if there is no name, or if the scheme is neither `http` nor `https`.
    pub(super) fn parse(id: &'n str) -> Option<Self> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Self { scheme, name, port })
    }

    /// The scheme, or `http` if there is none.
    fn scheme_or_http(&self) -> String {
        if self.scheme.is_empty() { "http".to_owned() } else { self.scheme.to_owned() }
    }
}

/// Reads an object.
///
/// # Errors
/// `NotFound`, or the stored object is corrupt.
pub(super) fn get(cluster: &Cluster, plural: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let resource = GroupResource::new("", plural);
    let found = cluster.get_object(&resource, namespace, name)?;
    found.ok_or_else(|| ApiError::NotFound { resource, name: name.into() })
}

/// All containers of a pod, in upstream's order: init containers, containers, ephemeral containers.
fn container_names(pod: &Value) -> Vec<&str> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.iter().flat_map(|list| pod.items_at(&["spec", list])).map(|container| container.str_at(&["name"])).collect()
}

/// The container of a request: the named container, or the only container of the pod.
///
/// # Errors
/// The pod does not have the named container, or it has several and the request names none.
pub(super) fn container<'c>(pod: &'c Value, wanted: &'c str) -> Result<&'c str, ApiError> {
    let name = pod.name();
    if !wanted.is_empty() {
        let is_valid = container_names(pod).contains(&wanted);
        return match is_valid {
            true => Ok(wanted),
            false => Err(ApiError::BadRequest(format!("container {wanted} is not valid for pod {name}"))),
        };
    }
    match pod.items_at(&["spec", "containers"]) {
        [only] => Ok(only.str_at(&["name"])),
        [] => Err(ApiError::BadRequest(format!("a container name must be specified for pod {name}"))),
        _ => Err(ApiError::BadRequest(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            container_names(pod).join(" ")
        ))),
    }
}

/// The kubelet of a pod.
///
/// # Errors
/// The pod is not on a node, or the node is unknown or has no address.
pub(super) fn kubelet_of(cluster: &Cluster, pod: &Value) -> Result<KubeletAddress, ApiError> {
    let node = pod.str_at(&["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::BadRequest(format!("pod {} does not have a host assigned", pod.name())));
    }
    cluster.outbound.kubelets.address(&get(cluster, "nodes", "", node)?)
}

/// True if requests may be proxied to an address (Go: `IP.IsGlobalUnicast`).
fn is_global_unicast(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_link_local)
}

fn address_not_allowed() -> ApiError {
    ApiError::BadRequest("address not allowed".to_owned())
}

/// The location of a pod's HTTP server.
///
/// # Errors
/// The name is malformed, there is no such pod, or its address is not allowed.
pub(super) fn pod_location(cluster: &Cluster, namespace: &str, id: &str) -> Result<Location, ApiError> {
    let invalid = || ApiError::BadRequest(format!("invalid pod request {}", quote(id)));
    let named = NamedPort::parse(id).ok_or_else(invalid)?;
    let pod = get(cluster, "pods", namespace, named.name)?;
    pod_backend(&cluster.outbound.kubelets, &pod, &named)
}

/// A backend at an address that was checked. `host` is the address or a name, and `port` a number or empty.
///
/// # Errors
/// The port is invalid.
fn backend(
    kubelets: &KubeletClient,
    scheme: String,
    (host, address): (&str, IpAddr),
    port: &str,
) -> Result<Location, ApiError> {
    let number = match port {
        "" if scheme == "https" => 443,
        "" => 80,
        port => port_number(port)
            .map_err(|why| ApiError::Unavailable(format!("error trying to reach service: dial tcp: {why}")))?,
    };
    let authority = match port {
        "" if host.contains(':') => format!("[{host}]"),
        "" => host.to_owned(),
        _ => join_host_port(host, &number.to_string()),
    };
    let dial_address = Some(kubelets.dial_address(address, number));
    Ok(Location { scheme, authority, dial_address, ..Location::default() })
}

/// The number of a port. An invalid text never gets into a URL.
fn port_number(port: &str) -> Result<u16, String> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(number) if is_number => Ok(number),
        _ if is_number => Err(format!("address {port}: invalid port")),
        _ => Err(format!("lookup tcp/{port}: unknown port")),
    }
}

fn pod_backend(kubelets: &KubeletClient, pod: &Value, named: &NamedPort<'_>) -> Result<Location, ApiError> {
    let ports =
        pod.items_at(&["spec", "containers"]).iter().find_map(|container| container.items_at(&["ports"]).first());
    let port = match (named.port, ports.and_then(|port| port.int_at(&["containerPort"]))) {
        ("", Some(port)) => port.to_string(),
        (port, _) => port.to_owned(),
    };
    let ip = pod.items_at(&["status", "podIPs"]).first().map_or("", |entry| entry.str_at(&["ip"]));
    let address = pintle_value::ip::parse_sloppy(ip).filter(|address| is_global_unicast(*address));
    let address = address.ok_or_else(address_not_allowed)?;
    backend(kubelets, named.scheme_or_http(), (&address.to_string(), address), &port)
}

/// The location of a service: an endpoint that is a pod of the namespace.
///
/// # Errors
/// The name is malformed, the service or port does not exist, or the service has no endpoint.
pub(super) fn service_location(cluster: &Cluster, namespace: &str, id: &str) -> Result<Location, ApiError> {
    let invalid = || ApiError::BadRequest(format!("invalid service request {}", quote(id)));
    let named = NamedPort::parse(id).ok_or_else(invalid)?;
    let mut port = named.port.to_owned();
    if let Ok(number) = crate::request::query::go_integer(named.port) {
        let service = get(cluster, "services", namespace, named.name)?;
        let ports = service.items_at(&["spec", "ports"]);
        let found = ports.iter().find(|candidate| candidate.int_at(&["port"]) == Some(number));
        let found = found.ok_or_else(|| {
            ApiError::Unavailable(format!("no service port {number} found for service {}", quote(named.name)))
        })?;
        found.str_at(&["name"]).clone_into(&mut port);
    }
    if cluster.gates().has(Change::SERVICE_PROXIES_USE_SLICES) {
        return location_from_slices(cluster, namespace, &named, &port);
    }
    let endpoints = get(cluster, "endpoints", namespace, named.name)?;
    let subsets = endpoints.items_at(&["subsets"]);
    if subsets.is_empty() {
        return Err(ApiError::Unavailable(format!("no endpoints available for service {}", quote(named.name))));
    }
    let is_valid = |address: &Value| is_of_pod(cluster, namespace, address, address.str_at(&["ip"]));
    let found = rotated(subsets).find_map(|subset| {
        let port = subset.items_at(&["ports"]).iter().find(|candidate| candidate.str_at(&["name"]) == port)?;
        let address = rotated(subset.items_at(&["addresses"])).find(|address| is_valid(address))?;
        let ip = pintle_value::ip::parse_sloppy(address.str_at(&["ip"]))?;
        Some((ip, port.int_at(&["port"]).unwrap_or_default().to_string()))
    });
    match found {
        Some((ip, port)) => backend(&cluster.outbound.kubelets, named.scheme_or_http(), (&ip.to_string(), ip), &port),
        None => Err(ApiError::Unavailable(format!("no endpoints available for service {}", quote(id)))),
    }
}

/// The location of a service from its EndpointSlices.
fn location_from_slices(
    cluster: &Cluster,
    namespace: &str,
    named: &NamedPort<'_>,
    port: &str,
) -> Result<Location, ApiError> {
    let service = get(cluster, "services", namespace, named.name).ok();
    let family = service.as_ref().map_or("", primary_family);
    let is_valid = |endpoint: &Value, address: &str| is_of_pod(cluster, namespace, endpoint, address);
    let found = random_endpoint(cluster, (namespace, named.name), port, family, &is_valid);
    let found = found.and_then(|address| Some((pintle_value::ip::parse_sloppy(&address.host)?, address.port)));
    let (ip, port) = found
        .ok_or_else(|| ApiError::Unavailable(format!("no endpoints available for service {}", quote(named.name))))?;
    let host = ip.to_string();
    backend(&cluster.outbound.kubelets, named.scheme_or_http(), (&host, ip), &port.to_string())
}

/// True if an address of an endpoint is the address of the pod of the namespace to which the endpoint refers.
fn is_of_pod(cluster: &Cluster, namespace: &str, endpoint: &Value, address: &str) -> bool {
    let target = endpoint.at(&["targetRef"]).filter(|target| !target.is_null());
    let pod = target.filter(|target| target.str_at(&["namespace"]) == namespace);
    let pod = pod.and_then(|target| get(cluster, "pods", namespace, target.str_at(&["name"])).ok());
    pod.is_some_and(|pod| pod.items_at(&["status", "podIPs"]).iter().any(|entry| entry.str_at(&["ip"]) == address))
}

/// The items of a list in order, starting at a random item.
fn rotated(items: &[Value]) -> impl Iterator<Item = &Value> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the product is below the number of items"
    )]
    let start = ((random_share() * items.len() as f64) as usize).min(items.len().saturating_sub(1));
    items.iter().cycle().skip(start).take(items.len())
}

/// The location of a node.
#[derive(Debug)]
pub(super) enum NodeLocation {
    /// The kubelet of the node.
    Kubelet(KubeletAddress),
    /// Another port of the node.
    Port(Location),
}

/// The location of a node's HTTP server: its kubelet, or another port.
///
/// # Errors
/// The name is malformed, or the node is unknown. Or the node has no address, or an address that is not allowed.
pub(super) async fn node_location(cluster: &Arc<Cluster>, id: &str) -> Result<NodeLocation, ApiError> {
    let invalid = || ApiError::BadRequest(format!("invalid node request {}", quote(id)));
    let named = NamedPort::parse(id).ok_or_else(invalid)?;
    let kubelet = cluster.outbound.kubelets.address(&get(cluster, "nodes", "", named.name)?)?;
    let address = check_host(&kubelet.host).await?;
    if named.port.is_empty() || named.port == kubelet.port {
        let port = port_number(&kubelet.port).map_err(ApiError::Unavailable)?;
        let dial_address = Some(cluster.outbound.kubelets.dial_address(address, port));
        return Ok(NodeLocation::Kubelet(KubeletAddress { dial_address, ..kubelet }));
    }
    let location = backend(&cluster.outbound.kubelets, named.scheme_or_http(), (&kubelet.host, address), named.port)?;
    Ok(NodeLocation::Port(location))
}

/// Checks that no address of a host is a local address, and returns the first address (upstream:
/// `proxyutil.IsProxyableHostname`).
async fn check_host(host: &str) -> Result<IpAddr, ApiError> {
    let found = tokio::net::lookup_host((host, 0)).await;
    let failed = |error| ApiError::BadRequest(format!("lookup {host}: {error}"));
    let addresses: Vec<IpAddr> = found.map_err(failed)?.map(|address| address.ip()).collect();
    let Some(first) = addresses.first() else {
        return Err(ApiError::BadRequest("No addresses for hostname".to_owned()));
    };
    if addresses.iter().copied().all(is_global_unicast) { Ok(*first) } else { Err(address_not_allowed()) }
}

#[cfg(test)]
mod tests {
    use pintle_outbound::Dialer;
    use pintle_value::object;

    use super::*;
    use crate::cluster::KubeletOptions;

    fn kubelets() -> KubeletClient {
        KubeletClient::new(KubeletOptions::default(), &pintle_gates::Gates::default(), Dialer::Direct)
    }

    fn pod(ip: &str, port: Option<i64>) -> Value {
        let ports: Vec<Value> = port.map(|port| object! { "containerPort": port }).into_iter().collect();
        object! {
            "spec": object! { "containers": vec![object! { "name": "a" }, object! { "ports": ports }] },
            "status": object! { "podIPs": vec![object! { "ip": ip }] },
        }
    }

    fn named(names: &[&str]) -> Vec<Value> {
        names.iter().map(|name| object! { "name": *name }).collect()
    }

    #[test]
    fn schemes_names_and_ports_are_told_apart() {
        for (id, expect) in [
            ("a", Some(("", "a", ""))),
            ("a:80", Some(("", "a", "80"))),
            ("a:", Some(("", "a", ""))),
            ("https:a:web", Some(("https", "a", "web"))),
            (":a:80", Some(("", "a", "80"))),
            ("ftp:a:80", None),
            ("https::80", None),
            (":80", None),
            ("", None),
            ("a:b:c:d", None),
        ] {
            let parsed = NamedPort::parse(id).map(|named| (named.scheme, named.name, named.port));
            assert_eq!(parsed, expect, "{id}");
        }
    }

    #[test]
    fn the_container_is_the_named_or_the_only_one() {
        let pod = |init: &[&str], main: &[&str], ephemeral: &[&str]| {
            object! {
                "metadata": object! { "name": "p" },
                "spec": object! {
                    "initContainers": named(init), "containers": named(main), "ephemeralContainers": named(ephemeral),
                },
            }
        };
        for (pod, wanted, expect) in [
            (pod(&[], &["a"], &[]), "", Ok("a")),
            (pod(&["i"], &["a"], &["e"]), "", Ok("a")),
            (pod(&["i"], &["a"], &["e"]), "i", Ok("i")),
            (pod(&["i"], &["a"], &["e"]), "e", Ok("e")),
            (pod(&[], &["a"], &[]), "b", Err("container b is not valid for pod p")),
            (pod(&[], &[], &[]), "", Err("a container name must be specified for pod p")),
            (
                pod(&["i"], &["a", "b"], &["e"]),
                "",
                Err("a container name must be specified for pod p, choose one of: [i a b e]"),
            ),
        ] {
            let found = container(&pod, wanted).map_err(|error| error.to_string());
            assert_eq!(found, expect.map_err(str::to_owned), "{wanted}");
        }
    }

    #[test]
    fn pods_are_reached_at_their_first_port_and_not_at_local_addresses() {
        let denied = Err("address not allowed".to_owned());
        let unreachable = "error trying to reach service: dial tcp";
        let unknown = |port: &str| Err(format!("{unreachable}: lookup tcp/{port}: unknown port"));
        for (ip, port, id, expect) in [
            ("10.0.0.1", Some(8080), "p", Ok("http://10.0.0.1:8080".to_owned())),
            ("10.0.0.1", None, "p", Ok("http://10.0.0.1".to_owned())),
            ("10.0.0.1", Some(8080), "https:p:8443", Ok("https://10.0.0.1:8443".to_owned())),
            ("10.0.0.1", Some(8080), "p:80@127.0.0.1", unknown("80@127.0.0.1")),
            ("10.0.0.1", Some(8080), "p:web", unknown("web")),
            ("10.0.0.1", Some(8080), "p:+80", unknown("+80")),
            ("10.0.0.1", Some(8080), "p:99999", Err(format!("{unreachable}: address 99999: invalid port"))),
            // As in Go's parser of old addresses, numbers are decimal whatever their leading zeros.
            ("0177.0.0.1", Some(80), "p", Ok("http://177.0.0.1:80".to_owned())),
            ("fd00::1", None, "p", Ok("http://[fd00::1]".to_owned())),
            ("fd00::1", Some(80), "p", Ok("http://[fd00::1]:80".to_owned())),
            ("127.0.0.1", Some(80), "p", denied.clone()),
            ("::1", Some(80), "p", denied.clone()),
            ("::ffff:127.0.0.1", Some(80), "p", denied.clone()),
            ("169.254.169.254", Some(80), "p", denied.clone()),
            ("fe80::1", Some(80), "p", denied.clone()),
            ("0.0.0.0", Some(80), "p", denied.clone()),
            ("224.0.0.1", Some(80), "p", denied.clone()),
            ("", Some(80), "p", denied),
        ] {
            let named = NamedPort::parse(id).expect("a name");
            let found = pod_backend(&kubelets(), &pod(ip, port), &named);
            let found = found.map(|found| format!("{}://{}", found.scheme, found.authority));
            assert_eq!(found.map_err(|error| error.to_string()), expect, "{ip}");
        }
    }

    #[test]
    fn backends_are_called_at_the_address_that_was_checked() {
        let named = NamedPort::parse("https:p:8443").expect("a name");
        let found = pod_backend(&kubelets(), &pod("10.0.0.1", None), &named).expect("a location");
        assert_eq!(found.dial_address, Some(DialAddress { host: "10.0.0.1".to_owned(), port: 8443 }));
        let found = backend(&kubelets(), "https".to_owned(), ("node", IpAddr::from([10, 0, 0, 2])), "");
        let found = found.expect("a location");
        assert_eq!(found.authority, "node");
        assert_eq!(found.dial_address, Some(DialAddress { host: "10.0.0.2".to_owned(), port: 443 }));
    }

    #[tokio::test]
    async fn addresses_of_nodes_are_checked() {
        // The lookup of an address returns the address.
        assert_eq!(check_host("10.0.0.1").await.ok(), "10.0.0.1".parse().ok());
        for local in ["127.0.0.1", "::1", "169.254.0.1", "localhost"] {
            let error = check_host(local).await.expect_err("a local address").to_string();
            assert_eq!(error, "address not allowed", "{local}");
        }
    }
}
