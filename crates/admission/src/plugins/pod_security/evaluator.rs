//! The checks that a policy consists of, and their violations (upstream: `pod-security-admission/policy/registry.go`).

use std::sync::LazyLock;

use super::checks::CHECKS;
use super::pod::PodTemplate;
use super::policy::{Level, LevelVersion, Version};

/// A check of the Pod Security Standards.
pub(super) struct Check {
    /// The identifier, which orders the violations of a level.
    pub(super) id: &'static str,
    /// The level to which the check belongs. Checks of the level `baseline` apply to `restricted` too.
    pub(super) level: Level,
    /// The revisions, from the oldest on.
    pub(super) revisions: &'static [Revision],
}

/// A revision of a check.
pub(super) struct Revision {
    /// The first minor version with this revision.
    pub(super) since: i64,
    /// The checks of the level `baseline` that do not run beside this one, because it is stricter.
    pub(super) overrides: &'static [&'static str],
    /// Checks a pod.
    pub(super) run: CheckFunction,
}

type CheckFunction = fn(PodTemplate<'_>) -> Option<Violation>;

impl Check {
    /// The revision at a version.
    fn at(&self, minor: i64) -> Option<&'static Revision> {
        self.revisions.iter().rev().find(|revision| revision.since <= minor)
    }
}

/// A property of a pod that a check forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The forbidden property, in few words.
    pub reason: &'static str,
    /// Where it is in the pod.
    pub detail: String,
}

/// The violations of a pod, in the order of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// The violations of a policy.
    #[must_use]
    pub fn find(policy: LevelVersion, pod: PodTemplate<'_>) -> Self {
        Self(POLICIES.functions(policy).iter().filter_map(|run| run(pod)).collect())
    }

    /// The violations.
    pub fn iter(&self) -> impl Iterator<Item = &Violation> {
        self.0.iter()
    }

    /// True if the policy allows the pod.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reasons, separated by commas.
    #[must_use]
    pub fn reasons(&self) -> String {
        self.0.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
    }

    /// The reasons with their details in parentheses, separated by commas.
    #[must_use]
    pub fn details(&self) -> String {
        let texts = self.0.iter().map(|Violation { reason, detail }| match detail.as_str() {
            "" => (*reason).to_owned(),
            detail => format!("{reason} ({detail})"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The functions of the checks of each level, by minor version up to the newest version that changes a check.
struct Policies {
    baseline: Vec<Vec<CheckFunction>>,
    restricted: Vec<Vec<CheckFunction>>,
}

static POLICIES: LazyLock<Policies> = LazyLock::new(|| {
    let newest = CHECKS.iter().flat_map(|check| check.revisions).map(|revision| revision.since).max().unwrap_or(0);
    Policies {
        baseline: (0..=newest).map(|minor| functions(Level::Baseline, minor)).collect(),
        restricted: (0..=newest).map(|minor| functions(Level::Restricted, minor)).collect(),
    }
});

impl Policies {
    fn functions(&self, policy: LevelVersion) -> &[CheckFunction] {
        let by_version = match policy.level {
            Level::Privileged => return &[],
            Level::Baseline => &self.baseline,
            Level::Restricted => &self.restricted,
        };
        let functions = match policy.version {
            Version::Minor(minor) => usize::try_from(minor).ok().and_then(|minor| by_version.get(minor)),
            Version::Latest => None,
        };
        functions.or(by_version.last()).map_or(&[], Vec::as_slice)
    }
}

/// The functions of a level at a version: first the checks of the level `baseline`, then the checks of `restricted`.
/// Within a level, checks are in the order of their identifiers.
fn functions(level: Level, minor: i64) -> Vec<CheckFunction> {
    let mut applicable: Vec<_> = CHECKS
        .iter()
        .filter(|check| check.level <= level)
        .filter_map(|check| Some((check.level, check.id, check.at(minor)?)))
        .collect();
    applicable.sort_by_key(|(level, id, _)| (*level, *id));
    let overridden: Vec<_> = applicable.iter().flat_map(|(.., revision)| revision.overrides).collect();
    applicable.iter().filter(|(_, id, _)| !overridden.contains(&id)).map(|(.., revision)| revision.run).collect()
}
