//! What the rules of a definition may cost, and how much is too much (upstream: `CELSchemaContext` and
//! `getCostErrorMessage` of apiextensions-apiserver's `pkg/apis/apiextensions/validation`).

use pintle_value::{Errors, FieldPath, Value};

use super::judge::RuleCost;
use super::node::Node;

/// What one rule may cost.
const LIMIT: u64 = 10_000_000;
/// What all rules of a schema may cost together.
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many rules are named when all together cost too much.
const NAMED: usize = 4;

/// How many values of a node one object can have, by the limits of the lists and maps around it; `None` if one of them
/// has no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cardinality(Option<u64>);

impl Cardinality {
    /// The object itself.
    pub(super) const ONE: Self = Self(Some(1));

    /// For what is in the values of a node.
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

    /// What a rule costs for all values together.
    pub(super) fn total(self, cost: RuleCost) -> u64 {
        cost.rule.saturating_mul(self.0.unwrap_or(cost.cardinality))
    }
}

/// What the rules of a schema may cost together.
#[derive(Debug, Default)]
pub(super) struct Totals {
    total: u64,
    /// The paths of the most expensive ones, those first, each with what it costs.
    most: Vec<(String, u64)>,
}

impl Totals {
    /// Counts a rule. Those that cost little are not named.
    pub(super) fn add(&mut self, path: &FieldPath<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < TOTAL_LIMIT / 100 {
            return;
        }
        let at = self.most.partition_point(|(_, other)| *other >= cost);
        self.most.insert(at, (path.to_string(), cost));
        self.most.truncate(NAMED);
    }

    /// Says if all together cost too much. `path` is that of the schema.
    pub(super) fn validate(&self, errors: &mut Errors, path: &FieldPath<'_>) {
        if self.total <= TOTAL_LIMIT {
            return;
        }
        for (path, _) in &self.most {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(&FieldPath::new(path), detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, exceeds(what, self.total, TOTAL_LIMIT));
    }
}

/// Says if one expression costs too much. `what` is how its cost is called.
pub(super) fn validate_one(errors: &mut Errors, what: &str, cost: u64, path: &FieldPath<'_>) {
    if cost > LIMIT {
        errors.forbidden(path, exceeds(what, cost, LIMIT));
    }
}

#[allow(clippy::cast_precision_loss, reason = "only the magnitude is told")]
fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        // With fewer digits it would be 1.
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
    fn factors_are_told_as_far_as_they_matter() {
        for (cost, expect) in [
            (LIMIT + 1, "1.000000x"),
            (14_999_999, "1.500000x"),
            (15_000_000, "1.5x"),
            (999_999_999, "100.0x"),
            (LIMIT * 100, "100.0x"),
            (LIMIT * 100 + 1, "more than 100x"),
            (u64::MAX, "more than 100x"),
        ] {
            let text = exceeds("it", cost, LIMIT);
            assert!(text.starts_with(&format!("it exceeds budget by factor of {expect} (")), "{cost}: {text}");
        }
    }

    #[test]
    fn the_most_expensive_rules_are_named() {
        let mut totals = Totals::default();
        for (i, cost) in [30, 10, 50, 20, 40].into_iter().enumerate() {
            totals.add(&FieldPath::new("rule").index(i), cost * LIMIT / 10);
        }
        totals.add(&FieldPath::new("cheap"), TOTAL_LIMIT);
        totals.add(&FieldPath::new("cheaper"), TOTAL_LIMIT / 100 - 1);
        let mut errors = Errors::new();
        totals.validate(&mut errors, &FieldPath::new("schema"));
        let fields: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["cheap", "rule[2]", "rule[4]", "rule[0]", "schema"]);
    }
}
