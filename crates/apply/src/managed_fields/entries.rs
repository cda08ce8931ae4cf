//! Conversion between the entries of `metadata.managedFields` and managers.

use pintle_value::time::Time;
use pintle_value::{Object, Str, Value, print};

use super::{Managed, Manager, Operation};
use crate::merge::VersionedSet;
use pintle_fieldpath::set::{FieldSet, FieldsV1Error};

const FIELDS_V1: &str = "FieldsV1";

/// The reason why an entry cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The operation is neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    NoVersion,
    /// The `fieldsType` is missing.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// The `fieldsType` is unknown.
    #[error("invalid fieldsType {} in managed fields entry {index}", print::quote(.found))]
    FieldsType {
        /// The unknown type.
        found: String,
        /// The index of the entry.
        index: usize,
    },
    /// The fields cannot be decoded.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsV1Error),
}

/// Decodes entries. If several entries identify the same manager, the last one wins.
pub fn decode(entries: &[Value]) -> Result<Managed, DecodeError> {
    let mut managed = Managed::default();
    for (index, entry) in entries.iter().enumerate() {
        let (manager, owned, time) = decode_entry(index, entry)?;
        match time {
            Some(time) => managed.times.insert(manager.clone(), time),
            None => managed.times.remove(&manager),
        };
        managed.managers.insert(manager, owned);
    }
    Ok(managed)
}

fn decode_entry(index: usize, entry: &Value) -> Result<(Manager, VersionedSet, Option<Time>), DecodeError> {
    let operation = match entry.str_at(&["operation"]) {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(DecodeError::Operation),
    };
    let version = entry.str_at(&["apiVersion"]);
    if version.is_empty() {
        return Err(DecodeError::NoVersion);
    }
    match entry.str_at(&["fieldsType"]) {
        FIELDS_V1 => {}
        "" => return Err(DecodeError::NoFieldsType(index)),
        other => return Err(DecodeError::FieldsType { found: other.to_owned(), index }),
    }
    let manager = Manager::new(entry.str_at(&["manager"]), operation, version, entry.str_at(&["subresource"]));
    let set = entry.get("fieldsV1").map_or(Ok(FieldSet::new()), FieldSet::from_value)?;
    let owned = VersionedSet { set, version: Str::from(version), applied: operation == Operation::Apply };
    Ok((manager, owned, entry.time_at(&["time"])))
}

/// Encodes managers as entries. Apply entries come first; within an operation, entries are sorted by time, name,
/// version and subresource.
#[must_use]
pub fn encode(managed: &Managed) -> Vec<Value> {
    encode_reusing(managed, Vec::new())
}

/// Like [`encode`], but moves the `fieldsV1` of unchanged managers out of the previous entries, because most writes
/// change few managers.
#[must_use]
pub fn encode_reusing(managed: &Managed, mut before: Vec<Value>) -> Vec<Value> {
    let mut sorted: Vec<(&Manager, &VersionedSet, Option<Time>)> = Vec::with_capacity(managed.managers.len());
    for (manager, owned) in &managed.managers {
        sorted.push((manager, owned, managed.times.get(manager).copied()));
    }
    sorted.sort_by(|(a, a_owned, a_time), (b, b_owned, b_time)| {
        let seconds = |time: &Option<Time>| time.map_or(0, |time| time.seconds);
        (operation_of(a, a_owned), seconds(a_time), a.name(), &a_owned.version, a.subresource()).cmp(&(
            operation_of(b, b_owned),
            seconds(b_time),
            b.name(),
            &b_owned.version,
            b.subresource(),
        ))
    });
    let index = EntryIndex::new(&before);
    let encode = |(manager, owned, time): (&Manager, &VersionedSet, Option<Time>)| {
        let operation = operation_of(manager, owned);
        let mut candidates =
            index.entries_of([manager.name(), operation.name(), &owned.version, manager.subresource()]);
        let fields = candidates.find_map(|i| take_unchanged_fields(&mut before[i], owned));
        let fields = fields.unwrap_or_else(|| owned.set.to_value());
        entry(manager.name(), operation, &owned.version, manager.subresource(), fields, time)
    };
    sorted.into_iter().map(encode).collect()
}

/// The name, operation, version and subresource of an entry.
type EntryKey = [Str; 4];

/// Finds entries by their manager.
struct EntryIndex(Vec<(EntryKey, usize)>);

impl EntryIndex {
    fn new(entries: &[Value]) -> Self {
        let key = |entry: &Value| {
            ["manager", "operation", "apiVersion", "subresource"].map(|field| Str::from(entry.str_at(&[field])))
        };
        let mut index: Vec<(EntryKey, usize)> = entries.iter().map(key).zip(0..).collect();
        index.sort();
        Self(index)
    }

    /// The indexes of the entries with a key, in order.
    fn entries_of(&self, key: [&str; 4]) -> impl Iterator<Item = usize> {
        let start = self.0.partition_point(|(entry, _)| texts(entry) < key);
        self.0[start..].iter().take_while(move |(entry, _)| texts(entry) == key).map(|(_, i)| *i)
    }
}

fn texts(key: &EntryKey) -> [&str; 4] {
    key.each_ref().map(Str::as_str)
}

fn operation_of(manager: &Manager, owned: &VersionedSet) -> Operation {
    if owned.applied { Operation::Apply } else { manager.operation() }
}

/// An entry of `metadata.managedFields`.
pub(super) fn entry(
    manager: &str,
    operation: Operation,
    version: &str,
    subresource: &str,
    fields: Value,
    time: Option<Time>,
) -> Value {
    let mut entry = Object::with_capacity(7);
    entry.insert("apiVersion", version);
    entry.insert("fieldsType", FIELDS_V1);
    entry.insert("fieldsV1", fields);
    if !manager.is_empty() {
        entry.insert("manager", manager);
    }
    entry.insert("operation", operation.name());
    if !subresource.is_empty() {
        entry.insert("subresource", subresource);
    }
    if let Some(time) = time {
        entry.insert("time", time.rfc3339());
    }
    Value::Object(entry)
}

/// Takes the fields out of a previous entry of the manager if they encode the same set.
fn take_unchanged_fields(entry: &mut Value, owned: &VersionedSet) -> Option<Value> {
    entry.get_mut("fieldsV1").filter(|fields| owned.set.is_serialized_as(fields)).map(std::mem::take)
}

/// Returns the managers that an update starts from. An update of the main resource may send entries of its own to hand
/// fields over. It may reset them with an empty list or one empty entry. An update of a subresource may do neither. If
/// the sent entries cannot be decoded or are empty, the live object's entries are used. Both arguments are null if the
/// object has no entries.
#[must_use]
pub fn decode_for_update(live: &Value, sent: &Value, subresource: &str) -> Managed {
    let of = |entries: &Value| decode(entries.as_array().map_or(&[], Vec::as_slice));
    if subresource.is_empty() {
        if is_reset(sent) {
            return Managed::default();
        }
        if let Ok(managed) = of(sent)
            && !managed.managers.is_empty()
        {
            return managed;
        }
    }
    of(live).unwrap_or_default()
}

fn is_reset(sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}
