//! Measures RBAC decisions for a user with 50 bindings, the time to build the index, and its memory (Linux). The
//! cluster has 10,000 bindings.
//!
//! `cargo run --release -p pintle-auth --example rbac`

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use pintle_auth::rbac::{PolicyRule, RbacIndex, Role, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind};
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_value::Str;

const BINDINGS: usize = 10_000;
const NAMESPACES: usize = 500;
const DECISIONS: u32 = 5_000;
const RUNS: usize = 100;
const RESOURCES: [&str; 12] = [
    "pods",
    "services",
    "configmaps",
    "secrets",
    "deployments",
    "replicasets",
    "jobs",
    "cronjobs",
    "ingresses",
    "events",
    "leases",
    "endpoints",
];

fn strings(values: &[&str]) -> Vec<Str> {
    values.iter().map(|value| Str::from(*value)).collect()
}

/// A role with five rules: resources, subresources, named objects and paths. No role allows to update pods.
fn role(number: usize) -> Role {
    let resource = |i: usize| RESOURCES.iter().copied().cycle().nth(number + i).unwrap_or("pods");
    let rule = |verbs: &[&str], group: &str, resources: &[&str], names: Vec<Str>| PolicyRule {
        verbs: strings(verbs),
        api_groups: strings(&[group]),
        resources: strings(resources),
        resource_names: names,
        non_resource_urls: Vec::new(),
    };
    let status = format!("{}/status", resource(3));
    let named = vec![Str::from(format!("object-{number}")), Str::from(format!("other-{number}"))];
    let paths = PolicyRule {
        verbs: strings(&["get"]),
        non_resource_urls: vec![Str::from(format!("/path-{number}/*"))],
        ..PolicyRule::default()
    };
    let rules = vec![
        rule(&["get", "list", "watch"], "", &[resource(0), resource(1), resource(2)], Vec::new()),
        rule(&["get", "update", "patch"], "apps", &[&status, "*/scale"], Vec::new()),
        rule(&["get", "update", "delete"], "", &["pods", "configmaps", "secrets"], named),
        rule(&["create"], "authorization.k8s.io", &["selfsubjectaccessreviews"], Vec::new()),
        paths,
    ];
    Role { rules }
}

fn binding(role: usize, cluster: bool, subjects: [&str; 2]) -> RoleBinding {
    let kind = if cluster { RoleKind::ClusterRole } else { RoleKind::Role };
    let [user, group] = subjects;
    let subject = |kind, name: &str| Subject { kind, namespace: Str::default(), name: name.into() };
    RoleBinding {
        subjects: vec![subject(SubjectKind::User, user), subject(SubjectKind::Group, group)],
        role: RoleRef { kind, name: Str::from(format!("role-{role}")) },
    }
}

/// Resident memory in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or_default() * 4096
}

fn measure(
    out: &mut impl Write,
    index: &RbacIndex,
    user: &UserInfo,
    what: &str,
    request: &AuthorizationAttributes<'_>,
) -> std::io::Result<()> {
    let found = index.decide(user, request);
    // No other process has interrupted the best of many runs.
    let run = |_| {
        let started = Instant::now();
        for _ in 0..DECISIONS {
            black_box(index.decide(black_box(user), black_box(request)));
        }
        started.elapsed()
    };
    let best = (0..RUNS).map(run).min().unwrap_or_default();
    let nanoseconds = best.as_nanos() / u128::from(DECISIONS);
    writeln!(out, "{what:32} {nanoseconds:>5} ns  {:?} {}", found.decision, found.reason)
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    let (before, started) = (resident(), Instant::now());
    let index = RbacIndex::default();
    // The user has 25 cluster role bindings and 25 role bindings in the namespace ns-0, each with a role of its own.
    for number in 0..BINDINGS {
        let own = number < 50;
        let cluster = if own { number < 25 } else { number % 10 == 0 };
        let namespace = format!("ns-{}", if own { 0 } else { number % NAMESPACES });
        let name = format!("binding-{number}");
        let (user, group) = (format!("user-{number}"), format!("group-{}", number % 1000 + 100));
        let user = if own { "jane" } else { &user };
        let binding = binding(number, cluster, [user, &group]);
        if cluster {
            index.set_cluster_role_binding(&name, binding);
            index.set_cluster_role(&format!("role-{number}"), role(number));
        } else {
            index.set_role_binding(&namespace, &name, binding);
            index.set_role(&namespace, &format!("role-{number}"), role(number));
        }
    }
    let (elapsed, memory) = (started.elapsed(), resident().saturating_sub(before));
    writeln!(out, "{BINDINGS} bindings, {BINDINGS} roles: {elapsed:.0?}, {:.1} MB", memory as f64 / 1e6)?;

    let groups = strings(&["developers", "system:authenticated"]);
    let user = UserInfo { name: "jane".into(), groups, ..UserInfo::default() };
    let all = AuthorizationAttributes { namespace: "ns-0", version: "v1", ..AuthorizationAttributes::default() };
    for (what, verb, group, resource, subresource, name) in [
        ("allowed by the first binding", "get", "", "pods", "", "web-6d5f7c9b8-abcde"),
        ("allowed by one of the last", "update", "", "pods", "", "object-49"),
        ("denied: update a named pod", "update", "", "pods", "", "web-6d5f7c9b8-abcde"),
        ("denied: create pods", "create", "", "pods", "", ""),
        ("denied: another group", "get", "example.com", "widgets", "status", "w"),
    ] {
        let request = AuthorizationAttributes { verb, group, resource, subresource, name, ..all.clone() };
        measure(&mut out, &index, &user, what, &request)?;
    }
    for (what, path) in [("allowed: a path", "/path-20/x"), ("denied: a path", "/metrics")] {
        let request = AuthorizationAttributes { verb: "get", path, ..AuthorizationAttributes::default() };
        measure(&mut out, &index, &user, what, &request)?;
    }
    Ok(())
}
