//! The document of a JSON Patch. It is expanded lazily as operations access it. In an expanded node, an addition or
//! removal does not shift all values after it. So many operations on large objects stay cheap.

use std::collections::BTreeMap;

use pintle_value::{Object, Str, Value, print};

/// A value of the document (`lazyNode` of json-patch).
#[derive(Clone, Debug)]
pub(crate) enum LazyNode {
    /// A leaf, or a value that no operation has accessed yet.
    Raw(Value),
    /// An object.
    Object(BTreeMap<Str, LazyNode>),
    /// An array.
    Array(ChunkedList),
}

impl LazyNode {
    /// Expands an object or array by one level.
    pub(crate) fn expand(&mut self) -> &mut Self {
        if let LazyNode::Raw(value) = self {
            *self = match value.take() {
                Value::Object(object) => {
                    LazyNode::Object(object.into_iter().map(|(key, value)| (key, LazyNode::Raw(value))).collect())
                }
                Value::Array(items) => {
                    LazyNode::Array(ChunkedList::new(items.into_iter().map(LazyNode::Raw).collect()))
                }
                leaf => LazyNode::Raw(leaf),
            };
        }
        self
    }

    /// Converts the node to a value.
    pub(crate) fn into_value(self) -> Value {
        match self {
            LazyNode::Raw(value) => value,
            LazyNode::Object(map) => {
                let entries = map.into_iter().map(|(key, node)| (key, node.into_value()));
                Value::Object(Object::from_entries(entries.collect()))
            }
            LazyNode::Array(list) => {
                Value::Array(list.chunks.into_iter().flatten().map(LazyNode::into_value).collect())
            }
        }
    }

    /// The nesting depth of the value; a leaf has depth 0. Adds the number of visited values to `visited`.
    pub(crate) fn depth(&self, visited: &mut usize) -> usize {
        if let LazyNode::Raw(value) = self {
            return depth(value, visited);
        }
        *visited += 1;
        1 + match self {
            LazyNode::Raw(_) => 0,
            LazyNode::Object(map) => map.values().map(|node| node.depth(visited)).max().unwrap_or(0),
            LazyNode::Array(list) => list.iter().map(|node| node.depth(visited)).max().unwrap_or(0),
        }
    }

    /// The approximate size of the value's JSON in bytes. Counting stops beyond `limit`.
    pub(crate) fn json_size(&self, limit: usize) -> usize {
        match self {
            LazyNode::Raw(value) => json_size(value, limit),
            LazyNode::Object(map) => {
                fields_size(map.iter().map(|(key, node)| (key.as_str(), node)), map.len(), limit, Self::json_size)
            }
            LazyNode::Array(list) => items_size(list.iter(), list.len, limit, Self::json_size),
        }
    }

    /// Compares JSON texts. Numbers are equal if their texts are equal, and the document's numbers are formatted as in
    /// Go.
    pub(crate) fn equals(&self, expected: &Value) -> bool {
        match (self, expected) {
            (LazyNode::Raw(value), expected) => equal(value, expected),
            (LazyNode::Object(map), Value::Object(expected)) => {
                let pairs = || map.iter().zip(expected.iter());
                map.len() == expected.len() && pairs().all(|((a, node), (b, value))| a == b && node.equals(value))
            }
            (LazyNode::Array(list), Value::Array(expected)) => {
                list.len == expected.len() && list.iter().zip(expected).all(|(node, value)| node.equals(value))
            }
            _ => false,
        }
    }
}

/// The number of items of a new chunk. A chunk has at most twice this number.
const CHUNK_SIZE: usize = 512;

/// A list that is stored in chunks.
#[derive(Clone, Debug)]
pub(crate) struct ChunkedList {
    chunks: Vec<Vec<LazyNode>>,
    len: usize,
}

impl ChunkedList {
    fn new(items: Vec<LazyNode>) -> Self {
        let len = items.len();
        let mut chunks = Vec::with_capacity(len / CHUNK_SIZE + 1);
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            chunks.push(items.by_ref().take(CHUNK_SIZE).collect());
        }
        Self { chunks, len }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    fn iter(&self) -> impl Iterator<Item = &LazyNode> {
        self.chunks.iter().flatten()
    }

    /// The chunk of an item, and its index in the chunk.
    fn locate(&self, mut index: usize) -> Option<(usize, usize)> {
        for (i, chunk) in self.chunks.iter().enumerate() {
            if index < chunk.len() {
                return Some((i, index));
            }
            index -= chunk.len();
        }
        None
    }

    pub(crate) fn get(&self, index: usize) -> Option<&LazyNode> {
        let (chunk, offset) = self.locate(index)?;
        self.chunks.get(chunk)?.get(offset)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut LazyNode> {
        let (chunk, offset) = self.locate(index)?;
        self.chunks.get_mut(chunk)?.get_mut(offset)
    }

    pub(crate) fn push(&mut self, node: LazyNode) {
        self.len += 1;
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK_SIZE => last.push(node),
            _ => self.chunks.push(vec![node]),
        }
    }

    /// Inserts an item before the item at `index`, or at the end. Returns the number of steps.
    pub(crate) fn insert(&mut self, index: usize, node: LazyNode) -> usize {
        let Some((i, offset)) = self.locate(index) else {
            self.push(node);
            return 1;
        };
        self.len += 1;
        let mut steps = i + 1;
        if let Some(chunk) = self.chunks.get_mut(i) {
            steps += chunk.len() - offset;
            chunk.insert(offset, node);
            if chunk.len() > 2 * CHUNK_SIZE {
                let rest = chunk.split_off(CHUNK_SIZE);
                steps += self.chunks.len() - i;
                self.chunks.insert(i + 1, rest);
            }
        }
        steps
    }

    /// Removes an item. Also returns the number of steps.
    pub(crate) fn remove(&mut self, index: usize) -> Option<(LazyNode, usize)> {
        let (i, offset) = self.locate(index)?;
        let chunk = self.chunks.get_mut(i)?;
        let mut steps = i + chunk.len() - offset;
        let node = chunk.remove(offset);
        self.len -= 1;
        if chunk.is_empty() {
            steps += self.chunks.len() - i;
            self.chunks.remove(i);
        }
        Some((node, steps))
    }
}

fn depth(value: &Value, visited: &mut usize) -> usize {
    *visited += 1;
    match value {
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, visited)).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(|value| depth(value, visited)).max().unwrap_or(0),
        _ => 0,
    }
}

fn equal(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Float(f), Value::Int(i)) => print::json_float(*f) == i.to_string(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && equal(a, b))
        }
        (a, b) => a == b,
    }
}

fn json_size(value: &Value, limit: usize) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Int(_) | Value::Float(_) => print::json(value).len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items_size(items.iter(), items.len(), limit, json_size),
        Value::Object(object) => fields_size(object.iter(), object.len(), limit, json_size),
    }
}

fn items_size<'v, V: 'v>(
    items: impl Iterator<Item = &'v V>,
    count: usize,
    limit: usize,
    size_of: impl Fn(&V, usize) -> usize,
) -> usize {
    let mut size = 1 + count.max(1);
    for item in items {
        if size > limit {
            break;
        }
        size += size_of(item, limit - size);
    }
    size
}

fn fields_size<'v, V: 'v>(
    fields: impl Iterator<Item = (&'v str, &'v V)>,
    count: usize,
    limit: usize,
    size_of: impl Fn(&V, usize) -> usize,
) -> usize {
    let mut size = 1 + count.max(1);
    for (key, value) in fields {
        size += key.len() + 3;
        if size > limit {
            break;
        }
        size += size_of(value, limit - size);
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunked list must behave like a plain list, at its ends and at the boundaries of chunks.
    #[test]
    fn chunked_list_behaves_like_a_plain_list() {
        let mut plain: Vec<i64> = (0..3_000).collect();
        let mut list = ChunkedList::new(plain.iter().map(|i| LazyNode::Raw(Value::Int(*i))).collect());
        for step in 0..6_000_usize {
            let index = (step * 7_919) % (plain.len() + 1);
            if step % 3 < 2 {
                let value = 10_000 + i64::try_from(step).expect("a small number");
                plain.insert(index, value);
                list.insert(index, LazyNode::Raw(Value::Int(value)));
            } else if index < plain.len() {
                let expect = Value::Int(plain.remove(index));
                assert_eq!(list.remove(index).map(|(node, _)| node.into_value()), Some(expect));
            }
            assert_eq!(list.len(), plain.len());
            assert!(list.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= 2 * CHUNK_SIZE));
        }
        for index in [0, CHUNK_SIZE - 1, CHUNK_SIZE, plain.len() - 1] {
            assert!(list.get(index).is_some_and(|node| node.equals(&Value::Int(plain[index]))), "{index}");
        }
        assert!(list.get(plain.len()).is_none());
        let expect: Vec<Value> = plain.into_iter().map(Value::Int).collect();
        assert_eq!(LazyNode::Array(list).into_value(), Value::Array(expect));
    }
}
