//! The names and arguments of rules.

use pintle_catalog::rules::Rule;

/// The rules after whose errors nothing else is checked.
pub(super) const GATES: [&str; 4] = ["immutable", "maxItems", "optional", "required"];

/// The value of a named argument of a rule, or an empty text.
pub(super) fn argument(rule: &Rule<'static>, name: &str) -> &'static str {
    named_arguments(rule.arguments).iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// Parses `a:x,b:y`.
pub(super) fn named_arguments(text: &'static str) -> Vec<(&'static str, &'static str)> {
    text.split(',').filter_map(|pair| pair.split_once(':')).collect()
}

/// Parses a number.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
