//! The modes of impersonation: the users to whom each applies, and its questions to the authorizer.

use pintle_value::names::domain_prefixed_path;
use pintle_value::{FieldPath, Str, print};

use super::{ImpersonationMode, Observed};
use crate::user::{
    ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, NODE_NAME, NODES_GROUP, SYSTEM_PRIVILEGED_GROUP, node_name,
    service_account_groups, split_service_account_user,
};
use crate::{AuthorizationAttributes, ForbiddenError, UserInfo};

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The extra attribute with which the authorizer sees a service account that acts as its node, instead of the account's
/// own extra attributes.
const NODE_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";

/// From this number of groups or extra attributes on, the authorizer is first asked about all of them, with `*`.
const MANY: usize = 4;

/// Why a mode does not allow an impersonation.
pub(super) enum ModeError {
    /// The mode does not apply to this user.
    NotApplicable,
    /// The sender is not authorized.
    Forbidden(ForbiddenError),
}

impl From<ForbiddenError> for ModeError {
    fn from(error: ForbiddenError) -> Self {
        Self::Forbidden(error)
    }
}

/// An impersonation that is to be checked.
pub(super) struct ModeCheck<'a> {
    /// The user that the headers name.
    pub(super) wanted: &'a UserInfo,
    pub(super) sender: &'a UserInfo,
    /// The attributes of the request's own action.
    pub(super) request: &'a AuthorizationAttributes<'a>,
    pub(super) authorizer: &'a Observed<'a>,
}

impl ModeCheck<'_> {
    /// The user that the sender may act as in a mode.
    pub(super) async fn run(&self, mode: ImpersonationMode) -> Result<UserInfo, ModeError> {
        if !self.is_applicable(mode) {
            return Err(ModeError::NotApplicable);
        }
        let associated;
        let sender = match mode {
            ImpersonationMode::AssociatedNode => {
                associated = without_node(self.sender);
                &associated
            }
            _ => self.sender,
        };
        if mode.is_constrained() {
            let verb = format!("impersonate-on:{}:{}", mode.name(), self.request.verb);
            let attributes = AuthorizationAttributes { verb: &verb, ..self.request.clone() };
            self.authorizer.authorize(mode, sender, &attributes).await?;
        }
        let fields = FieldCheck { mode, sender, authorizer: self.authorizer };
        let mut user = self.wanted.clone();
        fields.check_name(self.wanted, &mut user.groups).await?;
        // The order of the checks decides which error a user gets.
        if self.authorizer.constrained {
            fields.check_uid(&self.wanted.uid).await?;
        }
        fields.check_groups(&self.wanted.groups).await?;
        fields.check_extra(&self.wanted.extra).await?;
        if !self.authorizer.constrained {
            fields.check_uid(&self.wanted.uid).await?;
        }
        add_standard_group(&mut user);
        Ok(user)
    }

    fn is_applicable(&self, mode: ImpersonationMode) -> bool {
        let UserInfo { name, uid, groups, extra } = self.wanted;
        let only_name = uid.is_empty() && groups.is_empty() && extra.is_empty();
        match mode {
            ImpersonationMode::AssociatedNode => {
                only_name
                    && split_service_account_user(&self.sender.name).is_some()
                    && node_name(name).is_some_and(|node| single_value(self.sender, NODE_NAME) == Some(node))
            }
            ImpersonationMode::ArbitraryNode => only_name && node_name(name).is_some(),
            ImpersonationMode::ServiceAccount => only_name && split_service_account_user(name).is_some(),
            ImpersonationMode::UserInfo => node_name(name).is_none() && split_service_account_user(name).is_none(),
            ImpersonationMode::Legacy => true,
        }
    }
}

/// The checks of the fields in the headers, one after the other.
struct FieldCheck<'a> {
    mode: ImpersonationMode,
    sender: &'a UserInfo,
    authorizer: &'a Observed<'a>,
}

impl<'a> FieldCheck<'a> {
    fn attributes(&self, group: &'a str, resource: &'a str) -> AuthorizationAttributes<'a> {
        AuthorizationAttributes { verb: self.mode.verb(), group, version: "v1", resource, ..Default::default() }
    }

    /// The API group of users, groups and other named fields. In the legacy mode it is the core group.
    fn group_of_names(&self) -> &'static str {
        if self.mode.is_constrained() { AUTHENTICATION } else { "" }
    }

    async fn authorize(&self, attributes: &AuthorizationAttributes<'_>) -> Result<(), ForbiddenError> {
        self.authorizer.authorize(self.mode, self.sender, attributes).await
    }

    fn forbidden(&self, attributes: &AuthorizationAttributes<'_>, why: &str) -> ForbiddenError {
        ForbiddenError::new(self.sender, attributes, why)
    }

    /// Checks the name, and adds the groups that belong to it.
    async fn check_name(&self, wanted: &'a UserInfo, groups: &mut Vec<Str>) -> Result<(), ForbiddenError> {
        let mut attributes = self.attributes(self.group_of_names(), "users");
        attributes.name = &wanted.name;
        if let Some(name) = node_name(&wanted.name).filter(|_| self.mode.is_constrained()) {
            attributes.resource = "nodes";
            // Service accounts act as their nodes, whatever the names of the nodes are.
            attributes.name = if self.mode == ImpersonationMode::AssociatedNode { "*" } else { name };
            *groups = vec![NODES_GROUP.into()];
        }
        if let Some((namespace, name)) = split_service_account_user(&wanted.name) {
            attributes.resource = "serviceaccounts";
            (attributes.namespace, attributes.name) = (namespace, name);
            if wanted.groups.is_empty() {
                *groups = service_account_groups(namespace);
            }
        }
        self.authorize(&attributes).await
    }

    async fn check_uid(&self, uid: &str) -> Result<(), ForbiddenError> {
        if uid.is_empty() {
            return Ok(());
        }
        let attributes = AuthorizationAttributes { name: uid, ..self.attributes(AUTHENTICATION, "uids") };
        self.authorize(&attributes).await
    }

    async fn check_groups(&self, groups: &[Str]) -> Result<(), ForbiddenError> {
        let attributes = self.attributes(self.group_of_names(), "groups");
        if self.mode.is_constrained() {
            if groups.iter().any(|group| group.is_empty()) {
                return Err(self.forbidden(&attributes, "impersonating the empty string group is not allowed"));
            }
            if groups.iter().any(|group| group == SYSTEM_PRIVILEGED_GROUP) {
                let attributes = AuthorizationAttributes { name: SYSTEM_PRIVILEGED_GROUP, ..attributes };
                return Err(self.forbidden(&attributes, "impersonating the system:masters group is not allowed"));
            }
            let any = AuthorizationAttributes { name: "*", ..attributes.clone() };
            if groups.len() >= MANY && self.authorize(&any).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.authorize(&AuthorizationAttributes { name: group, ..attributes.clone() }).await?;
        }
        Ok(())
    }

    async fn check_extra(&self, extra: &[(Str, Vec<Str>)]) -> Result<(), ForbiddenError> {
        let attributes = self.attributes(AUTHENTICATION, "userextras");
        if self.mode.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| invalid_extra(key, values)) {
                return Err(self.forbidden(&attributes, &why));
            }
            let count: usize = extra.iter().map(|(_, values)| values.len()).sum();
            let any = AuthorizationAttributes { subresource: "*", name: "*", ..attributes.clone() };
            if count >= MANY && self.authorize(&any).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                let attributes = AuthorizationAttributes { subresource: key, name: value, ..attributes.clone() };
                self.authorize(&attributes).await?;
            }
        }
        Ok(())
    }
}

/// Why the constrained modes refuse an extra attribute.
fn invalid_extra(key: &str, values: &[Str]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let errors = domain_prefixed_path(&FieldPath::new("extra").child("key"), key);
    if !errors.is_empty() {
        return Some(format!("impersonating an invalid key in extra is not allowed: {}", errors.message()));
    }
    if key != key.to_lowercase() {
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {}", print::quote(key)));
    }
    if values.iter().any(|value| value.is_empty()) {
        return Some("impersonating the empty string value in extra is not allowed".to_owned());
    }
    None
}

/// A service account without the extra attributes that name its pod's node, so that the authorizer decides for all
/// nodes.
fn without_node(sender: &UserInfo) -> UserInfo {
    let mut keys: Vec<Str> = sender.extra.iter().map(|(key, _)| key.clone()).collect();
    keys.sort_unstable();
    UserInfo { extra: vec![(NODE_KEYS.into(), keys)], ..sender.clone() }
}

/// The value of an extra attribute that has one value.
fn single_value<'u>(user: &'u UserInfo, key: &str) -> Option<&'u str> {
    match user.extra.iter().find(|(known, _)| known == key) {
        Some((_, values)) if values.len() == 1 => values.first().map(|value| &**value),
        _ => None,
    }
}

/// Adds the group of authenticated users, or the group of unauthenticated users for the anonymous user.
fn add_standard_group(user: &mut UserInfo) {
    let has_group = |group: &str| user.groups.iter().any(|found| found == group);
    let missing = match &*user.name {
        ANONYMOUS => (!has_group(ALL_UNAUTHENTICATED)).then_some(ALL_UNAUTHENTICATED),
        _ => (!has_group(ALL_UNAUTHENTICATED) && !has_group(ALL_AUTHENTICATED)).then_some(ALL_AUTHENTICATED),
    };
    user.groups.extend(missing.map(Str::from));
}
