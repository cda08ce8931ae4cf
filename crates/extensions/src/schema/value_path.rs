//! Paths in the messages of kube-openapi: all keys are joined by dots. This differs from `FieldPath`, which puts map
//! keys in brackets.

use std::fmt;

/// A path on the stack, which is only formatted if an error is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValuePath<'a> {
    parent: Option<&'a ValuePath<'a>>,
    step: ValuePathStep<'a>,
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
enum ValuePathStep<'a> {
    Root,
    Property(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> ValuePath<'a> {
    pub(super) const ROOT: ValuePath<'static> = ValuePath { parent: None, step: ValuePathStep::Root, silent: false };

    /// Appends a declared property.
    pub(super) const fn property(&'a self, name: &'a str) -> ValuePath<'a> {
        self.to(ValuePathStep::Property(name))
    }

    /// Appends an undeclared key. It has a leading dot even at the root.
    pub(super) const fn key(&'a self, key: &'a str) -> ValuePath<'a> {
        self.to(ValuePathStep::Key(key))
    }

    pub(super) const fn index(&'a self, index: usize) -> ValuePath<'a> {
        self.to(ValuePathStep::Index(index))
    }

    const fn to(&'a self, step: ValuePathStep<'a>) -> ValuePath<'a> {
        ValuePath { parent: Some(self), step, silent: self.silent }
    }

    /// Returns the path with errors suppressed. Validation then only determines whether the value is valid.
    pub(super) const fn silently(self) -> Self {
        ValuePath { silent: true, ..self }
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    pub(super) const fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            ValuePathStep::Root => Ok(()),
            ValuePathStep::Property(name) if self.parent.is_none_or(ValuePath::is_root) => f.write_str(name),
            ValuePathStep::Property(name) | ValuePathStep::Key(name) => write!(f, ".{name}"),
            ValuePathStep::Index(index) => write!(f, "[{index}]"),
        }
    }
}
