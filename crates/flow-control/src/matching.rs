//! The flow schema of a request (upstream: `rule.go`). An index by subject finds the rules that can match, so the cost of
//! a request does not grow with the schemas of other users.

use std::sync::Arc;

use pintle_value::Str;

use crate::flow_schema::{FlowSchema, Names, NonResourceRule, ResourceRule, Subject};

/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The user and the target of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestAttributes<'r> {
    /// The user name.
    pub user: &'r str,
    /// The groups of the user.
    pub groups: &'r [Str],
    /// `get`, `list`, `create`, …; for non-resource paths the lower-case HTTP method.
    pub verb: &'r str,
    /// True for a request about resources.
    pub is_resource: bool,
    /// The group of the resource.
    pub group: &'r str,
    /// The version of the resource.
    pub version: &'r str,
    /// The plural name of the resource.
    pub resource: &'r str,
    /// The subresource, or empty.
    pub subresource: &'r str,
    /// The namespace, or empty.
    pub namespace: &'r str,
    /// The object's name, or empty.
    pub name: &'r str,
    /// The path.
    pub path: &'r str,
}

/// A request whose user and target dumps show.
pub trait RequestDetails: Send + Sync {
    /// The user and the target.
    fn attributes(&self) -> RequestAttributes<'_>;
}

impl RequestAttributes<'_> {
    /// The user and the target as columns of the dump of requests.
    pub(crate) fn columns(&self) -> Box<str> {
        let Self { user, verb, path, namespace, name, group, version, resource, subresource, .. } = *self;
        let separator = if group.is_empty() { "" } else { "/" };
        let api_version = [group, separator, version].concat();
        let columns = [user, verb, path, namespace, name, &api_version, resource, subresource];
        columns.join(",\t").into()
    }
}

/// A rule with the place of its schema in the order of matching.
#[derive(Debug)]
struct Placed<R> {
    place: usize,
    rule: Arc<R>,
}

impl<R: Clone> Placed<R> {
    fn new(place: usize, rule: &R) -> Self {
        Self { place, rule: Arc::new(rule.clone()) }
    }
}

impl<R> Clone for Placed<R> {
    fn clone(&self) -> Self {
        Self { place: self.place, rule: self.rule.clone() }
    }
}

/// The rules of a subject. Each rule is in one list of the places where a matching request looks.
#[derive(Debug, Default)]
struct SubjectRules {
    /// Rules for some namespaces, by namespace. The namespace of cluster-scoped requests is empty.
    by_namespace: ByName<Vec<Placed<ResourceRule>>>,
    /// Rules for all namespaces and some resources, by resource.
    by_resource: ByName<Vec<Placed<ResourceRule>>>,
    /// Rules for all namespaces and resources.
    all_resources: Vec<Placed<ResourceRule>>,
    non_resource: Vec<Placed<NonResourceRule>>,
}

impl SubjectRules {
    fn add_resource_rule(&mut self, placed: &Placed<ResourceRule>) {
        match (&placed.rule.namespaces, &placed.rule.resources) {
            (Names::These(namespaces), _) => {
                let cluster = placed.rule.cluster_scope.then_some("");
                let namespaces = namespaces.iter().map(Str::as_str).filter(|namespace| !namespace.is_empty());
                for namespace in namespaces.chain(cluster) {
                    self.by_namespace.get_or_insert(namespace).push(placed.clone());
                }
            }
            (Names::All, Names::These(resources)) => {
                let mut names: Vec<_> = resources.iter().map(|resource| without_subresource(resource)).collect();
                names.sort_unstable();
                names.dedup();
                for name in names {
                    self.by_resource.get_or_insert(name).push(placed.clone());
                }
            }
            (Names::All, Names::All) => self.all_resources.push(placed.clone()),
        }
    }

    /// Finds the first schema that matches, unless `best` is before it.
    fn find(&self, request: &RequestAttributes<'_>, best: usize) -> usize {
        if !request.is_resource {
            return first(&self.non_resource, best, |rule| rule.matches(request));
        }
        let matches = |rule: &ResourceRule| rule.matches(request);
        let mut best = first(&self.all_resources, best, matches);
        for (rules, name) in [(&self.by_resource, request.resource), (&self.by_namespace, request.namespace)] {
            if let Some(rules) = rules.get(name) {
                best = first(rules, best, matches);
            }
        }
        best
    }
}

fn without_subresource(resource: &str) -> &str {
    resource.split_once('/').map_or(resource, |(resource, _)| resource)
}

/// The place of the first rule that matches, if it is before `best`; otherwise `best`.
fn first<R>(rules: &[Placed<R>], best: usize, matches: impl Fn(&R) -> bool) -> usize {
    let mut before = rules.iter().take_while(|placed| placed.place < best);
    before.find(|placed| matches(&placed.rule)).map_or(best, |placed| placed.place)
}

/// The number of names that are compared one after the other.
const FEW: usize = 8;

/// Values by name. Most names that are looked up have the length of none of the keys.
#[derive(Debug)]
struct ByName<V> {
    /// Sorted by the length of the key, then by the key.
    values: Vec<(Box<str>, V)>,
    /// A bit for the length of each key.
    lengths: u64,
}

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self { values: Vec::new(), lengths: 0 }
    }
}

impl<V: Default> ByName<V> {
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.values.binary_search_by(|(key, _)| key.len().cmp(&name.len()).then_with(|| (**key).cmp(name)))
    }

    fn get_or_insert(&mut self, name: &str) -> &mut V {
        self.lengths |= length_bit(name);
        let place = self.place(name).unwrap_or_else(|place| {
            self.values.insert(place, (name.into(), V::default()));
            place
        });
        &mut self.values[place].1
    }

    fn get(&self, name: &str) -> Option<&V> {
        if self.lengths & length_bit(name) == 0 {
            return None;
        }
        if self.values.len() <= FEW {
            return self.values.iter().find(|(key, _)| **key == *name).map(|(_, value)| value);
        }
        self.values.get(self.place(name).ok()?).map(|(_, value)| value)
    }
}

fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
}

impl ResourceRule {
    fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        self.verbs.contain(request.verb)
            && self.matches_resource(request.resource, request.subresource)
            && self.groups.contain(request.group)
            && match request.namespace {
                "" => self.cluster_scope,
                namespace => self.namespaces.contain(namespace),
            }
    }

    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        let Names::These(resources) = &self.resources else { return true };
        if subresource.is_empty() {
            return self.resources.contain(resource);
        }
        let part = |name: &Str| name.strip_prefix(resource)?.strip_prefix('/').map(|part| part == subresource);
        resources.iter().any(|name| part(name) == Some(true))
    }
}

impl NonResourceRule {
    fn matches(&self, request: &RequestAttributes<'_>) -> bool {
        self.verbs.contain(request.verb) && self.urls.iter().any(|url| path_matches(request.path, url))
    }
}

/// As in upstream, a URL matches the paths below it, even without `*`.
fn path_matches(path: &str, url: &str) -> bool {
    if url == "*" || url == path {
        return true;
    }
    let prefix = url.strip_suffix('*').unwrap_or(url);
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

/// The flow schemas by their subjects.
#[derive(Debug, Default)]
pub(crate) struct MatchIndex {
    everybody: Option<SubjectRules>,
    users: ByName<SubjectRules>,
    groups: ByName<SubjectRules>,
    /// By namespace.
    service_accounts: ByName<SubjectRules>,
}

impl MatchIndex {
    /// Indexes schemas that are in the order of matching.
    pub(crate) fn new<'s>(schemas: impl IntoIterator<Item = &'s FlowSchema>) -> Self {
        let mut index = Self::default();
        for (place, schema) in schemas.into_iter().enumerate() {
            for rule in &schema.rules {
                let resource_rules: Vec<_> = rule.resource_rules.iter().map(|rule| Placed::new(place, rule)).collect();
                let non_resource_rules: Vec<_> =
                    rule.non_resource_rules.iter().map(|rule| Placed::new(place, rule)).collect();
                for subject in &rule.subjects {
                    let rules = index.of_subject(subject);
                    resource_rules.iter().for_each(|placed| rules.add_resource_rule(placed));
                    rules.non_resource.extend(non_resource_rules.iter().cloned());
                }
            }
        }
        index
    }

    fn of_subject(&mut self, subject: &Subject) -> &mut SubjectRules {
        match subject {
            Subject::User(name) | Subject::Group(name) if name == "*" => self.everybody.get_or_insert_default(),
            Subject::User(name) => self.users.get_or_insert(name),
            Subject::Group(name) => self.groups.get_or_insert(name),
            Subject::ServiceAccount { namespace, name } if name == "*" => {
                self.service_accounts.get_or_insert(namespace)
            }
            Subject::ServiceAccount { namespace, name } => {
                self.users.get_or_insert(&format!("{SERVICE_ACCOUNT}{namespace}:{name}"))
            }
        }
    }

    /// The place of the first schema that matches a request.
    pub(crate) fn find(&self, request: &RequestAttributes<'_>) -> Option<usize> {
        let mut best = self.everybody.as_ref().map_or(usize::MAX, |rules| rules.find(request, usize::MAX));
        if let Some(rules) = self.users.get(request.user) {
            best = rules.find(request, best);
        }
        for rules in request.groups.iter().filter_map(|group| self.groups.get(group)) {
            best = rules.find(request, best);
        }
        if !self.service_accounts.values.is_empty()
            && let Some((namespace, _)) =
                request.user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'))
            && let Some(rules) = self.service_accounts.get(namespace)
        {
            best = rules.find(request, best);
        }
        (best < usize::MAX).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{bootstrap_objects, object};

    /// The name of the bootstrap schema that matches a request.
    fn check(user: &str, groups: &[&str], verb: &str, target: &str, expect: &str) {
        let mut schemas: Vec<_> = bootstrap_objects("matchingPrecedence").iter().map(FlowSchema::decode).collect();
        schemas.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
        let groups: Vec<Str> = groups.iter().map(|group| (*group).into()).collect();
        let mut request = RequestAttributes { user, groups: &groups, verb, path: target, ..Default::default() };
        if let [group, resource, subresource, namespace] = target.split(' ').collect::<Vec<_>>()[..] {
            request = RequestAttributes { is_resource: true, group, resource, subresource, namespace, ..request };
        }
        let found = MatchIndex::new(&schemas).find(&request).map_or("", |place| &schemas[place].name);
        assert_eq!(found, expect, "{user} {verb} {target}");
    }

    #[test]
    fn requests_match_the_bootstrap_schemas() {
        let node = ["system:nodes", "system:authenticated"];
        let account = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
        check("a", &["system:masters", "system:authenticated"], "get", " pods  n", "exempt");
        check("system:node:n", &node, "update", " nodes status ", "system-node-high");
        check("system:node:n", &node, "update", " nodes x ", "system-nodes");
        check("system:node:n", &node, "update", "coordination.k8s.io leases  n", "system-node-high");
        check("system:node:n", &node, "update", "coordination.k8s.io leases  ", "system-nodes");
        check("system:node:n", &node, "get", "/healthz", "probes");
        check("system:node:n", &node, "get", "/healthz/etcd", "probes");
        check("system:node:n", &node, "get", "/healthzz", "system-nodes");
        check("system:kube-scheduler", &node[1..], "get", "coordination.k8s.io leases  n", "system-leader-election");
        check("system:kube-scheduler", &node[1..], "delete", "coordination.k8s.io leases  n", "kube-scheduler");
        check("system:serviceaccount:kube-system:x", &account, "list", " pods  ", "kube-system-service-accounts");
        check(
            "system:serviceaccount:kube-system:x",
            &account,
            "get",
            "coordination.k8s.io leases  n",
            "system-leader-election",
        );
        check("system:serviceaccount:kube-systemd:x", &account, "list", " pods  ", "service-accounts");
        check("jane", &["system:authenticated"], "list", " pods  ", "global-default");
        check("jane", &["system:unauthenticated"], "get", "/version", "global-default");
        check("jane", &["other"], "get", "/version", "");
    }

    #[test]
    fn the_first_schema_wins_in_each_part_of_the_index() {
        let rule = |resources: &str, namespaces: &str, cluster: bool| {
            format!(
                r#"{{"subjects":[{{"kind":"User","user":{{"name":"*"}}}}],"resourceRules":[{{"verbs":["get","*"],"apiGroups":["","*"],"resources":[{resources}],"namespaces":[{namespaces}],"clusterScope":{cluster}}}]}}"#
            )
        };
        let rules = [
            rule(r#""pods","pods/log""#, r#""a","b""#, true),
            rule(r#""*""#, r#""a""#, false),
            rule(r#""pods/log","*""#, r#""*""#, false),
            rule(r#""*""#, r#""*""#, true),
            rule(r#""pods""#, r#""b""#, false),
        ];
        let schemas: Vec<_> = rules
            .iter()
            .map(|rule| FlowSchema::decode(&object(&format!(r#"{{"spec":{{"rules":[{rule}]}}}}"#))))
            .collect();
        let index = MatchIndex::new(&schemas);
        let check = |verb: &str, resource: &str, subresource: &str, namespace: &str, expect: Option<usize>| {
            let request =
                RequestAttributes { verb, is_resource: true, resource, subresource, namespace, ..Default::default() };
            assert_eq!(index.find(&request), expect, "{request:?}");
        };
        check("get", "pods", "", "b", Some(0));
        check("get", "pods", "log", "", Some(0));
        check("get", "pods", "", "a", Some(0));
        check("get", "nodes", "", "a", Some(1));
        check("get", "pods", "log", "c", Some(2));
        check("get", "pods", "", "c", Some(3));
        check("get", "nodes", "", "", Some(3));
        // `*` beside other verbs has no special meaning.
        check("list", "pods", "", "b", None);
    }

    #[test]
    fn urls_match_the_paths_below() {
        let check = |path: &str, url: &str, expect: bool| assert_eq!(path_matches(path, url), expect, "{path} {url}");
        check("/healthz", "*", true);
        check("/healthz", "/healthz", true);
        check("/healthz/etcd", "/healthz", true);
        check("/healthz/etcd", "/healthz/*", true);
        check("/healthz", "/healthz/*", false);
        check("/healthz2", "/healthz*", false);
        check("/x", "/", true);
    }
}
