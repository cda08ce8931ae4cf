//! The table of feature gates, `data/gates.txt`. The header of that file documents the format.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use pintle_versions::{EffectiveVersion, Minor, MinorRange};

const TABLE: &str = include_str!("../data/gates.txt");

/// The stage of a feature (upstream: `featuregate.prerelease`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The feature is disabled by default, and can be removed at any time.
    Alpha,
    /// The feature is usually enabled by default.
    Beta,
    /// The feature is generally available. The gate is removed eventually.
    Ga,
    /// The feature will be removed.
    Deprecated,
}

impl Stage {
    /// The name in help and metrics; empty for general availability.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            Stage::Ga => "",
            Stage::Deprecated => "DEPRECATED",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "alpha" => Stage::Alpha,
            "beta" => Stage::Beta,
            "ga" => Stage::Ga,
            "deprecated" => Stage::Deprecated,
            _ => return None,
        })
    }
}

/// Whether a version has a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// The gate can be set.
    Known,
    /// The binary version has the gate, the emulated version does not have it yet (upstream: `PreAlpha`).
    PreAlpha,
    /// The binary version has no such gate.
    Unknown,
}

/// The specification of a feature gate in one version (upstream: `featuregate.FeatureSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The name in `--feature-gates`.
    pub name: &'static str,
    /// Whether the version has the gate. If it has not, the default is the state of the feature.
    pub existence: Existence,
    /// The stage of the feature.
    pub stage: Stage,
    /// True if the feature is enabled by default.
    pub default: bool,
    /// True if the gate cannot be set to a value other than its default (upstream: `LockToDefault`).
    pub locked: bool,
    /// The gates that must be enabled while this gate is enabled, sorted.
    pub dependencies: Vec<&'static str>,
}

/// The specification of a feature from one version on.
#[derive(Debug)]
struct Spec {
    since: Minor,
    stage: Stage,
    default: bool,
    locked: bool,
    /// The spec holds only if the minimum compatibility version is at least this one.
    min_compatibility: Option<Minor>,
}

impl Spec {
    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.split(':');
        let (since, stage, default) = (parts.next()?.parse().ok()?, Stage::parse(parts.next()?)?, parts.next()?);
        let default = match default {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        let mut spec = Self { since, stage, default, locked: false, min_compatibility: None };
        for part in parts {
            match part.split_once('=') {
                None if part == "locked" => spec.locked = true,
                Some(("min", minor)) => spec.min_compatibility = Some(minor.parse().ok()?),
                _ => return None,
            }
        }
        Some(spec)
    }

    fn holds(&self, emulation: Minor, min_compatibility: Minor) -> bool {
        self.since <= emulation && self.min_compatibility.is_none_or(|minor| minor <= min_compatibility)
    }
}

/// A line of the table: a gate in all versions.
#[derive(Debug)]
struct GateHistory {
    name: &'static str,
    /// In the order of their versions, at least one.
    specs: Vec<Spec>,
    gone: Option<Minor>,
    needs: Vec<(&'static str, MinorRange)>,
}

impl GateHistory {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut history = Self { name: words.next()?, specs: Vec::new(), gone: None, needs: Vec::new() };
        for word in words {
            match word.split_once('=') {
                Some(("gone", minor)) => history.gone = Some(minor.parse().ok()?),
                Some(("needs", names)) => {
                    for name in names.split(',') {
                        let (name, range) = name.split_once('@').unwrap_or((name, ".."));
                        history.needs.push((name, range.parse().ok()?));
                    }
                }
                _ => history.specs.push(Spec::parse(word)?),
            }
        }
        (!history.specs.is_empty()).then_some(history)
    }

    /// The gate as a server of this version has it.
    fn at(&self, version: EffectiveVersion) -> Gate {
        let (binary, emulation) = (version.binary(), version.emulation());
        let is_gone = self.gone.is_some_and(|gone| gone <= binary);
        let first = self.specs.iter().map(|spec| spec.since).min();
        // A feature without a gate has outgrown it, also where an older version is emulated.
        let effective = if is_gone { binary } else { emulation };
        let spec = self.specs.iter().rev().find(|spec| spec.holds(effective, version.min_compatibility()));
        let existence = if is_gone || first.is_none_or(|first| first > binary) {
            Existence::Unknown
        } else if spec.is_some() {
            Existence::Known
        } else {
            Existence::PreAlpha
        };
        Gate {
            name: self.name,
            existence,
            stage: spec.map_or(Stage::Alpha, |spec| spec.stage),
            default: spec.is_some_and(|spec| spec.default),
            locked: existence != Existence::Known || spec.is_some_and(|spec| spec.locked),
            dependencies: self
                .needs
                .iter()
                .filter(|(_, range)| range.contains(effective))
                .map(|(name, _)| *name)
                .collect(),
        }
    }
}

/// The gates of all versions, sorted by name.
fn histories() -> &'static [GateHistory] {
    static HISTORIES: OnceLock<Vec<GateHistory>> = OnceLock::new();
    // Malformed lines are skipped; the test below detects them.
    HISTORIES.get_or_init(|| lines().filter_map(GateHistory::parse).collect())
}

/// The gates of all versions as a server of one version has them, sorted by name. A gate has the same index in every
/// version.
pub(crate) fn gates_of(version: EffectiveVersion) -> &'static [Gate] {
    static TABLES: Mutex<BTreeMap<EffectiveVersion, &'static [Gate]>> = Mutex::new(BTreeMap::new());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    tables.entry(version).or_insert_with(|| {
        let gates: Vec<Gate> = histories().iter().map(|history| history.at(version)).collect();
        gates.leak()
    })
}

/// The feature gates that a server of this version knows, sorted by name.
pub fn all_gates(version: EffectiveVersion) -> impl Iterator<Item = &'static Gate> {
    gates_of(version).iter().filter(|gate| gate.existence == Existence::Known)
}

/// The names of the gates of all versions, sorted.
pub(crate) fn all_names() -> impl Iterator<Item = &'static str> {
    histories().iter().map(|history| history.name)
}

/// The index of a gate in [`gates_of`] any version.
pub(crate) fn index_of(name: &str) -> Option<usize> {
    histories().binary_search_by(|history| history.name.cmp(name)).ok()
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_complete() {
        assert_eq!(histories().len(), lines().count());
        assert!(histories().is_sorted_by(|a, b| a.name < b.name));
        for history in histories() {
            assert!(history.specs.is_sorted_by(|a, b| (a.since, a.min_compatibility) < (b.since, b.min_compatibility)));
            assert!(history.needs.is_sorted_by_key(|(name, _)| *name));
        }
        for version in Minor::known().map(EffectiveVersion::of) {
            for gate in all_gates(version) {
                for name in &gate.dependencies {
                    let dependency = &gates_of(version)[index_of(name).expect(name)];
                    // Upstream requires this of its table.
                    assert!(!gate.default || dependency.default, "{} is on without {name} in {version}", gate.name);
                    assert!(
                        !gate.locked || !gate.default || dependency.locked,
                        "{} is locked, {name} is not",
                        gate.name
                    );
                }
                assert!(gate.stage != Stage::Alpha || !gate.default, "{} is alpha and on in {version}", gate.name);
            }
        }
    }

    #[test]
    fn a_gate_has_the_spec_of_the_emulated_version() {
        let check = |line: &'static str, binary: u8, emulation: u8, min: u8, expect: &str| {
            let version = EffectiveVersion::emulating(Minor::new(binary), Minor::new(emulation)).expect("a version");
            let gate =
                GateHistory::parse(line).expect(line).at(version.compatible_with(Minor::new(min)).expect("a version"));
            let found = format!(
                "{:?} {:?} {} {} {}",
                gate.existence,
                gate.stage,
                gate.default,
                gate.locked,
                gate.dependencies.join(",")
            );
            assert_eq!(found.trim_end(), expect, "{line} {binary} {emulation} {min}");
        };
        let line = "A 1.35:alpha:off 1.36:beta:on 1.37:ga:on:locked";
        check(line, 37, 37, 36, "Known Ga true true");
        check(line, 37, 36, 35, "Known Beta true false");
        check(line, 37, 34, 34, "PreAlpha Alpha false true");
        check(line, 34, 34, 33, "Unknown Alpha false true");
        // A gate that is gone leaves the feature on, even if the emulated version had the gate off.
        let line = "A 1.34:beta:off 1.35:ga:on:locked gone=1.37";
        check(line, 37, 34, 34, "Unknown Ga true true");
        check(line, 36, 34, 33, "Known Beta false false");
        let line = "A 1.37:beta:off 1.37:beta:on:min=1.37";
        check(line, 37, 37, 36, "Known Beta false false");
        check(line, 37, 37, 37, "Known Beta true false");
        check("A 1.34:beta:on needs=B,C@1.36..", 37, 35, 34, "Known Beta true false B");
        check("A 1.34:beta:on needs=B,C@1.36..", 37, 36, 34, "Known Beta true false B,C");
    }

    #[test]
    fn malformed_lines_are_not_read() {
        for line in
            ["A", "A beta:on", "A 1.36:gamma:on", "A 1.36:beta:yes", "A 1.36:beta:on:what", "A 1.36:beta:on gone=x"]
        {
            assert!(GateHistory::parse(line).is_none(), "{line}");
        }
    }
}
