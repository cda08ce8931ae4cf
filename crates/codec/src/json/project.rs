//! Decodes only selected fields of a large object.

use pintle_value::{Object, Str, Value};

use super::cursor::JsonCursor;
use super::{DecodeOptions, decode};

/// The set of fields to decode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projection {
    /// If empty, the whole value is decoded.
    members: Vec<(Str, Projection)>,
    /// True if an object is decoded to its members' names with null values.
    only_names: bool,
}

impl Projection {
    /// Selects the fields at these paths (`spec.nodeName`) with their whole content. A path through an array applies to
    /// each of its elements. A path to `*` selects the names of an object's members. Without paths the whole value is
    /// selected.
    pub fn of<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let paths: Vec<&str> = paths.into_iter().collect();
        let is_below = |path: &str, other: &str| path.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'));
        let mut projection = Self::default();
        for path in paths.iter().filter(|path| !paths.iter().any(|other| is_below(path, other))) {
            let mut node = &mut projection;
            for name in path.split('.') {
                if name == "*" {
                    node.only_names = true;
                    break;
                }
                let index = node.members.iter().position(|(member, _)| member == name);
                let index = index.unwrap_or_else(|| {
                    node.members.push((name.into(), Self::default()));
                    node.members.len() - 1
                });
                node = &mut node.members[index].1;
            }
        }
        projection
    }

    /// A member with selected fields, and the selection below it.
    #[must_use]
    pub fn member(&self, name: &[u8]) -> Option<(&Str, &Self)> {
        let member = self.members.iter().find(|(member, _)| member.as_bytes() == name);
        member.map(|(member, wanted)| (member, wanted))
    }

    /// The number of members with selected fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if the whole value is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Decodes the selected fields of a stored object. Reads no further than to the last of them. Returns `None` if the
    /// part of the text that is read is not well-formed, compact JSON.
    #[must_use]
    pub fn read(&self, json: &[u8]) -> Option<Value> {
        self.value(&mut JsonCursor::new(json), true, 0)
    }

    /// Decodes the selected fields of a stored object whose members begin behind the offset `from`, where another member
    /// ends. Otherwise like [`Projection::read`].
    #[must_use]
    pub fn read_members_behind(&self, json: &[u8], from: usize) -> Option<Value> {
        let mut cursor = JsonCursor::new(json.get(from..)?);
        if cursor.byte(b',').is_none() {
            cursor.byte(b'}')?;
            return Some(Value::object());
        }
        self.members(&mut cursor, true, 1)
    }

    /// Removes a member from the selection. Returns the selection below the member.
    pub fn remove(&mut self, name: &str) -> Option<Self> {
        let index = self.members.iter().position(|(member, _)| member == name)?;
        Some(self.members.swap_remove(index).1)
    }

    /// Decodes the selected fields of the value at a cursor and moves the cursor behind it.
    pub fn read_at(&self, cursor: &mut JsonCursor<'_>) -> Option<Value> {
        self.value(cursor, false, 0)
    }

    /// Decodes a value inside `enclosing` objects and arrays. The cursor may stay within the value if it `is_last`: if
    /// nothing after it is read.
    fn value(&self, cursor: &mut JsonCursor<'_>, is_last: bool, enclosing: usize) -> Option<Value> {
        match cursor.peek()? {
            b'{' if self.only_names => names(cursor),
            b'{' if !self.members.is_empty() => {
                cursor.byte(b'{')?;
                self.members(cursor, is_last, enclosing + 1)
            }
            b'[' if !self.members.is_empty() => self.array(cursor, enclosing + 1),
            _ => Some(decode(cursor.value()?, DecodeOptions { enclosing, ..DecodeOptions::STORED }).ok()?.value),
        }
    }

    fn array(&self, cursor: &mut JsonCursor<'_>, enclosing: usize) -> Option<Value> {
        let mut elements = Vec::new();
        cursor.byte(b'[')?;
        while cursor.byte(b']').is_none() {
            elements.push(self.value(cursor, false, enclosing)?);
            if cursor.byte(b',').is_none() {
                cursor.byte(b']')?;
                break;
            }
        }
        Some(Value::Array(elements))
    }

    /// Decodes the members of an object that follow the cursor.
    fn members(&self, cursor: &mut JsonCursor<'_>, is_last: bool, enclosing: usize) -> Option<Value> {
        let mut object = Object::new();
        while cursor.byte(b'}').is_none() {
            let name = cursor.name()?;
            match self.member(name) {
                Some((member, wanted)) => {
                    let is_first_of_name = !object.contains_key(member);
                    let is_last = is_last && is_first_of_name && object.len() + 1 == self.members.len();
                    let value = wanted.value(cursor, is_last, enclosing)?;
                    object.insert(member.clone(), value);
                    if is_last {
                        break;
                    }
                }
                None => {
                    cursor.value()?;
                }
            }
            if cursor.byte(b',').is_none() {
                cursor.byte(b'}')?;
                break;
            }
        }
        Some(Value::Object(object))
    }
}

/// Decodes the text between the quotes of a name.
fn name(text: &[u8]) -> Option<Str> {
    if !text.contains(&b'\\') {
        return Some(std::str::from_utf8(text).ok()?.into());
    }
    let quoted = [b"\"", text, b"\""].concat();
    match decode(&quoted, DecodeOptions::default()).ok()?.value {
        Value::String(name) => Some(name),
        _ => None,
    }
}

/// Reads an object as the names of its members, with null values.
fn names(cursor: &mut JsonCursor<'_>) -> Option<Value> {
    let mut object = Object::new();
    cursor.byte(b'{')?;
    while cursor.byte(b'}').is_none() {
        let name = name(cursor.name()?)?;
        cursor.value()?;
        object.insert(name, Value::Null);
        if cursor.byte(b',').is_none() {
            cursor.byte(b'}')?;
            break;
        }
    }
    Some(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], json: &str, expect: Option<&str>) {
        let actual = Projection::of(paths.iter().copied()).read(json.as_bytes());
        let actual = actual.map(|value| String::from_utf8(super::super::encode(&value)).unwrap());
        assert_eq!(actual.as_deref(), expect, "{paths:?} of {json}");
    }

    #[test]
    fn only_the_selected_fields_are_decoded() {
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
        check(&["a", "a.b", "ab"], r#"{"a":{"b":1,"c":2},"ab":3,"b":4}"#, Some(r#"{"a":{"b":1,"c":2},"ab":3}"#));
        check(&["a.*"], r#"{"a":{"b":"}","c\n":[1]},"d":2}"#, Some(r#"{"a":{"b":null,"c\n":null}}"#));
        check(&["a.*", "b.*"], r#"{"a":[{"c":1}],"b":2}"#, Some(r#"{"a":[{"c":1}],"b":2}"#));
    }

    #[test]
    fn field_sets_stay_text() {
        let object = br#"{"kind":"A","metadata":{"managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:a":{}}}}]}}"#;
        let metadata = Projection::of(["metadata"]).read(object).expect("an object");
        let [entry] = metadata.items_at(&["metadata", "managedFields"]) else { panic!("{metadata:?}") };
        let fields = entry.get("fieldsV1").and_then(Value::as_object).expect("a field set");
        assert_eq!(fields.encoded().map(pintle_value::EncodedObject::text), Some(r#"{"f:spec":{"f:a":{}}}"#));
    }

    #[test]
    fn malformed_json_returns_none() {
        for json in ["", "{", r#"{"a""#, r#"{"a":"#, r#"{"a":{"b":"#, r#"{"a":{"b":1"#, r#"{"c":"\"#] {
            check(&["a.b"], json, None);
        }
    }

    #[test]
    fn nothing_is_read_after_the_last_selected_field() {
        check(&["a.b"], r#"{"a":{"b":1,"#, Some(r#"{"a":{"b":1}}"#));
        check(&["a.b", "c"], r#"{"a":{"b":1,"x"#, None);
        check(&["a.b", "c"], r#"{"c":[2],"a":{"b":1,"#, Some(r#"{"a":{"b":1},"c":[2]}"#));
    }

    #[test]
    fn a_cursor_moves_behind_the_value() {
        let json = br#"{"a":{"b":1,"c":"}"},"d":2}"#;
        let mut cursor = JsonCursor::new(json);
        assert_eq!((cursor.byte(b'{'), cursor.name()), (Some(()), Some(&b"a"[..])));
        let projection = Projection::of(["a.b"]);
        let read = projection.member(b"a").and_then(|(_, wanted)| wanted.read_at(&mut cursor));
        assert_eq!(read, Some([("b", 1)].into_iter().collect::<Object>().into()));
        assert_eq!(&json[cursor.offset()..], br#","d":2}"#);
        assert!(projection.member(b"d").is_none());
    }
}
