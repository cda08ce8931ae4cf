//! The flag `--feature-gates`: `A=true,B=false`, each with an optional prefix `kube:`. It can be repeated.

use std::collections::BTreeMap;

use pintle_value::parse_bool;
use pintle_versions::EffectiveVersion;

use crate::gates::{GateError, Gates, Warning};
use crate::table::{Stage, all_gates};

/// The component to which the gates belong.
const COMPONENT: &str = "kube";

/// The accumulated values of the flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGatesFlag {
    /// The settings by component; the key is empty for settings without a component.
    pairs: BTreeMap<String, Vec<String>>,
}

impl FeatureGatesFlag {
    /// Adds a value of the flag.
    pub fn add(&mut self, value: &str) {
        for pair in value.split(',').filter(|pair| !pair.is_empty()) {
            let (component, setting) = pair.split_once(':').unwrap_or(("", pair));
            self.pairs.entry(component.trim().to_owned()).or_default().push(setting.trim().to_owned());
        }
    }

    /// Returns the resulting feature gates of a version and warnings.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is malformed, a component or gate is unknown, or a gate cannot be set.
    pub fn gates(&self, version: EffectiveVersion) -> Result<(Gates, Vec<Warning>), GateError> {
        let malformed = |text: String| Err(GateError::Malformed(text));
        if self.pairs.contains_key("") && self.pairs.contains_key(COMPONENT) {
            return malformed(format!(
                "set kube feature gates with default empty prefix or {COMPONENT}: prefix consistently, do not mix use"
            ));
        }
        let mut overrides = BTreeMap::new();
        for (component, pairs) in &self.pairs {
            if !component.is_empty() && component != COMPONENT {
                return malformed(format!("component not registered: {component}"));
            }
            for pair in pairs.iter().filter(|pair| !pair.is_empty()) {
                let Some((name, value)) = pair.split_once('=') else {
                    return malformed(format!("missing bool value for {pair}"));
                };
                let (name, value) = (name.trim(), value.trim());
                match parse_bool(value) {
                    Ok(enabled) => overrides.insert(name.to_owned(), enabled),
                    Err(error) => return malformed(format!("invalid value of {name}={value}, err: {error}")),
                };
            }
        }
        Gates::of(version).overridden(&overrides)
    }
}

/// The lines of the flag's help text: one for each alpha and beta feature.
pub fn help_lines() -> impl Iterator<Item = String> {
    all_gates(EffectiveVersion::default())
        .filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta))
        .map(|gate| format!("{COMPONENT}:{}=true|false ({} - default={})", gate.name, gate.stage.name(), gate.default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Result<&[&str], &str>) {
        let mut flag = FeatureGatesFlag::default();
        values.iter().for_each(|value| flag.add(value));
        match (flag.gates(EffectiveVersion::default()), expect) {
            (Ok((gates, _)), Ok(enabled)) => {
                let changed: Vec<_> = gates
                    .states()
                    .filter(|(gate, enabled)| gate.default != *enabled)
                    .map(|(gate, _)| gate.name)
                    .collect();
                assert_eq!(changed, enabled, "{values:?}");
            }
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text, "{values:?}"),
            (found, _) => panic!("{values:?}: {found:?}"),
        }
    }

    #[test]
    fn the_flag_is_parsed_like_upstream() {
        check(&[], Ok(&[]));
        check(&["", ",,"], Ok(&[]));
        check(&["CBORServingAndStorage=true"], Ok(&["CBORServingAndStorage"]));
        check(&["kube:CBORServingAndStorage=T, kube: PodsAPI = 1 "], Ok(&["CBORServingAndStorage", "PodsAPI"]));
        check(&["PodsAPI=true,WatchList=0", "PodsAPI=false"], Ok(&["WatchList"]));
        check(&["PodsAPI"], Err("missing bool value for PodsAPI"));
        check(
            &["PodsAPI=yes"],
            Err(r#"invalid value of PodsAPI=yes, err: strconv.ParseBool: parsing "yes": invalid syntax"#),
        );
        check(&["wardle:A=true"], Err("component not registered: wardle"));
        check(
            &["kube:PodsAPI=true", "WatchList=true"],
            Err("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"),
        );
        check(&["Nope=true"], Err("unrecognized feature gate: Nope"));
    }

    #[test]
    fn help_lists_alpha_and_beta_gates() {
        let lines: Vec<String> = help_lines().collect();
        assert!(lines.iter().any(|line| line == "kube:CBORServingAndStorage=true|false (ALPHA - default=false)"));
        assert!(lines.iter().any(|line| line == "kube:AllBeta=true|false (BETA - default=false)"));
        assert!(!lines.iter().any(|line| line.contains("WinDSR")));
    }
}
