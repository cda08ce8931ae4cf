//! Field selectors: requirements such as `metadata.name=a` or `status.phase!=Running`, which must all match (upstream:
//! apimachinery's `fields` package). The caller validates whether a kind supports a field.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use pintle_value::Str;

use crate::SelectorParseError;

/// A requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The name of the field, as written.
    pub field: Str,
    /// True for `!=`.
    pub negated: bool,
    /// The value; an absent field has the empty value.
    pub value: Str,
}

impl FieldRequirement {
    /// True if the value of the field (`None` if absent) meets the requirement.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        (value.unwrap_or_default() == self.value) != self.negated
    }
}

/// A field selector: requirements that must all match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// The selector that matches everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// A selector with the given requirements.
    #[must_use]
    pub const fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// A selector with one field and its value (upstream: `fields.OneTermEqualSelector`).
    #[must_use]
    pub fn equal(field: &str, value: &str) -> Self {
        Self::new(vec![FieldRequirement { field: field.into(), negated: false, value: value.into() }])
    }

    /// Parses a field selector (upstream: `fields.ParseSelector`). The requirements are sorted by their text.
    pub fn parse(text: &str) -> Result<Self, SelectorParseError> {
        let mut terms: Vec<_> = terms(text).collect();
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, negated, value)) = split_term(term) else {
                return Err(SelectorParseError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = Str::from(unescape(value)?);
            // Upstream ignores a term with an empty field and an empty value.
            if !(field.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement { field: field.into(), negated, value });
            }
        }
        Ok(Self { requirements })
    }

    /// True if a text is a valid field selector that requires a value of a field. This allocates nothing, unless the
    /// text has escapes.
    #[must_use]
    pub fn text_requires(text: &str, field: &str, value: &str) -> bool {
        let mut required = false;
        for term in terms(text).filter(|term| !term.is_empty()) {
            let Some((own_field, negated, own_value)) = split_term(term) else { return false };
            let Ok(own_value) = unescape(own_value) else { return false };
            required |= !negated && own_field == field && *own_value == *value;
        }
        required
    }

    /// True if the fields match; `lookup` returns the value of a field.
    #[must_use]
    pub fn matches<'l>(&self, lookup: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|r| r.matches(lookup(&r.field)))
    }

    /// True if the selector matches every object.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The only value of a field that matches, if there is exactly one (upstream: `RequiresExactMatch`).
    #[must_use]
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && !r.negated).map(|r| r.value.as_str())
    }
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
}

/// Splits a term at its first operator: the field, whether the operator is negated, and the escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(i, _)| {
        let (field, rest) = term.split_at(i);
        let operators = [("!=", true), ("==", false), ("=", false)];
        operators.iter().find_map(|(op, negated)| Some((field, *negated, rest.strip_prefix(op)?)))
    })
}

fn unescape(text: &str) -> Result<Cow<'_, str>, SelectorParseError> {
    if !text.contains(['\\', ',', '=']) {
        return Ok(text.into());
    }
    let invalid =
        |sequence: &str| SelectorParseError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(invalid(&format!("\\{c}"))),
                None => return Err(invalid("\\")),
            },
            ',' | '=' => {
                // Upstream prints the code point as a number.
                let code = u32::from(c);
                return Err(SelectorParseError(format!(
                    "invalid field selector: unescaped character in value: {code}"
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out.into())
}

impl FromStr for FieldSelector {
    type Err = SelectorParseError;

    fn from_str(text: &str) -> Result<Self, SelectorParseError> {
        Self::parse(text)
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.negated { "!=" } else { "=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_char('\\')?;
            }
            f.write_char(c)?;
        }
        Ok(())
    }
}

/// The text of the selector, which parses back to an equal selector.
impl fmt::Display for FieldSelector {
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
