//! A client that keeps up with a view: it takes the state from which it goes on in one of the ways that there are, then
//! watches, goes on from where it was when a watch ends or the server is gone, and begins anew when it is told to.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pintle_testkit::{ConnectionError, Protocol, ResponseStream};
use tokio::sync::{Notify, watch};

use crate::form::{self, Event, Form};
use crate::journal::Turn;
use crate::judge::Note;
use crate::object::Item;
use crate::reader;
use crate::view::View;
use crate::world::{Line, PATIENCE, World, count, lock};

/// How many events someone listens to who hops.
const HOP: usize = 4;

/// Where a follower takes the state from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// The newest list.
    List,
    /// Any list (`resourceVersion=0`).
    CachedList,
    /// The newest list, in chunks.
    Chunks,
    /// The initial events of a watch, and the bookmark that ends them.
    WatchList,
    /// A watch of whatever is there (no resourceVersion).
    Unset,
    /// A watch of any state (`resourceVersion=0`).
    Zero,
}

impl Begin {
    /// Whether the follower knows from which revision to go on when a watch ends.
    fn goes_on(self) -> bool {
        !matches!(self, Begin::Unset | Begin::Zero)
    }
}

/// How a follower listens while others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Always.
    Eager,
    /// For some seconds, then it asks again; it wants bookmarks.
    Brief,
    /// For some events, then it goes on with another watch: most watches begin while others write.
    Hops,
    /// It is away at times.
    Naps,
    /// It leaves its watch open at times, but does not read.
    Stalls,
}

/// How a follower goes about it.
pub(crate) struct Plan {
    pub(crate) view: View,
    pub(crate) form: Form,
    pub(crate) begin: Begin,
    pub(crate) habit: Habit,
    pub(crate) protocol: Protocol,
    /// Whether its word goes into the journal.
    pub(crate) first: bool,
}

/// A follower and what it was shown.
pub(crate) struct Follower {
    pub(crate) plan: Plan,
    notes: Mutex<Vec<Note>>,
    heard: Notify,
    /// Whether a watch is open: the server owes what is missing.
    listens: AtomicBool,
}

/// Why a watch is over.
enum End {
    /// It ended, or was left.
    Closed,
    /// It cannot go on from where it was.
    Expired,
}

impl Follower {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, notes: Mutex::default(), heard: Notify::new(), listens: AtomicBool::new(false) }
    }

    /// Takes what was shown since the last time.
    pub(crate) fn take(&self) -> Vec<Note> {
        std::mem::take(&mut lock(&self.notes))
    }

    /// Waits until something is shown after what was taken: for longer than the follower itself waits for anything but
    /// events, so that it is the one to say what is amiss.
    pub(crate) async fn hears(&self) -> bool {
        tokio::time::timeout(2 * PATIENCE, self.heard.notified()).await.is_ok()
    }

    fn note(&self, world: &World, note: Note) {
        if self.plan.first {
            let ledger = &world.ledgers[self.plan.view.at];
            match note {
                Note::Told(turn, item) => ledger.note(turn, item),
                Note::State { items, .. } => {
                    assert!(items.is_empty(), "nothing is there before the first watcher");
                    world.begun.send_modify(|begun| *begun += 1);
                }
                Note::Began { .. } | Note::Bookmark(_) => {}
            }
        } else {
            lock(&self.notes).push(note);
            self.heard.notify_one();
        }
    }

    /// Follows for as long as it is let.
    pub(crate) async fn follow(&self, world: &World) {
        let mut line = Line::open(world, self.plan.protocol);
        let mut at = None;
        loop {
            match self.watch(world, &mut line, &mut at).await {
                Ok(End::Closed) => {}
                Ok(End::Expired) => {
                    let what = self.request("");
                    assert!(world.forgets && !self.plan.first, "{what}: nothing should be forgotten after {at:?}");
                    count(&world.counts.relists);
                    at = None;
                }
                Err(broken) => line.reopen(world, &broken).await,
            }
            // What was there when such a watch began cannot be told from what came after.
            if !self.plan.begin.goes_on() {
                at = None;
            }
            self.rest(world).await;
        }
    }

    /// Waits while the follower is away.
    async fn rest(&self, world: &World) {
        if matches!(self.plan.habit, Habit::Naps | Habit::Stalls) {
            // The world outlives its followers.
            let _ = world.resting.subscribe().wait_for(|resting| !resting).await;
        }
    }

    fn request(&self, options: &str) -> String {
        self.plan.view.request(options)
    }

    /// Takes a state if there is none, and watches until the watch is over.
    async fn watch(&self, world: &World, line: &mut Line, at: &mut Option<u64>) -> Result<End, ConnectionError> {
        let mut options = match (&*at, self.plan.begin) {
            (Some(at), _) => format!("watch=1&resourceVersion={at}"),
            (None, Begin::List | Begin::CachedList | Begin::Chunks) => {
                let at = *at.insert(self.list(world, line).await);
                format!("watch=1&resourceVersion={at}")
            }
            (None, Begin::WatchList) => "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
            (None, Begin::Unset) => "watch=1".to_owned(),
            (None, Begin::Zero) => "watch=1&resourceVersion=0".to_owned(),
        };
        if self.plan.habit == Habit::Brief {
            options += "&timeoutSeconds=4";
        }
        if self.plan.habit == Habit::Brief || self.plan.begin == Begin::WatchList {
            options += "&allowWatchBookmarks=true";
        }
        let not_before = match self.plan.begin {
            Begin::Zero => world.ledgers[self.plan.view.at].journal().head(),
            _ => world.ledgers[self.plan.view.at].acknowledged(),
        };
        let path = self.request(&options);
        let ask = line.client.request("GET", &path).header("accept", self.plan.form.accept(false));
        let stream = match ask.stream().await? {
            Ok(stream) => stream,
            Err(answer) if answer.status == 410 => return Ok(End::Expired),
            // What is stopping says so, until its connections are closed.
            Err(answer) if answer.status == 429 => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                return Ok(End::Closed);
            }
            Err(answer) => panic!("{path}: {}: {}", answer.status, answer.text()),
        };
        count(&world.counts.watches);
        let Plan { form, view, .. } = self.plan;
        let mut events = Events { stream, form, view, buffer: Vec::new(), early: Vec::new() };
        if at.is_none() {
            if self.plan.begin == Begin::WatchList {
                match events.state(&path).await? {
                    Ok((revision, items)) => {
                        self.note(world, Note::State { at: revision, not_before, items });
                        *at = Some(revision);
                    }
                    Err(end) => return Ok(end),
                }
            } else {
                self.note(world, Note::Began { not_before });
            }
        }
        self.listens.store(true, Ordering::Relaxed);
        let end = self.listen(world, events, at).await;
        self.listens.store(false, Ordering::Relaxed);
        end
    }

    /// Takes a list.
    async fn list(&self, world: &World, line: &mut Line) -> u64 {
        let ledger = &world.ledgers[self.plan.view.at];
        let (options, limit, not_before) = match self.plan.begin {
            Begin::CachedList => ("resourceVersion=0", None, ledger.journal().head()),
            Begin::Chunks => ("", Some(3), ledger.acknowledged()),
            _ => ("", None, ledger.acknowledged()),
        };
        loop {
            // A walk that takes so long that its revision is forgotten begins anew.
            let Some(list) = reader::walk(world, line, &self.plan.view, self.plan.form, options, limit).await else {
                continue;
            };
            self.note(world, Note::State { at: list.at, not_before, items: list.items });
            return list.at;
        }
    }

    /// Listens until the watch is over.
    async fn listen(&self, world: &World, mut events: Events, at: &mut Option<u64>) -> Result<End, ConnectionError> {
        let mut resting = world.resting.subscribe();
        let rests = matches!(self.plan.habit, Habit::Naps | Habit::Stalls);
        // Who begins anew each time would leave before it is shown everything, however long nobody writes.
        let hops = self.plan.habit == Habit::Hops && self.plan.begin.goes_on();
        let mut left = if hops { HOP } else { usize::MAX };
        while left > 0 {
            let batch = tokio::select! {
                biased;
                () = begins(&mut resting), if rests => {
                    if self.plan.habit == Habit::Naps {
                        return Ok(End::Closed);
                    }
                    self.rest(world).await;
                    continue;
                }
                batch = events.next() => batch?,
            };
            let Some(batch) = batch else { return Ok(End::Closed) };
            for event in batch {
                match event {
                    Event::Turn(turn, item) => {
                        *at = Some(item.revision);
                        self.note(world, Note::Told(turn, item));
                        left = left.saturating_sub(1);
                    }
                    Event::Bookmark(revision, _) => {
                        *at = Some(revision);
                        count(&world.counts.bookmarks);
                        lock(&world.bookmarks).push(revision);
                        self.note(world, Note::Bookmark(revision));
                    }
                    Event::Error(410, _) => return Ok(End::Expired),
                    Event::Error(code, message) => panic!("{}: {code} {message}", self.request("")),
                }
            }
        }
        Ok(End::Closed)
    }

    /// A line for reports.
    pub(crate) fn describe(&self) -> String {
        let Plan { form, begin, habit, protocol, .. } = &self.plan;
        let listens = if self.listens.load(Ordering::Relaxed) { "listens" } else { "does not listen" };
        format!("{} ({form:?}, {begin:?}, {habit:?}, {protocol:?}; {listens})", self.request(""))
    }
}

/// Waits until those who do not always listen do not.
async fn begins(resting: &mut watch::Receiver<bool>) {
    // The world outlives its followers.
    let _ = resting.wait_for(|resting| *resting).await;
}

/// The events of a watch, as they come.
struct Events {
    stream: ResponseStream,
    form: Form,
    view: View,
    buffer: Vec<u8>,
    /// Events that came with the end of the initial ones.
    early: Vec<Event>,
}

impl Events {
    /// The next events; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, ConnectionError> {
        if !self.early.is_empty() {
            return Ok(Some(std::mem::take(&mut self.early)));
        }
        let Some(piece) = self.stream.next().await? else { return Ok(None) };
        self.buffer.extend_from_slice(&piece);
        Ok(Some(form::events(self.form, self.view.kind(), &mut self.buffer)))
    }

    /// The initial events, up to the bookmark that ends them; what came with it stays for [`Self::next`].
    async fn state(&mut self, what: &str) -> Result<Result<(u64, Vec<Item>), End>, ConnectionError> {
        let mut items = Vec::new();
        loop {
            let Some(batch) = self.next().await? else { return Ok(Err(End::Closed)) };
            let mut batch = VecDeque::from(batch);
            while let Some(event) = batch.pop_front() {
                match event {
                    Event::Turn(Turn::Added, item) => items.push(item),
                    Event::Bookmark(revision, true) => {
                        self.early = batch.into();
                        return Ok(Ok((revision, items)));
                    }
                    Event::Error(410, _) => return Ok(Err(End::Expired)),
                    other => panic!("{what}: {other:?} among the initial events"),
                }
            }
        }
    }
}
