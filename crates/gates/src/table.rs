//! The table of feature gates, `data/gates.txt`. The header of that file documents the format.

use std::sync::OnceLock;

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

/// The specification of a feature gate (upstream: `featuregate.FeatureSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The name in `--feature-gates`.
    pub name: &'static str,
    /// The stage of the feature.
    pub stage: Stage,
    /// True if the feature is enabled by default.
    pub default: bool,
    /// True if the gate cannot be set to a value other than its default (upstream: `LockToDefault`).
    pub locked: bool,
    /// The gates that must be enabled while this gate is enabled, sorted.
    pub dependencies: Vec<&'static str>,
}

/// All feature gates, sorted by name.
#[must_use]
pub fn all_gates() -> &'static [Gate] {
    static GATES: OnceLock<Vec<Gate>> = OnceLock::new();
    // Malformed lines are skipped; the test below detects them.
    GATES.get_or_init(|| lines().filter_map(parse).collect())
}

/// The index of a gate in [`all_gates`].
pub(crate) fn index_of(name: &str) -> Option<usize> {
    all_gates().binary_search_by(|gate| gate.name.cmp(name)).ok()
}

fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| !line.starts_with('#'))
}

fn parse(line: &'static str) -> Option<Gate> {
    let mut words = line.split(' ');
    let (name, stage, default) = (words.next()?, Stage::parse(words.next()?)?, words.next()?);
    let default = match default {
        "on" => true,
        "off" => false,
        _ => return None,
    };
    let mut gate = Gate { name, stage, default, locked: false, dependencies: Vec::new() };
    for word in words {
        match word.split_once('=') {
            None if word == "locked" => gate.locked = true,
            Some(("needs", names)) => gate.dependencies = names.split(',').collect(),
            _ => return None,
        }
    }
    Some(gate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_valid_and_complete() {
        assert_eq!(all_gates().len(), lines().count());
        assert!(all_gates().is_sorted_by(|a, b| a.name < b.name));
        for gate in all_gates() {
            assert!(gate.dependencies.is_sorted());
            for name in &gate.dependencies {
                let dependency = &all_gates()[index_of(name).expect(name)];
                // Upstream requires this of its table.
                assert!(!gate.default || dependency.default, "{} is on without {name}", gate.name);
                assert!(!gate.locked || dependency.locked, "{} is locked, {name} is not", gate.name);
            }
            assert!(gate.stage != Stage::Alpha || !gate.default, "{} is alpha and on", gate.name);
        }
    }
}
