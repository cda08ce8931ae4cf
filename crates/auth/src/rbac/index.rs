//! The index of all roles and bindings, by the subjects of the bindings, and the authorizer that decides with the index
//! (upstream: `plugin/pkg/auth/authorizer/rbac`, `pkg/registry/rbac/validation`).
//!
//! Reads and writes share one read-write lock. Readers do not block each other, and a write changes a few entries in
//! place, which takes microseconds. With snapshots, readers would never wait. But each write would copy a table of all
//! bindings, or the tables would have to be persistent and slower to read.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Display};

use pintle_locks::RwLock;
use pintle_value::print::quote;
use pintle_value::{Str, Value};

use super::compiled::{CompiledRole, Mask};
use super::policy::{GROUP, PolicyRule, Role, RoleBinding, RoleKind, RoleRef, Subject, SubjectKind};
use super::read::PolicyError;
use super::rule::push_quoted;
use crate::table::Table;
use crate::user::SYSTEM_PRIVILEGED_GROUP;
use crate::{
    AuthFuture, Authorization, AuthorizationAttributes, Authorizer, Decision, NonResourceRule, ResourceRule,
    RulesReview, UserInfo,
};

/// The reason why the role of a binding gives no rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolutionError {
    /// The role does not exist.
    NotFound(RoleRef),
    /// The role cannot be read.
    Unreadable(RoleRef, PolicyError),
}

/// The text of the error in the authorizer's answers. Upstream takes roles from listers, whose errors name the kind.
impl Display for ResolutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.role().kind {
            RoleKind::Role => "role",
            RoleKind::ClusterRole => "clusterrole",
        };
        f.write_str(&self.text(kind))
    }
}

impl std::error::Error for ResolutionError {}

impl ResolutionError {
    /// The role of the binding.
    #[must_use]
    pub const fn role(&self) -> &RoleRef {
        match self {
            Self::NotFound(role) | Self::Unreadable(role, _) => role,
        }
    }

    /// The text of the error in escalation errors. There, upstream takes roles from the storage. Its errors name the
    /// resource of the request (`Store.qualifiedResourceFromContext`), as in `rolebindings`.
    #[must_use]
    pub fn storage_text(&self, requested: &str) -> String {
        self.text(requested)
    }

    fn text(&self, prefix: &str) -> String {
        let name = quote(&self.role().name);
        match self {
            Self::NotFound(_) => format!("{prefix}.{GROUP} {name} not found"),
            Self::Unreadable(_, error) => format!("{prefix}.{GROUP} {name} cannot be read: {error}"),
        }
    }
}

/// The text of several errors, each of them once (upstream: `utilerrors.NewAggregate`).
pub(crate) fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let mut seen = BTreeSet::new();
    let errors: Vec<_> = errors.into_iter().filter(|error| seen.insert(error.clone())).collect();
    match &*errors {
        [] => None,
        [error] => Some(error.clone()),
        errors => Some(format!("[{}]", errors.join(", "))),
    }
}

/// The rules that apply to a user, as far as they could be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRules {
    /// The rules. The rules of cluster role bindings come first. Each group is ordered by the name of the binding.
    pub rules: Vec<PolicyRule>,
    /// The errors for roles of bindings that could not be found, in the same order.
    pub errors: Vec<ResolutionError>,
}

/// The kinds of objects that the index holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// A role in a namespace.
    Role,
    /// A cluster role.
    ClusterRole,
    /// A role binding in a namespace.
    RoleBinding,
    /// A cluster role binding.
    ClusterRoleBinding,
}

/// The RBAC authorizer: roles and bindings, indexed by subject. The caller has to add all roles and bindings.
#[derive(Debug, Default)]
pub struct RbacIndex {
    state: RwLock<State>,
}

/// Names of objects to their slots, by namespace. Cluster-wide objects have the namespace `""`.
type Names = HashMap<Str, HashMap<Str, u32>>;

#[derive(Debug, Default)]
struct State {
    /// The slots of roles, by name.
    role_names: Names,
    /// The slots of cluster roles, by name.
    cluster_role_names: Names,
    roles: Table<RoleSlot>,
    /// The slots of bindings. The bindings of the namespace `""` are cluster role bindings.
    binding_names: Names,
    bindings: Table<BindingSlot>,
    /// The bindings of users and service accounts, by user name.
    users: HashMap<Str, SubjectBindings>,
    /// The bindings of groups, by name.
    groups: HashMap<Str, SubjectBindings>,
}

/// A role that exists or that a binding refers to.
#[derive(Debug)]
struct RoleSlot {
    kind: RoleKind,
    namespace: Str,
    name: Str,
    /// The number of bindings that refer to the role.
    references: u32,
    rules: RoleRules,
}

#[derive(Debug)]
enum RoleRules {
    /// The role does not exist. A slot without references is not kept in this state.
    NotFound,
    Unreadable(Box<PolicyError>),
    Known(CompiledRole),
}

impl RoleSlot {
    fn reference(&self) -> RoleRef {
        RoleRef { kind: self.kind, name: self.name.clone() }
    }

    /// The rules, if they are known.
    fn rules(&self) -> Result<impl Iterator<Item = PolicyRule>, ResolutionError> {
        match &self.rules {
            RoleRules::Known(role) => Ok(role.rules()),
            RoleRules::NotFound => Err(ResolutionError::NotFound(self.reference())),
            RoleRules::Unreadable(error) => Err(ResolutionError::Unreadable(self.reference(), (**error).clone())),
        }
    }

    fn allows(&self, request: &Mask, attributes: &AuthorizationAttributes<'_>) -> bool {
        matches!(&self.rules, RoleRules::Known(role) if role.allows(request, attributes))
    }
}

#[derive(Debug)]
struct BindingSlot {
    namespace: Str,
    name: Str,
    /// The slot of the role.
    role: u32,
    subjects: Box<[Subject]>,
}

/// The bindings that a user or group is a subject of.
#[derive(Debug, Default)]
struct SubjectBindings {
    /// Cluster role bindings, by name.
    cluster: Vec<Entry>,
    /// Role bindings by namespace, and by name within a namespace. The list is sorted, because most subjects have few
    /// bindings.
    namespaces: Vec<(Str, Vec<Entry>)>,
}

impl SubjectBindings {
    /// The index of a namespace, or the index at which it would be inserted.
    fn find(&self, namespace: &str) -> Result<usize, usize> {
        self.namespaces.binary_search_by(|(other, _)| (**other).cmp(namespace))
    }

    /// The role bindings of a namespace.
    fn local(&self, namespace: &str) -> &[Entry] {
        let found = self.find(namespace).ok().and_then(|at| self.namespaces.get(at));
        found.map_or(&[], |(_, entries)| entries)
    }
}

/// A binding of a subject.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The slot of the role.
    role: u32,
    /// The slot of the binding.
    binding: u32,
    /// The index of the first subject of the binding that is this user or group.
    subject: u32,
}

/// Functions that change the index.
impl RbacIndex {
    /// Adds or replaces an object. The change is in force when this returns.
    ///
    /// # Errors
    /// The object cannot be read, and so grants nothing. A role has no rules and is reported with its bindings. A
    /// binding is left out.
    pub fn set(&self, kind: PolicyKind, namespace: &str, name: &str, object: &Value) -> Result<(), PolicyError> {
        let (role_kind, role) = match kind {
            PolicyKind::Role => (RoleKind::Role, Role::from_value(object)),
            PolicyKind::ClusterRole => (RoleKind::ClusterRole, Role::from_value(object)),
            PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => {
                let binding = RoleBinding::from_value(object);
                let error = binding.as_ref().err().cloned();
                self.state.write().set_binding(kind.namespace(namespace), name, binding.ok());
                return error.map_or(Ok(()), Err);
            }
        };
        let (rules, result) = match role {
            Ok(role) => (role.into(), Ok(())),
            Err(error) => (RoleRules::Unreadable(Box::new(error.clone())), Err(error)),
        };
        self.state.write().set_role(role_kind, kind.namespace(namespace), name, rules);
        result
    }

    /// Removes an object. The change is in force when this returns.
    pub fn remove(&self, kind: PolicyKind, namespace: &str, name: &str) {
        let namespace = kind.namespace(namespace);
        let mut state = self.state.write();
        match kind {
            PolicyKind::Role => state.set_role(RoleKind::Role, namespace, name, RoleRules::NotFound),
            PolicyKind::ClusterRole => state.set_role(RoleKind::ClusterRole, namespace, name, RoleRules::NotFound),
            PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => state.set_binding(namespace, name, None),
        }
    }

    /// Adds or replaces a role.
    pub fn set_role(&self, namespace: &str, name: &str, role: Role) {
        self.state.write().set_role(RoleKind::Role, namespace, name, role.into());
    }

    /// Adds or replaces a cluster role.
    pub fn set_cluster_role(&self, name: &str, role: Role) {
        self.state.write().set_role(RoleKind::ClusterRole, "", name, role.into());
    }

    /// Adds or replaces a role binding.
    pub fn set_role_binding(&self, namespace: &str, name: &str, binding: RoleBinding) {
        self.state.write().set_binding(namespace, name, Some(binding));
    }

    /// Adds or replaces a cluster role binding.
    pub fn set_cluster_role_binding(&self, name: &str, binding: RoleBinding) {
        self.state.write().set_binding("", name, Some(binding));
    }
}

impl PolicyKind {
    /// The fields that the index reads. The others need not be decoded.
    #[must_use]
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Role | Self::ClusterRole => &["rules"],
            Self::RoleBinding | Self::ClusterRoleBinding => &["roleRef", "subjects"],
        }
    }

    /// The namespace of an object of this kind: `""` for cluster-wide kinds.
    fn namespace(self, namespace: &str) -> &str {
        match self {
            Self::Role | Self::RoleBinding => namespace,
            Self::ClusterRole | Self::ClusterRoleBinding => "",
        }
    }
}

impl From<Role> for RoleRules {
    fn from(role: Role) -> Self {
        Self::Known(CompiledRole::new(role))
    }
}

/// The slot of an object.
fn slot(names: &Names, namespace: &str, name: &str) -> Option<u32> {
    names.get(namespace)?.get(name).copied()
}

/// The namespaces and names of objects, with their slots.
fn full_names(names: &Names) -> impl Iterator<Item = ((&Str, &Str), u32)> {
    names.iter().flat_map(|(namespace, names)| names.iter().map(move |(name, slot)| ((namespace, name), *slot)))
}

fn owned(((namespace, name), _): ((&Str, &Str), u32)) -> (Str, Str) {
    (namespace.clone(), name.clone())
}

/// Removes the slot of an object.
fn remove_slot(names: &mut Names, namespace: &str, name: &str) -> Option<u32> {
    let of_namespace = names.get_mut(namespace)?;
    let slot = of_namespace.remove(name);
    if of_namespace.is_empty() {
        names.remove(namespace);
    }
    slot
}

/// Functions that change the state.
impl State {
    fn role_names(&mut self, kind: RoleKind) -> &mut Names {
        match kind {
            RoleKind::Role => &mut self.role_names,
            RoleKind::ClusterRole => &mut self.cluster_role_names,
        }
    }

    /// The slot of a role. The slot is added if it is missing.
    fn role_slot(&mut self, kind: RoleKind, namespace: &str, name: &str) -> u32 {
        if let Some(slot) = slot(self.role_names(kind), namespace, name) {
            return slot;
        }
        let slot = self.roles.insert(RoleSlot {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            references: 0,
            rules: RoleRules::NotFound,
        });
        self.role_names(kind).entry(namespace.into()).or_default().insert(name.into(), slot);
        slot
    }

    fn set_role(&mut self, kind: RoleKind, namespace: &str, name: &str, rules: RoleRules) {
        // Cluster role bindings find no roles, because every role has a namespace.
        if kind == RoleKind::Role && namespace.is_empty() {
            return;
        }
        let slot = self.role_slot(kind, namespace, name);
        if let Some(role) = self.roles.get_mut(slot) {
            role.rules = rules;
        }
        self.drop_unused_role(slot);
    }

    /// Removes the slot of a role that does not exist and that no binding refers to.
    fn drop_unused_role(&mut self, slot: u32) {
        let unused =
            self.roles.get(slot).is_some_and(|role| role.references == 0 && matches!(role.rules, RoleRules::NotFound));
        if unused && let Some(role) = self.roles.remove(slot) {
            remove_slot(self.role_names(role.kind), &role.namespace, &role.name);
        }
    }

    fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<RoleBinding>) {
        if let Some(slot) = remove_slot(&mut self.binding_names, namespace, name)
            && let Some(old) = self.bindings.remove(slot)
        {
            self.unlink(slot, &old);
        }
        let Some(binding) = binding else { return };
        let role_namespace = if binding.role.kind == RoleKind::ClusterRole { "" } else { namespace };
        let role = self.role_slot(binding.role.kind, role_namespace, &binding.role.name);
        if let Some(role) = self.roles.get_mut(role) {
            role.references += 1;
        }
        let (namespace, name) = (Str::from(namespace), Str::from(name));
        let subjects = binding.subjects.into();
        let binding = BindingSlot { namespace: namespace.clone(), name: name.clone(), role, subjects };
        let subjects = binding.keys();
        let slot = self.bindings.insert(binding);
        for (key, subject) in subjects {
            self.link(key, &namespace, &name, Entry { role, binding: slot, subject });
        }
        self.binding_names.entry(namespace).or_default().insert(name, slot);
    }

    /// Adds a binding to the list of a subject, in the order of the bindings' names.
    fn link(&mut self, key: SubjectKey, namespace: &Str, name: &str, entry: Entry) {
        let State { users, groups, bindings, .. } = self;
        let subjects = if key.is_group { groups } else { users };
        let subject = subjects.entry(key.name).or_default();
        let entries = if namespace.is_empty() {
            &mut subject.cluster
        } else {
            let at = subject.find(namespace).unwrap_or_else(|at| {
                subject.namespaces.reserve_exact(usize::from(subject.namespaces.is_empty()));
                subject.namespaces.insert(at, (namespace.clone(), Vec::new()));
                at
            });
            let Some((_, entries)) = subject.namespaces.get_mut(at) else { return };
            entries
        };
        entries.reserve_exact(usize::from(entries.is_empty()));
        let at = entries.partition_point(|other| bindings.get(other.binding).is_some_and(|other| *other.name < *name));
        entries.insert(at, entry);
    }

    /// Removes a binding from the lists of its subjects, and its reference to the role.
    fn unlink(&mut self, slot: u32, binding: &BindingSlot) {
        for (key, _) in binding.keys() {
            let subjects = if key.is_group { &mut self.groups } else { &mut self.users };
            let Some(subject) = subjects.get_mut(&key.name) else { continue };
            if binding.namespace.is_empty() {
                subject.cluster.retain(|entry| entry.binding != slot);
            } else if let Ok(at) = subject.find(&binding.namespace)
                && let Some((_, entries)) = subject.namespaces.get_mut(at)
            {
                entries.retain(|entry| entry.binding != slot);
                if entries.is_empty() {
                    subject.namespaces.remove(at);
                }
            }
            if subject.cluster.is_empty() && subject.namespaces.is_empty() {
                subjects.remove(&key.name);
            }
        }
        if let Some(role) = self.roles.get_mut(binding.role) {
            role.references = role.references.saturating_sub(1);
        }
        self.drop_unused_role(binding.role);
    }
}

/// The name under which the bindings of a subject are found.
#[derive(PartialEq, Eq, Hash)]
struct SubjectKey {
    is_group: bool,
    name: Str,
}

impl BindingSlot {
    /// The keys of the subjects, each with the index of the first subject that has it.
    fn keys(&self) -> HashMap<SubjectKey, u32> {
        let mut keys = HashMap::with_capacity(self.subjects.len());
        for (index, subject) in (0..).zip(&self.subjects) {
            let name = match subject.kind {
                SubjectKind::Group => Some(subject.name.clone()),
                SubjectKind::User | SubjectKind::ServiceAccount => subject.user_name(&self.namespace),
            };
            if let Some(name) = name {
                keys.entry(SubjectKey { is_group: subject.kind == SubjectKind::Group, name }).or_insert(index);
            }
        }
        keys
    }

    /// The reason for a request that the binding allows to one of its subjects.
    fn reason(&self, role: &RoleSlot, subject: u32) -> String {
        let mut reason = String::with_capacity(192);
        if self.namespace.is_empty() {
            reason.push_str("RBAC: allowed by ClusterRoleBinding ");
            push_quoted(&mut reason, &[&self.name]);
        } else {
            reason.push_str("RBAC: allowed by RoleBinding ");
            push_quoted(&mut reason, &[&self.name, "/", &self.namespace]);
        }
        reason.push_str(" of ");
        reason.push_str(role.kind.as_str());
        reason.push(' ');
        push_quoted(&mut reason, &[&role.name]);
        reason.push_str(" to ");
        let subject = usize::try_from(subject).ok().and_then(|subject| self.subjects.get(subject));
        if let Some(subject) = subject {
            subject.describe(&mut reason, &self.namespace);
        }
        reason
    }
}

/// The first binding in upstream's order that allows a request: cluster role bindings first, then by name.
struct Allowing<'a> {
    role: &'a RoleSlot,
    binding: &'a BindingSlot,
    subject: u32,
}

impl<'a> Allowing<'a> {
    /// The first of two bindings of the same scope.
    fn first(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let key = |allowing: &Self| -> (&'a str, u32) { (&allowing.binding.name, allowing.subject) };
        match (a, b) {
            (Some(a), Some(b)) => Some(if key(&b) < key(&a) { b } else { a }),
            (a, b) => a.or(b),
        }
    }
}

/// Functions that read the state.
impl State {
    /// The namespaces and names of the roles that exist, without roles that bindings only refer to.
    fn existing_roles(&self, names: &Names) -> Vec<(Str, Str)> {
        let exists = |slot| self.roles.get(slot).is_some_and(|role| !matches!(role.rules, RoleRules::NotFound));
        full_names(names).filter(|(_, slot)| exists(*slot)).map(owned).collect()
    }

    /// The lists of a user's name and groups.
    fn subjects<'a>(&'a self, user: &'a UserInfo) -> impl Iterator<Item = &'a SubjectBindings> {
        let user_bindings = self.users.get(&user.name).into_iter();
        user_bindings.chain(user.groups.iter().filter_map(|group| self.groups.get(group)))
    }

    /// All bindings that apply to a user in a namespace, in order, each once with its first subject.
    fn bindings_of<'a>(&'a self, user: &'a UserInfo, namespace: &str) -> Vec<(&'a BindingSlot, u32)> {
        let mut found = Vec::new();
        for subject in self.subjects(user) {
            for entry in subject.cluster.iter().chain(subject.local(namespace)) {
                found.extend(self.bindings.get(entry.binding).map(|binding| (binding, entry.subject)));
            }
        }
        found.sort_by_key(|&(binding, subject)| (&*binding.namespace, &*binding.name, subject));
        found.dedup_by_key(|(binding, _)| (&*binding.namespace, &*binding.name));
        found
    }

    /// The first binding of a list that allows a request. Sets the flag if the rules of a binding are not known.
    fn first_allowing<'a>(
        &'a self,
        entries: &[Entry],
        request: &Mask,
        attributes: &AuthorizationAttributes<'_>,
        unresolved: &mut bool,
    ) -> Option<Allowing<'a>> {
        for entry in entries {
            let Some(role) = self.roles.get(entry.role) else { continue };
            if role.allows(request, attributes) {
                let binding = self.bindings.get(entry.binding)?;
                return Some(Allowing { role, binding, subject: entry.subject });
            }
            *unresolved |= !matches!(role.rules, RoleRules::Known(_));
        }
        None
    }

    fn decide(&self, user: &UserInfo, attributes: &AuthorizationAttributes<'_>) -> Authorization {
        let request = Mask::of_request(attributes);
        let mut unresolved = false;
        let (mut cluster, mut local) = (None, None);
        for subject in self.subjects(user) {
            let found = self.first_allowing(&subject.cluster, &request, attributes, &mut unresolved);
            cluster = Allowing::first(cluster, found);
            if cluster.is_none() {
                let entries = subject.local(attributes.namespace);
                let found = self.first_allowing(entries, &request, attributes, &mut unresolved);
                local = Allowing::first(local, found);
            }
        }
        if let Some(Allowing { role, binding, subject }) = cluster.or(local) {
            let reason = Cow::Owned(binding.reason(role, subject));
            return Authorization { decision: Decision::Allow, reason, error: None };
        }
        let errors = unresolved.then(|| self.errors(&self.bindings_of(user, attributes.namespace))).flatten();
        let reason = errors.map_or(Cow::Borrowed(""), |errors| Cow::Owned(format!("RBAC: {errors}")));
        Authorization { decision: Decision::NoOpinion, reason, error: None }
    }

    /// The rules of the roles of bindings, or the reasons why the rules are not known.
    fn rules<'a>(
        &'a self,
        bindings: &'a [(&'a BindingSlot, u32)],
    ) -> impl Iterator<Item = Result<impl Iterator<Item = PolicyRule> + 'a, ResolutionError>> {
        bindings.iter().filter_map(|(binding, _)| self.roles.get(binding.role)).map(RoleSlot::rules)
    }

    /// The text of the errors of bindings.
    fn errors(&self, bindings: &[(&BindingSlot, u32)]) -> Option<String> {
        aggregate(self.rules(bindings).filter_map(Result::err).map(|error| error.to_string()))
    }
}

/// Functions that read the index.
impl RbacIndex {
    /// The namespaces and names of the objects of a kind.
    #[must_use]
    pub fn names(&self, kind: PolicyKind) -> Vec<(Str, Str)> {
        let state = self.state.read();
        match kind {
            PolicyKind::Role => state.existing_roles(&state.role_names),
            PolicyKind::ClusterRole => state.existing_roles(&state.cluster_role_names),
            PolicyKind::RoleBinding => full_names(&state.binding_names)
                .filter(|((namespace, _), _)| !namespace.is_empty())
                .map(owned)
                .collect(),
            PolicyKind::ClusterRoleBinding => {
                full_names(&state.binding_names).filter(|((namespace, _), _)| namespace.is_empty()).map(owned).collect()
            }
        }
    }

    /// Decides whether a user may send a request. The reason names the binding that allows it. Without such a binding,
    /// it names the roles of the user's bindings that cannot be found.
    #[must_use]
    pub fn decide(&self, user: &UserInfo, attributes: &AuthorizationAttributes<'_>) -> Authorization {
        self.state.read().decide(user, attributes)
    }

    /// The rules that apply to a user in a namespace, or in the whole cluster if the namespace is empty (`RulesFor`).
    #[must_use]
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> UserRules {
        let state = self.state.read();
        let mut found = UserRules::default();
        for rules in state.rules(&state.bindings_of(user, namespace)) {
            match rules {
                Ok(rules) => found.rules.extend(rules),
                Err(error) => found.errors.push(error),
            }
        }
        found
    }

    /// The rules of a role that a binding in a namespace refers to (`GetRoleReferenceRules`). The namespace is empty for
    /// a cluster role binding.
    ///
    /// # Errors
    /// The role does not exist or cannot be read.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, ResolutionError> {
        let state = self.state.read();
        let slot = match role.kind {
            RoleKind::Role => slot(&state.role_names, namespace, &role.name),
            RoleKind::ClusterRole => slot(&state.cluster_role_names, "", &role.name),
        };
        let found = slot.and_then(|slot| state.roles.get(slot));
        found.ok_or_else(|| ResolutionError::NotFound(role.clone()))?.rules().map(Iterator::collect)
    }

    /// The subjects that may send a request, without duplicates, and the errors of bindings that could not be considered
    /// (`AllowedSubjects`). This reads all bindings of the cluster and of the namespace.
    #[must_use]
    pub fn allowed_subjects(&self, attributes: &AuthorizationAttributes<'_>) -> (Vec<Subject>, Vec<ResolutionError>) {
        let state = self.state.read();
        let request = Mask::of_request(attributes);
        let privileged =
            Subject { kind: SubjectKind::Group, namespace: Str::default(), name: SYSTEM_PRIVILEGED_GROUP.into() };
        let (mut subjects, mut errors) = (vec![privileged], Vec::new());
        let local = Some(attributes.namespace).filter(|namespace| !namespace.is_empty());
        for namespace in [Some(""), local].into_iter().flatten() {
            let mut slots: Vec<_> = state.binding_names.get(namespace).into_iter().flatten().collect();
            slots.sort_unstable();
            for binding in slots.into_iter().filter_map(|(_, slot)| state.bindings.get(*slot)) {
                let Some(role) = state.roles.get(binding.role) else { continue };
                errors.extend(role.rules().err());
                if role.allows(&request, attributes) {
                    subjects.extend(binding.subjects.iter().map(|subject| subject.in_namespace(namespace)));
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        subjects.retain(|subject| seen.insert(subject.clone()));
        (subjects, errors)
    }
}

impl Authorizer for RbacIndex {
    fn authorize<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a AuthorizationAttributes<'a>,
    ) -> AuthFuture<'a, Authorization> {
        AuthFuture::ready(self.decide(user, attributes))
    }

    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> AuthFuture<'a, RulesReview> {
        let UserRules { rules, errors } = self.rules_for(user, namespace);
        let mut review = RulesReview::default();
        for PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } in rules {
            if !non_resource_urls.is_empty() {
                let rule = NonResourceRule { verbs: verbs.clone(), paths: non_resource_urls };
                review.non_resource_rules.push(rule);
            }
            if !resources.is_empty() {
                let rule = ResourceRule { verbs, groups: api_groups, resources, names: resource_names };
                review.resource_rules.push(rule);
            }
        }
        review.error = aggregate(errors.iter().map(ToString::to_string));
        AuthFuture::ready(review)
    }
}

#[cfg(test)]
mod tests;
