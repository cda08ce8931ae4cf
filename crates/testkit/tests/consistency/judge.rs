//! Holds what a follower was shown against the journal. Judging happens while nobody writes, so the journal is whole:
//! what is not in it was made up, and what it has must have been shown.

use std::collections::VecDeque;

use crate::journal::{Journal, Turn};
use crate::object::Item;
use crate::view::View;

/// What a follower was shown.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// Objects at a revision, which must not lie before another.
    State { at: u64, not_before: u64, items: Vec<Item> },
    /// A watch began that shows what is there as its first events, without saying of which revision; it is none before
    /// this one.
    Began { not_before: u64 },
    /// An event.
    Told(Turn, Item),
    /// A bookmark.
    Bookmark(u64),
}

/// What there is to say when nothing is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything was shown.
    Complete,
    /// Something is still to come: what, and after what. Should it never come, this tells what is amiss.
    Behind(String),
}

/// The judge of one follower.
pub(crate) struct Judge {
    view: View,
    /// Everything up to here was shown.
    at: u64,
    notes: VecDeque<Note>,
    /// How many events were judged.
    pub(crate) events: u64,
}

impl Judge {
    pub(crate) fn new(view: View) -> Self {
        Self { view, at: 0, notes: VecDeque::new(), events: 0 }
    }

    /// Takes what was shown since.
    pub(crate) fn hear(&mut self, notes: impl IntoIterator<Item = Note>) {
        self.notes.extend(notes);
    }

    /// Judges all that was shown.
    ///
    /// # Errors
    /// What was shown is not what happened.
    pub(crate) fn judge(&mut self, journal: &Journal) -> Result<Verdict, String> {
        while let Some(note) = self.notes.pop_front() {
            match note {
                Note::State { at, not_before, items } => {
                    if at < not_before {
                        return Err(format!("a state of {at}, which is before {not_before}"));
                    }
                    same(&items, &self.view.state(journal, at)).map_err(|why| format!("the state at {at}: {why}"))?;
                    self.at = at;
                }
                Note::Began { not_before } => {
                    let opening = self.opening(journal, not_before)?;
                    if opening != Verdict::Complete {
                        self.notes.push_front(note);
                        return Ok(opening);
                    }
                }
                Note::Told(turn, item) => {
                    let expect = self.view.turns(journal, self.at).next();
                    fits((turn, item), expect).map_err(|why| format!("after {}: {why}", self.at))?;
                    self.at = item.revision;
                    self.events += 1;
                }
                Note::Bookmark(at) => {
                    if at < self.at {
                        return Err(format!("a bookmark of {at} after {}", self.at));
                    }
                    if let Some(missed) = self.view.turns(journal, self.at).next().filter(|(_, i)| i.revision <= at) {
                        return Err(format!("a bookmark of {at} without {missed:?}"));
                    }
                    self.at = at;
                }
            }
        }
        Ok(match self.view.turns(journal, self.at).next() {
            Some((turn, item)) => Verdict::Behind(format!("{turn:?} {item:?} is to follow {}", self.at)),
            None => Verdict::Complete,
        })
    }

    /// Finds the revision of which a watch showed the state first, such that all else that it showed fits.
    fn opening(&mut self, journal: &Journal, not_before: u64) -> Result<Verdict, String> {
        let begins = |note: &Note| matches!(note, Note::State { .. } | Note::Began { .. });
        let end = self.notes.iter().position(begins);
        let told: Vec<(Turn, Item)> = self
            .notes
            .range(..end.unwrap_or(self.notes.len()))
            .filter_map(|note| match note {
                Note::Told(turn, item) => Some((*turn, *item)),
                _ => None,
            })
            .collect();
        // Of the states that it cannot have been, the one that explains most; the last one that it can have been.
        let mut mismatch = (0, String::new());
        let mut open = None;
        let later = journal.from(journal.after(not_before)).iter().map(|change| change.revision);
        for from in std::iter::once(not_before).chain(later) {
            let state = self.view.state(journal, from).into_iter().map(|item| (Turn::Added, item));
            let mut expect = state.chain(self.view.turns(journal, from));
            let mut fitting = 0;
            let fit = told.iter().try_for_each(|note| fits(*note, expect.next()).inspect(|()| fitting += 1));
            match (fit, expect.next()) {
                (Err(why), _) if mismatch.1.is_empty() || fitting > mismatch.0 => {
                    mismatch = (fitting, format!("if begun at {from}, after {fitting} events {why}"));
                }
                (Err(_), _) => {}
                // Where the watch ended before all was shown, the next one shows it.
                (Ok(()), Some((turn, item))) if end.is_none() => {
                    open = Some(format!("if begun at {from}, after {fitting} events {turn:?} {item:?} is to follow"));
                }
                (Ok(()), _) => {
                    self.at = told.iter().map(|(_, item)| item.revision).fold(from, u64::max);
                    self.events += told.len() as u64;
                    self.notes.drain(..end.unwrap_or(self.notes.len()));
                    return Ok(Verdict::Complete);
                }
            }
        }
        // One that fits so far may still turn out not to, and then one of the others should have.
        match open {
            Some(open) => Ok(Verdict::Behind(format!("{open}; {}", mismatch.1))),
            None => Err(format!("begun at no state from {not_before} on: {}: {told:?}", mismatch.1)),
        }
    }
}

/// Sees to it that a list shows what was there.
pub(crate) fn same(shown: &[Item], expect: &[Item]) -> Result<(), String> {
    if let Some(at) = (0..shown.len().min(expect.len())).find(|at| !shown[*at].shows(&expect[*at])) {
        return Err(format!("item {at} is {:?}, not {:?}", shown[at], expect[at]));
    }
    match shown.len().cmp(&expect.len()) {
        std::cmp::Ordering::Less => Err(format!("{:?} is missing", expect[shown.len()])),
        std::cmp::Ordering::Greater => Err(format!("{:?} is too much", shown[expect.len()])),
        std::cmp::Ordering::Equal => Ok(()),
    }
}

fn fits((turn, item): (Turn, Item), expect: Option<(Turn, Item)>) -> Result<(), String> {
    match expect {
        Some((other, version)) if turn == other && item.shows(&version) => Ok(()),
        Some(expect) => Err(format!("{turn:?} {item:?} instead of {expect:?}")),
        None => Err(format!("{turn:?} {item:?} although nothing happened")),
    }
}

#[cfg(test)]
mod tests {
    use super::Note::{Began, Bookmark, State, Told};
    use super::Turn::{Added, Deleted, Modified};
    use super::*;
    use crate::object::{Extent, Key, Shape};

    /// The version of `x{name}` that a revision made.
    fn version(name: u8, revision: u64) -> Item {
        let shape = Shape { key: Key { namespace: 0, name }, mark: revision, pick: 2, shade: 0, fields: [0, 0] };
        Item { revision, shape, sum: Some(revision), extent: Extent::Text }
    }

    /// The last version, gone at a revision.
    fn gone(name: u8, last: u64, revision: u64) -> Item {
        Item { revision, ..version(name, last) }
    }

    /// x1 made at 2, changed at 4, deleted at 6; x2 made at 3; x0 made at 7.
    fn journal() -> Journal {
        let mut journal = Journal::default();
        journal.push(Added, version(1, 2));
        journal.push(Added, version(2, 3));
        journal.push(Modified, version(1, 4));
        journal.push(Deleted, gone(1, 4, 6));
        journal.push(Added, version(0, 7));
        journal
    }

    fn judge(notes: &[Note]) -> Result<Verdict, String> {
        let mut judge = Judge::new(View::all(0));
        judge.hear(notes.iter().cloned());
        judge.judge(&journal())
    }

    fn accepts(notes: &[Note]) {
        assert_eq!(judge(notes), Ok(Verdict::Complete), "{notes:?}");
    }

    /// More has to come; what, is told with these words among others.
    fn waits(notes: &[Note], words: &[&str]) {
        match judge(notes) {
            Ok(Verdict::Behind(what)) if words.iter().all(|word| what.contains(word)) => {}
            other => panic!("{other:?} instead of {words:?} after {notes:?}"),
        }
    }

    fn finds(notes: &[Note], why: &str) {
        let found = judge(notes).expect_err("a fault");
        assert!(found.starts_with(why), "{found} is not {why} of {notes:?}");
    }

    fn state(at: u64, items: &[Item]) -> Note {
        State { at, not_before: 0, items: items.to_vec() }
    }

    #[test]
    fn what_happened_is_accepted() {
        let at3 = state(3, &[version(1, 2), version(2, 3)]);
        waits(std::slice::from_ref(&at3), &["Modified", "is to follow 3"]);
        let rest = [Told(Modified, version(1, 4)), Told(Deleted, gone(1, 4, 6)), Told(Added, version(0, 7))];
        waits(&[at3.clone(), rest[0].clone(), rest[1].clone()], &["Added", "is to follow 6"]);
        accepts(&[at3, Bookmark(3), rest[0].clone(), Bookmark(5), rest[1].clone(), rest[2].clone()]);
        accepts(&[state(9, &[version(0, 7), version(2, 3)]), Bookmark(12)]);
    }

    #[test]
    fn a_watch_may_begin_at_any_state() {
        let (ends, begins) = (Told(Added, version(0, 7)), Began { not_before: 2 });
        let at3 = [Told(Added, version(1, 2)), Told(Added, version(2, 3))];
        let then = [Told(Modified, version(1, 4)), Told(Deleted, gone(1, 4, 6)), ends.clone()];
        let whole: Vec<Note> = [begins.clone()].into_iter().chain(at3.clone()).chain(then).collect();
        accepts(&whole);
        waits(&whole[..4], &["if begun at 3, after 3 events Deleted", "if begun at 4, after 0 events Added"]);
        waits(&whole[..2], &["if begun at 3, after 1 events Added", "if begun at 4, after 0 events Added"]);
        accepts(&[begins.clone(), ends.clone(), Told(Added, version(2, 3))]);
        // It was cut, and another begun.
        accepts(&[begins.clone(), at3[0].clone(), begins.clone(), ends, at3[1].clone()]);
        finds(&[begins, at3[1].clone(), at3[0].clone()], "begun at no state from 2 on");
    }

    #[test]
    fn faults_are_found() {
        let at3 = state(3, &[version(1, 2), version(2, 3)]);
        finds(&[state(3, &[version(1, 2)])], "the state at 3: Item");
        finds(&[state(4, &[version(1, 2), version(2, 3)])], "the state at 4: item 0");
        finds(&[state(6, &[version(1, 4), version(2, 3)])], "the state at 6: item 0");
        finds(&[state(2, &[version(1, 2), version(2, 3)])], "the state at 2: Item");
        finds(&[State { at: 3, not_before: 4, items: Vec::new() }], "a state of 3, which is before 4");
        // Missed, told twice, out of order, told as something else, with another content, at another revision, made up.
        finds(&[at3.clone(), Told(Deleted, gone(1, 4, 6))], "after 3: Deleted");
        finds(&[at3.clone(), Told(Modified, version(1, 4)), Told(Modified, version(1, 4))], "after 4: Modified");
        finds(&[at3.clone(), Told(Added, version(1, 4))], "after 3: Added");
        finds(&[at3.clone(), Told(Modified, Item { sum: Some(9), ..version(1, 4) })], "after 3: Modified");
        finds(&[at3.clone(), Told(Modified, gone(1, 4, 5))], "after 3: Modified");
        finds(&[state(7, &[version(0, 7), version(2, 3)]), Told(Added, version(3, 8))], "after 7: Added");
        finds(&[at3.clone(), Bookmark(4)], "a bookmark of 4 without");
        finds(&[at3, Bookmark(2)], "a bookmark of 2 after 3");
    }
}
