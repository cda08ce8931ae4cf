//! The bootstrap policy: the roles and bindings that every cluster has (upstream:
//! `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`). The header of `data/bootstrap_policy.txt` documents its format.

use pintle_gates::Gates;
use pintle_value::{Str, Value, object};
use pintle_versions::{Minor, nested_lines};

use super::policy::{GROUP, PolicyRule};

const POLICY: &str = include_str!("../../data/bootstrap_policy.txt");

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// The annotation whose value `false` excludes an object from reconciliation.
pub const AUTO_UPDATE_ANNOTATION: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// The label of all objects of the policy.
const BOOTSTRAPPING_LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// The prefix of the names of controllers' roles.
const CONTROLLER_PREFIX: &str = "system:controller:";
/// The namespace of the service accounts of controllers.
const SYSTEM_NAMESPACE: &str = "kube-system";

/// The objects of the bootstrap policy, as clients create them.
#[derive(Clone, Debug, Default)]
pub struct BootstrapPolicy {
    /// The cluster roles.
    pub cluster_roles: Vec<Value>,
    /// The cluster role bindings.
    pub cluster_role_bindings: Vec<Value>,
    /// The roles, in namespaces that every cluster has.
    pub roles: Vec<Value>,
    /// The role bindings, in namespaces that every cluster has.
    pub role_bindings: Vec<Value>,
}

impl BootstrapPolicy {
    /// The policy of a server of the version of these feature gates.
    #[must_use]
    pub fn new(gates: &Gates) -> Self {
        let is_enabled = |gate: &str| gates.is_enabled_by_name(gate);
        let mut reader = PolicyReader { policy: Self::default(), is_enabled: &is_enabled, rules_go_to: None };
        for line in lines(gates.version().binary()) {
            // Malformed lines are skipped; the test below detects them.
            let _ = reader.read_line(line);
        }
        reader.policy
    }
}

/// The prefix of rules.
const RULE: &str = "  ";

/// The lines that hold in a version. Rules hold only where their role does.
fn lines(minor: Minor) -> impl Iterator<Item = &'static str> {
    nested_lines(POLICY, minor, |line| usize::from(line.starts_with(RULE))).map(|line| line.text)
}

/// The kind of role whose rules are read.
#[derive(Clone, Copy, Debug)]
enum RoleList {
    ClusterRoles,
    Roles,
}

/// Reads the policy line by line.
struct PolicyReader<'g> {
    policy: BootstrapPolicy,
    is_enabled: &'g dyn Fn(&str) -> bool,
    /// The list whose last role gets the next rules; `None` if these rules are left out.
    rules_go_to: Option<RoleList>,
}

impl PolicyReader<'_> {
    /// Reads a line. Returns `None` if it is malformed.
    fn read_line(&mut self, line: &str) -> Option<()> {
        match line.strip_prefix(RULE) {
            Some(rule) => self.read_rule(rule),
            None => {
                self.rules_go_to = None;
                self.read_object(line)
            }
        }
    }

    fn read_object(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let (name, options) = rest.split_once(' ').unwrap_or((rest, ""));
        let options = Options::read(options, &["labelled", "selects", "for", "to", "if"])?;
        if !options.apply(self.is_enabled) {
            return Some(());
        }
        let role = options.get("for").unwrap_or(name.rsplit_once('/').map_or(name, |(_, name)| name));
        match kind {
            "cluster-role" => {
                let mut role = new_object("ClusterRole", "", name);
                if let Some(label) = options.get("labelled") {
                    role.set_at(&["metadata", "labels", &aggregation_label(label)], "true");
                }
                if let Some(label) = options.get("selects") {
                    let mut selector = Value::object();
                    selector.set_at(&["matchLabels", &aggregation_label(label)], "true");
                    role.set_at(&["aggregationRule", "clusterRoleSelectors"], vec![selector]);
                }
                self.add_role(RoleList::ClusterRoles, role);
            }
            "role" => {
                let (namespace, name) = name.split_once('/')?;
                self.add_role(RoleList::Roles, new_object("Role", namespace, name));
            }
            "controller" => {
                let role = format!("{CONTROLLER_PREFIX}{name}");
                let account = format!("account={SYSTEM_NAMESPACE}/{name}");
                let binding = new_object("ClusterRoleBinding", "", &role);
                self.policy.cluster_role_bindings.push(bound(binding, "ClusterRole", &role, &account)?);
                self.add_role(RoleList::ClusterRoles, new_object("ClusterRole", "", &role));
            }
            "cluster-binding" => {
                let binding = new_object("ClusterRoleBinding", "", name);
                self.policy.cluster_role_bindings.push(bound(binding, "ClusterRole", role, options.get("to")?)?);
            }
            "binding" => {
                let (namespace, name) = name.split_once('/')?;
                let binding = new_object("RoleBinding", namespace, name);
                self.policy.role_bindings.push(bound(binding, "Role", role, options.get("to")?)?);
            }
            _ => return None,
        }
        Some(())
    }

    fn add_role(&mut self, list: RoleList, role: Value) {
        self.roles(list).push(role);
        self.rules_go_to = Some(list);
    }

    fn roles(&mut self, list: RoleList) -> &mut Vec<Value> {
        match list {
            RoleList::ClusterRoles => &mut self.policy.cluster_roles,
            RoleList::Roles => &mut self.policy.roles,
        }
    }

    fn read_rule(&mut self, line: &str) -> Option<()> {
        let mut words = line.splitn(4, ' ');
        let (verbs, groups, targets) = (words.next()?, words.next()?, words.next()?);
        let options = Options::read(words.next().unwrap_or_default(), &["named", "if"])?;
        let mut rule = PolicyRule { verbs: list(verbs), ..PolicyRule::default() };
        match groups {
            "paths" => rule.non_resource_urls = list(targets),
            _ => {
                rule.api_groups = list(groups);
                rule.resources = list(targets);
                rule.resource_names = options.get("named").map(list).unwrap_or_default();
            }
        }
        if options.apply(self.is_enabled)
            && let Some(list) = self.rules_go_to
            && let Some(rules) = self.roles(list).last_mut()?.or_object()?.entry("rules").or_array()
        {
            rules.push(rule.into());
        }
        Some(())
    }
}

/// The pairs of a key and a value after the fixed words of a line.
struct Options<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Options<'t> {
    /// Reads the options of a line; `None` if an option has an unknown key.
    fn read(text: &'t str, keys: &[&str]) -> Option<Self> {
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let mut options = Vec::new();
        while let Some(key) = words.next() {
            options.push((key, words.next()?));
        }
        options.iter().all(|(key, _)| keys.contains(key)).then_some(Self(options))
    }

    fn get(&self, key: &str) -> Option<&'t str> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// True if all gates of the line are enabled.
    fn apply(&self, is_enabled: &dyn Fn(&str) -> bool) -> bool {
        self.get("if").is_none_or(|gates| gates.split(',').all(is_enabled))
    }
}

/// The items of a list, sorted, each once, as upstream's rule builder has them.
fn list(text: &str) -> Vec<Str> {
    let mut items: Vec<&str> = Vec::with_capacity(8);
    for item in text.split(',') {
        match item {
            "core" => items.push(""),
            "read" => items.extend(["get", "list", "watch"]),
            "write" => items.extend(["create", "delete", "deletecollection", "patch", "update"]),
            _ => items.push(item),
        }
    }
    items.sort_unstable();
    items.dedup();
    items.into_iter().map(Str::from).collect()
}

fn aggregation_label(label: &str) -> String {
    format!("{GROUP}/{label}")
}

/// An object with the common metadata of all objects of the policy. `namespace` is empty for cluster-scoped kinds.
fn new_object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = object! { "apiVersion": API_VERSION, "kind": kind, "metadata": object! { "name": name } };
    if !namespace.is_empty() {
        object.set_at(&["metadata", "namespace"], namespace);
    }
    object.set_at(&["metadata", "labels", BOOTSTRAPPING_LABEL.0], BOOTSTRAPPING_LABEL.1);
    object.set_at(&["metadata", "annotations", AUTO_UPDATE_ANNOTATION], "true");
    object
}

/// The binding with its role and subjects; `None` if a subject is malformed.
fn bound(mut binding: Value, role_kind: &str, role: &str, subjects: &str) -> Option<Value> {
    binding.set("roleRef", object! { "apiGroup": GROUP, "kind": role_kind, "name": role });
    let subjects = subjects.split(',').filter(|subject| *subject != "nobody");
    let subjects: Vec<Value> = subjects.map(subject).collect::<Option<_>>()?;
    if !subjects.is_empty() {
        binding.set("subjects", subjects);
    }
    Some(binding)
}

fn subject(text: &str) -> Option<Value> {
    Some(match text.split_once('=')? {
        ("user", name) => object! { "apiGroup": GROUP, "kind": "User", "name": name },
        ("group", name) => object! { "apiGroup": GROUP, "kind": "Group", "name": name },
        ("account", account) => {
            let (namespace, name) = account.split_once('/')?;
            object! { "kind": "ServiceAccount", "name": name, "namespace": namespace }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
