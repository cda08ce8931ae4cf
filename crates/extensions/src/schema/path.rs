//! Where we are in a value, as kube-openapi writes it: keys are joined by dots, whatever is in them. It differs from
//! `FieldPath`, in which keys of maps are in brackets.

use std::fmt;

/// A path, built on the stack and printed only when something is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
    silent: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Property(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Root, silent: false };

    /// A declared property.
    pub(super) const fn property(&'a self, name: &'a str) -> Path<'a> {
        self.to(Step::Property(name))
    }

    /// A key that is not declared: it has a dot before it also in the object itself.
    pub(super) const fn key(&'a self, key: &'a str) -> Path<'a> {
        self.to(Step::Key(key))
    }

    pub(super) const fn index(&'a self, index: usize) -> Path<'a> {
        self.to(Step::Index(index))
    }

    const fn to(&'a self, step: Step<'a>) -> Path<'a> {
        Path { parent: Some(self), step, silent: self.silent }
    }

    /// The same path, of which nothing is to be said: what is tried there is only to fit or not.
    pub(super) const fn silently(self) -> Self {
        Path { silent: true, ..self }
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    pub(super) const fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Property(name) if self.parent.is_none_or(Path::is_root) => f.write_str(name),
            Step::Property(name) | Step::Key(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}
