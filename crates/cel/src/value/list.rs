//! List values.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_value::Value as Json;

use crate::error::{EvalError, EvalErrorKind};

use super::{EvalResult, ListTopology, TypeAdapter, Value, go_string, try_equal, untyped};

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// A JSON array, converted on access.
    Json {
        /// The elements.
        items: &'a Vec<Json>,
        /// The adapter of the list.
        adapter: &'a dyn TypeAdapter,
    },
    /// Created by the evaluation.
    Owned(Arc<Vec<Value<'a>>>),
    /// Borrowed from the program.
    Borrowed(&'a [Value<'a>]),
    /// Created by adding JSON arrays whose list type is a set or a map.
    Adapted(Arc<Vec<Value<'a>>>, &'a dyn TypeAdapter),
}

impl<'a> List<'a> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Owned(elements) | Self::Adapted(elements, _) => elements.len(),
            Self::Borrowed(elements) => elements.len(),
        }
    }

    /// True if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json { items, adapter } => adapter.element(items, index),
            Self::Owned(elements) | Self::Adapted(elements, _) => elements.get(index).cloned(),
            Self::Borrowed(elements) => elements.get(index).cloned(),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// True if an element equals the value. Fails if no element equals it and an element is invalid.
    pub fn contains(&self, value: &Value<'_>) -> EvalResult<bool> {
        let mut failed = None;
        for element in self.iter() {
            match try_equal(&element, value) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn adapter(&self) -> Option<&'a dyn TypeAdapter> {
        match self {
            Self::Json { adapter, .. } | Self::Adapted(_, adapter) => Some(*adapter),
            _ => None,
        }
    }

    fn topology(&self) -> ListTopology<'a> {
        self.adapter().map_or(ListTopology::Atomic, TypeAdapter::topology)
    }

    fn compares_converted_elements(&self) -> bool {
        self.adapter().is_some_and(TypeAdapter::compares_converted_elements)
    }

    /// `self + other`. The list type of `self` determines how the elements of `other` are merged.
    pub fn plus(&self, other: &List<'a>) -> EvalResult<List<'a>> {
        let mut elements: Vec<Value<'a>> = Vec::with_capacity(self.len() + other.len());
        elements.extend(self.iter());
        let topology = self.topology();
        if topology == ListTopology::Atomic {
            elements.extend(other.iter());
        } else {
            self.check_hashable(other)?;
            let mut indices: HashMap<ElementKey, usize> = HashMap::with_capacity(elements.len());
            indices.extend(self.element_keys(topology).zip(0..));
            for element in other.iter() {
                if matches!(topology, ListTopology::Map(_)) && !matches!(element, Value::Map(_)) {
                    elements.push(element);
                    continue;
                }
                match (indices.entry(ElementKey::of(&element, topology)), topology) {
                    (Entry::Occupied(index), ListTopology::Map(_)) => elements[*index.get()] = element,
                    (Entry::Occupied(_), _) => {}
                    (Entry::Vacant(vacant), _) => {
                        vacant.insert(elements.len());
                        elements.push(element);
                    }
                }
            }
        }
        Ok(match self.adapter() {
            Some(adapter) if topology != ListTopology::Atomic => List::Adapted(Arc::new(elements), adapter),
            _ => List::Owned(Arc::new(elements)),
        })
    }

    /// True if both lists are equal, under the list type of `self`.
    pub(super) fn equals(&self, other: &List<'_>) -> EvalResult<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.topology() {
            ListTopology::Atomic => try_all(self.iter().zip(other.iter()), |(a, b)| try_equal(&a, &b)),
            ListTopology::Set => {
                self.check_hashable(other)?;
                let own: HashSet<ElementKey> = self.element_keys(ListTopology::Set).collect();
                let mut seen = self.compares_converted_elements().then(HashSet::new);
                let has_all = try_all(other.iter(), |element| {
                    // An invalid value is not in any set.
                    let is_valid = !matches!(element, Value::Invalid(_));
                    let key = ElementKey::of(&element, ListTopology::Set);
                    let is_own = is_valid && own.contains(&key);
                    if let Some(seen) = &mut seen {
                        seen.insert(key);
                    }
                    Ok(is_own)
                })?;
                Ok(has_all && seen.is_none_or(|seen| seen.len() == own.len()))
            }
            topology @ ListTopology::Map(_) => {
                // Of several elements with the same key, the last one counts.
                let own: HashMap<ElementKey, usize> = self.element_keys(topology).zip(0..).collect();
                let mut seen = self.compares_converted_elements().then(HashSet::new);
                let has_all = try_all(other.iter(), |theirs| {
                    // Only objects have keys.
                    if !matches!(theirs, Value::Map(_)) {
                        return Ok(false);
                    }
                    let index = own.get(&ElementKey::of(&theirs, topology)).copied();
                    if let Some(seen) = &mut seen {
                        seen.extend(index);
                    }
                    let ours = index.and_then(|index| self.get(index));
                    ours.map_or(Ok(false), |ours| try_equal(&ours, &theirs))
                })?;
                Ok(has_all && seen.is_none_or(|seen| seen.len() == own.len()))
            }
        }
    }

    /// Fails if an element of a set is not hashable. Upstream looks set elements up in Go maps, which panics for such
    /// keys.
    fn check_hashable(&self, other: &List<'_>) -> EvalResult<()> {
        if self.topology() != ListTopology::Set {
            return Ok(());
        }
        if self.compares_converted_elements() {
            let is_scalar = |element: Value<'_>| !matches!(element, Value::List(_) | Value::Map(_));
            if self.iter().all(is_scalar) && other.iter().all(is_scalar) {
                return Ok(());
            }
            return Err(EvalError::new("listSet operations are only supported on lists of scalar values"));
        }
        let own = (0..self.len()).filter_map(|i| match self {
            Self::Json { items, .. } => unhashable_message(&untyped(&items[i])),
            _ => self.get(i).and_then(|element| unhashable_message(&element)),
        });
        let others = other.iter().filter_map(|element| unhashable_message(&element));
        own.chain(others).next().map_or(Ok(()), |why| Err(EvalError::from_kind(EvalErrorKind::Internal(why))))
    }

    /// The keys that identify the elements.
    fn element_keys<'l>(&'l self, topology: ListTopology<'l>) -> impl Iterator<Item = ElementKey> + 'l {
        (0..self.len()).map(move |i| match self {
            // Older versions of upstream identify set elements by the unconverted JSON values, which can differ from the
            // converted values.
            Self::Json { items, adapter }
                if topology == ListTopology::Set && !adapter.compares_converted_elements() =>
            {
                ElementKey::of(&untyped(&items[i]), topology)
            }
            _ => self.get(i).map_or_else(|| ElementKey(Vec::new()), |element| ElementKey::of(&element, topology)),
        })
    }
}

/// True if the predicate holds for all items. Stops at the first error, or at the first item for which the predicate is
/// false.
pub(super) fn try_all<T>(
    items: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> EvalResult<bool>,
) -> EvalResult<bool> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Go's panic message for a map key that is not hashable.
fn unhashable_message(value: &Value<'_>) -> Option<&'static str> {
    match value {
        Value::Bytes(_) => Some("runtime error: hash of unhashable type []uint8"),
        Value::List(_) => Some("runtime error: hash of unhashable type []interface {}"),
        Value::Map(_) => Some("runtime error: hash of unhashable type map[string]interface {}"),
        _ => None,
    }
}

/// The key that identifies an element of a set or a map.
#[derive(PartialEq, Eq, Hash)]
struct ElementKey(Vec<ScalarKey>);

/// A scalar as Go compares it: an integer and a double of the same value differ.
#[derive(PartialEq, Eq, Hash)]
enum ScalarKey {
    Missing,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(String),
    /// Any other value, as text.
    Other(String),
}

impl ElementKey {
    fn of(element: &Value<'_>, topology: ListTopology<'_>) -> Self {
        match (topology, element) {
            (ListTopology::Map(keys), Value::Map(fields)) => Self(
                keys.iter()
                    .map(|key| {
                        fields.field(key).ok().flatten().map_or(ScalarKey::Missing, |value| ScalarKey::of(&value))
                    })
                    .collect(),
            ),
            _ => Self(vec![ScalarKey::of(element)]),
        }
    }
}

impl ScalarKey {
    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(i) => Self::Int(*i),
            Value::Uint(u) => Self::Uint(*u),
            Value::Double(x) => Self::Double(if *x == 0.0 { 0 } else { x.to_bits() }),
            Value::String(text) => Self::String(text.to_string()),
            other => Self::Other(go_string(other)),
        }
    }
}
