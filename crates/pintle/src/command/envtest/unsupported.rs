//! The features of kube-apiserver that this server does not have, from the table of kube-apiserver's flags. Help texts,
//! refusals and README.md quote the table.

use pintle_versions::Minor;

use super::flags::{Effect, FlagTable};
use super::kube_apiserver::table;

/// Why `pintle serve` refuses a flag of kube-apiserver. `None` if kube-apiserver does not have it either.
pub(crate) fn refusal_of(flag: &str) -> Option<String> {
    let table = table(Minor::DEFAULT);
    let flag = table.find(flag)?;
    let (name, why) = (flag.name, flag.why);
    Some(match flag.effect {
        Effect::Refused => format!("--{name} is not supported: {why}"),
        Effect::Accepted => format!("--{name} would have no effect: {why}"),
        Effect::Honoured => format!("--{name} is a flag of the kube-apiserver of 'pintle envtest' only"),
    })
}

/// The missing features, by area.
fn missing_features(table: &FlagTable) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut areas: Vec<(&str, Vec<&str>)> = Vec::new();
    for (area, feature) in table.flags.iter().filter_map(|flag| flag.missing.split_once(": ")) {
        match areas.iter_mut().find(|(known, _)| *known == area) {
            Some((_, features)) if features.contains(&feature) => {}
            Some((_, features)) => features.push(feature),
            None => areas.push((area, vec![feature])),
        }
    }
    areas.sort();
    areas
}

/// The end of the help text of `pintle serve`.
pub(crate) fn missing_help() -> String {
    let areas = missing_features(&table(Minor::DEFAULT)).into_iter();
    let areas: Vec<String> = areas.map(|(area, features)| format!("  {area}: {}", features.join(", "))).collect();
    format!("Not supported yet:\n{}\n\nFlags of kube-apiserver that are refused say why.", areas.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_names_what_is_missing() {
        let mut expect = "| area | missing |\n|---|---|\n".to_owned();
        for (area, features) in missing_features(&table(Minor::DEFAULT)) {
            expect += &format!("| {area} | {} |\n", features.join(", "));
        }
        let readme = include_str!("../../../../../README.md");
        assert!(readme.contains(&expect), "README.md should contain:\n{expect}");
        // The page for test environments refers to it.
        assert!(include_str!("../../../../../docs/envtest.md").contains("(../README.md#what-works)"));
    }

    #[test]
    fn a_flag_without_a_reason_is_not_refused() {
        let table = table(Minor::DEFAULT);
        let is_unexplained = |flag: &&super::super::flags::Flag| flag.effect != Effect::Honoured && flag.why.is_empty();
        assert_eq!(table.flags.iter().filter(is_unexplained).map(|flag| flag.name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(refusal_of("no-such-flag"), None);
    }
}
