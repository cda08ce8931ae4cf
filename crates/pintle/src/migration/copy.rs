//! Copies the objects of an inventory, in its order, and compares the result. An unfinished migration is continued if
//! the source has not changed since; otherwise its objects are replaced.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use pintle_store::{Change, Clock as _, Compare, Condition, Error, Key, Revision, StoreFuture, SystemClock};

use super::inventory::{Inventory, Item, Pages, ValueHash, hash};
use super::marker::{self, Marker, marker_key};
use super::progress::ProgressLogger;
use super::{MigrationError, MigrationReport, Side};

/// How many values are read ahead of the writes.
const READ_AHEAD: usize = 64;
/// A revision that no key has, so a change under this condition always fails.
const NO_REVISION: Revision = Revision(i64::MAX as u64);
/// How many changes run at once when revisions are skipped.
const PARALLEL_CHANGES: usize = 64;
/// The number of skipped revisions after which the history is compacted, to save space.
const COMPACT_EVERY: u64 = 50_000;

/// A migration.
pub(super) struct Copy<'a> {
    pub(super) source: &'a Side,
    pub(super) target: &'a Side,
    pub(super) inventory: &'a Inventory,
}

/// The keys of a target and their revisions.
type TargetKeys = HashMap<Box<str>, TargetItem>;

/// A key of an unfinished migration in the target.
#[derive(Clone, Copy)]
struct TargetItem {
    revision: Revision,
    hash: ValueHash,
}

/// The result of a comparison.
struct Compared {
    keys: usize,
    expired: usize,
}

impl Copy<'_> {
    /// Copies everything. `known` is the mark of the target, if there is one.
    pub(super) async fn run(
        &self,
        known: Option<(Option<Marker>, Revision)>,
    ) -> Result<MigrationReport, MigrationError> {
        let marker = Marker { source: self.source.name.clone(), revision: self.inventory.revision };
        let can_continue = known.as_ref().is_some_and(|(known, _)| known.as_ref() == Some(&marker));
        let mut there = match known {
            Some(_) => self.read_target().await?,
            None => TargetKeys::new(),
        };
        let kept = if can_continue { self.count_copied(&there) } else { 0 };
        if known.is_some() && (kept > 0 || !can_continue) {
            tracing::info!(target: "pintle::start", kept, "Continuing a migration that has not ended");
        }
        self.check_sizes().await?;
        if !can_continue {
            self.write_marker(&marker, known.map(|(_, revision)| revision)).await?;
        }
        self.pass_revisions(&marker).await?;
        let claim = self.claim(&marker).await?;
        self.delete_others(&mut there, claim).await?;
        self.copy_from(kept, &there, claim).await?;
        let compared = self.compare().await?;
        self.check_source().await?;
        let target_revision = self.finish(claim).await?;
        Ok(MigrationReport {
            source: self.source.name.clone(),
            target: self.target.name.clone(),
            keys: compared.keys,
            bytes: self.inventory.bytes,
            expired: compared.expired,
            source_revision: self.inventory.revision.get(),
            target_revision: target_revision.get(),
            duration: Duration::ZERO,
        })
    }

    async fn read_target(&self) -> Result<TargetKeys, MigrationError> {
        let mut keys = TargetKeys::new();
        let mut pages = Pages::new(self.target.interval());
        while let Some((records, _)) = pages.next(self.target, None).await? {
            let paths = records.iter().filter_map(|record| Some((self.target.path(&record.key)?, record)));
            keys.extend(paths.map(|(path, record)| {
                (path.into(), TargetItem { revision: record.mod_revision, hash: hash(&record.value) })
            }));
        }
        Ok(keys)
    }

    /// How many items at the start of the inventory are in the target, with their values and in order.
    fn count_copied(&self, there: &TargetKeys) -> usize {
        let mut last = self.inventory.revision;
        let copied = self.inventory.items.iter().take_while(|item| {
            let found = there.get(&item.path).filter(|found| found.revision > last && found.hash == item.hash);
            last = found.map_or(last, |found| found.revision);
            found.is_some()
        });
        copied.count()
    }

    /// Marks the target. A target without a mark must still be empty.
    async fn write_marker(&self, marker: &Marker, known: Option<Revision>) -> Result<(), MigrationError> {
        let key = marker_key(&self.target.prefix);
        let change = match known {
            Some(revision) => Change::update(key, revision, marker.encode()),
            None => {
                let empty = Condition::NotWrittenSince(self.target.interval(), Revision(0));
                Change::create(key, marker.encode()).under(vec![empty])
            }
        };
        match self.target.store.commit(change).await {
            Ok(_) => Ok(()),
            Err(Error::ConditionFailed | Error::Conflict { .. }) => {
                Err(MigrationError::NotEmpty(self.target.name.clone()))
            }
            Err(error) => Err(self.target.error()(error)),
        }
    }

    /// Skips revisions of the target until they are larger than all revisions of the source. So a resourceVersion that
    /// a client knows from the source never names another state of the target.
    async fn pass_revisions(&self, marker: &Marker) -> Result<(), MigrationError> {
        let (target, error) = (self.target, self.target.error());
        let first = target.store.current_revision().await.map_err(&error)?;
        let mut current = first;
        let mut compacted = first;
        let mut progress = ProgressLogger::start("pass revisions");
        let total = self.inventory.revision.get().saturating_sub(first.get());
        while current < self.inventory.revision {
            let missing = self.inventory.revision.get() - current.get();
            let count = usize::try_from(missing).map_or(PARALLEL_CHANGES, |missing| missing.min(PARALLEL_CHANGES));
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..count {
                let (store, change) = (target.store.clone(), Change::put(marker_key(&target.prefix), marker.encode()));
                tasks.spawn(async move { store.commit(change).await });
            }
            for committed in tasks.join_all().await {
                current = current.max(committed.map_err(&error)?);
            }
            if current.get() - compacted.get() >= COMPACT_EVERY {
                target.store.compact(current).await.map_err(&error)?;
                compacted = current;
            }
            progress.log(current.get() - first.get(), total);
        }
        progress.end(current.get() - first.get());
        Ok(())
    }

    /// Writes the mark once more. All later changes have the returned revision as a condition. So another migration
    /// that writes the mark ends this one.
    async fn claim(&self, marker: &Marker) -> Result<Revision, MigrationError> {
        let (target, key) = (self.target, marker_key(&self.target.prefix));
        let known = marker::read(&*target.store, &target.prefix).await.map_err(target.error())?;
        let Some((_, revision)) = known.filter(|(known, _)| known.as_ref() == Some(marker)) else {
            return Err(self.changed(&key));
        };
        let claimed = target.store.commit(Change::update(key.clone(), revision, marker.encode())).await;
        claimed.map_err(|error| self.write_error(&key, error))
    }

    /// The condition of changes of the target under a claim.
    fn under(&self, claim: Revision) -> Vec<Condition> {
        vec![Condition::Unchanged(marker_key(&self.target.prefix), claim)]
    }

    /// Deletes keys that an unfinished migration has copied and that the source no longer has.
    async fn delete_others(&self, there: &mut TargetKeys, claim: Revision) -> Result<(), MigrationError> {
        let mut others = there.clone();
        for item in &self.inventory.items {
            others.remove(&item.path);
        }
        for (path, TargetItem { revision, .. }) in others {
            there.remove(&path);
            let key = self.target.key(&path);
            let change = Change::delete(key.clone(), Compare::ModRevision(revision)).under(self.under(claim));
            match self.target.store.commit(change).await {
                // The key may have expired.
                Ok(_) | Err(Error::Conflict { current: None }) => {}
                Err(error) => return Err(self.write_error(&key, error)),
            }
        }
        Ok(())
    }

    /// Checks that the target accepts the source's largest values: sends them under a condition that does not hold. The
    /// requests are as large as the requests of the copy.
    async fn check_sizes(&self) -> Result<(), MigrationError> {
        let mut largest: Vec<&Item> = self.inventory.items.iter().collect();
        // A transaction of etcd names the key three times: in its compare and in both of its branches.
        largest.sort_by_key(|item| std::cmp::Reverse(item.stored_size + 3 * item.path.len()));
        let mut too_large = Vec::new();
        for item in largest {
            let key = self.target.key(&item.path);
            let value = self.inventory.value(self.source, item).await?;
            let change = Change::update(key.clone(), NO_REVISION, value).under(self.under(NO_REVISION));
            match self.target.store.commit(change).await {
                Err(Error::TooLarge { size, .. }) => {
                    let why = format!(
                        "key and value have {size} bytes, more than the target accepts (etcd: --max-request-bytes)"
                    );
                    too_large.push((key, why));
                }
                Err(Error::Conflict { .. }) => break,
                Err(error) => return Err(self.target.error()(error)),
                Ok(_) => return Err(self.changed(&key)),
            }
        }
        if too_large.is_empty() { Ok(()) } else { Err(MigrationError::Unreadable(too_large)) }
    }

    /// Copies the items from index `first` on, in order.
    async fn copy_from(&self, first: usize, there: &TargetKeys, claim: Revision) -> Result<(), MigrationError> {
        let items = &self.inventory.items;
        let mut progress = ProgressLogger::start("copy");
        let mut last = self.inventory.revision;
        let mut pending: VecDeque<(Key, StoreFuture<'_, Revision>)> = VecDeque::new();
        let mut reads = VecDeque::new();
        let mut done = first as u64;
        let mut rest = items[first..].iter();
        loop {
            while reads.len() < READ_AHEAD
                && let Some(item) = rest.next()
            {
                let mut read = Box::pin(self.inventory.value(self.source, item));
                // The store gets the request with the first poll.
                let value = poll_once(read.as_mut()).await;
                reads.push_back((item, read, value));
            }
            let Some((item, read, value)) = reads.pop_front() else { break };
            let value = match value {
                Some(value) => value,
                None => read.await,
            };
            let value = value?;
            let key = self.target.key(&item.path);
            let mut change = match there.get(&item.path) {
                Some(found) => Change::update(key.clone(), found.revision, value),
                None => Change::create(key.clone(), value),
            };
            if let Some(expires) = item.expires {
                let Some(left) = time_left(expires) else { continue };
                change = change.with_ttl(left);
            }
            let mut commit = self.target.store.commit(change.under(self.under(claim)));
            match poll_once(commit.as_mut()).await {
                Some(committed) => pending.push_back((key, Box::pin(async { committed }))),
                None => pending.push_back((key, commit)),
            }
            while pending.len() >= self.target.ordered_changes
                && let Some((key, commit)) = pending.pop_front()
            {
                last = self.committed(&key, commit.await, last)?;
                done += 1;
            }
            progress.log(done, items.len() as u64);
        }
        while let Some((key, commit)) = pending.pop_front() {
            last = self.committed(&key, commit.await, last)?;
            done += 1;
        }
        progress.end(done - first as u64);
        Ok(())
    }

    /// Checks the answer to a change, which must have a larger revision than the one before.
    fn committed(
        &self,
        key: &Key,
        committed: Result<Revision, Error>,
        last: Revision,
    ) -> Result<Revision, MigrationError> {
        let revision = committed.map_err(|error| self.write_error(key, error))?;
        match revision > last {
            true => Ok(revision),
            false => Err(MigrationError::Differs(vec![(key.clone(), "it was stored out of order".to_owned())])),
        }
    }

    fn write_error(&self, key: &Key, error: Error) -> MigrationError {
        match error {
            Error::ConditionFailed => self.changed(&marker_key(&self.target.prefix)),
            Error::Conflict { .. } => self.changed(key),
            error => self.target.error()(error),
        }
    }

    fn changed(&self, key: &Key) -> MigrationError {
        MigrationError::Changed { store: self.target.name.clone(), key: key.clone() }
    }

    /// Compares keys, values and order of the target with the inventory.
    async fn compare(&self) -> Result<Compared, MigrationError> {
        let items = &self.inventory.items;
        let mut differences = Vec::new();
        let mut missing: HashMap<&str, usize> =
            items.iter().enumerate().map(|(index, item)| (&*item.path, index)).collect();
        let mut revisions = vec![None; items.len()];
        let mut progress = ProgressLogger::start("compare");
        let mut keys = 0;
        let mut pages = Pages::new(self.target.interval());
        while let Some((records, remaining)) = pages.next(self.target, None).await? {
            for record in records {
                let index = self.target.path(&record.key).and_then(|path| missing.remove(path));
                match index {
                    None => differences.push((record.key, "the source does not have it".to_owned())),
                    Some(index) if items[index].hash != hash(&record.value) => {
                        differences.push((record.key, "it has another value".to_owned()));
                    }
                    Some(index) => {
                        revisions[index] = Some(record.mod_revision);
                        keys += 1;
                    }
                }
            }
            progress.log(keys as u64, keys as u64 + remaining);
        }
        let (expired, lost): (Vec<_>, Vec<_>) =
            missing.into_values().partition(|index| items[*index].expires.is_some());
        differences.extend(lost.iter().map(|index| (self.target.key(&items[*index].path), "it is missing".to_owned())));
        let mut last = self.inventory.revision;
        for (item, revision) in items.iter().zip(revisions) {
            let Some(revision) = revision else { continue };
            if revision <= last {
                differences.push((self.target.key(&item.path), "it is not in order".to_owned()));
            }
            last = revision;
        }
        if !differences.is_empty() {
            return Err(MigrationError::Differs(differences));
        }
        progress.end(keys as u64);
        Ok(Compared { keys, expired: expired.len() })
    }

    /// Checks that nothing was written to the source since the inventory. Keys may have expired.
    async fn check_source(&self) -> Result<(), MigrationError> {
        let (source, error) = (self.source, self.source.error());
        let current = source.store.current_revision().await.map_err(&error)?;
        let mut feed = source.store.changes(self.inventory.revision).await.map_err(&error)?;
        while feed.complete_to() < current {
            let batch = feed.next_batch().await.map_err(&error)?;
            let is_write = |key: &Key, is_put: bool| is_put && source.path(key).is_some();
            if let Some(change) = batch.changes.iter().find(|change| is_write(&change.key, change.value.is_some())) {
                return Err(MigrationError::Changed { store: source.name.clone(), key: change.key.clone() });
            }
        }
        Ok(())
    }

    /// Compacts the history, and removes the mark. So no client can use a resourceVersion of the source for the
    /// target's history.
    async fn finish(&self, claim: Revision) -> Result<Revision, MigrationError> {
        let (target, error) = (self.target, self.target.error());
        let current = target.store.current_revision().await.map_err(&error)?;
        target.store.compact(current).await.map_err(&error)?;
        let key = marker_key(&target.prefix);
        match target.store.commit(Change::delete(key.clone(), Compare::ModRevision(claim))).await {
            Ok(revision) => Ok(revision),
            Err(unknown @ Error::OutcomeUnknown { .. }) => {
                match marker::read(&*target.store, &target.prefix).await.map_err(&error)? {
                    Some(_) => Err(error(unknown)),
                    None => target.store.current_revision().await.map_err(&error),
                }
            }
            Err(failed) => Err(self.write_error(&key, failed)),
        }
    }
}

/// Polls a future once. Returns its result if it is ready.
async fn poll_once<T>(mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// The time until a key expires; `None` if it has passed.
fn time_left(expires: pintle_store::Timestamp) -> Option<Duration> {
    let left = Duration::from_millis(expires.0.saturating_sub(SystemClock.now().0));
    (!left.is_zero()).then_some(left)
}
