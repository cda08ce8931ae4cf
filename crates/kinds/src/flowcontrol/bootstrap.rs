//! The priority levels and flow schemas that every cluster has (upstream:
//! `k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap`). Mandatory objects have fixed specs. Users may change suggested
//! objects.

use pintle_registry::GroupResource;
use pintle_value::{Value, object};

/// The API group.
const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// The annotation that says whether the server updates the spec of a bootstrap object.
pub const FLOW_CONTROL_AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
/// How many requests a queue of a suggested priority level holds.
const QUEUE_LENGTH_LIMIT: i64 = 50;

/// An object of the bootstrap configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowControlObject {
    /// The object as a client creates it, with all defaults.
    pub object: Value,
    /// True if its spec is fixed.
    pub is_mandatory: bool,
}

/// The resource of the priority levels.
#[must_use]
pub fn flow_control_priority_levels_resource() -> GroupResource {
    GroupResource::new(GROUP, "prioritylevelconfigurations")
}

/// The resource of the flow schemas.
#[must_use]
pub fn flow_control_schemas_resource() -> GroupResource {
    GroupResource::new(GROUP, "flowschemas")
}

/// A limited priority level.
struct PriorityLevel {
    name: &'static str,
    shares: i64,
    lendable_percent: i64,
    /// The number of queues and the hand size; `None` if requests are rejected.
    queuing: Option<(i64, i64)>,
}

/// The name of the priority level and of the flow schema that limit nothing.
const EXEMPT: &str = "exempt";
/// The name of the priority level and of the flow schema of requests that match no other one.
const CATCH_ALL: &str = "catch-all";

const PRIORITY_LEVELS: [PriorityLevel; 7] = [
    PriorityLevel { name: "system", shares: 30, lendable_percent: 33, queuing: Some((64, 6)) },
    PriorityLevel { name: "node-high", shares: 40, lendable_percent: 25, queuing: Some((64, 6)) },
    PriorityLevel { name: "leader-election", shares: 10, lendable_percent: 0, queuing: Some((16, 4)) },
    PriorityLevel { name: "workload-high", shares: 40, lendable_percent: 50, queuing: Some((128, 6)) },
    PriorityLevel { name: "workload-low", shares: 100, lendable_percent: 90, queuing: Some((128, 6)) },
    PriorityLevel { name: "global-default", shares: 20, lendable_percent: 50, queuing: Some((128, 6)) },
    PriorityLevel { name: CATCH_ALL, shares: 5, lendable_percent: 0, queuing: None },
];

/// Whose requests a flow schema matches.
enum Subjects {
    Groups(&'static [&'static str]),
    Users(&'static [&'static str]),
    /// Users, and all service accounts of `kube-system`.
    SystemAccountsAnd(&'static [&'static str]),
}

/// Which requests for resources in all namespaces a flow schema matches.
struct ResourceRule {
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
    cluster_scope: bool,
}

/// Which requests for other paths a flow schema matches.
struct PathRule {
    verb: &'static str,
    paths: &'static [&'static str],
}

struct FlowSchema {
    name: &'static str,
    priority_level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    subjects: Subjects,
    resource_rules: &'static [ResourceRule],
    path_rules: &'static [PathRule],
}

const ALL_USERS: Subjects = Subjects::Groups(&["system:unauthenticated", "system:authenticated"]);
const NODES: Subjects = Subjects::Groups(&["system:nodes"]);
const ALL_RESOURCES: &[ResourceRule] =
    &[ResourceRule { verbs: &["*"], group: "*", resources: &["*"], cluster_scope: true }];
const ALL_PATHS: &[PathRule] = &[PathRule { verb: "*", paths: &["*"] }];
const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");

/// A flow schema that matches all requests of its subjects.
const fn for_all_requests(
    (name, priority_level, precedence): (&'static str, &'static str, i64),
    distinguisher: Option<&'static str>,
    subjects: Subjects,
) -> FlowSchema {
    let (resource_rules, path_rules) = (ALL_RESOURCES, ALL_PATHS);
    FlowSchema { name, priority_level, precedence, distinguisher, subjects, resource_rules, path_rules }
}

const FLOW_SCHEMAS: [FlowSchema; 11] = [
    for_all_requests((EXEMPT, EXEMPT, 1), None, Subjects::Groups(&["system:masters"])),
    FlowSchema {
        name: "probes",
        priority_level: EXEMPT,
        precedence: 2,
        distinguisher: None,
        subjects: ALL_USERS,
        resource_rules: &[],
        path_rules: &[PathRule { verb: "get", paths: &["/healthz", "/readyz", "/livez"] }],
    },
    FlowSchema {
        name: "system-leader-election",
        priority_level: "leader-election",
        precedence: 100,
        distinguisher: BY_USER,
        subjects: Subjects::SystemAccountsAnd(&["system:kube-controller-manager", "system:kube-scheduler"]),
        resource_rules: &[ResourceRule {
            verbs: &["get", "create", "update"],
            group: "coordination.k8s.io",
            resources: &["leases"],
            cluster_scope: false,
        }],
        path_rules: &[],
    },
    FlowSchema {
        name: "system-node-high",
        priority_level: "node-high",
        precedence: 400,
        distinguisher: BY_USER,
        subjects: NODES,
        resource_rules: &[
            ResourceRule { verbs: &["*"], group: "", resources: &["nodes", "nodes/status"], cluster_scope: true },
            ResourceRule { verbs: &["*"], group: "coordination.k8s.io", resources: &["leases"], cluster_scope: false },
        ],
        path_rules: &[],
    },
    for_all_requests(("system-nodes", "system", 500), BY_USER, NODES),
    for_all_requests(
        ("kube-controller-manager", "workload-high", 800),
        BY_NAMESPACE,
        Subjects::Users(&["system:kube-controller-manager"]),
    ),
    for_all_requests(
        ("kube-scheduler", "workload-high", 800),
        BY_NAMESPACE,
        Subjects::Users(&["system:kube-scheduler"]),
    ),
    for_all_requests(
        ("kube-system-service-accounts", "workload-high", 900),
        BY_NAMESPACE,
        Subjects::SystemAccountsAnd(&[]),
    ),
    for_all_requests(
        ("service-accounts", "workload-low", 9000),
        BY_USER,
        Subjects::Groups(&["system:serviceaccounts"]),
    ),
    for_all_requests(("global-default", "global-default", 9900), BY_USER, ALL_USERS),
    for_all_requests((CATCH_ALL, CATCH_ALL, 10_000), BY_USER, ALL_USERS),
];

/// The priority levels of the bootstrap configuration.
#[must_use]
pub fn flow_control_priority_levels() -> Vec<FlowControlObject> {
    let exempt = object! {
        "type": "Exempt",
        "exempt": object! { "nominalConcurrencyShares": 0, "lendablePercent": 0 },
    };
    let limited = PRIORITY_LEVELS.iter().map(|level| (level.name, level.spec()));
    std::iter::once((EXEMPT, exempt)).chain(limited).map(|(name, spec)| bootstrap_object(name, spec)).collect()
}

/// The flow schemas of the bootstrap configuration.
#[must_use]
pub fn flow_control_schemas() -> Vec<FlowControlObject> {
    FLOW_SCHEMAS.iter().map(|schema| bootstrap_object(schema.name, schema.spec())).collect()
}

/// Whether the server updates the spec of an object, by its annotation; `None` if the annotation does not say.
#[must_use]
pub fn flow_control_auto_update(object: &Value) -> Option<bool> {
    pintle_value::parse_bool(object.str_at(&["metadata", "annotations", FLOW_CONTROL_AUTO_UPDATE])).ok()
}

/// The spec of the mandatory object of a name, if there is one.
pub(super) fn mandatory_spec(objects: fn() -> Vec<FlowControlObject>, name: &str) -> Option<Value> {
    if !is_mandatory(name) {
        return None;
    }
    objects().into_iter().find(|bootstrap| bootstrap.object.name() == name)?.object.remove("spec")
}

fn is_mandatory(name: &str) -> bool {
    [EXEMPT, CATCH_ALL].contains(&name)
}

fn bootstrap_object(name: &str, spec: Value) -> FlowControlObject {
    let mut metadata = object! { "name": name };
    metadata.set_at(&["annotations", FLOW_CONTROL_AUTO_UPDATE], "true");
    FlowControlObject { object: object! { "metadata": metadata, "spec": spec }, is_mandatory: is_mandatory(name) }
}

impl PriorityLevel {
    fn spec(&self) -> Value {
        let response = match self.queuing {
            None => object! { "type": "Reject" },
            Some((queues, hand_size)) => {
                let queuing = object! {
                    "queues": queues, "handSize": hand_size, "queueLengthLimit": QUEUE_LENGTH_LIMIT,
                };
                object! { "type": "Queue", "queuing": queuing }
            }
        };
        let limited = object! {
            "nominalConcurrencyShares": self.shares,
            "lendablePercent": self.lendable_percent,
            "limitResponse": response,
        };
        object! { "type": "Limited", "limited": limited }
    }
}

impl FlowSchema {
    fn spec(&self) -> Value {
        let mut rule = object! { "subjects": self.subjects.list() };
        if !self.resource_rules.is_empty() {
            rule.set("resourceRules", self.resource_rules.iter().map(ResourceRule::value).collect::<Vec<_>>());
        }
        if !self.path_rules.is_empty() {
            rule.set("nonResourceRules", self.path_rules.iter().map(PathRule::value).collect::<Vec<_>>());
        }
        let mut spec = object! {
            "priorityLevelConfiguration": object! { "name": self.priority_level },
            "matchingPrecedence": self.precedence,
            "rules": vec![rule],
        };
        if let Some(distinguisher) = self.distinguisher {
            spec.set("distinguisherMethod", object! { "type": distinguisher });
        }
        spec
    }
}

impl Subjects {
    fn list(&self) -> Vec<Value> {
        let group = |name: &&str| object! { "kind": "Group", "group": object! { "name": *name } };
        let user = |name: &&str| object! { "kind": "User", "user": object! { "name": *name } };
        match self {
            Subjects::Groups(names) => names.iter().map(group).collect(),
            Subjects::Users(names) => names.iter().map(user).collect(),
            Subjects::SystemAccountsAnd(names) => {
                let accounts = object! { "namespace": "kube-system", "name": "*" };
                let accounts = object! { "kind": "ServiceAccount", "serviceAccount": accounts };
                names.iter().map(user).chain([accounts]).collect()
            }
        }
    }
}

impl ResourceRule {
    fn value(&self) -> Value {
        let mut rule = object! {
            "verbs": texts(self.verbs),
            "apiGroups": texts(&[self.group]),
            "resources": texts(self.resources),
            "namespaces": texts(&["*"]),
        };
        if self.cluster_scope {
            rule.set("clusterScope", true);
        }
        rule
    }
}

impl PathRule {
    fn value(&self) -> Value {
        object! { "verbs": texts(&[self.verb]), "nonResourceURLs": texts(self.paths) }
    }
}

fn texts(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| (*text).into()).collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::flowcontrol::strategy;
    use crate::testing::{context, messages};

    /// The JSON of the objects of upstream's package, without creationTimestamp and status, one object a line.
    const UPSTREAM: &str = include_str!("bootstrap_objects.txt");

    #[test]
    fn objects_are_those_of_upstream() {
        let objects = flow_control_priority_levels().into_iter().chain(flow_control_schemas());
        let print = |bootstrap: FlowControlObject| {
            let kind = if bootstrap.is_mandatory { "mandatory" } else { "suggested" };
            format!("{kind} {}", serde_json::to_string(&bootstrap.object).expect("JSON"))
        };
        let mut lines: Vec<String> = objects.map(print).collect();
        lines.sort();
        let mut expect: Vec<String> = UPSTREAM
            .lines()
            .map(|line| {
                let (kind, json) = line.split_once(' ').expect("two columns");
                let object: Value = serde_json::from_str(json).expect("JSON");
                format!("{kind} {}", serde_json::to_string(&object).expect("JSON"))
            })
            .collect();
        expect.sort();
        assert_eq!(lines, expect);
    }

    #[test]
    fn objects_are_valid_and_have_all_defaults() {
        let check = |plural: &str, objects: Vec<FlowControlObject>| {
            let strategy = strategy(plural).expect("a strategy");
            for FlowControlObject { object, .. } in objects {
                let mut defaulted = object.clone();
                strategy.defaults(&mut defaulted);
                assert_eq!(defaulted, object);
                let none: [&str; 0] = [];
                assert_eq!(messages(&strategy.validate(&context(), &object)), none, "{}", object.name());
            }
        };
        check("prioritylevelconfigurations", flow_control_priority_levels());
        check("flowschemas", flow_control_schemas());
    }
}
