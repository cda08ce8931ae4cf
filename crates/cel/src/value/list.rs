//! Lists.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use pintle_value::Value as Json;

use crate::error::{EvalError, Failure};

use super::{Outcome, Shape, Topology, Value, plain, try_equal, untyped};

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// A JSON array, read in place.
    Json {
        /// The elements.
        items: &'a Vec<Json>,
        /// The shape of the list.
        shape: &'a dyn Shape,
    },
    /// Made by the evaluation.
    Owned(Arc<Vec<Value<'a>>>),
    /// Borrowed from the program.
    Borrowed(&'a [Value<'a>]),
    /// Made from JSON arrays whose order or keys matter.
    Shaped(Arc<Vec<Value<'a>>>, &'a dyn Shape),
}

impl<'a> List<'a> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Owned(elements) | Self::Shaped(elements, _) => elements.len(),
            Self::Borrowed(elements) => elements.len(),
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json { items, shape } => shape.element(items, index),
            Self::Owned(elements) | Self::Shaped(elements, _) => elements.get(index).cloned(),
            Self::Borrowed(elements) => elements.get(index).cloned(),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// True if an element equals the value. Fails if none does but one is invalid.
    pub fn contains(&self, value: &Value<'_>) -> Outcome<bool> {
        let mut failed = None;
        for element in self.iter() {
            match try_equal(&element, value) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(false), Err)
    }

    fn shape(&self) -> Option<&'a dyn Shape> {
        match self {
            Self::Json { shape, .. } | Self::Shaped(_, shape) => Some(*shape),
            _ => None,
        }
    }

    fn topology(&self) -> Topology<'a> {
        self.shape().map_or(Topology::Atomic, Shape::topology)
    }

    /// `self + other`: what the elements of the other list become depends on the topology of this one.
    pub fn plus(&self, other: &List<'a>) -> Outcome<List<'a>> {
        let mut elements: Vec<Value<'a>> = Vec::with_capacity(self.len() + other.len());
        elements.extend(self.iter());
        let topology = self.topology();
        if topology == Topology::Atomic {
            elements.extend(other.iter());
        } else {
            self.all_hashable(other)?;
            let mut places: HashMap<Identity, usize> = HashMap::with_capacity(elements.len());
            places.extend(self.identities(topology).zip(0..));
            for element in other.iter() {
                if matches!(topology, Topology::Map(_)) && !matches!(element, Value::Map(_)) {
                    elements.push(element);
                    continue;
                }
                match (places.entry(Identity::of(&element, topology)), topology) {
                    (Entry::Occupied(at), Topology::Map(_)) => elements[*at.get()] = element,
                    (Entry::Occupied(_), _) => {}
                    (Entry::Vacant(place), _) => {
                        place.insert(elements.len());
                        elements.push(element);
                    }
                }
            }
        }
        Ok(match self.shape() {
            Some(shape) if topology != Topology::Atomic => List::Shaped(Arc::new(elements), shape),
            _ => List::Owned(Arc::new(elements)),
        })
    }

    /// True if both lists hold the same, under the topology of the first.
    pub(super) fn equals(&self, other: &List<'_>) -> Outcome<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.topology() {
            Topology::Atomic => all(self.iter().zip(other.iter()), |(a, b)| try_equal(&a, &b)),
            Topology::Set => {
                self.all_hashable(other)?;
                let own: HashSet<Identity> = self.identities(Topology::Set).collect();
                all(other.iter(), |element| {
                    // What cannot be read is in no set.
                    let readable = !matches!(element, Value::Invalid(_));
                    Ok(readable && own.contains(&Identity::of(&element, Topology::Set)))
                })
            }
            topology @ Topology::Map(_) => {
                // Of elements with the same keys the last one counts.
                let own: HashMap<Identity, usize> = self.identities(topology).zip(0..).collect();
                all(other.iter(), |theirs| {
                    // What is no object has no keys.
                    if !matches!(theirs, Value::Map(_)) {
                        return Ok(false);
                    }
                    let ours = own.get(&Identity::of(&theirs, topology)).and_then(|at| self.get(*at));
                    ours.map_or(Ok(false), |ours| try_equal(&ours, &theirs))
                })
            }
        }
    }

    /// Kubernetes looks the elements of sets up in maps of Go, whose keys cannot be everything.
    fn all_hashable(&self, other: &List<'_>) -> Outcome<()> {
        if self.topology() != Topology::Set {
            return Ok(());
        }
        let own = (0..self.len()).filter_map(|i| match self {
            Self::Json { items, .. } => unhashable(&untyped(&items[i])),
            _ => self.get(i).and_then(|element| unhashable(&element)),
        });
        let others = other.iter().filter_map(|element| unhashable(&element));
        own.chain(others).next().map_or(Ok(()), |why| Err(EvalError::of(Failure::Internal(why))))
    }

    /// What each element is told apart by.
    fn identities<'l>(&'l self, topology: Topology<'l>) -> impl Iterator<Item = Identity> + 'l {
        (0..self.len()).map(move |i| match self {
            // Kubernetes takes the elements of its sets as they are written, which may be other than how they are read.
            Self::Json { items, .. } if topology == Topology::Set => Identity::of(&untyped(&items[i]), topology),
            _ => self.get(i).map_or_else(|| Identity(Vec::new()), |element| Identity::of(&element, topology)),
        })
    }
}

/// True if something holds for all; the first error or the first for which it does not hold ends it.
pub(super) fn all<T>(items: impl IntoIterator<Item = T>, mut holds: impl FnMut(T) -> Outcome<bool>) -> Outcome<bool> {
    for item in items {
        if !holds(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What Go says of a key that it cannot have.
fn unhashable(value: &Value<'_>) -> Option<&'static str> {
    match value {
        Value::Bytes(_) => Some("runtime error: hash of unhashable type []uint8"),
        Value::List(_) => Some("runtime error: hash of unhashable type []interface {}"),
        Value::Map(_) => Some("runtime error: hash of unhashable type map[string]interface {}"),
        _ => None,
    }
}

/// What tells the elements of a set or a map apart.
#[derive(PartialEq, Eq, Hash)]
struct Identity(Vec<Scalar>);

/// A scalar as Go compares it: an integer and a double of the same amount differ.
#[derive(PartialEq, Eq, Hash)]
enum Scalar {
    Missing,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    Text(String),
    /// What cannot be written as a scalar.
    Other(String),
}

impl Identity {
    fn of(element: &Value<'_>, topology: Topology<'_>) -> Self {
        match (topology, element) {
            (Topology::Map(keys), Value::Map(fields)) => Self(
                keys.iter()
                    .map(|key| fields.field(key).ok().flatten().map_or(Scalar::Missing, |value| Scalar::of(&value)))
                    .collect(),
            ),
            _ => Self(vec![Scalar::of(element)]),
        }
    }
}

impl Scalar {
    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Bool(b) => Self::Bool(*b),
            Value::Int(i) => Self::Int(*i),
            Value::Uint(u) => Self::Uint(*u),
            Value::Double(x) => Self::Double(if *x == 0.0 { 0 } else { x.to_bits() }),
            Value::String(text) => Self::Text(text.to_string()),
            other => Self::Other(plain(other)),
        }
    }
}
