//! Measures decisions of the node authorizer, the time to build its graph, and its memory (Linux). The cluster has
//! 100,000 pods on 1,000 nodes and a million references.
//!
//! `cargo run --release -p pintle-auth --example node`

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use pintle_auth::node::{NodeAuthorizer, NodeObject};
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_value::{Value, object};

const PODS: usize = 100_000;
const NODES: usize = 1_000;
const NAMESPACES: usize = 500;
const DECISIONS: u32 = 10_000;

/// A pod with ten references: two to objects that the whole namespace shares, eight to its own objects.
fn pod(number: usize) -> Value {
    let own = (0..6).map(|i| object! {"configMap": object! {"name": format!("config-{i}-of-pod-{number}")}});
    let shared = object! {"configMap": object! {"name": "kube-root-ca.crt"}};
    let claim = object! {"persistentVolumeClaim": object! {"claimName": format!("claim-of-pod-{number}")}};
    let secret = object! {"secret": object! {"secretName": format!("secret-of-pod-{number}")}};
    let volumes = own.chain([shared, claim, secret]).collect();
    object! {"spec": object! {
        "nodeName": format!("node-{}", number % NODES), "serviceAccountName": "default", "volumes": Value::Array(volumes),
    }}
}

/// Resident memory in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let (before, started) = (resident(), Instant::now());
    let authorizer = NodeAuthorizer::default();
    for number in 0..PODS {
        let (namespace, name) = (format!("ns-{}", number % NAMESPACES), format!("pod-{number}"));
        authorizer.set(NodeObject::Pod, &namespace, &name, &pod(number));
    }
    let memory = (resident().saturating_sub(before)) / (1 << 20);
    writeln!(out, "{PODS} pods: {} ms, {memory} MiB", started.elapsed().as_millis())?;
    let user =
        UserInfo { name: "system:node:node-0".into(), groups: vec!["system:nodes".into()], ..UserInfo::default() };
    for (what, name) in [
        ("of one pod", "config-0-of-pod-0"),
        ("of a namespace", "kube-root-ca.crt"),
        ("of another node", "config-0-of-pod-500"),
    ] {
        let request = AuthorizationAttributes {
            verb: "get",
            resource: "configmaps",
            namespace: "ns-0",
            name,
            ..AuthorizationAttributes::default()
        };
        let started = Instant::now();
        for _ in 0..DECISIONS {
            black_box(authorizer.decide(black_box(&user), black_box(&request)));
        }
        let nanoseconds = started.elapsed().as_nanos() / u128::from(DECISIONS);
        writeln!(out, "config map {what}: {nanoseconds} ns, {:?}", authorizer.decide(&user, &request).decision)?;
    }
    Ok(())
}
