//! Tables of services and endpoints.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::{Time, age};

use super::{StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "services" => SERVICES,
        "endpoints" => ENDPOINTS,
        _ => return None,
    })
}

const SERVICES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Type", "=core/v1.ServiceSpec.type"),
        Column::string("Cluster-IP", "=core/v1.ServiceSpec.clusterIP"),
        Column::string("External-IP", "=core/v1.ServiceSpec.externalIPs"),
        Column::string("Port(s)", "=core/v1.ServiceSpec.ports"),
        Column::AGE,
        Column::string("Selector", "=core/v1.ServiceSpec.selector").wide(),
    ],
    cells: service,
};

fn service(o: &Value, now: Time) -> Vec<Value> {
    let cluster_ip = o.items_at(&["spec", "clusterIPs"]).first().map_or("<none>", |ip| ip.as_str().unwrap_or_default());
    let ports: Vec<String> = o.items_at(&["spec", "ports"]).iter().map(port).collect();
    row![
        o.name(),
        o.str_at(&["spec", "type"]),
        cluster_ip,
        external_ip(o),
        cells::or_placeholder(&ports.join(","), "<none>"),
        age(o, now),
        cells::labels(o, &["spec", "selector"]),
    ]
}

fn port(port: &Value) -> String {
    let (number, protocol) = (cells::int(port, &["port"]), port.str_at(&["protocol"]));
    match cells::int(port, &["nodePort"]) {
        node if node > 0 => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(o: &Value) -> String {
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

const ENDPOINTS: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("Endpoints", "=core/v1.Endpoints.subsets"), Column::AGE],
    cells: |o, now| row![o.name(), addresses(o.items_at(&["subsets"])), age(o, now)],
};

fn addresses(subsets: &[Value]) -> String {
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
