//! Which features are on, and what setting them says.

use std::collections::BTreeMap;
use std::fmt;

use crate::facts::{Gate, Stage, known, position};

/// A feature that code asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature(&'static str);

impl Feature {
    /// Deletion of objects that cannot be read (KEP-3926).
    pub const ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION: Feature = Feature("AllowUnsafeMalformedObjectDeletion");
    /// Servers that say that they are there (KEP-1965).
    pub const API_SERVER_IDENTITY: Feature = Feature("APIServerIdentity");
    /// CBOR in and out (KEP-4222).
    pub const CBOR: Feature = Feature("CBORServingAndStorage");
    /// Signals that containers are stopped with (KEP-4960).
    pub const CONTAINER_STOP_SIGNALS: Feature = Feature("ContainerStopSignals");
    /// Leases that say how their holder is chosen (KEP-4355).
    pub const COORDINATED_LEADER_ELECTION: Feature = Feature("CoordinatedLeaderElection");
    /// Attributes of devices that are lists.
    pub const DRA_LIST_TYPE_ATTRIBUTES: Feature = Feature("DRAListTypeAttributes");
    /// Autoscalers that go down to nothing (KEP-2021).
    pub const HPA_SCALE_TO_ZERO: Feature = Feature("HPAScaleToZero");
    /// Stateful sets that replace several pods at a time (KEP-961).
    pub const MAX_UNAVAILABLE_STATEFUL_SET: Feature = Feature("MaxUnavailableStatefulSet");
    /// Servers that say where others reach them (KEP-4020).
    pub const UNKNOWN_VERSION_INTEROPERABILITY_PROXY: Feature = Feature("UnknownVersionInteroperabilityProxy");
    /// Drivers without which pods are not scheduled (KEP-5030).
    pub const VOLUME_LIMIT_SCALING: Feature = Feature("VolumeLimitScaling");

    /// The features that something here depends on. All others are as they are by default, whatever their gates say.
    pub const HEEDED: [Feature; 10] = [
        Feature::ALLOW_UNSAFE_MALFORMED_OBJECT_DELETION,
        Feature::API_SERVER_IDENTITY,
        Feature::CBOR,
        Feature::CONTAINER_STOP_SIGNALS,
        Feature::COORDINATED_LEADER_ELECTION,
        Feature::DRA_LIST_TYPE_ATTRIBUTES,
        Feature::HPA_SCALE_TO_ZERO,
        Feature::MAX_UNAVAILABLE_STATEFUL_SET,
        Feature::UNKNOWN_VERSION_INTEROPERABILITY_PROXY,
        Feature::VOLUME_LIMIT_SCALING,
    ];

    /// The feature of a gate.
    #[must_use]
    pub const fn of(gate: &Gate) -> Self {
        Feature(gate.name)
    }

    /// The name of its gate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

/// Which features are on.
#[derive(Clone, PartialEq, Eq)]
pub struct Gates {
    /// In the order of the table.
    on: Vec<bool>,
}

/// Why gates cannot be set so, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is no such gate.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// It cannot be set to anything but its default.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {default}")]
    Locked {
        /// The gate.
        name: &'static str,
        /// What it was to be.
        value: bool,
        /// What it is.
        default: bool,
    },
    /// It needs others.
    #[error("{name} is enabled, but depends on features that are disabled: [{}]", .disabled.join(" "))]
    Needs {
        /// The gate.
        name: &'static str,
        /// Those of which it needs that are off.
        disabled: Vec<&'static str>,
    },
    /// The text of the flag is none.
    #[error("{0}")]
    Malformed(String),
    /// More than one of these.
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<GateError>),
}

/// Something to tell about a gate that was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The gate.
    pub gate: &'static Gate,
    /// What it is now.
    pub value: bool,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = if self.gate.stage == Stage::Ga { "GA" } else { "deprecated" };
        write!(f, "Warning: setting {stage} feature gate. It will be removed in a future release.")
    }
}

impl Default for Gates {
    fn default() -> Self {
        Self { on: known().iter().map(|gate| gate.default).collect() }
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.states().filter(|(gate, on)| gate.default != *on).map(|(gate, on)| (gate.name, on));
        f.debug_map().entries(changed).finish()
    }
}

impl Gates {
    /// The defaults, but for these. Also returns what is to be said about them.
    ///
    /// # Errors
    /// A gate is not known, is locked, or needs one that is off.
    pub fn with(settings: &BTreeMap<String, bool>) -> Result<(Self, Vec<Warning>), GateError> {
        let mut set = vec![None; known().len()];
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        for (name, &value) in settings {
            let Some((place, gate)) = position(name).and_then(|place| Some((place, known().get(place)?))) else {
                errors.push(GateError::Unknown(name.clone()));
                return Err(one(errors));
            };
            if gate.locked && gate.default != value {
                errors.push(GateError::Locked { name: gate.name, value, default: gate.default });
                continue;
            }
            set[place] = Some(value);
            if matches!(gate.stage, Stage::Ga | Stage::Deprecated) {
                warnings.push(Warning { gate, value });
            }
        }
        let of_stage = |stage| match stage {
            Stage::Alpha => settings.get("AllAlpha").copied(),
            Stage::Beta => settings.get("AllBeta").copied(),
            Stage::Ga | Stage::Deprecated => None,
        };
        let all = |gate: &Gate| matches!(gate.name, "AllAlpha" | "AllBeta");
        let state = |(gate, set): (&Gate, Option<bool>)| {
            set.or_else(|| of_stage(gate.stage).filter(|_| !all(gate))).unwrap_or(gate.default)
        };
        let gates = Self { on: known().iter().zip(set).map(state).collect() };
        if errors.is_empty() {
            errors = gates.missing();
        }
        if errors.is_empty() { Ok((gates, warnings)) } else { Err(one(errors)) }
    }

    /// Those that are on without what they need.
    fn missing(&self) -> Vec<GateError> {
        let mut errors = Vec::new();
        for (gate, _) in self.states().filter(|(_, on)| *on) {
            let disabled: Vec<_> = gate.needs.iter().copied().filter(|name| !self.enabled(Feature(name))).collect();
            if !disabled.is_empty() {
                errors.push(GateError::Needs { name: gate.name, disabled });
            }
        }
        errors
    }

    /// True if a feature is on.
    #[must_use]
    pub fn enabled(&self, feature: Feature) -> bool {
        self.on_named(feature.0)
    }

    /// True if there is a gate of this name and it is off.
    #[must_use]
    pub fn is_off(&self, name: &str) -> bool {
        position(name).and_then(|place| self.on.get(place)).is_some_and(|on| !on)
    }

    /// True if there is a gate of this name and it is on.
    #[must_use]
    pub fn on_named(&self, name: &str) -> bool {
        position(name).and_then(|place| self.on.get(place).copied()).unwrap_or_default()
    }

    /// The gates that are not as they are by default although nothing here depends on them.
    pub fn unheeded(&self) -> impl Iterator<Item = &'static Gate> {
        let all = ["AllAlpha", "AllBeta"];
        self.states()
            .filter(|(gate, on)| gate.default != *on)
            .map(|(gate, _)| gate)
            .filter(move |gate| !all.contains(&gate.name) && !Feature::HEEDED.contains(&Feature::of(gate)))
    }

    /// Every gate, and whether it is on.
    pub fn states(&self) -> impl Iterator<Item = (&'static Gate, bool)> {
        known().iter().zip(self.on.iter().copied())
    }
}

fn one(mut errors: Vec<GateError>) -> GateError {
    match errors.pop() {
        Some(error) if errors.is_empty() => error,
        Some(error) => {
            errors.push(error);
            GateError::Several(errors)
        }
        None => GateError::Several(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, bool)], expect: Result<&[(&str, bool)], &str>) {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        match (Gates::with(&settings), expect) {
            (Ok((gates, _)), Ok(states)) => {
                for (name, on) in states {
                    assert_eq!(gates.on_named(name), *on, "{name} of {settings:?}");
                }
            }
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
            (found, _) => panic!("{settings:?}: {found:?}"),
        }
    }

    #[test]
    fn gates_are_set_by_name_and_by_stage() {
        check(&[], Ok(&[("CBORServingAndStorage", false), ("WatchList", true)]));
        check(&[("CBORServingAndStorage", true)], Ok(&[("CBORServingAndStorage", true)]));
        check(
            &[("AllAlpha", true), ("PodsAPI", false)],
            Ok(&[("CBORServingAndStorage", true), ("PodsAPI", false), ("AllAlpha", true), ("SELinuxMount", false)]),
        );
        check(
            &[("AllBeta", false)],
            Ok(&[("WatchList", false), ("APIServerIdentity", false), ("CRDValidationRatcheting", true)]),
        );
        check(&[("DynamicResourceAllocation", true)], Ok(&[("DynamicResourceAllocation", true)]));
    }

    #[test]
    fn what_cannot_be_set_is_told() {
        check(&[("Nope", true)], Err("unrecognized feature gate: Nope"));
        check(
            &[("WatchList", false), ("WinDSR", false)],
            Err("cannot set feature gate WinDSR to false, feature is locked to true"),
        );
        check(
            &[("WinDSR", false), ("KMSv1", false), ("WinOverlay", false)],
            Err("[cannot set feature gate WinDSR to false, feature is locked to true, \
                 cannot set feature gate WinOverlay to false, feature is locked to true]"),
        );
        check(
            &[
                ("StorageVersionAPI", true),
                ("APIServerIdentity", false),
                ("UnknownVersionInteroperabilityProxy", false),
            ],
            Err("StorageVersionAPI is enabled, but depends on features that are disabled: [APIServerIdentity]"),
        );
    }

    #[test]
    fn what_goes_away_is_warned_of() {
        let settings = [("KMSv1", true), ("MutatingAdmissionPolicy", false), ("WatchList", true)];
        let (_, warnings) = Gates::with(&settings.map(|(name, on)| (name.to_owned(), on)).into()).expect("settings");
        let texts: Vec<_> = warnings.iter().map(|w| format!("{} {}: {w}", w.gate.name, w.value)).collect();
        assert_eq!(
            texts,
            [
                "KMSv1 true: Warning: setting deprecated feature gate. It will be removed in a future release.",
                "MutatingAdmissionPolicy false: Warning: setting GA feature gate. It will be removed in a future release.",
            ]
        );
    }

    #[test]
    fn every_feature_has_a_gate() {
        for feature in Feature::HEEDED {
            assert!(position(feature.name()).is_some(), "{feature:?}");
        }
    }
}
