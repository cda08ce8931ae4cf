//! Resolves services to endpoints (upstream: apiserver's `pkg/util/proxy`).

use pintle_cache::KeyRange;
use pintle_kinds::{SERVICE_NAME_LABEL, is_ready_endpoint};
use pintle_locks::Mutex;
use pintle_outbound::DialAddress;
use pintle_registry::{GroupResource, StoredObject};
use pintle_value::Value;
use pintle_value::print::quote;

use super::{Cluster, tree};
use crate::egress::is_own_service;
use crate::http::random_share;

/// Resolves a port of the service of a webhook to a ready endpoint, because there may be no proxy for the cluster IP.
/// Without endpoints, returns the cluster IP.
///
/// # Errors
/// Returns upstream's message if there is no such service or port.
pub(crate) fn resolve_webhook(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<DialAddress, String> {
    let service = get_service(cluster, namespace, name)?;
    if service.str_at(&["spec", "type"]) == EXTERNAL_NAME {
        return Ok(external_address(&service, port));
    }
    match find_endpoint(cluster, &service, find_port(&service, port)?) {
        Some(address) => Ok(address),
        None => cluster_address(&service, port),
    }
}

/// Returns a random ready endpoint of a service, with the port of this name (upstream: `RandomEndpoint`). An endpoint of
/// the address family is preferred. `is_valid` learns the endpoint and its address.
pub(crate) fn random_endpoint(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    port: &str,
    family: &str,
    is_valid: &dyn Fn(&Value, &str) -> bool,
) -> Option<DialAddress> {
    let slices = cluster.hub_of(&GroupResource::new("discovery.k8s.io", "endpointslices")).ok()?;
    let (watch_cache, range) = (cluster.watch_cache(&slices).ok()?, KeyRange::Namespace(namespace.into()));
    let of_service = watch_cache.objects(range).filter(|slice| slice.label(SERVICE_NAME_LABEL) == Some(name));
    let mut slices: Vec<Value> = of_service.filter_map(|slice| tree(&slice).ok()).collect();
    order_slices(&mut slices, family, random_index);
    slices.iter().find_map(|slice| ready_endpoint(slice, port, random_index, is_valid))
}

/// The address to which a service was resolved last, and the revision of the service. The service is not decoded again
/// for each request.
#[derive(Default)]
pub(crate) struct ResolvedAddress(Mutex<Option<(u64, DialAddress)>>);

/// Resolves a port of the service of an APIService, to a ready endpoint or to the cluster IP (upstream:
/// `ResolveEndpoint` and `ResolveCluster`).
///
/// # Errors
/// Returns upstream's message if there is no such service or port, or no endpoint.
pub(crate) fn resolve_api_server(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    port: u16,
    to_endpoint: bool,
    last: &ResolvedAddress,
) -> Result<DialAddress, String> {
    if to_endpoint || is_own_service(namespace, name, port) {
        let service = get_service(cluster, namespace, name)?;
        return match find_endpoint(cluster, &service, find_port(&service, port)?) {
            Some(address) => Ok(address),
            None if to_endpoint => Err(format!("no endpoints available for service {}", quote(name))),
            None => cluster_address(&service, port),
        };
    }
    let stored = read_service(cluster, namespace, name)?;
    let mut last = last.0.lock();
    if let Some((revision, address)) = &*last
        && *revision == stored.revision()
    {
        return Ok(address.clone());
    }
    let service = stored.decode().map_err(|error| error.to_string())?;
    let address = match service.str_at(&["spec", "type"]) {
        EXTERNAL_NAME => external_address(&service, port),
        _ => {
            find_port(&service, port)?;
            cluster_address(&service, port)?
        }
    };
    *last = Some((stored.revision(), address.clone()));
    Ok(address)
}

const EXTERNAL_NAME: &str = "ExternalName";

fn get_service(cluster: &Cluster, namespace: &str, name: &str) -> Result<Value, String> {
    read_service(cluster, namespace, name)?.decode().map_err(|error| error.to_string())
}

fn read_service(cluster: &Cluster, namespace: &str, name: &str) -> Result<Box<dyn StoredObject>, String> {
    let found = cluster.read_object(&GroupResource::new("", "services"), namespace, name);
    found.map_err(|error| error.to_string())?.ok_or_else(|| format!("service {} not found", quote(name)))
}

fn external_address(service: &Value, port: u16) -> DialAddress {
    DialAddress { host: service.str_at(&["spec", "externalName"]).to_owned(), port }
}

/// The name of a port of a service.
fn find_port(service: &Value, port: u16) -> Result<&str, String> {
    let kind = service.str_at(&["spec", "type"]);
    if !matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
        return Err(format!("unsupported service type {}", quote(kind)));
    }
    let ports = service.items_at(&["spec", "ports"]);
    let found = ports.iter().find(|candidate| candidate.int_at(&["port"]) == Some(i64::from(port)));
    let name = quote(service.name());
    found.map(|found| found.str_at(&["name"])).ok_or_else(|| format!("no service port {port} found for service {name}"))
}

fn cluster_address(service: &Value, port: u16) -> Result<DialAddress, String> {
    match service.str_at(&["spec", "clusterIP"]) {
        "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        address => Ok(DialAddress { host: address.to_owned(), port }),
    }
}

/// Returns a random ready endpoint of a service, with the port of this name. As in upstream, an endpoint of the primary
/// address family is preferred.
fn find_endpoint(cluster: &Cluster, service: &Value, port: &str) -> Option<DialAddress> {
    random_endpoint(cluster, (service.namespace(), service.name()), port, primary_family(service), &|_, _| true)
}

/// The primary address family of a service, or an empty text.
pub(crate) fn primary_family(service: &Value) -> &str {
    service.items_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str).unwrap_or_default()
}

/// A random number below `count`, which is not 0.
fn random_index(count: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small index"
    )]
    let index = (random_share() * count as f64) as usize;
    index.min(count - 1)
}

/// Brings slices into a random order. The slices of an address family come first.
fn order_slices(slices: &mut [Value], family: &str, random: impl Fn(usize) -> usize) {
    for end in (2..=slices.len()).rev() {
        slices.swap(end - 1, random(end));
    }
    slices.sort_by_key(|slice| slice.str_at(&["addressType"]) != family);
}

/// Returns a ready endpoint of a slice, with the port of this name. The search starts at a random endpoint.
fn ready_endpoint(
    slice: &Value,
    port: &str,
    random: impl Fn(usize) -> usize,
    is_valid: &dyn Fn(&Value, &str) -> bool,
) -> Option<DialAddress> {
    let port =
        slice.items_at(&["ports"]).iter().find(|candidate| candidate.str_at(&["name"]) == port)?.int_at(&["port"])?;
    let endpoints = slice.items_at(&["endpoints"]);
    if endpoints.is_empty() {
        return None;
    }
    let (before, from) = endpoints.split_at(random(endpoints.len()));
    let address = |endpoint: &Value| Some(endpoint.items_at(&["addresses"]).first()?.as_str()?.to_owned());
    let mut ready = from.iter().chain(before).filter(|endpoint| is_ready_endpoint(endpoint));
    let host = ready.find_map(|endpoint| address(endpoint).filter(|address| is_valid(endpoint, address)))?;
    Some(DialAddress { host, port: u16::try_from(port).ok()? })
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    /// An endpoint with an optional `ready` condition.
    fn endpoint(address: &str, ready: Option<bool>) -> Value {
        let mut endpoint = object! { "addresses": vec![address] };
        if let Some(ready) = ready {
            endpoint.set("conditions", object! { "ready": ready });
        }
        endpoint
    }

    fn check(endpoints: Vec<Value>, port: &str, expect: Option<(&str, u16)>) {
        let ports = vec![object! { "name": "http", "port": 80 }, object! { "name": "https", "port": 8443 }];
        let slice = object! { "ports": ports, "endpoints": endpoints };
        let expect = expect.map(|(host, port)| DialAddress { host: host.to_owned(), port });
        assert_eq!(ready_endpoint(&slice, port, |_| 0, &|_, _| true), expect);
    }

    #[test]
    fn only_ready_endpoints_are_returned() {
        let (no, yes, silent) =
            (endpoint("10.0.0.1", Some(false)), endpoint("10.0.0.2", Some(true)), endpoint("10.0.0.3", None));
        check(vec![no.clone(), yes.clone(), silent.clone()], "https", Some(("10.0.0.2", 8443)));
        check(vec![no.clone(), silent], "http", Some(("10.0.0.3", 80)));
        check(vec![no], "https", None);
        check(vec![yes], "", None);
        check(Vec::new(), "https", None);
    }

    #[test]
    fn endpoints_are_chosen_at_random() {
        let endpoints = vec![endpoint("a", None), endpoint("b", Some(false)), endpoint("c", None)];
        let slice = object! { "ports": vec![object! { "name": "", "port": 1 }], "endpoints": endpoints };
        for (start, expect) in ["a", "c", "c"].into_iter().enumerate() {
            let found = ready_endpoint(&slice, "", |_| start, &|_, _| true);
            assert_eq!(found.map(|route| route.host).as_deref(), Some(expect));
        }
        let found = ready_endpoint(&slice, "", |_| 0, &|_, address| address != "a");
        assert_eq!(found.map(|route| route.host).as_deref(), Some("c"));
        let slice = |name: &str, family: &str| object! { "metadata": object! { "name": name }, "addressType": family };
        let mut slices = [slice("a", "IPv6"), slice("b", "IPv4"), slice("c", "IPv4")];
        order_slices(&mut slices, "IPv4", |_| 0);
        assert_eq!(slices.each_ref().map(Value::name), ["b", "c", "a"]);
        assert!((0..100).all(|_| random_index(3) < 3));
    }
}
