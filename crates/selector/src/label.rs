//! Label selectors: requirements on labels, of which all must hold.

use std::fmt;
use std::str::FromStr;

use pintle_value::names::{label_key, label_value};
use pintle_value::{Errors, FieldPath, Str, Value, print};

use crate::{ParseError, parse};

/// What a requirement asks of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Is one of the values: `key in (a,b)`.
    In,
    /// Is none of the values, or is absent: `key notin (a,b)`.
    NotIn,
    /// Is the value: `key=a`.
    Equals,
    /// Is the value: `key==a`.
    DoubleEquals,
    /// Is not the value, or is absent: `key!=a`.
    NotEquals,
    /// Is there: `key`.
    Exists,
    /// Is not there: `!key`.
    DoesNotExist,
    /// Is an integer above the value: `key>1`.
    GreaterThan,
    /// Is an integer below the value: `key<1`.
    LessThan,
}

/// One condition on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Str,
    operator: Operator,
    values: Vec<Str>,
    /// The value as a number, for the operators that compare.
    bound: i64,
}

impl Requirement {
    /// A requirement, if key and values are valid for labels and their number is what the operator takes. The paths in
    /// the errors start at the requirement.
    pub fn new(key: &str, operator: Operator, values: Vec<Str>) -> Result<Self, Errors> {
        let mut errors = Errors::new();
        let wrong = label_key(key);
        if !wrong.is_empty() {
            errors.invalid(&FieldPath::new("key"), key, wrong.join("; "));
        }
        let path = FieldPath::new("values");
        // Go's nil slice is null in JSON.
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
            let wrong = label_value(value);
            if !wrong.is_empty() {
                errors.invalid(&path.index(i).key(key), value, wrong.join("; "));
            }
        }
        if errors.is_empty() { Ok(Self { key: Str::from(key), operator, values, bound }) } else { Err(errors) }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is asked of it.
    #[must_use]
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// The values asked for.
    #[must_use]
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// True if a label of this value (`None`: no such label) does what is asked.
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

impl fmt::Display for Requirement {
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

/// Requirements that must all hold, ordered by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
    /// True for the selector that matches nothing: that of a null `metav1.LabelSelector`.
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

    /// A selector of these requirements.
    #[must_use]
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Reads the text of a selector (`labels.Parse`).
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::parse(text).map(Self::new)
    }

    /// The selector that a `metav1.LabelSelector` stands for: null matches nothing, `{}` everything.
    pub fn from_tree(selector: &Value) -> Result<Self, ParseError> {
        if selector.is_null() {
            return Ok(Self::nothing());
        }
        let error = |errors: Errors| ParseError(errors.message());
        let text = |value: &Value| value.as_str().map_or_else(Str::default, Str::from);
        let mut requirements = Vec::new();
        for (key, value) in selector.entries_at(&["matchLabels"]) {
            requirements.push(Requirement::new(key, Operator::Equals, vec![text(value)]).map_err(error)?);
        }
        for expression in selector.items_at(&["matchExpressions"]) {
            let operator = match expression.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(ParseError(format!("{} is not a valid label selector operator", print::quote(other))));
                }
            };
            let values = expression.items_at(&["values"]).iter().map(text).collect();
            requirements.push(Requirement::new(expression.str_at(&["key"]), operator, values).map_err(error)?);
        }
        Ok(Self::new(requirements))
    }

    /// The selector that a map of labels stands for, as that of a Service or a ReplicationController. The labels are
    /// taken as they are (`SelectorFromValidatedSet`); an empty or absent map matches everything.
    #[must_use]
    pub fn from_labels(labels: &Value) -> Self {
        let requirement = |(key, value): (&str, &Value)| Requirement {
            key: Str::from(key),
            operator: Operator::Equals,
            values: vec![Str::from(value.as_str().unwrap_or_default())],
            bound: 0,
        };
        Self::new(labels.entries_at(&[]).map(requirement).collect())
    }

    /// True if labels match; `lookup` gives the value of a label.
    #[must_use]
    pub fn matches<'l>(&self, lookup: impl Fn(&str) -> Option<&'l str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(lookup(&r.key)))
    }

    /// True if the labels of an object match.
    #[must_use]
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(|key| object.label(key))
    }

    /// True if every object matches.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// True if no object matches, by construction.
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The requirements, ordered by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The only value with which a label matches, if the selector says so (`RequiresExactMatch`).
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
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

/// The text of the selector, which reads back as the same; empty for everything and for nothing.
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
