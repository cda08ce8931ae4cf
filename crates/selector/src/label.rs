//! Label selectors: requirements on labels, which must all match (upstream: apimachinery's `labels` package).

use std::fmt;
use std::str::FromStr;

use pintle_value::names::{label_key, label_value};
use pintle_value::{Errors, FieldPath, Str, Value, print};

use crate::{SelectorParseError, parse};

/// The operator of a label requirement (upstream: `selection.Operator`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label has one of the values: `key in (a,b)`.
    In,
    /// The label has none of the values, or does not exist: `key notin (a,b)`.
    NotIn,
    /// The label has the value: `key=a`.
    Equals,
    /// The label has the value: `key==a`.
    DoubleEquals,
    /// The label does not have the value, or does not exist: `key!=a`.
    NotEquals,
    /// The label exists: `key`.
    Exists,
    /// The label does not exist: `!key`.
    DoesNotExist,
    /// The label is an integer greater than the value: `key>1`.
    GreaterThan,
    /// The label is an integer less than the value: `key<1`.
    LessThan,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    key: Str,
    operator: Operator,
    values: Vec<Str>,
    /// The value as an integer, for `GreaterThan` and `LessThan`.
    bound: i64,
}

impl LabelRequirement {
    /// Creates a requirement. Fails if the key or a value is not valid, or if the operator does not take this number of
    /// values. The paths of the errors are relative to the requirement.
    pub fn new(key: &str, operator: Operator, values: Vec<Str>) -> Result<Self, Errors> {
        let mut errors = Errors::new();
        let problems = label_key(key);
        if !problems.is_empty() {
            errors.invalid(&FieldPath::new("key"), key, problems.join("; "));
        }
        let path = FieldPath::new("values");
        // A nil slice in Go is null in JSON.
        let shown = || if values.is_empty() { Value::Null } else { Value::from(values.clone()) };
        let mut bound = 0;
        match operator {
            Operator::In | Operator::NotIn => {
                if values.is_empty() {
                    errors.invalid(&path, shown(), "for 'in', 'notin' operators, values set can't be empty");
                }
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                if values.len() != 1 {
                    errors.invalid(&path, shown(), "exact-match compatibility requires one single value");
                }
            }
            Operator::Exists | Operator::DoesNotExist => {
                if !values.is_empty() {
                    errors.invalid(&path, shown(), "values set must be empty for exists and does not exist");
                }
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    errors.invalid(&path, shown(), "for 'Gt', 'Lt' operators, exactly one value is required");
                }
                for (i, value) in values.iter().enumerate() {
                    match value.parse() {
                        Ok(number) => bound = number,
                        Err(_) => {
                            let text = "for 'Gt', 'Lt' operators, the value must be an integer";
                            errors.invalid(&path.index(i), value, text);
                        }
                    }
                }
            }
        }
        for (i, value) in values.iter().enumerate() {
            let problems = label_value(value);
            if !problems.is_empty() {
                errors.invalid(&path.index(i).key(key), value, problems.join("; "));
            }
        }
        if errors.is_empty() { Ok(Self { key: Str::from(key), operator, values, bound }) } else { Err(errors) }
    }

    /// The key of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    #[must_use]
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// The values.
    #[must_use]
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// True if the value of the label (`None` if absent) meets the requirement.
    #[must_use]
    pub fn matches(&self, label: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let number = || label.and_then(|value| value.parse::<i64>().ok());
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(listed),
            Operator::NotIn | Operator::NotEquals => !label.is_some_and(listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => number().is_some_and(|n| n > self.bound),
            Operator::LessThan => number().is_some_and(|n| n < self.bound),
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, between, after) = match self.operator {
            Operator::Exists => ("", "", ""),
            Operator::DoesNotExist => ("!", "", ""),
            Operator::Equals => ("", "=", ""),
            Operator::DoubleEquals => ("", "==", ""),
            Operator::NotEquals => ("", "!=", ""),
            Operator::GreaterThan => ("", ">", ""),
            Operator::LessThan => ("", "<", ""),
            Operator::In => ("", " in (", ")"),
            Operator::NotIn => ("", " notin (", ")"),
        };
        write!(f, "{before}{}{between}", self.key)?;
        let mut values: Vec<&str> = self.values.iter().map(Str::as_str).collect();
        values.sort_unstable();
        write!(f, "{}{after}", values.join(","))
    }
}

/// A label selector: requirements that must all match, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    /// True for the selector that matches nothing. A null `metav1.LabelSelector` converts to it.
    nothing: bool,
}

impl LabelSelector {
    /// The selector that matches everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Vec::new(), nothing: false }
    }

    /// The selector that matches nothing.
    #[must_use]
    pub const fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// A selector with the given requirements.
    #[must_use]
    pub fn new(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Parses a label selector (upstream: `labels.Parse`).
    pub fn parse(text: &str) -> Result<Self, SelectorParseError> {
        parse::parse(text).map(Self::new)
    }

    /// Converts a `metav1.LabelSelector`: null matches nothing, `{}` matches everything (upstream:
    /// `LabelSelectorAsSelector`).
    pub fn from_label_selector(selector: &Value) -> Result<Self, SelectorParseError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let error = |errors: Errors| SelectorParseError(errors.message());
        let text = |value: &Value| value.as_str().map_or_else(Str::default, Str::from);
        let mut requirements = Vec::new();
        for (key, value) in selector.entries_at(&["matchLabels"]) {
            requirements.push(LabelRequirement::new(key, Operator::Equals, vec![text(value)]).map_err(error)?);
        }
        for expression in selector.items_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(SelectorParseError(format!(
                        "{} is not a valid label selector operator",
                        print::quote(other)
                    )));
                }
            };
            let values = expression.items_at(&["values"]).iter().map(text).collect();
            requirements.push(LabelRequirement::new(expression.str_at(&["key"]), operator, values).map_err(error)?);
        }
        Ok(Self::new(requirements))
    }

    /// Converts a map of labels, such as the selector of a Service or a ReplicationController. The labels are not
    /// validated (upstream: `SelectorFromValidatedSet`); an empty or absent map matches everything.
    #[must_use]
    pub fn from_labels(labels: &Value) -> Self {
        let requirement = |(key, value): (&str, &Value)| LabelRequirement {
            key: Str::from(key),
            operator: Operator::Equals,
            values: vec![Str::from(value.as_str().unwrap_or_default())],
            bound: 0,
        };
        Self::new(labels.entries_at(&[]).map(requirement).collect())
    }

    /// True if the labels match; `lookup` returns the value of a label.
    #[must_use]
    pub fn matches<'l>(&self, lookup: impl Fn(&str) -> Option<&'l str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    /// True if the labels of the object match.
    #[must_use]
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|key| object.label(key))
    }

    /// True if the selector matches every object.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// True if the selector matches no object.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The only value of a label that matches, if there is exactly one (upstream: `RequiresExactMatch`).
    #[must_use]
    pub fn required_value(&self, key: &str) -> Option<&str> {
        let first = self.requirements.iter().find(|r| r.key == key)?;
        match (first.operator, first.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorParseError;

    fn from_str(text: &str) -> Result<Self, SelectorParseError> {
        Self::parse(text)
    }
}

/// The text of the selector, which parses back to an equal selector. It is empty both for the selector that matches
/// everything and for the selector that matches nothing.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            fmt::Display::fmt(requirement, f)?;
        }
        Ok(())
    }
}
