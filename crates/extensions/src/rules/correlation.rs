//! Correlation of old and new values for the ratcheting of rule errors (upstream: `ratchetingOptions` of
//! apiextensions-apiserver's `pkg/apiserver/schema/cel`, `CorrelatedObject` of `apiserver/pkg/cel/common`).

use std::cell::OnceCell;

use pintle_value::Value;

use crate::schema::{OldValue, SchemaNode};

/// A new value with its correlated old value.
#[derive(Debug)]
pub(super) struct CorrelatedObject<'a> {
    node: SchemaNode<'a>,
    new: &'a Value,
    old: &'a Value,
    /// True if both values are equal. This is computed on first use.
    same: OnceCell<bool>,
}

/// The correlation of the walk's current value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RatchetingOptions<'a> {
    /// The current value, if it is correlated.
    current: Option<&'a CorrelatedObject<'a>>,
    /// The nearest correlated parent.
    nearest_parent: Option<&'a CorrelatedObject<'a>>,
}

impl<'a> CorrelatedObject<'a> {
    pub(super) fn new(node: SchemaNode<'a>, new: &'a Value, old: &'a Value) -> Self {
        Self { node, new, old, same: OnceCell::new() }
    }

    fn is_unchanged(&self) -> bool {
        *self.same.get_or_init(|| OldValue(self.old).is_unchanged(self.node, self.new))
    }
}

impl<'a> RatchetingOptions<'a> {
    /// The options for the object as a whole.
    pub(super) fn of(correlated: Option<&'a CorrelatedObject<'a>>) -> Self {
        Self { current: correlated, nearest_parent: None }
    }

    /// True if the current value is correlated.
    pub(super) fn is_correlated(self) -> bool {
        self.current.is_some()
    }

    /// Correlates the value under a key.
    pub(super) fn correlate_field(self, key: &str) -> Option<CorrelatedObject<'a>> {
        let current = self.current?;
        let node = current.node.entry(key)?;
        Some(CorrelatedObject::new(node, current.new.as_object()?.get(key)?, current.old.as_object()?.get(key)?))
    }

    /// The options for the value under a key.
    pub(super) fn for_key<'b>(self, key: &str, correlated: Option<&'b CorrelatedObject<'b>>) -> RatchetingOptions<'b>
    where
        'a: 'b,
    {
        // Both objects were converted to the same kind, so these fields always look unchanged.
        if self.current.is_some() && self.nearest_parent.is_none() && matches!(key, "apiVersion" | "kind") {
            return RatchetingOptions::default();
        }
        self.for_child(correlated)
    }

    /// The options for a child of the current value.
    pub(super) fn for_child<'b>(self, correlated: Option<&'b CorrelatedObject<'b>>) -> RatchetingOptions<'b>
    where
        'a: 'b,
    {
        match self.current {
            None => self,
            Some(current) => RatchetingOptions { current: correlated, nearest_parent: Some(current) },
        }
    }

    /// True if errors become warnings, because the current value or its nearest correlated parent is unchanged.
    pub(super) fn should_ratchet(self) -> bool {
        self.current.or(self.nearest_parent).is_some_and(CorrelatedObject::is_unchanged)
    }
}
