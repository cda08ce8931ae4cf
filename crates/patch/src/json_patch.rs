//! JSON Patch (RFC 6902) as `evanphx/json-patch` v4 applies it, which kube-apiserver uses: indexes may be negative, a
//! field that is not there may be replaced, a missing value is null, and only the part of a path behind its first slash
//! counts.

use std::borrow::Cow;

use pintle_value::{Str, Value, atoi, print};

use crate::{PatchError, PatchErrorKind, cannot_unmarshal, json_kind};

/// The most operations that kube-apiserver takes in one patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// The most bytes by which `copy` operations of one patch may make the object grow (`JSONPatchMaxCopyBytes`).
pub const MAX_COPY_BYTES: usize = 3 * 1024 * 1024;
/// How deep a value may come to nest by one operation. Go's decoder ends at 10,000; nothing real comes near this, and the
/// work on trees is recursive.
pub const MAX_DEPTH: usize = 1_000;
/// How many array items and fields one patch may shift before it is refused: far beyond what an object of allowed size
/// needs.
const MAX_SHIFTED: usize = 1 << 28;

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
        let depth = depth(&document);
        let mut work = Work { document, depth, copied: 0, shifted: 0 };
        for operation in &self.operations {
            work.apply(operation).map_err(not_applicable)?;
        }
        Ok(work.document)
    }
}

/// How deep a value nests; a leaf is 0 deep.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

struct Work {
    document: Value,
    /// At least how deep the document nests.
    depth: usize,
    /// How many bytes have been copied.
    copied: usize,
    /// How many array items have been shifted.
    shifted: usize,
}

/// A container in the document and the key or index within, still as text.
type Place<'d, 'p> = (&'d mut Value, Cow<'p, str>);

/// The container that a path leads to; `None` if there is none.
fn find<'d, 'p>(document: &'d mut Value, path: &'p str) -> Option<Place<'d, 'p>> {
    // What stands before the first slash is not looked at.
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = rest.rsplit_once('/').map_or((None, rest), |(parents, key)| (Some(parents), key));
    let mut here = document;
    for part in parents.into_iter().flat_map(|p| p.split('/')) {
        let key = decode_key(part);
        here = match here {
            Value::Object(object) => object.get_mut(&key)?,
            Value::Array(items) => {
                let index = existing_index(items, &key).ok()?;
                &mut items[index]
            }
            _ => return None,
        };
    }
    matches!(here, Value::Object(_) | Value::Array(_)).then(|| (here, decode_key(key)))
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

fn existing_index(items: &[Value], text: &str) -> Result<usize, String> {
    index(text, items.len())
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

    fn shift(&mut self, items: usize) -> Result<(), String> {
        self.shifted = self.shifted.saturating_add(items);
        if self.shifted > MAX_SHIFTED {
            return Err("the patch moves too many items".to_owned());
        }
        Ok(())
    }

    /// Makes sure that a value set at a path does not nest too deep; `of_document` says that it was part of it.
    fn check_depth(&mut self, path: &str, value: &Value, of_document: bool) -> Result<(), String> {
        let above = path.bytes().filter(|b| *b == b'/').count();
        // The exact depth is looked up only where the bound does not do.
        let mut below = if of_document && above + self.depth <= MAX_DEPTH { self.depth } else { depth(value) };
        if above + below > MAX_DEPTH {
            below = depth(value);
        }
        if above + below > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.depth = self.depth.max(above + below);
        Ok(())
    }

    /// Puts a value at a place: sets a field, or inserts an item.
    fn put(&mut self, path: &str, value: Value, missing: impl Fn() -> String) -> Result<Result<(), String>, String> {
        let (container, key) = find(&mut self.document, path).ok_or_else(missing)?;
        let shifted = match container {
            Value::Object(object) => {
                object.insert(Str::from(key.as_ref()), value);
                object.len() / 2
            }
            Value::Array(items) if key == "-" => {
                items.push(value);
                return Ok(Ok(()));
            }
            Value::Array(items) => {
                if let Err(cause) = atoi(&key) {
                    return Ok(Err(format!("value was not a proper array index: '{key}': {cause}")));
                }
                match index(&key, items.len() + 1) {
                    Ok(at) => {
                        items.insert(at, value);
                        items.len() - at
                    }
                    Err(cause) => return Ok(Err(cause)),
                }
            }
            _ => 0,
        };
        self.shift(shifted)?;
        Ok(Ok(()))
    }

    /// Takes the value at a place out.
    fn take(&mut self, path: &str, missing: impl Fn() -> String) -> Result<Result<Value, String>, String> {
        let (container, key) = find(&mut self.document, path).ok_or_else(missing)?;
        let (value, shifted) = match container {
            Value::Array(items) => match existing_index(items, &key) {
                Ok(at) => (items.remove(at), items.len() - at),
                Err(cause) => return Ok(Err(cause)),
            },
            other => match other.as_object_mut().and_then(|o| Some((o.remove(&key)?, o.len() / 2))) {
                Some(taken) => taken,
                None => return Ok(Err(format!("Unable to remove nonexistent key: {key}: missing value"))),
            },
        };
        self.shift(shifted)?;
        Ok(Ok(value))
    }

    fn add(&mut self, operation: &Operation) -> Result<(), String> {
        let path = operation.path.as_deref().ok_or("add operation failed to decode path: missing value")?;
        let value = operation.value.clone().unwrap_or_default();
        self.check_depth(path, &value, false)?;
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
        self.check_depth(path, &value, false)?;
        if path.is_empty() {
            if !matches!(value, Value::Object(_) | Value::Array(_)) {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            self.document = value;
            return Ok(());
        }
        let Some((container, key)) = find(&mut self.document, path) else {
            return Err(format!("replace operation does not apply: doc is missing path: {path}: missing value"));
        };
        match container {
            Value::Array(items) => match existing_index(items, &key) {
                Ok(at) => items[at] = value,
                Err(_) => {
                    let text = "replace operation does not apply: doc is missing key";
                    return Err(format!("{text}: {path}: missing value"));
                }
            },
            other => {
                other.set(&key, value);
                let fields = other.as_object().map_or(0, |o| o.len());
                self.shift(fields / 2)?;
            }
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
        self.check_depth(path, &value, true)?;
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
        let source = match container {
            Value::Array(items) => {
                let at = existing_index(items, &key)
                    .map_err(|cause| format!("error in copy for from: '{from}': {cause}"))?;
                &items[at]
            }
            // What is not there is copied as null.
            other => &other[key.as_ref()],
        };
        // Measured before anything is copied, and only as far as the limit.
        let left = MAX_COPY_BYTES - self.copied;
        let size = json_size(source, left);
        if size > left {
            let reached = self.copied + size;
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {reached}, exceeding the limit \
                 {MAX_COPY_BYTES}"
            ));
        }
        let value = source.clone();
        self.copied += size;
        let path = operation.path.as_deref().ok_or("copy operation failed to decode path: missing value")?;
        self.check_depth(path, &value, true)?;
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
        let found = if path.is_empty() {
            &self.document
        } else {
            let Some((container, key)) = find(&mut self.document, path) else {
                return Err(format!("test operation does not apply: is missing path: {path}: missing value"));
            };
            match container {
                Value::Array(items) => {
                    let at = existing_index(items, &key)
                        .map_err(|cause| format!("error in test for path: '{path}': {cause}"))?;
                    &items[at]
                }
                other => &other[key.as_ref()],
            }
        };
        if equal(found, expected) { Ok(()) } else { Err(format!("testing value {path} failed: test failed")) }
    }
}

/// Equality as of JSON texts: numbers are equal if written alike, where the object's are written as Go writes them.
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

/// About how many bytes a value has as JSON; counting ends beyond `limit`.
fn json_size(value: &Value, limit: usize) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Int(_) | Value::Float(_) => print::json(value).len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => {
            let mut size = 1 + items.len().max(1);
            for item in items {
                if size > limit {
                    break;
                }
                size += json_size(item, limit - size);
            }
            size
        }
        Value::Object(object) => {
            let mut size = 1 + object.len().max(1);
            for (key, value) in object.iter() {
                size += key.len() + 3;
                if size > limit {
                    break;
                }
                size += json_size(value, limit - size);
            }
            size
        }
    }
}
