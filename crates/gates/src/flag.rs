//! The flag `--feature-gates`: `A=true,B=false`, with or without `kube:` before each, as often as one likes.

use std::collections::BTreeMap;

use crate::facts::{Stage, known};
use crate::gates::{GateError, Gates, Warning};

/// The component whose gates these are.
const COMPONENT: &str = "kube";

/// What was given for the flag, each time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flag {
    /// By component, empty where none was named.
    pairs: BTreeMap<String, Vec<String>>,
}

impl Flag {
    /// Takes one more value of the flag.
    pub fn add(&mut self, value: &str) {
        for pair in value.split(',').filter(|pair| !pair.is_empty()) {
            let (component, setting) = pair.split_once(':').unwrap_or(("", pair));
            self.pairs.entry(component.trim().to_owned()).or_default().push(setting.trim().to_owned());
        }
    }

    /// The gates that it asks for, and what is to be said about them.
    ///
    /// # Errors
    /// It is malformed, names a component or gate that there is not, or sets what cannot be set.
    pub fn gates(&self) -> Result<(Gates, Vec<Warning>), GateError> {
        let malformed = |text: String| Err(GateError::Malformed(text));
        if self.pairs.contains_key("") && self.pairs.contains_key(COMPONENT) {
            return malformed(format!(
                "set kube feature gates with default empty prefix or {COMPONENT}: prefix consistently, do not mix use"
            ));
        }
        let mut settings = BTreeMap::new();
        for (component, pairs) in &self.pairs {
            if !component.is_empty() && component != COMPONENT {
                return malformed(format!("component not registered: {component}"));
            }
            for pair in pairs.iter().filter(|pair| !pair.is_empty()) {
                let Some((name, value)) = pair.split_once('=') else {
                    return malformed(format!("missing bool value for {pair}"));
                };
                let (name, value) = (name.trim(), value.trim());
                let Some(on) = parse_bool(value) else {
                    return malformed(format!(
                        "invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
                    ));
                };
                settings.insert(name.to_owned(), on);
            }
        }
        Gates::with(&settings)
    }
}

/// Go's `strconv.ParseBool`.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A line for each gate that one may want to set, for the help of the flag: those of alpha and beta features.
pub fn help() -> impl Iterator<Item = String> {
    known()
        .iter()
        .filter(|gate| matches!(gate.stage, Stage::Alpha | Stage::Beta))
        .map(|gate| format!("{COMPONENT}:{}=true|false ({} - default={})", gate.name, gate.stage.name(), gate.default))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Result<&[&str], &str>) {
        let mut flag = Flag::default();
        values.iter().for_each(|value| flag.add(value));
        match (flag.gates(), expect) {
            (Ok((gates, _)), Ok(on)) => {
                let changed: Vec<_> =
                    gates.states().filter(|(gate, on)| gate.default != *on).map(|(gate, _)| gate.name).collect();
                assert_eq!(changed, on, "{values:?}");
            }
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text, "{values:?}"),
            (found, _) => panic!("{values:?}: {found:?}"),
        }
    }

    #[test]
    fn the_flag_is_read_as_upstream_reads_it() {
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
    fn help_names_what_may_be_set() {
        let lines: Vec<String> = help().collect();
        assert!(lines.iter().any(|line| line == "kube:CBORServingAndStorage=true|false (ALPHA - default=false)"));
        assert!(lines.iter().any(|line| line == "kube:AllBeta=true|false (BETA - default=false)"));
        assert!(!lines.iter().any(|line| line.contains("WinDSR")));
    }
}
