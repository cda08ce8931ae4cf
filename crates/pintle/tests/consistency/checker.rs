//! The history checker: compares what a reflector observed with the recorded history. It runs while no client writes,
//! so the history is complete. An observation that is not in the history is wrong. A change in the history without an
//! observation is missing.

use std::collections::VecDeque;

use crate::history::{EventType, History};
use crate::object::ObjectVersion;
use crate::query::ResourceQuery;

/// Something that a reflector observed.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// The objects at a revision, which must be at least `min_revision`.
    Snapshot { revision: u64, min_revision: u64, items: Vec<ObjectVersion> },
    /// The start of a watch whose first events are the objects at an unknown revision. The revision must be at least
    /// `min_revision`.
    WatchStarted { min_revision: u64 },
    /// An event.
    Event(EventType, ObjectVersion),
    /// The revision of a bookmark.
    Bookmark(u64),
}

/// The result of a check without violations.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    /// The reflector observed all changes.
    Complete,
    /// The next event is still missing. The message describes it, for the case that it never arrives.
    Incomplete(String),
}

/// Checks the observations of one reflector.
pub(crate) struct HistoryChecker {
    query: ResourceQuery,
    /// The reflector observed all changes up to here.
    revision: u64,
    observations: VecDeque<Observation>,
    /// The number of checked events.
    pub(crate) events: u64,
}

impl HistoryChecker {
    pub(crate) fn new(query: ResourceQuery) -> Self {
        Self { query, revision: 0, observations: VecDeque::new(), events: 0 }
    }

    /// Adds observations.
    pub(crate) fn add(&mut self, observations: impl IntoIterator<Item = Observation>) {
        self.observations.extend(observations);
    }

    /// Checks all observations.
    ///
    /// # Errors
    /// Returns the first violation.
    pub(crate) fn check(&mut self, history: &History) -> Result<CheckResult, String> {
        while let Some(observation) = self.observations.pop_front() {
            match observation {
                Observation::Snapshot { revision, min_revision, items } => {
                    if revision < min_revision {
                        return Err(format!("a snapshot at {revision}, before {min_revision}"));
                    }
                    check_list(&items, &self.query.objects_at(history, revision))
                        .map_err(|violation| format!("the snapshot at {revision}: {violation}"))?;
                    self.revision = revision;
                }
                Observation::WatchStarted { min_revision } => {
                    let result = self.match_initial_events(history, min_revision)?;
                    if result != CheckResult::Complete {
                        self.observations.push_front(observation);
                        return Ok(result);
                    }
                }
                Observation::Event(event_type, object) => {
                    let expected = self.query.events_after(history, self.revision).next();
                    check_event((event_type, object), expected)
                        .map_err(|violation| format!("after {}: {violation}", self.revision))?;
                    self.revision = object.revision;
                    self.events += 1;
                }
                Observation::Bookmark(revision) => {
                    if revision < self.revision {
                        return Err(format!("a bookmark at {revision} after {}", self.revision));
                    }
                    let next = self.query.events_after(history, self.revision).next();
                    if let Some(missed) = next.filter(|(_, object)| object.revision <= revision) {
                        return Err(format!("a bookmark at {revision} without {missed:?}"));
                    }
                    self.revision = revision;
                }
            }
        }
        Ok(match self.query.events_after(history, self.revision).next() {
            Some((event_type, object)) => {
                CheckResult::Incomplete(format!("{event_type:?} {object:?} has to follow {}", self.revision))
            }
            None => CheckResult::Complete,
        })
    }

    /// Finds a start revision of the watch with which all its events are as expected.
    fn match_initial_events(&mut self, history: &History, min_revision: u64) -> Result<CheckResult, String> {
        let is_start = |observation: &Observation| {
            matches!(observation, Observation::Snapshot { .. } | Observation::WatchStarted { .. })
        };
        let end = self.observations.iter().position(is_start);
        let events: Vec<(EventType, ObjectVersion)> = self
            .observations
            .range(..end.unwrap_or(self.observations.len()))
            .filter_map(|observation| match observation {
                Observation::Event(event_type, object) => Some((*event_type, *object)),
                _ => None,
            })
            .collect();
        // For messages: the impossible start revision that explains the most events, and the last possible start
        // revision.
        let mut mismatch = (0, String::new());
        let mut incomplete = None;
        let later = history.changes_from(history.index_after(min_revision)).iter().map(|change| change.revision);
        for start in std::iter::once(min_revision).chain(later) {
            let initial = self.query.objects_at(history, start).into_iter().map(|object| (EventType::Added, object));
            let mut expected = initial.chain(self.query.events_after(history, start));
            let mut matching = 0;
            let result =
                events.iter().try_for_each(|event| check_event(*event, expected.next()).inspect(|()| matching += 1));
            match (result, expected.next()) {
                (Err(violation), _) if mismatch.1.is_empty() || matching > mismatch.0 => {
                    mismatch = (matching, format!("if started at {start}, after {matching} events {violation}"));
                }
                (Err(_), _) => {}
                // If the watch ended before all events, the next watch has to show them.
                (Ok(()), Some((event_type, object))) if end.is_none() => {
                    incomplete = Some(format!(
                        "if started at {start}, after {matching} events {event_type:?} {object:?} has to follow"
                    ));
                }
                (Ok(()), _) => {
                    self.revision = events.iter().map(|(_, object)| object.revision).fold(start, u64::max);
                    self.events += events.len() as u64;
                    self.observations.drain(..end.unwrap_or(self.observations.len()));
                    return Ok(CheckResult::Complete);
                }
            }
        }
        // The message names both revisions: if the expected event never arrives, the watch may have started at another
        // revision.
        match incomplete {
            Some(incomplete) => Ok(CheckResult::Incomplete(format!("{incomplete}; {}", mismatch.1))),
            None => Err(format!("started at no revision from {min_revision} on: {}: {events:?}", mismatch.1)),
        }
    }
}

/// Compares the items of a list with the expected objects.
pub(crate) fn check_list(items: &[ObjectVersion], expected: &[ObjectVersion]) -> Result<(), String> {
    if let Some(index) = (0..items.len().min(expected.len())).find(|index| !items[*index].shows(&expected[*index])) {
        return Err(format!("item {index} is {:?}, expected {:?}", items[index], expected[index]));
    }
    match items.len().cmp(&expected.len()) {
        std::cmp::Ordering::Less => Err(format!("{:?} is missing", expected[items.len()])),
        std::cmp::Ordering::Greater => Err(format!("{:?} is unexpected", items[expected.len()])),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

fn check_event(
    (event_type, object): (EventType, ObjectVersion),
    expected: Option<(EventType, ObjectVersion)>,
) -> Result<(), String> {
    match expected {
        Some((expected_type, version)) if event_type == expected_type && object.shows(&version) => Ok(()),
        Some(expected) => Err(format!("{event_type:?} {object:?}, expected {expected:?}")),
        None => Err(format!("{event_type:?} {object:?}, but no event was expected")),
    }
}

#[cfg(test)]
mod tests {
    use super::EventType::{Added, Deleted, Modified};
    use super::Observation::{Bookmark, Event, Snapshot, WatchStarted};
    use super::*;
    use crate::object::{Detail, ObjectAttributes, ObjectKey};

    /// The version of `x{name}` that was written at a revision.
    fn version(name: u8, revision: u64) -> ObjectVersion {
        let key = ObjectKey { namespace: 0, name };
        let attributes = ObjectAttributes { key, write_id: revision, pick: 2, shade: 0, fields: [0, 0] };
        ObjectVersion { revision, attributes, digest: Some(revision), detail: Detail::ExactJson }
    }

    /// The last version of `x{name}`, which is deleted at a revision.
    fn deleted(name: u8, last: u64, revision: u64) -> ObjectVersion {
        ObjectVersion { revision, ..version(name, last) }
    }

    /// x1 is created at 2, modified at 4 and deleted at 6; x2 is created at 3; x0 is created at 7.
    fn history() -> History {
        let mut history = History::default();
        history.push(Added, version(1, 2));
        history.push(Added, version(2, 3));
        history.push(Modified, version(1, 4));
        history.push(Deleted, deleted(1, 4, 6));
        history.push(Added, version(0, 7));
        history
    }

    fn check(observations: &[Observation]) -> Result<CheckResult, String> {
        let mut checker = HistoryChecker::new(ResourceQuery::all(0));
        checker.add(observations.iter().cloned());
        checker.check(&history())
    }

    fn assert_complete(observations: &[Observation]) {
        assert_eq!(check(observations), Ok(CheckResult::Complete), "{observations:?}");
    }

    /// Asserts that an event is missing and that the message contains these fragments.
    fn assert_incomplete(observations: &[Observation], fragments: &[&str]) {
        match check(observations) {
            Ok(CheckResult::Incomplete(message)) if fragments.iter().all(|part| message.contains(part)) => {}
            other => panic!("{other:?}, expected {fragments:?} for {observations:?}"),
        }
    }

    fn assert_violation(observations: &[Observation], prefix: &str) {
        let violation = check(observations).expect_err("a violation");
        assert!(violation.starts_with(prefix), "{violation}, expected {prefix} for {observations:?}");
    }

    fn snapshot(revision: u64, items: &[ObjectVersion]) -> Observation {
        Snapshot { revision, min_revision: 0, items: items.to_vec() }
    }

    #[test]
    fn correct_observations_are_accepted() {
        let at3 = snapshot(3, &[version(1, 2), version(2, 3)]);
        assert_incomplete(std::slice::from_ref(&at3), &["Modified", "has to follow 3"]);
        let events = [Event(Modified, version(1, 4)), Event(Deleted, deleted(1, 4, 6)), Event(Added, version(0, 7))];
        assert_incomplete(&[at3.clone(), events[0].clone(), events[1].clone()], &["Added", "has to follow 6"]);
        assert_complete(&[at3, Bookmark(3), events[0].clone(), Bookmark(5), events[1].clone(), events[2].clone()]);
        assert_complete(&[snapshot(9, &[version(0, 7), version(2, 3)]), Bookmark(12)]);
    }

    #[test]
    fn a_watch_may_start_at_any_revision() {
        let (last, started) = (Event(Added, version(0, 7)), WatchStarted { min_revision: 2 });
        let at3 = [Event(Added, version(1, 2)), Event(Added, version(2, 3))];
        let later = [Event(Modified, version(1, 4)), Event(Deleted, deleted(1, 4, 6)), last.clone()];
        let all: Vec<Observation> = [started.clone()].into_iter().chain(at3.clone()).chain(later).collect();
        assert_complete(&all);
        assert_incomplete(
            &all[..4],
            &["if started at 3, after 3 events Deleted", "if started at 4, after 0 events Added"],
        );
        assert_incomplete(
            &all[..2],
            &["if started at 3, after 1 events Added", "if started at 4, after 0 events Added"],
        );
        assert_complete(&[started.clone(), last.clone(), Event(Added, version(2, 3))]);
        // The connection broke, and another watch was started.
        assert_complete(&[started.clone(), at3[0].clone(), started.clone(), last, at3[1].clone()]);
        assert_violation(&[started, at3[1].clone(), at3[0].clone()], "started at no revision from 2 on");
    }

    #[test]
    fn violations_are_found() {
        let at3 = snapshot(3, &[version(1, 2), version(2, 3)]);
        assert_violation(&[snapshot(3, &[version(1, 2)])], "the snapshot at 3: ObjectVersion");
        assert_violation(&[snapshot(4, &[version(1, 2), version(2, 3)])], "the snapshot at 4: item 0");
        assert_violation(&[snapshot(6, &[version(1, 4), version(2, 3)])], "the snapshot at 6: item 0");
        assert_violation(&[snapshot(2, &[version(1, 2), version(2, 3)])], "the snapshot at 2: ObjectVersion");
        let old = Snapshot { revision: 3, min_revision: 4, items: Vec::new() };
        assert_violation(&[old], "a snapshot at 3, before 4");
        let modified = Event(Modified, version(1, 4));
        // A missing event.
        assert_violation(&[at3.clone(), Event(Deleted, deleted(1, 4, 6))], "after 3: Deleted");
        // A duplicate event.
        assert_violation(&[at3.clone(), modified.clone(), modified], "after 4: Modified");
        // A wrong type.
        assert_violation(&[at3.clone(), Event(Added, version(1, 4))], "after 3: Added");
        // Wrong content.
        let corrupt = ObjectVersion { digest: Some(9), ..version(1, 4) };
        assert_violation(&[at3.clone(), Event(Modified, corrupt)], "after 3: Modified");
        // A wrong revision.
        assert_violation(&[at3.clone(), Event(Modified, deleted(1, 4, 5))], "after 3: Modified");
        // An event of a change that never happened.
        let at7 = snapshot(7, &[version(0, 7), version(2, 3)]);
        assert_violation(&[at7, Event(Added, version(3, 8))], "after 7: Added");
        // Wrong bookmarks.
        assert_violation(&[at3.clone(), Bookmark(4)], "a bookmark at 4 without");
        assert_violation(&[at3, Bookmark(2)], "a bookmark at 2 after 3");
    }
}
