//! Cells of services and endpoints.

use pintle_value::Value;

use super::cells;

/// The first address of a service in the cluster.
pub(super) fn cluster_ip(o: &Value) -> &str {
    o.items_at(&["spec", "clusterIPs"]).first().map_or("<none>", |ip| ip.as_str().unwrap_or_default())
}

/// The ports of a service.
pub(super) fn ports(o: &Value) -> String {
    let ports: Vec<String> = o.items_at(&["spec", "ports"]).iter().map(port).collect();
    cells::or_placeholder(&ports.join(","), "<none>").to_owned()
}

fn port(port: &Value) -> String {
    let (number, protocol) = (cells::int(port, &["port"]), port.str_at(&["protocol"]));
    match cells::int(port, &["nodePort"]) {
        node if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

/// The addresses of a service outside of the cluster.
pub(super) fn external_ip(o: &Value) -> String {
    let external = cells::strings(o, &["spec", "externalIPs"]).join(",");
    match o.str_at(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => cells::or_placeholder(&external, "<none>").to_owned(),
        "LoadBalancer" => {
            let balancer = cells::load_balancer_addresses(o.items_at(&["status", "loadBalancer", "ingress"]));
            match (balancer.is_empty(), external.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => external,
                (false, true) => balancer,
                (false, false) => format!("{balancer},{external}"),
            }
        }
        "ExternalName" => o.str_at(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The first addresses of endpoints.
pub(super) fn addresses(subsets: &[Value]) -> String {
    const SHOWN: usize = 3;
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut all: Vec<String> = Vec::new();
    for subset in subsets {
        let ips = || subset.items_at(&["addresses"]).iter().map(|a| a.str_at(&["ip"]));
        let ports = subset.items_at(&["ports"]);
        if ports.is_empty() {
            // A headless service may have no ports.
            all.extend(ips().map(str::to_owned));
        }
        for port in ports {
            let port = cells::int(port, &["port"]);
            all.extend(
                ips().map(|ip| if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }),
            );
        }
    }
    // Unlike other lists in this form, an empty one prints as an empty string.
    if all.is_empty() { String::new() } else { cells::first_items(&all, SHOWN) }
}
