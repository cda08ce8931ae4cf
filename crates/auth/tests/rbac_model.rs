//! Compares the RBAC index with an evaluator that reads all bindings one after the other, for random policies that change
//! between random requests. `PINTLE_RBAC_DECISIONS` sets the number of decisions, `PINTLE_RBAC_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};

use pintle_auth::rbac::{
    PolicyKind, PolicyRule, RbacIndex, Role, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind,
};
use pintle_auth::{AuthorizationAttributes, Decision, UserInfo};
use pintle_value::Str;

type Key = (String, String);

/// The straightforward evaluator: all objects by namespace and name.
#[derive(Default)]
struct Model {
    roles: BTreeMap<Key, Role>,
    bindings: BTreeMap<Key, RoleBinding>,
}

impl Model {
    /// Whether a request is allowed, with the reason.
    fn decide(&self, user: &UserInfo, request: &AuthorizationAttributes<'_>) -> (bool, String) {
        let mut errors: Vec<String> = Vec::new();
        for scope in BTreeSet::from(["", request.namespace]) {
            for ((namespace, name), binding) in self.bindings.iter().filter(|((namespace, _), _)| namespace == scope) {
                let subjects = &mut binding.subjects.iter();
                let Some(subject) = subjects.find(|subject| is_user(subject, user, namespace)) else { continue };
                let (kind, prefix, role) = match binding.role.kind {
                    RoleKind::Role => ("Role", "role", namespace.as_str()),
                    RoleKind::ClusterRole => ("ClusterRole", "clusterrole", "cluster"),
                };
                let role_name = &binding.role.name;
                let Some(role) = self.roles.get(&(role.to_owned(), role_name.to_string())) else {
                    let error = format!("{prefix}.rbac.authorization.k8s.io \"{role_name}\" not found");
                    if !errors.contains(&error) {
                        errors.push(error);
                    }
                    continue;
                };
                if role.rules.iter().any(|rule| allows(rule, request)) {
                    let binding = match namespace.as_str() {
                        "" => format!("ClusterRoleBinding \"{name}\""),
                        _ => format!("RoleBinding \"{name}/{namespace}\""),
                    };
                    let subject = match subject.kind {
                        SubjectKind::User => format!("User \"{}\"", subject.name),
                        SubjectKind::Group => format!("Group \"{}\"", subject.name),
                        SubjectKind::ServiceAccount => {
                            let namespace = if subject.namespace.is_empty() { namespace } else { &*subject.namespace };
                            format!("ServiceAccount \"{}/{namespace}\"", subject.name)
                        }
                    };
                    return (true, format!("RBAC: allowed by {binding} of {kind} \"{role_name}\" to {subject}"));
                }
            }
        }
        let reason = match &*errors {
            [] => String::new(),
            [error] => format!("RBAC: {error}"),
            errors => format!("RBAC: [{}]", errors.join(", ")),
        };
        (false, reason)
    }
}

fn is_user(subject: &Subject, user: &UserInfo, binding_namespace: &str) -> bool {
    match subject.kind {
        SubjectKind::User => subject.name == user.name,
        SubjectKind::Group => user.groups.contains(&subject.name),
        SubjectKind::ServiceAccount => {
            let namespace = if subject.namespace.is_empty() { binding_namespace } else { &subject.namespace };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{}", subject.name)
        }
    }
}

fn allows(rule: &PolicyRule, request: &AuthorizationAttributes<'_>) -> bool {
    let includes = |list: &[Str], value: &str| list.iter().any(|item| item == "*" || item == value);
    if !includes(&rule.verbs, request.verb) {
        return false;
    }
    if request.resource.is_empty() {
        return rule.non_resource_urls.iter().any(|url| match url.strip_suffix('*') {
            Some(prefix) => request.path.starts_with(prefix.trim_end_matches('*')),
            None => url == request.path,
        });
    }
    let (resource, any) = match request.subresource {
        "" => (request.resource.to_owned(), "*".to_owned()),
        subresource => (format!("{}/{subresource}", request.resource), format!("*/{subresource}")),
    };
    includes(&rule.api_groups, request.group)
        && (includes(&rule.resources, &resource) || includes(&rule.resources, &any))
        && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| name == request.name))
}

/// A seeded xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).map_or(0, |value| value % bound)
    }

    fn pick<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[self.below(values.len())]
    }

    /// Up to `most` values.
    fn some(&mut self, values: &[&str], most: usize) -> Vec<Str> {
        (0..self.below(most + 1)).map(|_| self.pick(values).into()).collect()
    }
}

const NAMESPACES: [&str; 4] = ["", "default", "ns", "kube-system"];
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const VERBS: [&str; 7] = ["get", "list", "create", "delete", "bind", "*", "use"];
const GROUPS: [&str; 5] = ["", "apps", "batch", "*", "g"];
const RESOURCES: [&str; 12] = [
    "pods",
    "nodes",
    "*",
    "pods/status",
    "*/status",
    "*/scale",
    "deployments",
    "deployments/scale",
    "pods/*",
    "",
    "*/a/b",
    "x/a/b",
];
const PATHS: [&str; 8] = ["*", "/", "/*", "/apis", "/apis/*", "/apis/apps/v1", "/api**", "/healthz"];
const USERS: [&str; 8] = [
    "jane",
    "joe",
    "",
    "*",
    "system:serviceaccount:ns:default",
    "system:serviceaccount:default:a",
    "system:serviceaccount:kube-system:a",
    "system:serviceaccount::a",
];
const USER_GROUPS: [&str; 6] = ["dev", "ops", "system:authenticated", "jane", "", "*"];

fn random_rule(random: &mut Random) -> PolicyRule {
    let mut rule = PolicyRule { verbs: random.some(&VERBS, 4), ..PolicyRule::default() };
    let parts = random.below(8);
    if parts < 7 {
        rule.api_groups = random.some(&GROUPS, 4);
        rule.resources = random.some(&RESOURCES, 6);
    }
    if parts < 2 {
        rule.resource_names = random.some(&NAMES, 3);
    }
    if parts > 5 {
        rule.non_resource_urls = random.some(&PATHS, 2);
    }
    rule
}

fn random_subject(random: &mut Random) -> Subject {
    let (kind, namespace, name) = match random.below(3) {
        0 => (SubjectKind::User, "", random.pick(&USERS)),
        1 => (SubjectKind::Group, "", random.pick(&USER_GROUPS)),
        _ => (SubjectKind::ServiceAccount, random.pick(&NAMESPACES), random.pick(&["default", "a", "b"])),
    };
    Subject { kind, namespace: namespace.into(), name: name.into() }
}

/// Sets or removes one object in both.
fn change(random: &mut Random, model: &mut Model, index: &RbacIndex) {
    let (namespace, name) = (random.pick(&NAMESPACES), random.pick(&NAMES));
    let remove = random.below(5) == 0;
    if random.below(2) == 0 {
        // Roles are few, so that many bindings refer to each. The model has cluster roles in a namespace of their own.
        let name = random.pick(&NAMES[..4]);
        let cluster = namespace.is_empty();
        let key = (if cluster { "cluster" } else { namespace }.to_owned(), name.to_owned());
        if remove {
            model.roles.remove(&key);
            let kind = if cluster { PolicyKind::ClusterRole } else { PolicyKind::Role };
            return index.remove(kind, namespace, name);
        }
        let role = Role { rules: (0..random.below(6)).map(|_| random_rule(random)).collect() };
        model.roles.insert(key, role.clone());
        return if cluster { index.set_cluster_role(name, role) } else { index.set_role(namespace, name, role) };
    }
    let cluster = namespace.is_empty();
    let key = (namespace.to_owned(), name.to_owned());
    if remove {
        model.bindings.remove(&key);
        let kind = if cluster { PolicyKind::ClusterRoleBinding } else { PolicyKind::RoleBinding };
        return index.remove(kind, namespace, name);
    }
    let kind = if random.below(2) == 0 { RoleKind::Role } else { RoleKind::ClusterRole };
    let role = RoleRef { kind, name: random.pick(&NAMES[..4]).into() };
    let binding = RoleBinding { subjects: (0..random.below(4)).map(|_| random_subject(random)).collect(), role };
    model.bindings.insert(key, binding.clone());
    if cluster {
        index.set_cluster_role_binding(name, binding)
    } else {
        index.set_role_binding(namespace, name, binding)
    }
}

#[test]
fn the_index_decides_as_an_evaluator_of_all_bindings() {
    let variable = |name: &str, default: u64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (decisions, seed) = (variable("PINTLE_RBAC_DECISIONS", 20_000), variable("PINTLE_RBAC_SEED", 0x5eed));
    let mut random = Random(seed.max(1));
    let (mut model, index) = (Model::default(), RbacIndex::default());
    let (mut allowed, mut unresolved) = (0, 0);
    for decision in 0..decisions {
        if decision % 50 == 0 {
            (0..10).for_each(|_| change(&mut random, &mut model, &index));
        }
        let user =
            UserInfo { name: random.pick(&USERS).into(), groups: random.some(&USER_GROUPS, 3), ..UserInfo::default() };
        let mut request = AuthorizationAttributes { verb: random.pick(&VERBS), ..AuthorizationAttributes::default() };
        if random.below(4) == 0 {
            request.path = random.pick(&PATHS);
        } else {
            request.group = random.pick(&GROUPS);
            request.resource = random.pick(&["pods", "nodes", "deployments", "x", "pods/status", "*"]);
            request.subresource = random.pick(&["", "", "status", "scale", "a/b", "*"]);
            request.name = random.pick(&["", "a", "b", "z"]);
            request.namespace = random.pick(&NAMESPACES);
        }
        let found = index.decide(&user, &request);
        let found = (found.decision == Decision::Allow, found.reason.into_owned());
        let expect = model.decide(&user, &request);
        assert_eq!(found, expect, "seed {seed}, decision {decision}: {user:?} {request:?}");
        allowed += u64::from(expect.0);
        unresolved += u64::from(!expect.0 && !expect.1.is_empty());
    }
    // The comparison is meaningful only if there are enough decisions of each result.
    let enough = |count: u64| count > decisions / 20 && count < decisions * 19 / 20;
    assert!(enough(allowed) && enough(unresolved), "{allowed} allowed, {unresolved} with errors, of {decisions}");
}
