//! The strategy for PriorityLevelConfiguration: concurrency limits and queuing of requests (upstream:
//! `pkg/apis/flowcontrol/validation`).

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy, UnservedVersion};
use pintle_value::{Errors, FieldPath, Value};

use super::bootstrap::{flow_control_priority_levels, mandatory_spec};
use super::validate_conditions;
use crate::declarative::Rules;
use crate::generic::{reset_status, same, set_generation};
use crate::go_json::{self, GoType};

const DEFAULT_SHARES: i64 = 30;
const QUEUING_DEFAULTS: [(&str, i64); 3] = [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)];

static EXEMPT: Rules = Rules::own("flowcontrol/v1", "ExemptPriorityLevelConfiguration");
static LIMITED: Rules = Rules::own("flowcontrol/v1", "LimitedPriorityLevelConfiguration");
static QUEUING: Rules = Rules::own("flowcontrol/v1", "QueuingConfiguration");

/// The maximum entropy of dealing a hand, in bits (upstream: `shufflesharding.MaxHashBits`).
const MAX_HASH_BITS: f64 = 60.0;

/// How upstream's internal type prints a spec.
const SPEC: GoType = GoType::Of("flowcontrol/v1.PriorityLevelConfigurationSpec");

/// The strategy for PriorityLevelConfiguration.
pub(crate) struct PriorityLevelConfigurationStrategy;

/// The annotation of `v1beta3` for shares that are zero on purpose.
const PRESERVED_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

/// The versions in which no shares are the default (upstream: `pkg/apis/flowcontrol/v1beta1` to `v1beta3`).
const STORED_VERSIONS: [UnservedVersion; 3] = [
    UnservedVersion::read("flowcontrol.apiserver.k8s.io/v1beta1", rename_shares),
    UnservedVersion::read("flowcontrol.apiserver.k8s.io/v1beta2", rename_shares),
    UnservedVersion::read("flowcontrol.apiserver.k8s.io/v1beta3", |level| {
        let preserved = level.remove_at(&["metadata", "annotations", PRESERVED_ZERO]).is_some();
        if let Some(limited) = level.at_mut(&["spec", "limited"]).filter(|_| !preserved) {
            set_default_shares(limited);
        }
    }),
];

fn rename_shares(level: &mut Value) {
    let Some(limited) = level.at_mut(&["spec", "limited"]) else { return };
    let shares = limited.remove("assuredConcurrencyShares").unwrap_or_default();
    limited.set("nominalConcurrencyShares", shares);
    set_default_shares(limited);
}

fn set_default_shares(limited: &mut Value) {
    if limited.int_at(&["nominalConcurrencyShares"]).unwrap_or(0) == 0 {
        limited.set("nominalConcurrencyShares", DEFAULT_SHARES);
    }
}

impl Strategy for PriorityLevelConfigurationStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &STORED_VERSIONS
    }

    fn defaults(&self, object: &mut Value) {
        if let Some(exempt) = object.at_mut(&["spec", "exempt"]) {
            exempt.set_default("nominalConcurrencyShares", 0);
            exempt.set_default("lendablePercent", 0);
        }
        let Some(limited) = object.at_mut(&["spec", "limited"]) else { return };
        limited.set_default("nominalConcurrencyShares", DEFAULT_SHARES);
        limited.set_default("lendablePercent", 0);
        if let Some(queuing) = limited.at_mut(&["limitResponse", "queuing"]) {
            for (field, default) in QUEUING_DEFAULTS {
                if queuing.int_at(&[field]).unwrap_or(0) == 0 {
                    queuing.set(field, default);
                }
            }
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
        set_generation(object, old, crate::generic::SPEC);
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, _: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        if object.at(&["metadata", "annotations", PRESERVED_ZERO]).is_some() {
            let path = FieldPath::new("metadata.annotations");
            errors.forbidden(&path, format!("annotation '{PRESERVED_ZERO}' is forbidden"));
        }
        validate_spec(&mut errors, object);
        validate_mandatory(&mut errors, object);
        validate_conditions(&mut errors, object);
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&super::STATUS as &dyn SubresourceStrategy)
    }
}

fn validate_spec(errors: &mut Errors, object: &Value) {
    let spec = &object["spec"];
    let path = FieldPath::new("spec");
    let kind = spec.str_at(&["type"]);
    if (object.name() == "exempt") != (kind == "Exempt") {
        errors.invalid(&path.child("type"), kind, "type must be 'Exempt' if and only if name is 'exempt'");
    }
    let limited_path = path.child("limited");
    match kind {
        "Exempt" => {
            if spec.get("limited").is_some() {
                errors.forbidden(&limited_path, "must be nil if the type is not Limited");
            }
            if let Some(exempt) = spec.get("exempt") {
                EXEMPT.validate_part(errors, exempt, &path.child("exempt"));
            }
        }
        "Limited" => {
            if spec.get("exempt").is_some() {
                errors.forbidden(&path.child("exempt"), "must be nil if the type is Limited");
            }
            match spec.get("limited") {
                None => errors.required(&limited_path, "must not be empty when type is Limited"),
                Some(limited) => validate_limited(errors, limited, &limited_path),
            }
        }
        _ => errors.not_supported(&path.child("type"), kind, &["Exempt", "Limited"]),
    }
}

/// Validates that a mandatory level has its fixed spec. Of the level `exempt`, the field `exempt` may differ.
fn validate_mandatory(errors: &mut Errors, object: &Value) {
    let name = object.name();
    let Some(fixed) = mandatory_spec(flow_control_priority_levels, name) else { return };
    let spec = &object["spec"];
    let mut compared = spec.clone();
    let mut exception = "";
    if let Some(exempt) = fixed.get("exempt") {
        compared.set("exempt", exempt.clone());
        exception = " except the 'spec.exempt' field";
    }
    if !same(Some(&compared), Some(&fixed)) {
        let detail = format!("spec of '{name}'{exception} must equal the fixed value");
        errors.push(go_json::invalid(&FieldPath::new("spec"), spec, &SPEC, &detail));
    }
}

fn validate_limited(errors: &mut Errors, limited: &Value, path: &FieldPath<'_>) {
    if let Some(shares) = limited.int_at(&["nominalConcurrencyShares"]).filter(|shares| *shares < 0) {
        errors.invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
    let response = &limited["limitResponse"];
    let response_path = path.child("limitResponse");
    let queuing_path = response_path.child("queuing");
    let kind = response.str_at(&["type"]);
    match (kind, response.get("queuing")) {
        ("Reject", Some(_)) => {
            errors.forbidden(&queuing_path, "must be nil if limited.limitResponse.type is not Limited");
        }
        ("Queue", None) => {
            errors.required(&queuing_path, "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", Some(queuing)) => validate_queuing(errors, queuing, &queuing_path),
        ("Reject", None) => {}
        _ => errors.not_supported(&response_path.child("type"), kind, &["Queue", "Reject"]),
    }
    LIMITED.validate_part(errors, limited, path);
}

#[allow(clippy::cast_precision_loss)] // an estimate
fn validate_queuing(errors: &mut Errors, queuing: &Value, path: &FieldPath<'_>) {
    let number = |field: &str| queuing.int_at(&[field]).unwrap_or(0);
    let (queues, hand) = (number("queues"), number("handSize"));
    QUEUING.validate_part(errors, queuing, path);
    let hand_path = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&hand_path, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&hand_path, hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() > MAX_HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        errors.invalid(&hand_path, hand, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn levels() {
        let check = |name: &str, spec: &str, expect: &[&str]| {
            let mut level = object(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#));
            PriorityLevelConfigurationStrategy.defaults(&mut level);
            assert_eq!(messages(&PriorityLevelConfigurationStrategy.validate(&context(), &level)), expect, "{spec}");
        };
        check("x", r#""type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{}}}"#, &[]);
        check("exempt", r#""type":"Exempt","exempt":{}"#, &[]);
        check(
            "x",
            r#""type":"Exempt","limited":{}"#,
            &[
                "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is 'exempt'",
                "spec.limited: Forbidden: must be nil if the type is not Limited",
            ],
        );
        check(
            "x",
            r#""type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":64,"handSize":11}}}"#,
            &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60",
            ],
        );
        check(
            "x",
            r#""type":"Limited","limited":{"lendablePercent":101,"limitResponse":{"type":"x"}}"#,
            &[
                "spec.limited.limitResponse.type: Unsupported value: \"x\": supported values: \"Queue\", \"Reject\"",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            ],
        );
    }

    #[test]
    fn mandatory_levels_have_fixed_specs() {
        let check = |name: &str, spec: &str, expect: &[&str]| {
            let mut level = object(&format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#));
            PriorityLevelConfigurationStrategy.defaults(&mut level);
            assert_eq!(messages(&PriorityLevelConfigurationStrategy.validate(&context(), &level)), expect, "{spec}");
        };
        check("exempt", r#""type":"Exempt""#, &[]);
        check("exempt", r#""type":"Exempt","exempt":{"nominalConcurrencyShares":7,"lendablePercent":10}"#, &[]);
        check(
            "exempt",
            r#""type":"Exempt","limited":{"limitResponse":{"type":"Reject"}}"#,
            &[
                "spec.limited: Forbidden: must be nil if the type is not Limited",
                "spec: Invalid value: {\"Type\":\"Exempt\",\"Limited\":{\"NominalConcurrencyShares\":30,\"LimitResponse\":{\"Type\":\"Reject\",\"Queuing\":null},\"LendablePercent\":0,\"BorrowingLimitPercent\":null},\"Exempt\":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
            ],
        );
        let reject = r#""limitResponse":{"type":"Reject"}"#;
        check("catch-all", &format!(r#""type":"Limited","limited":{{"nominalConcurrencyShares":5,{reject}}}"#), &[]);
        check(
            "catch-all",
            &format!(r#""type":"Limited","limited":{{"nominalConcurrencyShares":6,{reject}}}"#),
            &[
                "spec: Invalid value: {\"Type\":\"Limited\",\"Limited\":{\"NominalConcurrencyShares\":6,\"LimitResponse\":{\"Type\":\"Reject\",\"Queuing\":null},\"LendablePercent\":0,\"BorrowingLimitPercent\":null},\"Exempt\":null}: spec of 'catch-all' must equal the fixed value",
            ],
        );
        let mut level = object(r#"{"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}"#);
        level.set_at(&["metadata", "annotations", PRESERVED_ZERO], "");
        assert_eq!(
            messages(&PriorityLevelConfigurationStrategy.validate(&context(), &level)),
            [
                "metadata.annotations: Forbidden: annotation 'flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares' is forbidden"
            ]
        );
    }

    #[test]
    fn defaults() {
        let mut level = object(
            r#"{"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{"queues":8}}}}}"#,
        );
        PriorityLevelConfigurationStrategy.defaults(&mut level);
        assert_eq!(
            level["spec"]["limited"],
            object(
                r#"{"nominalConcurrencyShares":30,"lendablePercent":0,"limitResponse":{"type":"Queue","queuing":{"queues":8,"handSize":8,"queueLengthLimit":50}}}"#
            )
        );
    }
}
