//! Label selectors inside objects (`metav1.LabelSelector`): what is wrong with them, what they match, and how they print
//! (upstream: `apimachinery/pkg/apis/meta/v1/validation` and `LabelSelectorAsSelector`).

use pintle_value::metadata::{LabelSelectorOptions, has_invalid_label_value, validate_label_selector};
use pintle_value::{Errors, FieldPath, Value, names};

/// Checks a selector. With `any_value`, values of expressions may be malformed: objects that were stored with such values
/// stay as they are.
pub(crate) fn validate_selector(selector: Option<&Value>, any_value: bool, path: &FieldPath<'_>) -> Errors {
    let options = LabelSelectorOptions { allow_invalid_values: any_value, allow_unknown_operators: false };
    selector.map_or_else(Errors::new, |selector| validate_label_selector(selector, options, path))
}

/// True if an expression of the selector has a malformed value.
pub(crate) fn has_invalid_value(selector: Option<&Value>) -> bool {
    selector.is_some_and(has_invalid_label_value)
}

/// True if a selector is there but asks for nothing.
pub(crate) fn selects_everything(selector: &Value) -> bool {
    selector.entries_at(&["matchLabels"]).next().is_none() && selector.items_at(&["matchExpressions"]).is_empty()
}

/// A selector that is well formed. An absent one matches nothing, an empty one everything.
pub(crate) struct Selector<'a>(Option<Vec<Requirement<'a>>>);

struct Requirement<'a> {
    key: &'a str,
    operator: Operator,
    values: Vec<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl<'a> Selector<'a> {
    /// Reads a selector; `None` if it is malformed.
    pub(crate) fn new(selector: Option<&'a Value>) -> Option<Self> {
        let Some(selector) = selector else { return Some(Selector(None)) };
        let mut requirements = Vec::new();
        for (key, value) in selector.entries_at(&["matchLabels"]) {
            let values = vec![value.as_str().unwrap_or_default()];
            requirements.push(Requirement::new(key, Operator::Equals, values)?);
        }
        for expression in selector.items_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                _ => return None,
            };
            let values = expression.items_at(&["values"]).iter().filter_map(Value::as_str).collect();
            requirements.push(Requirement::new(expression.str_at(&["key"]), operator, values)?);
        }
        requirements.sort_by_key(|r| r.key);
        Some(Selector(Some(requirements)))
    }

    /// Reads a selector that is a plain map of labels; an empty or absent one matches everything.
    pub(crate) fn from_map(labels: Option<&'a Value>) -> Self {
        let entries = labels.into_iter().flat_map(|labels| labels.entries_at(&[]));
        let requirement = |(key, value): (&'a str, &'a Value)| Requirement {
            key,
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default()],
        };
        Selector(Some(entries.map(requirement).collect()))
    }

    /// True for a selector without requirements, be it that it matches everything.
    pub(crate) fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// True if labels match.
    pub(crate) fn matches(&self, labels: Option<&Value>) -> bool {
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.0.as_ref().is_some_and(|all| all.iter().all(|r| r.matches(label(r.key))))
    }

    /// The text that a query parameter would carry.
    pub(crate) fn text(&self) -> String {
        let texts: Vec<String> = self.0.iter().flatten().map(Requirement::text).collect();
        texts.join(",")
    }
}

impl<'a> Requirement<'a> {
    fn new(key: &'a str, operator: Operator, mut values: Vec<&'a str>) -> Option<Self> {
        let count_is_right = match operator {
            Operator::Equals => values.len() == 1,
            Operator::In | Operator::NotIn => !values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => values.is_empty(),
        };
        let well_formed =
            names::label_key(key).is_empty() && values.iter().all(|value| names::label_value(value).is_empty());
        values.sort_unstable();
        values.dedup();
        (count_is_right && well_formed).then_some(Requirement { key, operator, values })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.contains(&value));
        match self.operator {
            Operator::Equals | Operator::In => listed,
            Operator::NotIn => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }

    fn text(&self) -> String {
        let (key, values) = (self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => format!("{key}={values}"),
            Operator::In => format!("{key} in ({values})"),
            Operator::NotIn => format!("{key} notin ({values})"),
            Operator::Exists => key.to_owned(),
            Operator::DoesNotExist => format!("!{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn selectors_match_and_print() {
        let check = |selector: &str, labels: &str, matches: bool, text: &str| {
            let (selector, labels) = (object(selector), object(labels));
            let selector = Selector::new(Some(&selector)).expect("well formed");
            assert_eq!(selector.matches(Some(&labels)), matches, "{labels:?}");
            assert_eq!(selector.text(), text);
        };
        check("{}", "{}", true, "");
        check(r#"{"matchLabels":{"b":"1","a":""}}"#, r#"{"a":"","b":"1"}"#, true, "a=,b=1");
        check(r#"{"matchLabels":{"a":"1"}}"#, r#"{"a":"2"}"#, false, "a=1");
        let all = r#"{"matchExpressions":[{"key":"d","operator":"DoesNotExist"},{"key":"a","operator":"In","values":["y","x"]},
            {"key":"b","operator":"NotIn","values":["z"]},{"key":"c","operator":"Exists"}]}"#;
        let text = "a in (x,y),b notin (z),c,!d";
        check(all, r#"{"a":"x","c":""}"#, true, text);
        check(all, r#"{"a":"x","c":"","b":"z"}"#, false, text);
        check(all, r#"{"a":"x","c":"","d":""}"#, false, text);
        assert!(!Selector::new(None).expect("well formed").matches(None));
        assert!(Selector::new(Some(&object(r#"{"matchLabels":{"a b":"1"}}"#))).is_none());
        assert!(Selector::new(Some(&object(r#"{"matchExpressions":[{"key":"a","operator":"Gt"}]}"#))).is_none());
    }
}
