//! The effect of each gate in this server, from `data/effects.tsv`. The header of that file documents the format.

use std::fmt::Write;
use std::sync::OnceLock;

use pintle_versions::EffectiveVersion;

use crate::table::{Gate, Stage, all_gates, index_of};

const TABLE: &str = include_str!("../data/effects.tsv");

/// The kind of a gate's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// Fields are dropped while the gate is off.
    Fields,
    /// Clients see another behaviour.
    Behaviour,
    /// The gate has no effect that clients of this server can see.
    Nothing,
    /// The gate belongs to another component.
    Component,
    /// The effect is not implemented yet.
    Open,
}

impl EffectKind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "fields" => Self::Fields,
            "behaviour" => Self::Behaviour,
            "nothing" => Self::Nothing,
            "component" => Self::Component,
            "open" => Self::Open,
            _ => return None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Fields => "fields",
            Self::Behaviour => "behaviour",
            Self::Nothing => "nothing",
            Self::Component => "component",
            Self::Open => "open",
        }
    }
}

/// The effect of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The name of the gate.
    pub gate: &'static str,
    /// The kind of the effect.
    pub kind: EffectKind,
    /// The effect of the gate, the reason why clients see none, or the component to which the gate belongs.
    pub details: &'static str,
}

/// The effects of the gates of all versions, sorted by gate.
#[must_use]
pub fn all_effects() -> &'static [Effect] {
    static EFFECTS: OnceLock<Vec<Effect>> = OnceLock::new();
    // Malformed lines are skipped; the test below detects them.
    EFFECTS.get_or_init(|| TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(parse).collect())
}

/// The effect of a gate.
pub(crate) fn effect_of(gate: &Gate) -> Option<&'static Effect> {
    all_effects().get(index_of(gate.name)?)
}

fn parse(line: &'static str) -> Option<Effect> {
    let mut columns = line.split('\t');
    let effect = Effect {
        gate: columns.next()?,
        kind: EffectKind::parse(columns.next()?)?,
        details: columns.next().filter(|details| !details.is_empty())?,
    };
    columns.next().is_none().then_some(effect)
}

/// The table of `docs/feature-gates.md`: the gates of the default version.
#[must_use]
pub fn markdown() -> String {
    let mut table = "| gate | stage | default | here | details |\n|---|---|---|---|---|\n".to_owned();
    let gates = all_gates(EffectiveVersion::default());
    for (gate, effect) in gates.filter_map(|gate| Some((gate, effect_of(gate)?))) {
        let stage = if gate.stage == Stage::Ga { "GA".to_owned() } else { gate.stage.name().to_lowercase() };
        let default = if gate.default { "on" } else { "off" };
        let locked = if gate.locked { ", locked" } else { "" };
        let (name, kind, details) = (gate.name, effect.kind.name(), effect.details);
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{name}` | {stage} | {default}{locked} | {kind} | {details} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::all_names;

    #[test]
    fn every_gate_has_an_effect() {
        let gates: Vec<_> = all_names().collect();
        let effects: Vec<_> = all_effects().iter().map(|effect| effect.gate).collect();
        assert_eq!(gates, effects);
        assert_eq!(effects.len(), TABLE.lines().filter(|line| !line.starts_with('#')).count());
    }

    #[test]
    fn the_document_lists_all_gates() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/feature-gates.md");
        let document = std::fs::read_to_string(path).expect("the document");
        let (text, table) = document.split_once("\n| gate ").expect("a table");
        let expect = format!("{text}\n{}", markdown());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, expect).expect("a document that can be written");
        } else {
            assert_eq!(format!("| gate {table}"), markdown(), "run the test with UPDATE_EXPECT=1");
        }
    }
}
