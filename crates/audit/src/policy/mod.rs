//! The audit policy decides at which level a request is recorded (upstream: `apiserver/pkg/audit/policy`).
//!
//! - `decode`: reads a file, strictly and then leniently.
//! - `validate`: upstream's rules.
//! - `matches`: the rule that decides about a request.

mod decode;
mod matches;
mod validate;

use std::path::Path;

use pintle_auth::config_file::system_error;
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_value::Str;
use pintle_value::print::quote;

use crate::{Level, Stages};

/// A valid policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    omit_stages: Stages,
    omit_managed_fields: bool,
    rules: Vec<Rule>,
    /// The warning about unknown and duplicate fields of the text.
    warning: Option<String>,
}

/// A rule. A list without entries matches every request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    level: Level,
    users: Vec<Str>,
    user_groups: Vec<Str>,
    verbs: Vec<Str>,
    resources: Vec<GroupResources>,
    namespaces: Vec<Str>,
    non_resource_urls: Vec<Str>,
    /// The stages that the rule or the policy omits.
    omit_stages: Stages,
    /// Whether managed fields are omitted, by the rule or else by the policy.
    omit_managed_fields: bool,
}

/// Resources of an API group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupResources {
    group: Str,
    resources: Vec<Str>,
    resource_names: Vec<Str>,
}

/// A policy's decision about a request (`RequestAuditConfig`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditDecision {
    /// How much of the request is recorded.
    pub level: Level,
    /// The stages at which no event is made.
    pub omit_stages: Stages,
    /// Whether the objects in the events lack their managed fields.
    pub omit_managed_fields: bool,
}

impl Policy {
    /// Reads the file of a policy (`LoadPolicyFromFile`).
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn read(file: &Path) -> Result<Self, String> {
        let shown = file.display();
        let text = std::fs::read(file).map_err(|error| {
            let path = quote(&file.to_string_lossy());
            format!(
                "loading audit policy file: failed to read file path {path}: open {shown}: {}",
                system_error(&error)
            )
        })?;
        Self::parse(&text).map_err(|error| format!("loading audit policy file: {error}: from file {shown}"))
    }

    /// Decodes and validates the text of a policy (`LoadPolicyFromBytes`).
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let (value, warning) = decode::decode(text)?;
        let errors = validate::validate(&value);
        if !errors.is_empty() {
            return Err(errors.message());
        }
        let policy = decode::policy(&value, warning);
        if policy.rules.is_empty() {
            return Err("loaded illegal policy with 0 rules".to_owned());
        }
        Ok(policy)
    }

    /// The warning about fields of the text that are ignored, if it has any.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Decides about a request: the first rule that matches counts. `user` is `None` for a request that could not be
    /// authenticated.
    #[must_use]
    pub fn decide(&self, user: Option<&UserInfo>, attributes: &AuthorizationAttributes<'_>) -> AuditDecision {
        let rule = self.rules.iter().find(|rule| rule.matches(user, attributes));
        rule.map_or(
            AuditDecision {
                level: Level::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
            |rule| AuditDecision {
                level: rule.level,
                omit_stages: rule.omit_stages,
                omit_managed_fields: rule.omit_managed_fields,
            },
        )
    }
}
