//! Reads a few fields of a large object: the tree of what is asked for, and of nothing else.

use pintle_value::{Object, Str, Value};

use super::walk::Walk;
use super::{Options, decode};

/// Which fields are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// Empty: the whole value.
    members: Vec<(Str, Projection)>,
}

impl Projection {
    /// The fields at these paths (`spec.nodeName`), each with all that is in it. A path through an array goes on in each of
    /// its elements; without paths the whole value is wanted.
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let mut projection = Self::default();
        for path in paths {
            let mut at = &mut projection;
            for name in path.split('.') {
                let place = at.members.iter().position(|(member, _)| member == name);
                let place = place.unwrap_or_else(|| {
                    at.members.push((name.into(), Self::default()));
                    at.members.len() - 1
                });
                at = &mut at.members[place].1;
            }
        }
        projection
    }

    /// The tree of the wanted fields of a stored object. `None` if it is not well-formed, compact JSON as far as it is
    /// looked at.
    #[must_use]
    pub fn read(&self, json: &[u8]) -> Option<Value> {
        self.value(&mut Walk::new(json))
    }

    fn value(&self, walk: &mut Walk<'_>) -> Option<Value> {
        match walk.peek()? {
            b'{' if !self.members.is_empty() => self.object(walk),
            b'[' if !self.members.is_empty() => self.array(walk),
            _ => Some(decode(walk.value()?, Options::default()).ok()?.value),
        }
    }

    fn array(&self, walk: &mut Walk<'_>) -> Option<Value> {
        let mut elements = Vec::new();
        walk.byte(b'[')?;
        while walk.byte(b']').is_none() {
            elements.push(self.value(walk)?);
            if walk.byte(b',').is_none() {
                walk.byte(b']')?;
                break;
            }
        }
        Some(Value::Array(elements))
    }

    fn object(&self, walk: &mut Walk<'_>) -> Option<Value> {
        let mut object = Object::new();
        walk.byte(b'{')?;
        while walk.byte(b'}').is_none() {
            let name = walk.name()?;
            match self.members.iter().find(|(member, _)| member.as_bytes() == name) {
                Some((member, wanted)) => {
                    let value = wanted.value(walk)?;
                    object.insert(member.clone(), value);
                }
                None => {
                    walk.value()?;
                }
            }
            if walk.byte(b',').is_none() {
                walk.byte(b'}')?;
                break;
            }
        }
        Some(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], json: &str, expect: Option<&str>) {
        let found = Projection::of(paths.iter().copied()).read(json.as_bytes());
        let found = found.map(|value| String::from_utf8(super::super::encode(&value)).unwrap());
        assert_eq!(found.as_deref(), expect, "{paths:?} of {json}");
    }

    #[test]
    fn only_what_is_asked_for_is_read() {
        let pod = r#"{"kind":"Pod","spec":{"containers":[{"name":"}"}],"nodeName":"a\"b","x":{"y":1}},"status":{"phase":"p"}}"#;
        check(&["spec.nodeName", "status.phase"], pod, Some(r#"{"spec":{"nodeName":"a\"b"},"status":{"phase":"p"}}"#));
        check(&["spec.x", "spec.none"], pod, Some(r#"{"spec":{"x":{"y":1}}}"#));
        check(&["spec.containers"], pod, Some(r#"{"spec":{"containers":[{"name":"}"}]}}"#));
        check(&["none"], pod, Some("{}"));
        check(&["kind.deeper"], pod, Some(r#"{"kind":"Pod"}"#));
        check(&["a.b"], r#"{"a":{},"c":[]}"#, Some(r#"{"a":{}}"#));
        check(&["a"], "{}", Some("{}"));
        check(&["a.b"], r#"{"a":[{"b":1,"c":2},{"c":3},4],"b":[]}"#, Some(r#"{"a":[{"b":1},{},4]}"#));
        check(&["a.b", "a.c.d"], r#"{"a":[],"c":{}}"#, Some(r#"{"a":[]}"#));
        check(&[], r#"{"a":[1]}"#, Some(r#"{"a":[1]}"#));
    }

    #[test]
    fn what_is_no_object_gives_nothing() {
        for json in ["", "{", r#"{"a""#, r#"{"a":"#, r#"{"a":{"b":1"#, r#"{"c":"\"#] {
            check(&["a.b"], json, None);
        }
    }
}
