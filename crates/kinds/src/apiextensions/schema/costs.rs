//! Estimated costs of the validation rules of a CRD, and their limits (upstream: `CELSchemaContext` and
//! `getCostErrorMessage` of apiextensions-apiserver's `pkg/apis/apiextensions/validation`).

use pintle_value::{Errors, FieldPath, Value};

use super::node::Node;
use super::validator::RuleCost;

/// The cost limit of one rule (upstream: `StaticEstimatedCostLimit`).
const RULE_COST_LIMIT: u64 = 10_000_000;
/// The cost limit of all rules of a schema together (upstream: `StaticEstimatedCRDCostLimit`).
const TOTAL_COST_LIMIT: u64 = 100_000_000;
/// The maximum number of rules that the error about the total cost names.
const MAX_NAMED_RULES: usize = 4;

/// The maximum number of values of a node in one object. It follows from the limits of the enclosing lists and maps.
/// `None` if one of these has no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cardinality(Option<u64>);

impl Cardinality {
    /// The cardinality of the object itself.
    pub(super) const ONE: Self = Self(Some(1));

    /// Returns the cardinality of the nodes inside the values of a node.
    pub(super) fn within(self, node: Node<'_>) -> Self {
        let limit = |keyword: &str| {
            let limit = node.keyword(keyword).and_then(Value::as_int)?;
            Some(u64::try_from(limit).unwrap_or(0))
        };
        let most = match node.type_name() {
            "object" if node.keyword("additionalProperties").is_some() => limit("maxProperties"),
            "array" => limit("maxItems"),
            _ => Some(1),
        };
        Self(self.0.zip(most).map(|(around, most)| around.saturating_mul(most)))
    }

    /// Returns the cost of a rule for all values together.
    pub(super) fn total(self, cost: RuleCost) -> u64 {
        cost.rule.saturating_mul(self.0.unwrap_or(cost.cardinality))
    }
}

/// Accumulates the costs of the rules of a schema.
#[derive(Debug, Default)]
pub(super) struct TotalCost {
    total: u64,
    /// The paths and costs of the most expensive rules, in descending order of the cost.
    most: Vec<(String, u64)>,
}

impl TotalCost {
    /// Adds the cost of a rule. Rules with a low cost are never named.
    pub(super) fn add(&mut self, path: &FieldPath<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < TOTAL_COST_LIMIT / 100 {
            return;
        }
        let at = self.most.partition_point(|(_, other)| *other >= cost);
        self.most.insert(at, (path.to_string(), cost));
        self.most.truncate(MAX_NAMED_RULES);
    }

    /// Reports an error if the total cost exceeds the limit. `path` is the path of the schema.
    pub(super) fn validate(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        if self.total <= TOTAL_COST_LIMIT {
            return;
        }
        for (path, _) in &self.most {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(&FieldPath::new(path), detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, cost_error_message(what, self.total, TOTAL_COST_LIMIT));
    }
}

/// Reports an error if the cost of one expression exceeds the limit. `what` names the cost in the message.
pub(super) fn validate_one(errors: &mut Errors, what: &str, cost: u64, path: &FieldPath<'_>) {
    if cost > RULE_COST_LIMIT {
        errors.forbidden(path, cost_error_message(what, cost, RULE_COST_LIMIT));
    }
}

#[allow(clippy::cast_precision_loss, reason = "only the magnitude is told")]
fn cost_error_message(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // Fewer digits would round the factor to 1.
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_factors_are_rounded_like_upstream() {
        for (cost, expect) in [
            (RULE_COST_LIMIT + 1, "1.000000x"),
            (14_999_999, "1.500000x"),
            (15_000_000, "1.5x"),
            (999_999_999, "100.0x"),
            (RULE_COST_LIMIT * 100, "100.0x"),
            (RULE_COST_LIMIT * 100 + 1, "more than 100x"),
            (u64::MAX, "more than 100x"),
        ] {
            let text = cost_error_message("it", cost, RULE_COST_LIMIT);
            assert!(text.starts_with(&format!("it exceeds budget by factor of {expect} (")), "{cost}: {text}");
        }
    }

    #[test]
    fn the_most_expensive_rules_are_named() {
        let mut totals = TotalCost::default();
        for (i, cost) in [30, 10, 50, 20, 40].into_iter().enumerate() {
            totals.add(&FieldPath::new("rule").index(i), cost * RULE_COST_LIMIT / 10);
        }
        totals.add(&FieldPath::new("cheap"), TOTAL_COST_LIMIT);
        totals.add(&FieldPath::new("cheaper"), TOTAL_COST_LIMIT / 100 - 1);
        let mut errors = Errors::new();
        totals.validate(&mut errors, &FieldPath::new("schema"));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["cheap", "rule[2]", "rule[4]", "rule[0]", "schema"]);
    }
}
