//! JSON Patch (RFC 6902) with the behaviour of `evanphx/json-patch` v4, which kube-apiserver uses. Indexes may be
//! negative, and a missing field may be replaced. A missing value is null. A path is used from its first slash on.

use std::borrow::Cow;

use pintle_value::{Str, Value, atoi};

use crate::document::LazyNode;
use crate::{PatchError, PatchErrorKind, cannot_unmarshal};

/// Maximum number of operations in a patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Maximum number of bytes by which the `copy` operations of a patch may increase the object's size
/// (`JSONPatchMaxCopyBytes`).
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;
/// Maximum nesting depth of a value that an operation sets. Go's decoder allows 10,000; real objects are far less deep,
/// and functions on trees are recursive.
pub const MAX_DEPTH: usize = 1_000;
/// Maximum number of steps of a patch. A step is a list item that is shifted, or a value that is visited to compute a
/// depth. An object of allowed size needs far fewer steps.
const MAX_STEPS: usize = 1 << 26;

/// An operation. Missing and null members are distinguished only if the difference matters.
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
    /// The errors for unknown fields of operations, as strict decoding reports them:
    /// `json patch unknown_fields field "[0].x"`.
    pub unknown_fields: Vec<String>,
}

fn not_applicable(message: String) -> PatchError {
    PatchError::new(PatchErrorKind::NotApplicable, message)
}

impl JsonPatch {
    /// Decodes a patch. With `typed`, fields must have the right types; upstream checks this unless field validation
    /// ignores unknown fields. Otherwise an operation with a field of the wrong type fails when it is applied.
    pub fn decode(patch: &Value, typed: bool) -> Result<Self, PatchError> {
        let malformed = |cause: String| {
            let prefix = if typed { "error decoding patch: " } else { "" };
            PatchError::malformed(format!("{prefix}{cause}"))
        };
        let items = match patch {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => {
                let name = if typed { "[]handlers.jsonPatchOp" } else { "jsonpatch.Patch" };
                return Err(malformed(cannot_unmarshal(other, name)));
            }
        };
        let mut unknown_fields = Vec::new();
        let mut operations = Vec::with_capacity(items.len().min(MAX_OPERATIONS));
        for (i, item) in items.iter().enumerate() {
            if !matches!(item, Value::Object(_) | Value::Null) {
                let name = if typed { "handlers.jsonPatchOp" } else { "jsonpatch.Operation" };
                return Err(malformed(cannot_unmarshal(item, name)));
            }
            for (key, value) in item.entries_at(&[]) {
                match key {
                    "op" | "path" | "from" => {
                        if typed && !matches!(value, Value::String(_) | Value::Null) {
                            let kind = value.json_type();
                            let field = format!("Go struct field jsonPatchOp.{key} of type string");
                            return Err(malformed(format!("json: cannot unmarshal {kind} into {field}")));
                        }
                    }
                    "value" => {}
                    other => unknown_fields.push(format!("json patch unknown field \"[{i}].{other}\"")),
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
        Ok(Self { operations, unknown_fields })
    }

    /// Applies all operations in order, or returns an error and applies none.
    pub fn apply(&self, document: Value) -> Result<Value, PatchError> {
        self.apply_counted(document, MAX_STEPS).map(|(document, _)| document)
    }

    /// Like [`JsonPatch::apply`], with a limit on steps. Also returns the number of steps beyond one for each operation
    /// and path segment.
    fn apply_counted(&self, document: Value, max_steps: usize) -> Result<(Value, usize), PatchError> {
        let document = LazyNode::Raw(document);
        let depth = document.depth(&mut 0);
        let mut state = PatchState { document, depth, copied: 0, steps: 0, max_steps };
        for operation in &self.operations {
            match operation.op.as_deref() {
                Some("test") => state.test(operation)?,
                _ => state.apply(operation).map_err(not_applicable)?,
            }
        }
        Ok((state.document.into_value(), state.steps))
    }
}

struct PatchState {
    document: LazyNode,
    /// A lower bound of the document's nesting depth.
    depth: usize,
    /// The number of copied bytes.
    copied: usize,
    /// The number of steps so far.
    steps: usize,
    /// The maximum number of steps.
    max_steps: usize,
}

/// A container in the document, and the encoded key or index in it.
type ContainerAndKey<'d, 'p> = (&'d mut LazyNode, Cow<'p, str>);

/// The container to which a path leads, or `None` if there is no such container.
fn find_container<'d, 'p>(document: &'d mut LazyNode, path: &'p str) -> Option<ContainerAndKey<'d, 'p>> {
    // The text before the first slash is ignored.
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = rest.rsplit_once('/').map_or((None, rest), |(parents, key)| (Some(parents), key));
    let mut container = document.expand();
    for part in parents.into_iter().flat_map(|p| p.split('/')) {
        let key = decode_key(part);
        let next = match container {
            LazyNode::Object(map) => map.get_mut(key.as_ref())?,
            LazyNode::Array(list) => {
                let index = parse_index(&key, list.len()).ok()?;
                list.get_mut(index)?
            }
            LazyNode::Raw(_) => return None,
        };
        container = next.expand();
    }
    matches!(container, LazyNode::Object(_) | LazyNode::Array(_)).then(|| (container, decode_key(key)))
}

/// The value of a key or index in a container; `None` for a missing field.
fn get_value<'d>(container: &'d LazyNode, key: &str) -> Result<Option<&'d LazyNode>, String> {
    match container {
        LazyNode::Array(list) => parse_index(key, list.len()).map(|at| list.get(at)),
        LazyNode::Object(map) => Ok(map.get(key)),
        LazyNode::Raw(_) => Ok(None),
    }
}

/// Decodes a segment of a JSON pointer: `~1` is a slash, `~0` a tilde.
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

/// Parses the index of an item in a list of `len` items. A negative index counts from the end.
fn parse_index(text: &str, len: usize) -> Result<usize, String> {
    let number = atoi(text).map_err(|e| e.to_string())?;
    let from_start = if number < 0 { number.checked_add_unsigned(len as u64) } else { Some(number) };
    from_start
        .and_then(|i| usize::try_from(i).ok())
        .filter(|i| *i < len)
        .ok_or_else(|| format!("Unable to access invalid index: {number}: invalid index referenced"))
}

impl PatchState {
    fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        match operation.op.as_deref() {
            Some("add") => self.add(operation),
            Some("remove") => self.remove(operation),
            Some("replace") => self.replace(operation),
            Some("move") => self.move_value(operation),
            Some("copy") => self.copy(operation),
            other => Err(format!("Unexpected kind: {}", other.unwrap_or("unknown"))),
        }
    }

    /// Counts steps.
    fn count(&mut self, steps: usize) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.max_steps {
            return Err("the patch takes too many steps".to_owned());
        }
        Ok(())
    }

    /// Checks that a value that is set at `path` is not nested too deep. `from` is its previous path in the document,
    /// if it has one.
    fn check_depth(&mut self, path: &str, value: &LazyNode, from: Option<&str>) -> Result<(), String> {
        let parts = |path: &str| path.bytes().filter(|b| *b == b'/').count();
        let above = parts(path);
        // The exact depths are computed only if the bound exceeds the limit. Then the bound is updated as well.
        let bound = from.map(|from| self.depth.saturating_sub(parts(from))).filter(|below| above + below <= MAX_DEPTH);
        let below = match bound {
            Some(below) => below,
            None => {
                let mut visited = 0;
                let below = value.depth(&mut visited);
                if from.is_some() {
                    self.depth = self.document.depth(&mut visited);
                }
                self.count(visited)?;
                below
            }
        };
        if above + below > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.depth = self.depth.max(above + below);
        Ok(())
    }

    /// Adds a value at a path: sets a field or inserts an item.
    fn add_value(
        &mut self,
        path: &str,
        value: LazyNode,
        missing: impl Fn() -> String,
    ) -> Result<Result<(), String>, String> {
        let (container, key) = find_container(&mut self.document, path).ok_or_else(missing)?;
        let steps = match container {
            LazyNode::Object(map) => {
                map.insert(Str::from(key.as_ref()), value);
                1
            }
            LazyNode::Array(list) if key == "-" => {
                list.push(value);
                1
            }
            LazyNode::Array(list) => {
                if let Err(cause) = atoi(&key) {
                    return Ok(Err(format!("value was not a proper array index: '{key}': {cause}")));
                }
                match parse_index(&key, list.len() + 1) {
                    Ok(at) => list.insert(at, value),
                    Err(cause) => return Ok(Err(cause)),
                }
            }
            LazyNode::Raw(_) => 0,
        };
        self.count(steps)?;
        Ok(Ok(()))
    }

    /// Removes the value at a path and returns it.
    fn remove_value(&mut self, path: &str, missing: impl Fn() -> String) -> Result<Result<LazyNode, String>, String> {
        let (container, key) = find_container(&mut self.document, path).ok_or_else(missing)?;
        let taken = match container {
            LazyNode::Array(list) => match parse_index(&key, list.len()) {
                Ok(at) => list.remove(at),
                Err(cause) => return Ok(Err(cause)),
            },
            LazyNode::Object(map) => map.remove(key.as_ref()).map(|value| (value, 1)),
            LazyNode::Raw(_) => None,
        };
        let Some((value, steps)) = taken else {
            return Ok(Err(format!("Unable to remove nonexistent key: {key}: missing value")));
        };
        self.count(steps)?;
        Ok(Ok(value))
    }

    fn add(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path.as_deref().ok_or("add operation failed to decode path: missing value")?;
        let value = LazyNode::Raw(operation.value.clone().unwrap_or_default());
        self.check_depth(path, &value, None)?;
        self.add_value(path, value, || {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        })?
        .map_err(|cause| format!("error in add for path: '{path}': {cause}"))
    }

    fn remove(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path.as_deref().ok_or("remove operation failed to decode path: missing value")?;
        self.remove_value(path, || {
            format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
        })?
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
        let value = LazyNode::Raw(value);
        self.check_depth(path, &value, None)?;
        if path.is_empty() {
            if !is_container {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            self.document = value;
            return Ok(());
        }
        let Some((container, key)) = find_container(&mut self.document, path) else {
            return Err(format!("replace operation does not apply: doc is missing path: {path}: missing value"));
        };
        match container {
            LazyNode::Array(list) => match parse_index(&key, list.len()).ok().and_then(|at| list.get_mut(at)) {
                Some(item) => *item = value,
                None => {
                    let text = "replace operation does not apply: doc is missing key";
                    return Err(format!("{text}: {path}: missing value"));
                }
            },
            LazyNode::Object(map) => {
                map.insert(Str::from(key.as_ref()), value);
            }
            LazyNode::Raw(_) => {}
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
            .remove_value(from, || {
                format!("move operation does not apply: doc is missing from path: {from}: missing value")
            })?
            .map_err(|cause| format!("error in move for path: '{key}': {cause}"))?;
        let path = operation
            .path
            .as_deref()
            .ok_or("move operation failed to decode path: operation missing path field: missing value")?;
        self.check_depth(path, &value, Some(from))?;
        self.add_value(path, value, || {
            format!("move operation does not apply: doc is missing destination path: {path}: missing value")
        })?
        .map_err(|cause| format!("error in move for path: '{path}': {cause}"))
    }

    fn copy(&mut self, operation: &Operation) -> Result<(), String> {
        let from = operation
            .from
            .as_deref()
            .ok_or("copy operation failed to decode from: operation, missing from field: missing value")?;
        let Some((container, key)) = find_container(&mut self.document, from) else {
            return Err(format!("copy operation does not apply: doc is missing from path: {from}: missing value"));
        };
        let source =
            get_value(container, &key).map_err(|cause| format!("error in copy for from: '{from}': {cause}"))?;
        // A missing value is copied as null. The size is checked before the value is copied, and computed only up to
        // the limit.
        let remaining = MAX_COPY_BYTES - self.copied;
        let size = source.map_or(4, |source| source.json_size(remaining));
        if size > remaining {
            let reached = self.copied + size;
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {reached}, exceeding the limit \
                 {MAX_COPY_BYTES}"
            ));
        }
        let value = source.cloned().unwrap_or(LazyNode::Raw(Value::Null));
        self.copied += size;
        let path = operation.path.as_deref().ok_or("copy operation failed to decode path: missing value")?;
        self.check_depth(path, &value, Some(from))?;
        self.add_value(path, value, || {
            format!("copy operation does not apply: doc is missing destination path: {path}: missing value")
        })?
        .map_err(|cause| format!("error while adding value during copy: {cause}"))
    }

    fn test(&mut self, operation: &Operation) -> Result<(), PatchError> {
        let path = operation.path.as_deref().ok_or_else(|| {
            let why = "test operation failed to decode path: operation missing path field: missing value";
            not_applicable(why.to_owned())
        })?;
        let expected = operation.value.as_ref().unwrap_or(&Value::Null);
        let is_equal = if path.is_empty() {
            self.document.equals(expected)
        } else {
            let Some((container, key)) = find_container(&mut self.document, path) else {
                let why = format!("test operation does not apply: is missing path: {path}: missing value");
                return Err(not_applicable(why));
            };
            let found =
                get_value(container, &key).map_err(|cause| format!("error in test for path: '{path}': {cause}"));
            found.map_err(not_applicable)?.map_or(expected.is_null(), |found| found.equals(expected))
        };
        match is_equal {
            true => Ok(()),
            false => {
                Err(PatchError::new(PatchErrorKind::TestFailed, format!("testing value {path} failed: test failed")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::{Object, object};

    use super::*;

    /// The number of steps that `count` operations take on an object with a list and a map of `size` entries each.
    fn steps(operation: impl Fn(usize) -> Operation, count: usize, size: usize, max: usize) -> Result<usize, String> {
        let fields: Object = (0..size).map(|i| (format!("k{i:06}"), Value::from("0123456789"))).collect();
        let list = vec![Value::Int(1); size];
        let document = object! {"list": list, "map": fields};
        let patch = JsonPatch { operations: (0..count).map(operation).collect(), unknown_fields: Vec::new() };
        patch.apply_counted(document, max).map(|(_, steps)| steps).map_err(|error| error.message)
    }

    fn operation(op: &str, from: Option<&str>, path: &str, value: Option<Value>) -> Operation {
        Operation { op: Some(op.into()), path: Some(path.into()), from: from.map(Str::from), value }
    }

    /// Each case has the maximum number of operations, on a list with as many items.
    #[test]
    fn step_counts_of_operations_on_large_objects() {
        let max = MAX_OPERATIONS;
        let add = |path: &str| operation("add", None, path, Some(Value::Int(1)));
        let test = |path: &str| operation("test", None, path, Some(Value::Int(1)));
        let move_operation = |i: usize| {
            let names = ["/map", "/other"];
            operation("move", Some(names[i % 2]), names[(i + 1) % 2], None)
        };
        let check = |operation: &dyn Fn(usize) -> Operation, expect: usize| {
            assert_eq!(steps(operation, max, max, MAX_STEPS), Ok(expect), "{:?}", operation(0));
        };
        // Each value is visited once and inserted once.
        check(&|_| add("/list/-"), 2 * max);
        check(&|_| operation("replace", None, "/list/10", Some(Value::Int(2))), max);
        check(&|_| test("/list/-1"), 0);
        check(&|i| add(&format!("/map/n{i}")), 2 * max);
        check(&|i| operation("remove", None, &format!("/map/k{i:06}"), None), max);
        // Moving a large value costs the same as moving a small value.
        check(&move_operation, 2 * max);
        // Inserting into a list shifts few items, whatever its length.
        for path in ["/list/0", "/list/5000"] {
            let (short, long) =
                (steps(|_| add(path), max, max, MAX_STEPS), steps(|_| add(path), max, 10 * max, MAX_STEPS));
            assert!(short.is_ok_and(|steps| steps < 1_200 * max), "{path}");
            assert!(long.is_ok_and(|steps| steps < 1_500 * max), "{path}");
        }
    }

    /// Patches that take too many steps are rejected. In this test, the depth of a large map is computed repeatedly.
    #[test]
    fn patches_with_too_many_steps_are_rejected() {
        let deep = (0..MAX_DEPTH - 1).fold(Value::Int(1), |inner, _| Value::Array(vec![inner]));
        let move_operation = |i: usize| match i {
            0 => operation("add", None, "/deep", Some(deep.clone())),
            1 => operation("add", None, "/x", Some(object! {"y": Value::object()})),
            _ => {
                let names = ["/map", "/x/y/map"];
                operation("move", Some(names[i % 2]), names[(i + 1) % 2], None)
            }
        };
        assert!(steps(move_operation, 100, 1_000, MAX_STEPS).is_ok_and(|steps| steps >= 49 * 1_000));
        assert_eq!(steps(move_operation, 100, 1_000, 10_000), Err("the patch takes too many steps".to_owned()));
    }
}
