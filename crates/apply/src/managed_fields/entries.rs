//! The entries of `metadata.managedFields`, to managers and back.

use pintle_value::time::Time;
use pintle_value::{Object, Str, Value, print};

use super::{Managed, Manager, Operation};
use crate::managers::Owned;
use crate::set::{FieldSet, FieldsError};

const FIELDS_V1: &str = "FieldsV1";

/// Why entries are not managers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The operation is another one.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// There is no version.
    #[error("apiVersion must not be empty")]
    NoVersion,
    /// There is no type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// The type of fields is not known.
    #[error("invalid fieldsType {} in managed fields entry {index}", print::quote(.found))]
    FieldsType {
        /// The type that is there.
        found: String,
        /// The place of the entry.
        index: usize,
    },
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

/// Reads entries. Of entries for the same manager the last one counts.
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

fn decode_entry(index: usize, entry: &Value) -> Result<(Manager, Owned, Option<Time>), DecodeError> {
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
    let owned = Owned { set, version: Str::from(version), applied: operation == Operation::Apply };
    Ok((manager, owned, entry.time_at(&["time"])))
}

/// The entries of managers: those that apply first, then by time, name, version and subresource.
#[must_use]
pub fn encode(managed: &Managed) -> Vec<Value> {
    encode_over(managed, Vec::new())
}

/// As [`encode`], made of the entries of before as far as these own the same: few managers change what they own.
#[must_use]
pub fn encode_over(managed: &Managed, mut before: Vec<Value>) -> Vec<Value> {
    let mut sorted: Vec<(&Manager, &Owned, Option<Time>)> = Vec::with_capacity(managed.managers.len());
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
    sorted.into_iter().map(|(manager, owned, time)| encode_entry(manager, owned, time, &mut before)).collect()
}

fn operation_of(manager: &Manager, owned: &Owned) -> Operation {
    if owned.applied { Operation::Apply } else { manager.operation() }
}

fn encode_entry(manager: &Manager, owned: &Owned, time: Option<Time>, before: &mut [Value]) -> Value {
    let fields = before.iter_mut().find_map(|entry| fields_of(entry, manager, owned));
    let mut entry = Object::with_capacity(7);
    entry.insert("apiVersion", &owned.version);
    entry.insert("fieldsType", FIELDS_V1);
    entry.insert("fieldsV1", fields.unwrap_or_else(|| owned.set.to_value()));
    if !manager.name().is_empty() {
        entry.insert("manager", manager.name());
    }
    entry.insert("operation", operation_of(manager, owned).name());
    if !manager.subresource().is_empty() {
        entry.insert("subresource", manager.subresource());
    }
    if let Some(time) = time {
        entry.insert("time", time.rfc3339());
    }
    Value::Object(entry)
}

/// Takes the fields out of an entry, if it is the manager's and they are what it owns.
fn fields_of(entry: &mut Value, manager: &Manager, owned: &Owned) -> Option<Value> {
    let is_theirs = entry.str_at(&["manager"]) == manager.name()
        && entry.str_at(&["subresource"]) == manager.subresource()
        && entry.str_at(&["operation"]) == operation_of(manager, owned).name();
    let fields = entry.get_mut("fieldsV1").filter(|fields| is_theirs && owned.set.is_written_as(fields))?;
    Some(std::mem::take(fields))
}

/// The managers that an update starts from. It may send entries of its own, to hand fields over or (with an empty list,
/// or one empty entry) to start anew; through a subresource it may not. What it sends that cannot be read, or is nothing,
/// is as if it had sent the live object's. Entries are null where there are none.
#[must_use]
pub fn of_update(live: &Value, sent: &Value, subresource: &str) -> Managed {
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
