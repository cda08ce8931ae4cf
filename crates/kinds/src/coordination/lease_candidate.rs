//! The strategy for LeaseCandidate, a candidate of coordinated leader election (upstream:
//! `pkg/apis/coordination/validation`, `pkg/registry/coordination/leasecandidate`).

use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, FieldPath, Value, names};

use super::lease::{STRATEGIES, validate_strategy};
use crate::generic::validate_immutable_at;
use crate::semantic_version::SemanticVersion;

const LEASE_NAME: &str = "spec.leaseName";

/// The strategy for LeaseCandidate.
pub(crate) struct LeaseCandidateStrategy;

impl Strategy for LeaseCandidateStrategy {
    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = validate_spec(&object["spec"]);
        validate_immutable_at(&mut errors, object, old, &["spec", "leaseName"]);
        errors
    }

    fn validate_name(&self, name: &str, _: bool) -> Vec<String> {
        names::config_map_key(name)
    }

    fn selectable_field_names(&self) -> &[&'static str] {
        &[LEASE_NAME]
    }
}

/// The version in a field. A malformed version counts as 0.0.0, as in upstream.
fn version<'v>(errors: &mut Errors, spec: &'v Value, field: &str, path: &FieldPath<'_>) -> SemanticVersion<'v> {
    let text = spec.str_at(&[field]);
    if text.is_empty() {
        return SemanticVersion::ZERO;
    }
    SemanticVersion::parse(text).filter(SemanticVersion::is_64_bit).unwrap_or_else(|| {
        errors.invalid(&path.child(field), text, "must be a valid semantic version");
        SemanticVersion::ZERO
    })
}

fn validate_spec(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = FieldPath::new("spec");
    if spec.str_at(&["leaseName"]).is_empty() {
        errors.required(&path.child("leaseName"), "");
    }
    let emulated = version(&mut errors, spec, "emulationVersion", &path);
    let text = spec.str_at(&["binaryVersion"]);
    if text.is_empty() {
        errors.required(&path.child("binaryVersion"), "");
    }
    let binary = version(&mut errors, spec, "binaryVersion", &path);
    if !text.is_empty() && !spec.str_at(&["emulationVersion"]).is_empty() && binary < emulated {
        errors.invalid(&path.child("binaryVersion"), text, "must be greater than or equal to `emulationVersion`");
    }
    match spec.str_at(&["strategy"]) {
        "" => errors.required(&path.child("strategy"), ""),
        strategy => {
            if STRATEGIES.contains(&strategy) && emulated == SemanticVersion::ZERO {
                let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
                errors.required(&path.child("emulationVersion"), detail);
            }
            validate_strategy(&mut errors, strategy, &path.child("strategy"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_validation;

    fn candidate(fields: &str) -> String {
        format!(r#"{{"spec":{{{fields}}}}}"#)
    }

    const VERSIONS: &str = r#""leaseName":"l","binaryVersion":"1.36.0","emulationVersion":"1.35.0""#;

    #[test]
    fn candidates_have_versions_and_a_strategy() {
        let check = |fields: &str, expect: &[&str]| {
            check_validation(&LeaseCandidateStrategy, &candidate(fields), None, expect);
        };
        check(&format!(r#"{VERSIONS},"strategy":"OldestEmulationVersion""#), &[]);
        check(&format!(r#"{VERSIONS},"strategy":"example.com/own""#), &[]);
        check(r#""leaseName":"l","binaryVersion":"1.36.0","strategy":"example.com/own""#, &[]);
        check(
            "",
            &["spec.leaseName: Required value", "spec.binaryVersion: Required value", "spec.strategy: Required value"],
        );
        check(
            r#""leaseName":"l","binaryVersion":"1.35.9-rc.1","emulationVersion":"1.35.9","strategy":"x""#,
            &[
                "spec.binaryVersion: Invalid value: \"1.35.9-rc.1\": must be greater than or equal to `emulationVersion`",
                "spec.strategy.strategy: Unsupported value: \"x\": supported values: \"OldestEmulationVersion\"",
            ],
        );
        check(
            r#""leaseName":"l","binaryVersion":"v1","emulationVersion":"1.2","strategy":"OldestEmulationVersion""#,
            &[
                "spec.emulationVersion: Invalid value: \"1.2\": must be a valid semantic version",
                "spec.binaryVersion: Invalid value: \"v1\": must be a valid semantic version",
                "spec.emulationVersion: Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            ],
        );
        check(
            &format!(r#"{VERSIONS},"strategy":"a/b/c""#),
            &[
                "spec.strategy.strategy: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
            ],
        );
    }

    #[test]
    fn the_name_of_the_lease_is_immutable() {
        let (old, new) = (format!(r#"{VERSIONS},"strategy":"a.b/c""#), r#""strategy":"a.b/d""#);
        let other = VERSIONS.replace(r#""l""#, r#""m""#);
        check_validation(
            &LeaseCandidateStrategy,
            &candidate(&format!("{VERSIONS},{new}")),
            Some(&candidate(&old)),
            &[],
        );
        check_validation(
            &LeaseCandidateStrategy,
            &candidate(&format!("{other},{new}")),
            Some(&candidate(&old)),
            &["spec.leaseName: Invalid value: \"m\": field is immutable"],
        );
    }

    #[test]
    fn names_are_those_of_config_map_keys() {
        assert!(LeaseCandidateStrategy.validate_name("a_B.c-", false).is_empty());
        assert!(!LeaseCandidateStrategy.validate_name("a/b", false).is_empty());
    }
}
