//! JSON Patch (RFC 6902) as `evanphx/json-patch` v4 applies it, which kube-apiserver uses: indexes may be negative, a
//! field that is not there may be replaced, a missing value is null, and only the part of a path behind its first slash
//! counts.

use std::borrow::Cow;

use pintle_value::{Str, Value, atoi};

use crate::opened::Node;
use crate::{PatchError, PatchErrorKind, cannot_unmarshal, json_kind};

/// The most operations that kube-apiserver takes in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// The most bytes by which `copy` operations of one patch may make the object grow (`JSONPatchMaxCopyBytes`).
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;
/// How deep a value may come to nest by one operation. Go's decoder ends at 10,000; nothing real comes near this, and the
/// work on trees is recursive.
pub const MAX_DEPTH: usize = 1_000;
/// How many steps one patch may take before it is refused, where a step is an item of a list that is shifted, or a value
/// that is looked at for its depth: far beyond what an object of allowed size needs.
const MAX_STEPS: usize = 1 << 26;

/// One operation. What is missing is told apart from what is null only where that shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// `op`.
    pub op: Option<Str>,
    /// `path`.
    pub path: Option<Str>,
    /// `from`.
    pub from: Option<Str>,
    /// `value`, if there is one.
    pub value: Option<Value>,
}

/// A decoded patch.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    /// The operations in order.
    pub operations: Vec<Operation>,
    /// The fields of operations that are not known, as strict decoding reports them: `json patch unknown field "[0].x"`.
    pub unknown: Vec<String>,
}

fn not_applicable(message: String) -> PatchError {
    PatchError::new(PatchErrorKind::NotApplicable, message)
}

impl JsonPatch {
    /// Decodes a patch. With `typed` its fields must have the right types, as upstream checks it first unless unknown
    /// fields are to be ignored; without, an operation with a field of the wrong type fails when it is applied.
    pub fn decode(patch: &Value, typed: bool) -> Result<Self, PatchError> {
        let refused = |cause: String| {
            let prefix = if typed { "error decoding patch: " } else { "" };
            PatchError::malformed(format!("{prefix}{cause}"))
        };
        let items = match patch {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => {
                let name = if typed { "[]handlers.jsonPatchOp" } else { "jsonpatch.Patch" };
                return Err(refused(cannot_unmarshal(other, name)));
            }
        };
        let mut unknown = Vec::new();
        let mut operations = Vec::with_capacity(items.len().min(MAX_OPERATIONS));
        for (i, item) in items.iter().enumerate() {
            if !matches!(item, Value::Object(_) | Value::Null) {
                let name = if typed { "handlers.jsonPatchOp" } else { "jsonpatch.Operation" };
                return Err(refused(cannot_unmarshal(item, name)));
            }
            for (key, value) in item.entries_at(&[]) {
                match key {
                    "op" | "path" | "from" => {
                        if typed && !matches!(value, Value::String(_) | Value::Null) {
                            let kind = json_kind(value);
                            let field = format!("Go struct field jsonPatchOp.{key} of type string");
                            return Err(refused(format!("json: cannot unmarshal {kind} into {field}")));
                        }
                    }
                    "value" => {}
                    other => unknown.push(format!("json patch unknown field \"[{i}].{other}\"")),
                }
            }
            let text = |field: &str| item.get(field).and_then(Value::as_str).map(Str::from);
            let value = item.as_object().and_then(|o| o.get("value")).cloned();
            operations.push(Operation { op: text("op"), path: text("path"), from: text("from"), value });
        }
        if operations.len() > MAX_OPERATIONS {
            let got = operations.len();
            let message = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}");
            return Err(PatchError::new(PatchErrorKind::TooLarge, message));
        }
        Ok(Self { operations, unknown })
    }

    /// Applies all operations in order, or none.
    pub fn apply(&self, document: Value) -> Result<Value, PatchError> {
        self.apply_counted(document, MAX_STEPS).map(|(document, _)| document)
    }

    /// The same, and how many steps it took beyond one for each operation and part of a path.
    fn apply_counted(&self, document: Value, most_steps: usize) -> Result<(Value, usize), PatchError> {
        let document = Node::Closed(document);
        let depth = document.depth(&mut 0);
        let mut work = Work { document, depth, copied: 0, steps: 0, most_steps };
        for operation in &self.operations {
            work.apply(operation).map_err(not_applicable)?;
        }
        Ok((work.document.close(), work.steps))
    }
}

struct Work {
    document: Node,
    /// At least how deep the document nests.
    depth: usize,
    /// How many bytes have been copied.
    copied: usize,
    /// How many steps have been taken.
    steps: usize,
    /// How many may be.
    most_steps: usize,
}

/// A container in the document and the key or index within, still as text.
type Place<'d, 'p> = (&'d mut Node, Cow<'p, str>);

/// The container that a path leads to; `None` if there is none.
fn find<'d, 'p>(document: &'d mut Node, path: &'p str) -> Option<Place<'d, 'p>> {
    // What stands before the first slash is not looked at.
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = rest.rsplit_once('/').map_or((None, rest), |(parents, key)| (Some(parents), key));
    let mut here = document.open();
    for part in parents.into_iter().flat_map(|p| p.split('/')) {
        let key = decode_key(part);
        let next = match here {
            Node::Map(map) => map.get_mut(key.as_ref())?,
            Node::List(list) => {
                let index = index(&key, list.len()).ok()?;
                list.get_mut(index)?
            }
            Node::Closed(_) => return None,
        };
        here = next.open();
    }
    matches!(here, Node::Map(_) | Node::List(_)).then(|| (here, decode_key(key)))
}

/// What stands at a place of a container; a field that is not there is `None`.
fn look<'d>(container: &'d Node, key: &str) -> Result<Option<&'d Node>, String> {
    match container {
        Node::List(list) => index(key, list.len()).map(|at| list.get(at)),
        Node::Map(map) => Ok(map.get(key)),
        Node::Closed(_) => Ok(None),
    }
}

/// Undoes the escapes of a JSON pointer: `~1` is a slash, `~0` a tilde.
fn decode_key(text: &str) -> Cow<'_, str> {
    if !text.contains('~') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest.as_bytes().get(1) {
            Some(b'1') => out.push('/'),
            Some(b'0') => out.push('~'),
            _ => {
                out.push('~');
                rest = &rest[1..];
                continue;
            }
        }
        rest = &rest[2..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The index that a text means in a list of this many places; a negative one counts from the end.
fn index(text: &str, places: usize) -> Result<usize, String> {
    let number = atoi(text).map_err(|e| e.to_string())?;
    let from_start = if number < 0 { number.checked_add_unsigned(places as u64) } else { Some(number) };
    from_start
        .and_then(|i| usize::try_from(i).ok())
        .filter(|i| *i < places)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

impl Work {
    fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        match operation.op.as_deref() {
            Some("add") => self.add(operation),
            Some("remove") => self.remove(operation),
            Some("replace") => self.replace(operation),
            Some("move") => self.move_value(operation),
            Some("copy") => self.copy(operation),
            Some("test") => self.test(operation),
            other => Err(format!("Unexpected kind: {}", other.unwrap_or("unknown"))),
        }
    }

    /// Counts steps.
    fn count(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.most_steps {
            return Err("the patch takes too many steps".to_owned());
        }
        Ok(())
    }

    /// Makes sure that a value set at a path does not nest too deep. `from` is where it was in the document, if it was.
    fn check_depth(&mut self, path: &str, value: &Node, from: Option<&str>) -> Result<(), String> {
        let parts = |path: &str| path.bytes().filter(|b| *b == b'/').count();
        let above = parts(path);
        // Exact depths are looked up only where the bound does not do; then the bound is made exact, too.
        let bound = from.map(|from| self.depth.saturating_sub(parts(from))).filter(|below| above + below <= MAX_DEPTH);
        let below = match bound {
            Some(below) => below,
            None => {
                let mut looked_at = 0;
                let below = value.depth(&mut looked_at);
                if from.is_some() {
                    self.depth = self.document.depth(&mut looked_at);
                }
                self.count(looked_at)?;
                below
            }
        };
        if above + below > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.depth = self.depth.max(above + below);
        Ok(())
    }

    /// Puts a value at a place: sets a field, or inserts an item.
    fn put(&mut self, path: &str, value: Node, missing: impl Fn() -> String) -> Result<Result<(), String>, String> {
        let (container, key) = find(&mut self.document, path).ok_or_else(missing)?;
        let steps = match container {
            Node::Map(map) => {
                map.insert(Str::from(key.as_ref()), value);
                1
            }
            Node::List(list) if key == "-" => {
                list.push(value);
                1
            }
            Node::List(list) => {
                if let Err(cause) = atoi(&key) {
                    return Ok(Err(format!("value was not a proper array index: '{key}': {cause}")));
                }
                match index(&key, list.len() + 1) {
                    Ok(at) => list.insert(at, value),
                    Err(cause) => return Ok(Err(cause)),
                }
            }
            Node::Closed(_) => 0,
        };
        self.count(steps)?;
        Ok(Ok(()))
    }

    /// Takes the value at a place out.
    fn take(&mut self, path: &str, missing: impl Fn() -> String) -> Result<Result<Node, String>, String> {
        let (container, key) = find(&mut self.document, path).ok_or_else(missing)?;
        let taken = match container {
            Node::List(list) => match index(&key, list.len()) {
                Ok(at) => list.remove(at),
                Err(cause) => return Ok(Err(cause)),
            },
            Node::Map(map) => map.remove(key.as_ref()).map(|value| (value, 1)),
            Node::Closed(_) => None,
        };
        let Some((value, steps)) = taken else {
            return Ok(Err(format!("Unable to remove nonexistent key: {key}: missing value")));
        };
        self.count(steps)?;
        Ok(Ok(value))
    }

    fn add(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path.as_deref().ok_or("add operation failed to decode path: missing value")?;
        let value = Node::Closed(operation.value.clone().unwrap_or_default());
        self.check_depth(path, &value, None)?;
        self.put(path, value, || {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?
        .map_err(|cause| format!("error in add for path: '{path}': {cause}"))
    }

    fn remove(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path.as_deref().ok_or("remove operation failed to decode path: missing value")?;
        self.take(path, || format!("remove operation does not apply: doc is missing path: \"{path}\": missing value"))?
            .map_err(|cause| format!("error in remove for path: '{path}': {cause}"))?;
        Ok(())
    }

    fn replace(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path
            .as_deref()
            .ok_or("replace operation failed to decode path: operation missing path field: missing value")?;
        let value = operation.value.clone().unwrap_or_default();
        let is_container = matches!(value, Value::Object(_) | Value::Array(_));
        let value = Node::Closed(value);
        self.check_depth(path, &value, None)?;
        if path.is_empty() {
            if !is_container {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            self.document = value;
            return Ok(());
        }
        let Some((container, key)) = find(&mut self.document, path) else {
            return Err(format!("replace operation does not apply: doc is missing path: {path}: missing value"));
        };
        match container {
            Node::List(list) => match index(&key, list.len()).ok().and_then(|at| list.get_mut(at)) {
                Some(item) => *item = value,
                None => {
                    let text = "replace operation does not apply: doc is missing key";
                    return Err(format!("{text}: {path}: missing value"));
                }
            },
            Node::Map(map) => {
                map.insert(Str::from(key.as_ref()), value);
            }
            Node::Closed(_) => {}
        }
        Ok(())
    }

    fn move_value(&mut self, operation: &Operation) -> Result<(), String> {
        let from = operation
            .from
            .as_deref()
            .ok_or("move operation failed to decode from: operation, missing from field: missing value")?;
        let key = decode_key(from.rsplit('/').next().unwrap_or_default());
        let value = self
            .take(from, || format!("move operation does not apply: doc is missing from path: {from}: missing value"))?
            .map_err(|cause| format!("error in move for path: '{key}': {cause}"))?;
        let path = operation
            .path
            .as_deref()
            .ok_or("move operation failed to decode path: operation missing path field: missing value")?;
        self.check_depth(path, &value, Some(from))?;
        self.put(path, value, || {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?
        .map_err(|cause| format!("error in move for path: '{path}': {cause}"))
    }

    fn copy(&mut self, operation: &Operation) -> Result<(), String> {
        let from = operation
            .from
            .as_deref()
            .ok_or("copy operation failed to decode from: operation, missing from field: missing value")?;
        let Some((container, key)) = find(&mut self.document, from) else {
            return Err(format!("copy operation does not apply: doc is missing from path: {from}: missing value"));
        };
        let source = look(container, &key).map_err(|cause| format!("error in copy for from: '{from}': {cause}"))?;
        // What is not there is copied as null. Measured before anything is copied, and only as far as the limit.
        let left = MAX_COPY_BYTES - self.copied;
        let size = source.map_or(4, |source| source.json_size(left));
        if size > left {
            let reached = self.copied + size;
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {reached}, exceeding the limit \
                 {MAX_COPY_BYTES}"
            ));
        }
        let value = source.cloned().unwrap_or(Node::Closed(Value::Null));
        self.copied += size;
        let path = operation.path.as_deref().ok_or("copy operation failed to decode path: missing value")?;
        self.check_depth(path, &value, Some(from))?;
        self.put(path, value, || {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?
        .map_err(|cause| format!("error while adding value during copy: {cause}"))
    }

    fn test(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation
            .path
            .as_deref()
            .ok_or("test operation failed to decode path: operation missing path field: missing value")?;
        let expected = operation.value.as_ref().unwrap_or(&Value::Null);
        let holds = if path.is_empty() {
            self.document.equals(expected)
        } else {
            let Some((container, key)) = find(&mut self.document, path) else {
                return Err(format!("test operation does not apply: is missing path: {path}: missing value"));
            };
            let found = look(container, &key).map_err(|cause| format!("error in test for path: '{path}': {cause}"))?;
            found.map_or(expected.is_null(), |found| found.equals(expected))
        };
        if holds { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::{Object, object};

    use super::*;

    /// How many steps `count` operations take on an object with a list of so many items and a map of so many fields.
    fn steps(operation: impl Fn(usize) -> Operation, count: usize, size: usize, most: usize) -> Result<usize, String> {
        let fields: Object = (0..size).map(|i| (format!("k{i:06}"), Value::from("0123456789"))).collect();
        let list = vec![Value::Int(1); size];
        let document = object! {"list": list, "map": fields};
        let patch = JsonPatch { operations: (0..count).map(operation).collect(), unknown: Vec::new() };
        patch.apply_counted(document, most).map(|(_, steps)| steps).map_err(|error| error.message)
    }

    fn operation(op: &str, from: Option<&str>, path: &str, value: Option<Value>) -> Operation {
        Operation { op: Some(op.into()), path: Some(path.into()), from: from.map(Str::from), value }
    }

    /// As many operations as there may be, on a list of as many items.
    #[test]
    fn operations_on_large_objects() {
        let most = MAX_OPERATIONS;
        let add = |path: &str| operation("add", None, path, Some(Value::Int(1)));
        let test = |path: &str| operation("test", None, path, Some(Value::Int(1)));
        let moved = |i: usize| {
            let names = ["/map", "/other"];
            operation("move", Some(names[i % 2]), names[(i + 1) % 2], None)
        };
        let check = |operation: &dyn Fn(usize) -> Operation, expect: usize| {
            assert_eq!(steps(operation, most, most, MAX_STEPS), Ok(expect), "{:?}", operation(0));
        };
        // Each value is looked at, and put at its place.
        check(&|_| add("/list/-"), 2 * most);
        check(&|_| operation("replace", None, "/list/10", Some(Value::Int(2))), most);
        check(&|_| test("/list/-1"), 0);
        check(&|i| add(&format!("/map/n{i}")), 2 * most);
        check(&|i| operation("remove", None, &format!("/map/k{i:06}"), None), most);
        // What is large is moved like what is small.
        check(&moved, 2 * most);
        // In the middle of a list few items are shifted, however long it is.
        for path in ["/list/0", "/list/5000"] {
            let (short, long) =
                (steps(|_| add(path), most, most, MAX_STEPS), steps(|_| add(path), most, 10 * most, MAX_STEPS));
            assert!(short.is_ok_and(|steps| steps < 1_200 * most), "{path}");
            assert!(long.is_ok_and(|steps| steps < 1_500 * most), "{path}");
        }
    }

    /// What would take too long is refused: here a large map is looked at for its depth again and again.
    #[test]
    fn no_patch_takes_more_steps_than_it_may() {
        let deep = (0..MAX_DEPTH - 1).fold(Value::Int(1), |inner, _| Value::Array(vec![inner]));
        let moved = |i: usize| match i {
            0 => operation("add", None, "/deep", Some(deep.clone())),
            1 => operation("add", None, "/x", Some(object! {"y": Value::object()})),
            _ => {
                let names = ["/map", "/x/y/map"];
                operation("move", Some(names[i % 2]), names[(i + 1) % 2], None)
            }
        };
        assert!(steps(moved, 100, 1_000, MAX_STEPS).is_ok_and(|steps| steps >= 49 * 1_000));
        assert_eq!(steps(moved, 100, 1_000, 10_000), Err("the patch takes too many steps".to_owned()));
    }
}
