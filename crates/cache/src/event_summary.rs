//! Hashes of an event's key, namespace and selectable fields, in 8 bytes beside the event in the log. A watch that
//! begins at an old revision checks every later event, and most events are outside its scope. The hashes show that
//! without touching events, keys and objects, which are scattered over the memory. An event whose hashes match is
//! compared as a whole.

use std::hash::{DefaultHasher, Hasher as _};

use crate::object::namespace_of;
use crate::selectable_values::values_of;
use crate::{Event, Object, WatchScope};

/// The number of selectable fields that have a hash. The other fields match any value.
const FIELDS: usize = 5;
/// The hash that stands for any value.
const ANY: u8 = 0;

/// Hashes of the key, the namespace and the selectable fields of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventSummary {
    key: u16,
    namespace: u8,
    /// The hashes of fields with the same value before and after the change.
    fields: [u8; FIELDS],
}

/// The hash of the value by which a scope selects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScopeSummary {
    All,
    Namespace(u8),
    Key(u16),
    Field(usize, u8),
}

/// Different texts with equal hashes cost time and nothing else.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn hash_of_key(key: &str) -> u16 {
    hash(key.as_bytes()) as u16
}

fn hash_of_namespace(namespace: &str) -> u8 {
    hash(namespace.as_bytes()) as u8
}

fn hash_of_field(value: &[u8]) -> u8 {
    (hash(value) as u8).max(ANY + 1)
}

/// The hashes of an object's selectable fields.
fn fields_of(object: &Object) -> [u8; FIELDS] {
    // A field that an object does not have counts as empty.
    let values = values_of(object.index.fields.packed()).chain(std::iter::repeat(&[][..]));
    let mut fields = [ANY; FIELDS];
    fields.iter_mut().zip(values).for_each(|(field, value)| *field = hash_of_field(value));
    fields
}

impl EventSummary {
    pub(crate) fn of(event: &Event) -> Self {
        let Event { key, object, previous, .. } = event;
        let fields = match (object.as_deref(), previous.as_deref()) {
            (Some(object), Some(previous)) if object.index.fields != previous.index.fields => {
                let (mut fields, before) = (fields_of(object), fields_of(previous));
                fields.iter_mut().zip(before).filter(|(field, before)| **field != *before).for_each(|(f, _)| *f = ANY);
                fields
            }
            (Some(object), _) | (None, Some(object)) => fields_of(object),
            (None, None) => [ANY; FIELDS],
        };
        Self { key: hash_of_key(key), namespace: hash_of_namespace(namespace_of(key)), fields }
    }

    /// The summary after the selectable fields of the kind have changed. The new fields of the event are not known.
    pub(crate) fn with_any_fields(self) -> Self {
        Self { fields: [ANY; FIELDS], ..self }
    }
}

impl ScopeSummary {
    pub(crate) fn of(scope: &WatchScope) -> Self {
        match scope {
            WatchScope::All => Self::All,
            WatchScope::Namespace(namespace) => Self::Namespace(hash_of_namespace(namespace)),
            WatchScope::Key(key) => Self::Key(hash_of_key(key)),
            WatchScope::Field(index, value) => Self::Field(*index, hash_of_field(value.as_bytes())),
        }
    }

    /// False if an event with this summary is outside the scope.
    pub(crate) fn may_match(self, event: &EventSummary) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => event.namespace == namespace,
            Self::Key(key) => event.key == key,
            Self::Field(index, value) => event.fields.get(index).is_none_or(|field| [ANY, value].contains(field)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use crate::ObjectIndex;

    fn object(fields: &[&str]) -> Arc<Object> {
        let index = ObjectIndex { fields: fields.iter().collect(), ..ObjectIndex::default() };
        Arc::new(Object::new("ns/name".into(), 1, "{}".into(), index))
    }

    /// The scopes that an event with these fields may match.
    fn matching(scopes: &[WatchScope], object: Option<&[&str]>, previous: Option<&[&str]>) -> Vec<WatchScope> {
        let event = Event::new("ns/name".into(), 2, object.map(self::object), previous.map(self::object));
        let summary = EventSummary::of(&event);
        let found: Vec<_> =
            scopes.iter().filter(|scope| ScopeSummary::of(scope).may_match(&summary)).cloned().collect();
        // All scopes that do match are among the found scopes.
        assert!(scopes.iter().all(|scope| !scope.matches(&event) || found.contains(scope)), "{found:?}");
        found
    }

    #[test]
    fn summaries_tell_what_is_not_of_a_scope() {
        let keys = [
            WatchScope::All,
            WatchScope::Namespace("ns".into()),
            WatchScope::Namespace("other".into()),
            WatchScope::Key("ns/name".into()),
            WatchScope::Key("ns/other".into()),
        ];
        assert_eq!(matching(&keys, Some(&[]), None), [0, 1, 3].map(|index| keys[index].clone()));

        let field = |index: usize, value: &str| WatchScope::Field(index, value.into());
        let many: Vec<String> = (0..FIELDS + 2).map(|number| format!("v{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let scopes = [field(0, "a-node"), field(0, ""), field(1, "b"), field(FIELDS, "anything"), field(1, "")];
        // The fourth scope selects by a field without a hash, so every event may match it.
        let expect = |indices: &[usize]| indices.iter().map(|index| scopes[*index].clone()).collect::<Vec<_>>();
        for (object, previous, matches) in [
            (Some(&["a-node", "b"][..]), None, &[0, 2, 3][..]),
            (None, Some(&["a-node"][..]), &[0, 3, 4]),
            (Some(&["a-node", "b"]), Some(&["a-node", "b"]), &[0, 2, 3]),
            (Some(&[]), None, &[1, 3, 4]),
            (Some(&many), None, &[3]),
            (None, None, &[0, 1, 2, 3, 4]),
        ] {
            assert_eq!(matching(&scopes, object, previous), expect(matches), "{object:?} {previous:?}");
        }
        // A field that has changed may have any value.
        assert_eq!(matching(&scopes, Some(&["a-node", "b"]), Some(&["", "b"])), expect(&[0, 1, 2, 3]));
    }

    #[test]
    fn names_that_differ_in_their_last_characters_have_different_hashes() {
        let names: Vec<String> = (0..1000).map(|number| format!("ip-10-0-{number}")).collect();
        let fields: HashSet<u8> = names.iter().map(|name| hash_of_field(name.as_bytes())).collect();
        let keys: HashSet<u16> = names.iter().map(|name| hash_of_key(name)).collect();
        // The expected number for random hashes: 250 of 255, and 992 of 65,536.
        assert!(fields.len() > 240 && keys.len() > 980, "{} {}", fields.len(), keys.len());
    }

    #[test]
    fn a_summary_is_small() {
        assert_eq!(size_of::<EventSummary>(), 8);
    }
}
