//! Tables of the group `networking.k8s.io`.

use pintle_registry::Column;
use pintle_value::Value;
use pintle_value::time::age;

use super::{StaticTable, cells, row};

pub(super) fn table(plural: &str) -> Option<StaticTable> {
    Some(match plural {
        "ingresses" => INGRESSES,
        "ingressclasses" => INGRESS_CLASSES,
        "networkpolicies" => NETWORK_POLICIES,
        "servicecidrs" => SERVICE_CIDRS,
        "ipaddresses" => IP_ADDRESSES,
        _ => return None,
    })
}

const INGRESSES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Class", "The ingress class that configures this ingress further."),
        Column::string("Hosts", "The hosts that requests are matched against."),
        Column::string("Address", "Where the load balancer takes requests."),
        Column::string("Ports", "The ports that are open, the one of TLS included."),
        Column::AGE,
    ],
    cells: |o, now| {
        let ports = if o.items_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        row![
            o.name(),
            cells::string_or(o, &["spec", "ingressClassName"], "<none>"),
            hosts(o.items_at(&["spec", "rules"])),
            cells::load_balancer_addresses(o.items_at(&["status", "loadBalancer", "ingress"])),
            ports,
            age(o, now),
        ]
    },
};

/// Returns the first hosts. Like upstream, counts the remaining rules, not their distinct hosts.
fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let mut hosts: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        let host = rule.str_at(&["host"]);
        more |= hosts.len() == SHOWN;
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let shown = hosts.join(",");
    if more {
        format!("{shown} + {} more...", rules.len() - SHOWN)
    } else {
        cells::or_placeholder(&shown, "*").to_owned()
    }
}

const INGRESS_CLASSES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Controller", "The controller that serves this class."),
        Column::string("Parameters", "The resource that holds further parameters."),
        Column::AGE,
    ],
    cells: |o, now| {
        let default = o.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
        let parameters = o.at(&["spec", "parameters"]).map(|p| {
            let group = p.at(&["apiGroup"]).and_then(Value::as_str).map(|g| format!(".{g}")).unwrap_or_default();
            format!("{}{group}/{}", p.str_at(&["kind"]), p.str_at(&["name"]))
        });
        row![
            format!("{}{}", o.name(), if default { " (default)" } else { "" }),
            o.str_at(&["spec", "controller"]),
            parameters.as_deref().unwrap_or("<none>"),
            age(o, now),
        ]
    },
};

const NETWORK_POLICIES: StaticTable = StaticTable {
    columns: &[
        Column::NAME,
        Column::string("Pod-Selector", "=networking/v1.NetworkPolicySpec.podSelector"),
        Column::AGE,
    ],
    cells: |o, now| row![o.name(), cells::format_selector(o, &["spec", "podSelector"]), age(o, now)],
};

const SERVICE_CIDRS: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("CIDRs", "=networking/v1.ServiceCIDRSpec.cidrs"), Column::AGE],
    cells: |o, now| row![o.name(), cells::strings(o, &["spec", "cidrs"]).join(","), age(o, now)],
};

const IP_ADDRESSES: StaticTable = StaticTable {
    columns: &[Column::NAME, Column::string("ParentRef", "=networking/v1.IPAddressSpec.parentRef")],
    cells: |o, now| {
        let parent = o.at(&["spec", "parentRef"]).map(|parent| {
            let field = |name: &str| parent.str_at(&[name]);
            let mut text = field("resource").to_lowercase();
            if !field("group").is_empty() {
                text = format!("{text}.{}", field("group").to_lowercase());
            }
            if !field("namespace").is_empty() {
                text = format!("{text}/{}", field("namespace"));
            }
            format!("{text}/{}", field("name"))
        });
        // Upstream sends the age too, although there is no column for it.
        row![o.name(), parent.as_deref().unwrap_or("<none>"), age(o, now)]
    },
};
