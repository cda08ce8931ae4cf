//! Levels and versions of the Pod Security Standards, and the policy that the labels of a namespace choose (upstream:
//! `pod-security-admission/api`).

use std::fmt;

use pintle_value::{Errors, field::FieldPath};
use pintle_versions::Minor;

/// The prefix of all labels of namespaces and all audit annotations.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// The labels of a namespace, without the prefix: the level and the version of each mode.
const LABELS: [&str; 6] = ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];

/// How strict a policy is, from the least strict on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Allows everything.
    Privileged,
    /// Forbids known ways to escalate privileges.
    Baseline,
    /// Requires hardened pods.
    Restricted,
}

impl Level {
    /// The text of an error for an unknown level.
    pub(super) const EXPECTED: &str = "must be one of privileged, baseline, restricted";

    /// The level of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Level::Privileged, Level::Baseline, Level::Restricted].into_iter().find(|level| level.name() == name)
    }

    /// The name, as in labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// The version of the standards, which is a minor version of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// `v1.N`, which may be newer than the server.
    Minor(i64),
    /// `latest`, newer than all others.
    Latest,
}

impl Version {
    /// The text of an error for a malformed version.
    pub(super) const EXPECTED: &str = "must be \"latest\" or \"v1.x\"";

    /// The version of a text such as `latest` or `v1.36`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let is_canonical =
            minor.bytes().all(|byte| byte.is_ascii_digit()) && (minor.len() == 1 || !minor.starts_with('0'));
        if is_canonical { minor.parse().ok().map(Version::Minor) } else { None }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Minor(minor) => write!(f, "v1.{minor}"),
            Version::Latest => f.write_str("latest"),
        }
    }
}

/// A level at a version: `restricted:latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LevelVersion {
    /// The level.
    pub level: Level,
    /// The version.
    pub version: Version,
}

impl LevelVersion {
    /// `privileged:latest`.
    pub const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    /// The standards that a server of a version applies. It replaces standards newer than itself by the newest known ones.
    #[must_use]
    pub fn known_to(self, server: Minor) -> Self {
        Self { version: self.version.min(Version::Minor(server.number().into())), ..self }
    }

    /// True if both mean the same: the versions of the level `privileged` do not differ.
    fn is_equivalent(self, other: Self) -> bool {
        self == other || self.level == Level::Privileged && other.level == Level::Privileged
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// The levels that a namespace enforces, audits and warns of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods that violate it are refused.
    pub enforce: LevelVersion,
    /// Pods and pod templates that violate it are recorded in the audit log.
    pub audit: LevelVersion,
    /// Users are warned of pods and pod templates that violate it.
    pub warn: LevelVersion,
}

impl Policy {
    /// Allows everything.
    pub const PRIVILEGED: Self =
        Self { enforce: LevelVersion::PRIVILEGED, audit: LevelVersion::PRIVILEGED, warn: LevelVersion::PRIVILEGED };

    /// True if no mode restricts anything.
    #[must_use]
    pub fn is_privileged(&self) -> bool {
        self.is_equivalent(&Self::PRIVILEGED)
    }

    /// True if both policies mean the same.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.enforce.is_equivalent(other.enforce)
            && self.audit.is_equivalent(other.audit)
            && self.warn.is_equivalent(other.warn)
    }
}

/// The labels of a namespace that choose its policy, in the order of [`LABELS`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PolicyLabels<'a>([Option<&'a str>; LABELS.len()]);

impl<'a> PolicyLabels<'a> {
    /// Selects the labels of the policy.
    pub(super) fn of(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut found = Self::default();
        for (key, value) in labels {
            let name = key.strip_prefix(PREFIX);
            let index = name.and_then(|name| LABELS.iter().position(|label| *label == name));
            if let Some(slot) = index.and_then(|index| found.0.get_mut(index)) {
                *slot = Some(value);
            }
        }
        found
    }

    /// The modes of a policy by name: `enforce=baseline:latest, warn=restricted:v1.30`. Privileged modes and modes that
    /// no label chooses are left out.
    pub(super) fn describe(&self, policy: &Policy) -> String {
        let [enforce, enforce_version, audit, audit_version, warn, warn_version] = self.0;
        let modes = [
            ("enforce", policy.enforce, enforce.or(enforce_version)),
            ("audit", policy.audit, audit.or(audit_version)),
            ("warn", policy.warn, warn.or(warn_version)),
        ];
        let chosen = modes.iter().filter(|(_, mode, label)| mode.level != Level::Privileged && label.is_some());
        chosen.map(|(name, mode, _)| format!("{name}={mode}")).collect::<Vec<_>>().join(", ")
    }

    /// The policy that the labels choose, and the errors in them (upstream: `PolicyToEvaluate`). A malformed level or
    /// version of the mode `enforce` becomes the strictest. A malformed level of the modes `audit` and `warn` becomes
    /// privileged.
    pub(super) fn policy(&self, defaults: &Policy) -> (Policy, Errors) {
        let [enforce, enforce_version, audit, audit_version, warn, warn_version] = self.0;
        let (mut policy, mut errors) = (*defaults, Errors::new());
        let is_enforced = Self::level(enforce, "enforce", &mut policy.enforce.level, Level::Restricted, &mut errors);
        Self::version(enforce_version, "enforce-version", &mut policy.enforce.version, &mut errors);
        Self::level(audit, "audit", &mut policy.audit.level, Level::Privileged, &mut errors);
        Self::version(audit_version, "audit-version", &mut policy.audit.version, &mut errors);
        Self::level(warn, "warn", &mut policy.warn.level, Level::Privileged, &mut errors);
        Self::version(warn_version, "warn-version", &mut policy.warn.version, &mut errors);
        // Unless a label says otherwise, users are warned of violations of an explicitly enforced level, for example by
        // workloads.
        if warn.is_none() && is_enforced && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if warn_version.is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    /// Sets a level if its label is there. Returns whether the label is there and valid.
    fn level(label: Option<&str>, name: &str, level: &mut Level, fallback: Level, errors: &mut Errors) -> bool {
        let Some(text) = label else { return false };
        let parsed = Level::parse(text);
        *level = parsed.unwrap_or(fallback);
        if parsed.is_none() {
            add_error(errors, name, text, Level::EXPECTED);
        }
        parsed.is_some()
    }

    /// Sets a version if its label is there.
    fn version(label: Option<&str>, name: &str, version: &mut Version, errors: &mut Errors) {
        let Some(text) = label else { return };
        let parsed = Version::parse(text);
        *version = parsed.unwrap_or(Version::Latest);
        if parsed.is_none() {
            add_error(errors, name, text, Version::EXPECTED);
        }
    }
}

fn add_error(errors: &mut Errors, label: &str, value: &str, expected: &str) {
    let label = format!("{PREFIX}{label}");
    errors.invalid(&FieldPath::new("metadata").child("labels").key(&label), value, expected);
}
