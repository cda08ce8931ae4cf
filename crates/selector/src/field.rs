//! Field selectors: terms such as `metadata.name=a` or `status.phase!=Running`, of which all must hold, after
//! apimachinery's `fields` package. Which fields a kind can be selected by is not known here.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use pintle_value::Str;

use crate::ParseError;

/// One condition on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field as it was written.
    pub field: Str,
    /// True if the field must not have the value.
    pub negated: bool,
    /// The value; an absent field has the empty one.
    pub value: Str,
}

impl FieldRequirement {
    /// True if a field of this value (`None`: no such field) does what is asked.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        (value.unwrap_or_default() == self.value) != self.negated
    }
}

/// Terms that must all hold.
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

    /// A selector of these terms.
    #[must_use]
    pub const fn new(requirements: Vec<FieldRequirement>) -> Self {
        Self { requirements }
    }

    /// The selector of one field and its value.
    #[must_use]
    pub fn equal(field: &str, value: &str) -> Self {
        Self::new(vec![FieldRequirement { field: field.into(), negated: false, value: value.into() }])
    }

    /// Reads the text of a selector (`fields.ParseSelector`). The terms come out in the order of their text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, negated, value)) = split_term(term) else {
                return Err(ParseError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescape(value)?;
            // A term without field and value says nothing.
            if !(field.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement { field: field.into(), negated, value });
            }
        }
        Ok(Self { requirements })
    }

    /// True if fields match; `lookup` gives the value of a field.
    #[must_use]
    pub fn matches<'l>(&self, lookup: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.requirements.iter().all(|r| r.matches(lookup(&r.field)))
    }

    /// True if every object matches.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The terms.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The only value with which a field matches, if the selector says so (`RequiresExactMatch`).
    #[must_use]
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.field == field && !r.negated).map(|r| r.value.as_str())
    }
}

/// Splits at the commas that no backslash stands before.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at its first operator: the field, whether it is negated, and the value as written.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(i, _)| {
        let (field, rest) = term.split_at(i);
        let operators = [("!=", true), ("==", false), ("=", false)];
        operators.iter().find_map(|(op, negated)| Some((field, *negated, rest.strip_prefix(op)?)))
    })
}

fn unescape(text: &str) -> Result<Str, ParseError> {
    if !text.contains(['\\', ',', '=']) {
        return Ok(text.into());
    }
    let invalid = |sequence: &str| ParseError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = Str::default();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(invalid(&format!("\\{c}"))),
                None => return Err(invalid("\\")),
            },
            ',' | '=' => {
                // Upstream prints the character's number.
                let code = u32::from(c);
                return Err(ParseError(format!("invalid field selector: unescaped character in value: {code}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

impl FromStr for FieldSelector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
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

/// The text of the selector, which reads back as the same.
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
