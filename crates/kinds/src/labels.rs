//! Label selectors inside objects (`metav1.LabelSelector`): validation, matching and printing (upstream:
//! `apimachinery/pkg/apis/meta/v1/validation` and `LabelSelectorAsSelector`).

use pintle_selector::LabelSelector;
use pintle_value::metadata::{LabelSelectorOptions, has_invalid_label_value, validate_label_selector};
use pintle_value::{Errors, FieldPath, Value};

/// Validates a selector. With `any_value`, the values of expressions may be malformed, for objects that were stored
/// with such values.
pub(crate) fn validate_selector(selector: Option<&Value>, any_value: bool, path: &FieldPath<'_>) -> Errors {
    let options = LabelSelectorOptions { allow_invalid_values: any_value, allow_unknown_operators: false };
    selector.map_or_else(Errors::new, |selector| validate_label_selector(selector, options, path))
}

/// Returns true if a selector is invalid.
pub(crate) fn is_invalid_selector(selector: &Value) -> bool {
    !validate_selector(Some(selector), false, &FieldPath::root()).is_empty()
}

/// Returns true if an expression of the selector has a malformed value.
pub(crate) fn has_invalid_value(selector: Option<&Value>) -> bool {
    selector.is_some_and(has_invalid_label_value)
}

/// Returns true if a selector is present but empty.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    selector.entries_at(&["matchLabels"]).next().is_none() && selector.items_at(&["matchExpressions"]).is_empty()
}

/// Parses a selector. Returns `None` if it is malformed. An absent selector matches nothing, an empty one everything.
pub(crate) fn parse_selector(selector: Option<&Value>) -> Option<LabelSelector> {
    LabelSelector::from_label_selector(selector.unwrap_or(&Value::Null)).ok()
}

/// Returns true if a selector matches labels.
pub(crate) fn matches_labels(selector: &LabelSelector, labels: Option<&Value>) -> bool {
    selector.matches(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn selectors_match_labels() {
        let labels = object(r#"{"app":"x"}"#);
        let check = |selector: Option<&str>, expect: Option<bool>| {
            let selector = selector.map(object);
            let found = parse_selector(selector.as_ref()).map(|selector| matches_labels(&selector, Some(&labels)));
            assert_eq!(found, expect, "{selector:?}");
        };
        check(None, Some(false));
        check(Some("{}"), Some(true));
        check(Some(r#"{"matchLabels":{"app":"x"}}"#), Some(true));
        check(Some(r#"{"matchLabels":{"app":"y"}}"#), Some(false));
        check(Some(r#"{"matchLabels":{"a b":"y"}}"#), None);
        assert!(is_empty_selector(&object("{}")));
        assert!(!is_empty_selector(&object(r#"{"matchLabels":{"app":"x"}}"#)));
    }
}
