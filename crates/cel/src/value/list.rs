//! Lists.

use std::sync::Arc;

use pintle_value::Value as Json;

use super::{Shape, Topology, Value, equal};

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

    /// True if an element equals the value.
    #[must_use]
    pub fn contains(&self, value: &Value<'_>) -> bool {
        self.iter().any(|element| equal(&element, value))
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
    #[must_use]
    pub fn plus(&self, other: &List<'a>) -> List<'a> {
        let mut elements: Vec<Value<'a>> = Vec::with_capacity(self.len() + other.len());
        elements.extend(self.iter());
        let topology = self.topology();
        if topology == Topology::Atomic {
            elements.extend(other.iter());
        } else {
            for element in other.iter() {
                let same = elements.iter().position(|e| same_place(topology, e, &element));
                match (same, topology) {
                    (Some(at), Topology::Map(_)) => elements[at] = element,
                    (Some(_), _) => {}
                    (None, _) => elements.push(element),
                }
            }
        }
        match self.shape() {
            Some(shape) if topology != Topology::Atomic => List::Shaped(Arc::new(elements), shape),
            _ => List::Owned(Arc::new(elements)),
        }
    }

    /// True if both lists hold the same, under the topology of the first.
    #[must_use]
    pub(super) fn equals(&self, other: &List<'_>) -> bool {
        if self.len() != other.len() {
            return false;
        }
        match self.topology() {
            Topology::Atomic => self.iter().zip(other.iter()).all(|(a, b)| equal(&a, &b)),
            Topology::Set => self.iter().all(|a| other.contains(&a)),
            topology @ Topology::Map(_) => self.iter().all(|a| {
                let same = other.iter().find(|b| same_place(topology, &a, b));
                same.is_some_and(|b| equal(&a, &b))
            }),
        }
    }
}

/// True if two elements stand for the same one of a set or map.
fn same_place(topology: Topology<'_>, a: &Value<'_>, b: &Value<'_>) -> bool {
    let (Topology::Map(keys), Value::Map(a), Value::Map(b)) = (topology, a, b) else { return equal(a, b) };
    keys.iter().all(|key| match (a.field(key), b.field(key)) {
        (Ok(Some(a)), Ok(Some(b))) => equal(&a, &b),
        (Ok(a), Ok(b)) => a.is_none() && b.is_none(),
        _ => false,
    })
}
