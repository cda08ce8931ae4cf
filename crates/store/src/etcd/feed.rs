//! The change feed of an etcd: a watch. It does not request previous values: they would double the sent data, and the
//! watch caches have them. The feed knows from the events how far etcd has delivered. While there are no events, it
//! knows this from progress notifications, which it requests when a caller waits for a newer revision.

use pintle_locks::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{CallError, EtcdClient};
use super::grpc::GrpcStream;
use super::{Codec, api, revision, to_i64};
use crate::{ChangeBatch, ChangeFeed, Error, Key, KeyInterval, Revision, StoreFuture};

/// The shortest time between two requests for a progress notification (upstream: `progressRequestPeriod`).
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// How often a feed checks whether it has missed a change that this process has committed. Such a change does not wake
/// the feed, because its event comes by itself.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long a member may be silent after a request for a progress notification. Then another member is watched.
const MAX_SILENCE: Duration = Duration::from_secs(3);

/// How long a member may be silent before its first answer. etcd first reads the whole history, and answers nothing
/// meanwhile.
const MAX_FIRST_SILENCE: Duration = Duration::from_secs(60);

/// How far a member may be behind before another member is watched.
const MAX_MEMBER_LAG: Duration = Duration::from_secs(5);

/// The state that all feeds of a store share.
#[derive(Debug)]
pub(super) struct FeedContext {
    pub(super) client: EtcdClient,
    pub(super) codec: Codec,
    /// The keys that the feeds watch.
    pub(super) interval: KeyInterval,
    /// The newest revision that a caller has seen. The feeds should reach it.
    pub(super) wanted: watch::Sender<u64>,
    pub(super) closed: watch::Sender<bool>,
    pub(super) arrival: Mutex<Arrival>,
}

/// The revision that the feeds have reached, and the revisions that they must reach.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    reached: Revision,
    /// The newest revision for which the feeds were woken.
    told: Revision,
    /// A revision that the feeds must reach, and since when.
    target: Option<(Revision, Instant)>,
    /// The newest revision that the feeds must reach, and since when.
    newest: Option<(Revision, Instant)>,
}

impl Arrival {
    fn want(&mut self, revision: Revision) {
        if revision > self.reached && self.newest.is_none_or(|(newest, _)| newest < revision) {
            let wanted = (revision, Instant::now());
            self.newest = Some(wanted);
            self.target.get_or_insert(wanted);
        }
    }

    fn reach(&mut self, revision: Revision) {
        self.reached = self.reached.max(revision);
        let is_missing = |(target, _): &(Revision, Instant)| *target > self.reached;
        self.target = self.target.filter(is_missing).or(self.newest.filter(is_missing));
    }
}

impl FeedContext {
    /// True if a feed delivers the changes of a key.
    pub(super) fn is_followed(&self, key: &Key) -> bool {
        self.wanted.receiver_count() > 0 && self.interval.contains(key)
    }

    /// How long ago a caller has seen a revision that the feeds have not reached.
    pub(super) fn lag(&self) -> Duration {
        self.arrival.lock().target.map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }

    /// Tells the feeds that a caller waits for a revision.
    pub(super) fn want(&self, revision: Revision) {
        self.set_wanted(revision, true);
    }

    /// Records a revision at which this process has changed a key of the feeds, so that its event is on its way.
    pub(super) fn expect(&self, revision: Revision) {
        self.set_wanted(revision, false);
    }

    fn set_wanted(&self, revision: Revision, wakes: bool) {
        let mut arrival = self.arrival.lock();
        arrival.want(revision);
        let wakes = wakes && revision > arrival.told;
        if wakes {
            arrival.told = revision;
        }
        drop(arrival);
        self.wanted.send_if_modified(|wanted| {
            *wanted = revision.get().max(*wanted);
            wakes
        });
    }
}

/// A feed of the changes after a revision. If the watch fails, the next call opens it again at the position where it
/// has ended.
pub(super) struct EtcdFeed {
    context: Arc<FeedContext>,
    position: Revision,
    watch: Option<OpenWatch>,
    /// The events of complete revisions that are not delivered yet.
    received: Vec<api::Event>,
    /// The number of watches that have failed in a row.
    failures: usize,
    wanted: watch::Receiver<u64>,
    closed: watch::Receiver<bool>,
}

impl fmt::Debug for EtcdFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdFeed").field("position", &self.position).finish_non_exhaustive()
    }
}

/// A watch of a member of etcd.
struct OpenWatch {
    member: usize,
    stream: GrpcStream,
    /// The events of revisions that are not complete yet.
    fragments: Vec<api::Event>,
    /// Whether the member has reported that it created the watch. Until then it holds events back, but no progress
    /// notification. So an earlier request for a notification could be answered before events that the notification
    /// includes.
    is_created: bool,
    next_progress_request: Instant,
    /// Since when the member has not answered a request for a progress notification.
    asked_since: Option<Instant>,
    /// Whether the member has sent an event or a notification.
    has_answered: bool,
}

impl OpenWatch {
    /// Asks for a progress notification, if the watch has been created.
    fn request_progress(&mut self) {
        if self.is_created {
            let progress = api::WatchAction::Progress(api::WatchProgressRequest {});
            // If sending fails, the next answer reports that the stream has ended.
            let _ = self.stream.send(&api::WatchRequest { action: Some(progress) });
        }
    }
}

fn revision_of(event: &api::Event) -> Revision {
    revision(event.kv.as_ref().map_or(0, |found| found.mod_revision))
}

impl EtcdFeed {
    pub(super) fn new(context: Arc<FeedContext>, position: Revision) -> Self {
        let (wanted, closed) = (context.wanted.subscribe(), context.closed.subscribe());
        context.arrival.lock().reach(position);
        Self { context, position, watch: None, received: Vec::new(), failures: 0, wanted, closed }
    }

    /// Records that everything up to a revision has been delivered.
    fn reach(&mut self, revision: Revision) {
        self.position = revision;
        self.context.arrival.lock().reach(revision);
    }

    async fn open(&self) -> Result<OpenWatch, Error> {
        let (key, range_end) = super::etcd_range(&self.context.interval);
        let create = api::WatchCreateRequest {
            key,
            range_end,
            start_revision: to_i64(self.position.next()),
            progress_notify: true,
            fragment: true,
        };
        let member = self.context.client.next_member();
        let stream = self.context.client.watch(member, create).await?;
        Ok(OpenWatch {
            member,
            stream,
            fragments: Vec::new(),
            is_created: false,
            next_progress_request: Instant::now(),
            asked_since: None,
            has_answered: false,
        })
    }

    /// Reads from one member after the other, until there is a batch to return or all members have failed.
    async fn read_batch(&mut self) -> Result<ChangeBatch, Error> {
        loop {
            match self.read_watch().await {
                Ok(batch) => {
                    self.failures = 0;
                    return Ok(batch);
                }
                Err(error) => {
                    if *self.closed.borrow() {
                        return Err(Error::Closed);
                    }
                    let watch = self.watch.take();
                    if let Error::Compacted { .. } = error {
                        return Err(error);
                    }
                    if let Some(watch) = watch {
                        self.context.client.set_usable(watch.member, Err(&error.to_string()));
                    }
                    self.failures += 1;
                    if self.failures > self.context.client.len() {
                        self.failures = 0;
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Reads from the open watch, or opens one and reads from it.
    async fn read_watch(&mut self) -> Result<ChangeBatch, Error> {
        loop {
            if let Some(batch) = self.take_received().await {
                return Ok(batch);
            }
            let is_behind = *self.wanted.borrow_and_update() > self.position.get();
            let is_closed = *self.closed.borrow_and_update();
            if is_closed && !is_behind {
                return Err(Error::Closed);
            }
            if self.watch.is_none() {
                self.watch = Some(self.open().await?);
            }
            let Some(watch) = &mut self.watch else { continue };
            let response = tokio::select! {
                biased;
                response = watch.stream.next() => response,
                _ = self.wanted.changed(), if !is_behind => continue,
                () = tokio::time::sleep(CHECK_INTERVAL), if !is_behind => continue,
                () = tokio::time::sleep_until(watch.next_progress_request), if is_behind => {
                    let now = Instant::now();
                    let longest = if watch.has_answered { MAX_SILENCE } else { MAX_FIRST_SILENCE };
                    if now.duration_since(*watch.asked_since.get_or_insert(now)) > longest {
                        return Err(Error::Unavailable { detail: "etcd is silent".to_owned() });
                    }
                    watch.next_progress_request = now + PROGRESS_PERIOD;
                    watch.request_progress();
                    continue;
                }
                _ = self.closed.changed() => continue,
            };
            watch.asked_since = None;
            let progress = match response {
                Ok(Some(response)) => self.receive(response)?,
                Ok(None) => return Err(Error::Unavailable { detail: "etcd has ended the watch".to_owned() }),
                Err(error) => return Err(CallError::from(error).into()),
            };
            if let Some(reached) = progress {
                return Ok(ChangeBatch { changes: Vec::new(), complete_to: reached });
            }
        }
    }

    /// Takes a response. Returns the revision of a progress notification.
    fn receive(&mut self, response: api::WatchResponse) -> Result<Option<Revision>, Error> {
        let Some(watch) = &mut self.watch else { return Ok(None) };
        if response.canceled {
            return Err(match response.compact_revision {
                0 => Error::Unavailable { detail: format!("etcd has cancelled the watch: {}", response.cancel_reason) },
                oldest => Error::Compacted { oldest: revision(oldest) },
            });
        }
        if response.created {
            watch.is_created = true;
            // The answer to this request shows that the member serves the watch, so that a later silence is noticed.
            watch.request_progress();
            return Ok(None);
        }
        watch.has_answered = true;
        let is_progress = response.events.is_empty() && watch.fragments.is_empty();
        watch.fragments.extend(response.events);
        if response.fragment {
            return Ok(None);
        }
        if is_progress {
            // All watches of the stream have delivered everything up to this revision.
            let reached = revision(response.header.unwrap_or_default().revision);
            if reached <= self.position {
                let is_behind = self.context.client.len() > 1 && self.context.lag() > MAX_MEMBER_LAG;
                let detail = "the member is behind the others".to_owned();
                return if is_behind { Err(Error::Unavailable { detail }) } else { Ok(None) };
            }
            self.reach(reached);
            return Ok(Some(reached));
        }
        let position = self.position;
        self.received.append(&mut watch.fragments);
        self.received.retain(|event| revision_of(event) > position);
        Ok(None)
    }

    /// The changes of the received events. Dropping the future loses none of them.
    async fn take_received(&mut self) -> Option<ChangeBatch> {
        let reached = self.received.last().map(revision_of)?;
        let changes = self.context.codec.changes(self.received.clone()).await;
        self.received.clear();
        self.reach(reached);
        Some(ChangeBatch { changes, complete_to: self.position })
    }
}

impl ChangeFeed for EtcdFeed {
    fn next_batch(&mut self) -> StoreFuture<'_, ChangeBatch> {
        Box::pin(self.read_batch())
    }

    fn complete_to(&self) -> Revision {
        self.position
    }
}
