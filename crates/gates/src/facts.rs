//! The table of gates: `data/gates.txt`, whose head documents the format.

use std::sync::OnceLock;

const TABLE: &str = include_str!("../data/gates.txt");

/// How mature a feature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless somebody wants it; may go any day.
    Alpha,
    /// Mostly on.
    Beta,
    /// Here to stay; its gate goes after a while.
    Ga,
    /// Going away.
    Deprecated,
}

impl Stage {
    /// The name in help and metrics; that of general availability is empty.
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

/// What is known of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The name in `--feature-gates`.
    pub name: &'static str,
    /// How mature the feature is.
    pub stage: Stage,
    /// True if the feature is on when nobody says anything.
    pub default: bool,
    /// True if it cannot be set to anything but its default.
    pub locked: bool,
    /// The gates that have to be on while this one is, sorted.
    pub needs: Vec<&'static str>,
}

/// Every gate, sorted by name.
#[must_use]
pub fn known() -> &'static [Gate] {
    static GATES: OnceLock<Vec<Gate>> = OnceLock::new();
    // A line that cannot be read is left out here, and found by the test below.
    GATES.get_or_init(|| lines().filter_map(parse).collect())
}

/// The place of a gate among all.
pub(crate) fn position(name: &str) -> Option<usize> {
    known().binary_search_by(|gate| gate.name.cmp(name)).ok()
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
    let mut gate = Gate { name, stage, default, locked: false, needs: Vec::new() };
    for word in words {
        match word.split_once('=') {
            None if word == "locked" => gate.locked = true,
            Some(("needs", names)) => gate.needs = names.split(',').collect(),
            _ => return None,
        }
    }
    Some(gate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_whole_and_holds_together() {
        assert_eq!(known().len(), lines().count());
        assert!(known().is_sorted_by(|a, b| a.name < b.name));
        for gate in known() {
            assert!(gate.needs.is_sorted());
            for name in &gate.needs {
                let needed = &known()[position(name).expect(name)];
                // Upstream's own rules for its table.
                assert!(!gate.default || needed.default, "{} is on without {name}", gate.name);
                assert!(!gate.locked || needed.locked, "{} is locked, {name} is not", gate.name);
            }
            assert!(gate.stage != Stage::Alpha || !gate.default, "{} is alpha and on", gate.name);
        }
    }
}
