//! A document under a JSON Patch, opened as far as operations have looked into it. What is open takes additions and
//! removals at any place without shifting all that stands behind it, so that many operations on large objects stay cheap.

use std::collections::BTreeMap;

use pintle_value::{Object, Str, Value, print};

/// A value of the document.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Nothing has looked into it yet, or it is a leaf.
    Closed(Value),
    /// An object.
    Map(BTreeMap<Str, Node>),
    /// An array.
    List(List),
}

impl Node {
    /// Opens an object or array by one level.
    pub(crate) fn open(&mut self) -> &mut Self {
        if let Node::Closed(value) = self {
            *self = match value.take() {
                Value::Object(object) => {
                    Node::Map(object.into_iter().map(|(key, value)| (key, Node::Closed(value))).collect())
                }
                Value::Array(items) => Node::List(List::new(items.into_iter().map(Node::Closed).collect())),
                leaf => Node::Closed(leaf),
            };
        }
        self
    }

    /// The value with all that was done to it.
    pub(crate) fn close(self) -> Value {
        match self {
            Node::Closed(value) => value,
            Node::Map(map) => {
                let entries = map.into_iter().map(|(key, node)| (key, node.close()));
                Value::Object(Object::from_entries(entries.collect()))
            }
            Node::List(list) => Value::Array(list.pieces.into_iter().flatten().map(Node::close).collect()),
        }
    }

    /// How deep the value nests; a leaf is 0 deep. Counts the values that are looked at.
    pub(crate) fn depth(&self, looked_at: &mut usize) -> usize {
        if let Node::Closed(value) = self {
            return depth(value, looked_at);
        }
        *looked_at += 1;
        1 + match self {
            Node::Closed(_) => 0,
            Node::Map(map) => map.values().map(|node| node.depth(looked_at)).max().unwrap_or(0),
            Node::List(list) => list.iter().map(|node| node.depth(looked_at)).max().unwrap_or(0),
        }
    }

    /// About how many bytes the value has as JSON; counting ends beyond `limit`.
    pub(crate) fn json_size(&self, limit: usize) -> usize {
        match self {
            Node::Closed(value) => json_size(value, limit),
            Node::Map(map) => {
                fields_size(map.iter().map(|(key, node)| (key.as_str(), node)), map.len(), limit, Self::json_size)
            }
            Node::List(list) => items_size(list.iter(), list.len, limit, Self::json_size),
        }
    }

    /// Equality as of JSON texts: numbers are equal if written alike, where the document's are written as Go writes them.
    pub(crate) fn equals(&self, expected: &Value) -> bool {
        match (self, expected) {
            (Node::Closed(value), expected) => equal(value, expected),
            (Node::Map(map), Value::Object(expected)) => {
                let pairs = || map.iter().zip(expected.iter());
                map.len() == expected.len() && pairs().all(|((a, node), (b, value))| a == b && node.equals(value))
            }
            (Node::List(list), Value::Array(expected)) => {
                list.len == expected.len() && list.iter().zip(expected).all(|(node, value)| node.equals(value))
            }
            _ => false,
        }
    }
}

/// How many items a piece of a list has; at most twice as many.
const PIECE: usize = 512;

/// A list in pieces.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pieces: Vec<Vec<Node>>,
    len: usize,
}

impl List {
    fn new(items: Vec<Node>) -> Self {
        let len = items.len();
        let mut pieces = Vec::with_capacity(len / PIECE + 1);
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            pieces.push(items.by_ref().take(PIECE).collect());
        }
        Self { pieces, len }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    fn iter(&self) -> impl Iterator<Item = &Node> {
        self.pieces.iter().flatten()
    }

    /// The piece that an item is in, and where in it.
    fn place(&self, mut index: usize) -> Option<(usize, usize)> {
        for (i, piece) in self.pieces.iter().enumerate() {
            if index < piece.len() {
                return Some((i, index));
            }
            index -= piece.len();
        }
        None
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Node> {
        let (piece, at) = self.place(index)?;
        self.pieces.get(piece)?.get(at)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Node> {
        let (piece, at) = self.place(index)?;
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    pub(crate) fn push(&mut self, node: Node) {
        self.len += 1;
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(node),
            _ => self.pieces.push(vec![node]),
        }
    }

    /// Inserts an item before the one at an index, or at the end. Says how many steps that took.
    pub(crate) fn insert(&mut self, index: usize, node: Node) -> usize {
        let Some((i, at)) = self.place(index) else {
            self.push(node);
            return 1;
        };
        self.len += 1;
        let mut steps = i + 1;
        if let Some(piece) = self.pieces.get_mut(i) {
            steps += piece.len() - at;
            piece.insert(at, node);
            if piece.len() > 2 * PIECE {
                let rest = piece.split_off(PIECE);
                steps += self.pieces.len() - i;
                self.pieces.insert(i + 1, rest);
            }
        }
        steps
    }

    /// Takes an item out. Says how many steps that took.
    pub(crate) fn remove(&mut self, index: usize) -> Option<(Node, usize)> {
        let (i, at) = self.place(index)?;
        let piece = self.pieces.get_mut(i)?;
        let mut steps = i + piece.len() - at;
        let node = piece.remove(at);
        self.len -= 1;
        if piece.is_empty() {
            steps += self.pieces.len() - i;
            self.pieces.remove(i);
        }
        Some((node, steps))
    }
}

fn depth(value: &Value, looked_at: &mut usize) -> usize {
    *looked_at += 1;
    match value {
        Value::Array(items) => 1 + items.iter().map(|item| depth(item, looked_at)).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(|value| depth(value, looked_at)).max().unwrap_or(0),
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

    /// A long list behaves as a plain one, at its ends and where its pieces meet.
    #[test]
    fn pieces_are_one_list() {
        let mut plain: Vec<i64> = (0..3_000).collect();
        let mut list = List::new(plain.iter().map(|i| Node::Closed(Value::Int(*i))).collect());
        for step in 0..6_000_usize {
            let at = (step * 7_919) % (plain.len() + 1);
            if step % 3 < 2 {
                let value = 10_000 + i64::try_from(step).expect("a small number");
                plain.insert(at, value);
                list.insert(at, Node::Closed(Value::Int(value)));
            } else if at < plain.len() {
                let expect = Value::Int(plain.remove(at));
                assert_eq!(list.remove(at).map(|(node, _)| node.close()), Some(expect));
            }
            assert_eq!(list.len(), plain.len());
            assert!(list.pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= 2 * PIECE));
        }
        for at in [0, PIECE - 1, PIECE, plain.len() - 1] {
            assert!(list.get(at).is_some_and(|node| node.equals(&Value::Int(plain[at]))), "{at}");
        }
        assert!(list.get(plain.len()).is_none());
        let expect: Vec<Value> = plain.into_iter().map(Value::Int).collect();
        assert_eq!(Node::List(list).close(), Value::Array(expect));
    }
}
