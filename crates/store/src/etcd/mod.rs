//! The engine over etcd, for several servers that share one store. Revisions are etcd's. A commit is one transaction,
//! and the change feed is a watch (upstream: `apiserver/pkg/storage/etcd3`).

mod api;
mod certificates;
mod client;
mod compaction;
mod connection;
mod feed;
mod grpc;
mod health;
mod leases;
mod revisions;
mod written;

use pintle_locks::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pintle_outbound::Dialer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::certificates::EtcdCertificateFiles;
use self::certificates::{connect, follow_certificates};
use self::client::{CallError, EtcdClient};
use self::compaction::{CompactionSchedule, compact_periodically};
use self::feed::{EtcdFeed, FeedContext};
use self::health::{Health, ProbeLimits, probe};
use self::leases::Leases;
use self::revisions::RevisionReader;
use self::written::WrittenValues;
use crate::transformer::{StoredForm, is_stale, read_in_place, read_in_place_within, read_record};
use crate::{
    Change, ChangeFeed, Compare, Condition, Error, IdentityTransformer, Key, KeyInterval, Op, RangeResponse, Record,
    RecordPage, Revision, Store, StoreFuture, StoreMetrics, StoredChange, StoredValue, Timestamp, TransformErrorKind,
    ValueTransformer,
};

/// The largest request that etcd accepts by default (etcd: `--max-request-bytes`).
const MAX_REQUEST_BYTES: usize = 1_572_864;
/// How long the changes of a feed wait for keys outside the process.
const MAX_KEY_WAIT: Duration = Duration::from_secs(1);
/// One of so many written values is decoded all the same when the watch returns it.
const CHECKED_VALUES: i64 = 256;
/// Every key, or everything after the last key, in etcd's API.
const ZERO: Bytes = Bytes::from_static(b"\0");

/// The options of a store in etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The URLs of the members (`--etcd-servers`).
    pub servers: Vec<String>,
    /// The certificate files, for members with `https` URLs. They are read again when they change.
    pub certificates: EtcdCertificateFiles,
    /// How connections with members are opened.
    pub dialer: Dialer,
    /// The keys that the feeds deliver.
    pub interval: KeyInterval,
    /// Converts values to and from their stored form.
    pub transformer: Arc<dyn ValueTransformer>,
    /// How much longer than asked a key may live, so that keys can share a lease (`--lease-reuse-duration-seconds`).
    pub lease_reuse: Duration,
    /// The interval between compactions of history that is older than the interval (`--etcd-compaction-interval`); zero
    /// for never.
    pub compaction_interval: Duration,
    /// The minimum age of history before it is compacted, whatever the interval is.
    pub min_history: Duration,
    /// How long etcd may take to answer before it counts as unhealthy (`--etcd-healthcheck-timeout`).
    pub health_timeout: Duration,
    /// How long etcd may take to answer before it counts as not ready (`--etcd-readycheck-timeout`).
    pub ready_timeout: Duration,
    /// How late changes may arrive before the store is not ready (`--max-feed-lag`); zero for no limit.
    pub max_feed_lag: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            certificates: EtcdCertificateFiles::default(),
            dialer: Dialer::Direct,
            interval: KeyInterval::all(),
            transformer: Arc::new(IdentityTransformer),
            lease_reuse: Duration::from_secs(60),
            compaction_interval: Duration::from_secs(300),
            min_history: Duration::ZERO,
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            max_feed_lag: Duration::from_secs(10),
        }
    }
}

/// A store in etcd.
pub struct EtcdStore {
    context: Arc<FeedContext>,
    leases: Leases,
    revisions: RevisionReader,
    health: Arc<Health>,
    max_feed_lag: Duration,
    metrics: StoreMetrics,
    /// The tasks that probe the health, compact the history and follow the certificate files.
    tasks: Vec<JoinHandle<()>>,
    is_closed: AtomicBool,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").finish_non_exhaustive()
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.stop_tasks();
    }
}

/// Converts between etcd's messages and the contract's types.
#[derive(Debug)]
struct Codec {
    transformer: Arc<dyn ValueTransformer>,
    written: WrittenValues,
}

fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

fn to_i64(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// Adds etcd's compares for a compare on the changed key.
fn push_compare(compares: &mut Vec<api::Compare>, key: Bytes, compare: Compare) {
    match compare {
        Compare::Absent => compares.push(api::Compare::mod_revision(key, api::CompareResult::Equal, 0)),
        Compare::ModRevision(seen) => {
            // For etcd, zero means a key that does not exist.
            if seen == Revision(0) {
                compares.push(api::Compare::exists(key.clone()));
            }
            compares.push(api::Compare::mod_revision(key, api::CompareResult::Equal, to_i64(seen)));
        }
        Compare::Any => {}
    }
}

/// Adds etcd's compares for a condition on other keys.
fn push_condition(compares: &mut Vec<api::Compare>, condition: &Condition) {
    match condition {
        Condition::Unchanged(key, revision) => {
            push_compare(compares, Bytes::copy_from_slice(key.as_bytes()), Compare::ModRevision(*revision));
        }
        Condition::NotWrittenSince(interval, _) if interval.is_empty() => {}
        Condition::NotWrittenSince(interval, revision) => {
            let (key, range_end) = etcd_range(interval);
            let compare = api::Compare::mod_revision(key, api::CompareResult::Less, to_i64(revision.next()));
            compares.push(api::Compare { range_end, ..compare });
        }
    }
}

/// The key and the range end of an interval.
fn etcd_range(interval: &KeyInterval) -> (Bytes, Bytes) {
    let bytes = |key: &Key| Bytes::copy_from_slice(key.as_bytes());
    let start = if interval.start.is_empty() { ZERO } else { bytes(&interval.start) };
    (start, interval.end.as_ref().map_or(ZERO, bytes))
}

impl Codec {
    /// A key. If it is not UTF-8, it is logged and left out.
    fn key(bytes: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(bytes);
        let log = |_: &_| tracing::error!(key = %bytes.escape_ascii(), "etcd has a key that is not UTF-8");
        text.map(Key::from).inspect_err(log).ok()
    }

    /// The stored form of a value. The caller may have encoded the value.
    fn stored(&self, key: &Key, value: &Bytes, encoded: Option<StoredValue>) -> Result<StoredValue, Error> {
        let stored = match encoded {
            Some(encoded) => self.transformer.transform_encoded_to_storage(key, value.clone(), encoded),
            None => self.transformer.transform_to_storage(key, value.clone()),
        };
        stored.map_err(|error| error.of(key))
    }

    /// A record. If its value cannot be transformed, this is an error.
    async fn readable_record(&self, key: Key, found: api::KeyValue) -> Result<Record, Error> {
        read_record(&*self.transformer, record(key, found)).await
    }

    /// Records. If a value cannot be transformed, a placeholder replaces it.
    async fn records(&self, found: Vec<api::KeyValue>) -> Vec<Record> {
        let records = found.into_iter().filter_map(|found| Some(record(Self::key(&found.key)?, found)));
        let mut records: Vec<Record> = records.collect();
        read_in_place(&*self.transformer, records.iter_mut().map(StoredForm::from)).await;
        records
    }

    /// The changes of events, in the order of their revisions.
    async fn changes(&self, events: Vec<api::Event>) -> Vec<StoredChange> {
        let is_deletion = |event: &api::Event| event.r#type == api::EventType::Delete as i32;
        let (mut changes, mut others) = (Vec::with_capacity(events.len()), Vec::new());
        for event in events {
            let is_deletion = is_deletion(&event);
            let Some(found) = event.kv else { continue };
            let Some(key) = Self::key(&found.key) else { continue };
            let revision = revision(found.mod_revision);
            let written = if is_deletion { None } else { self.take_written(&key, &found.value, found.mod_revision) };
            match (is_deletion, written) {
                (false, None) => others.push(StoredChange { revision, key, value: Some(found.value), stale: false }),
                (_, value) => changes.push(StoredChange { revision, key, value, stale: false }),
            }
        }
        // All collections have one feed, so it does not wait for a plugin that hangs. The cache reads such values again.
        let forms = others.iter_mut().filter_map(StoredForm::of_change);
        read_in_place_within(&*self.transformer, forms, MAX_KEY_WAIT).await;
        changes.extend(others);
        changes.sort_by_key(|change| change.revision);
        changes
    }

    /// The value of a stored form that this process has written. Some stored forms are decoded all the same, and in
    /// debug builds all. This detects values that other servers would read differently.
    fn take_written(&self, key: &Key, stored: &Bytes, revision: i64) -> Option<Bytes> {
        let value = self.written.take(key, stored)?;
        if cfg!(debug_assertions) || revision % CHECKED_VALUES == 0 {
            let decoded = self.transformer.transform_from_storage(key, stored.clone());
            // The keys may have changed since the write. Then the value is read like another server's.
            let has_other_key = match &decoded {
                Ok(decoded) => decoded.stale && self.transformer.can_become_stale(key),
                Err(error) => error.kind == TransformErrorKind::Encryption,
            };
            if has_other_key {
                return None;
            }
            let is_same =
                decoded.is_ok_and(|decoded| self.transformer.is_as_written(&decoded.value, &value) && !decoded.stale);
            debug_assert!(is_same, "{key} is not read as it was written: {}", String::from_utf8_lossy(&value));
            if !is_same {
                tracing::error!(%key, revision, "A value is not read as it was written");
                return None;
            }
        }
        Some(value)
    }
}

/// A record in its stored form.
fn record(key: Key, found: api::KeyValue) -> Record {
    let (mod_revision, create_revision) = (revision(found.mod_revision), revision(found.create_revision));
    Record { key, value: found.value, mod_revision, create_revision, stale: false }
}

impl EtcdStore {
    /// Opens a store. Connections are made when they are first needed.
    ///
    /// # Errors
    /// An address or a certificate is not valid, or a file cannot be read.
    pub fn open(options: EtcdOptions) -> Result<Self, Error> {
        let certificates = options.certificates.read()?;
        let connect = |server: &String| Ok((server.clone(), connect(server, &certificates, &options.dialer)?));
        let members = options.servers.iter().map(connect).collect::<Result<Vec<_>, Error>>()?;
        if members.is_empty() {
            return Err(Error::Unavailable { detail: "no server of etcd is named".to_owned() });
        }
        let client = EtcdClient::new(members);
        let context = Arc::new(FeedContext {
            client: client.clone(),
            codec: Codec { transformer: options.transformer, written: WrittenValues::default() },
            interval: options.interval,
            wanted: watch::Sender::new(0),
            closed: watch::Sender::new(false),
            arrival: Mutex::default(),
        });
        let health = Arc::new(Health::default());
        let limits = ProbeLimits { health: options.health_timeout, readiness: options.ready_timeout };
        let mut tasks = vec![tokio::spawn(probe(context.clone(), health.clone(), limits))];
        if !options.compaction_interval.is_zero() {
            let (interval, min_age) = (options.compaction_interval, options.min_history);
            tasks.push(tokio::spawn(compact_periodically(client.clone(), CompactionSchedule { interval, min_age })));
        }
        if !options.certificates.is_empty() {
            tasks.push(tokio::spawn(follow_certificates(
                client.clone(),
                options.certificates,
                certificates,
                options.dialer,
            )));
        }
        let (any_key, _) = etcd_range(&context.interval);
        Ok(Self {
            leases: Leases::new(client.clone(), options.lease_reuse),
            revisions: RevisionReader::start(client, any_key),
            context,
            health,
            max_feed_lag: options.max_feed_lag,
            metrics: StoreMetrics::default(),
            tasks,
            is_closed: AtomicBool::new(false),
        })
    }

    fn stop_tasks(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    async fn read_current_revision(&self) -> Result<Revision, Error> {
        self.check_open()?;
        let current = self.revisions.current().await?;
        self.context.want(current);
        Ok(current)
    }

    /// The error of a read at a revision.
    async fn read_error(&self, error: CallError) -> Error {
        match error {
            CallError::Compacted => match self.read_oldest_revision().await {
                Ok(oldest) => Error::Compacted { oldest },
                Err(error) => error,
            },
            CallError::FutureRevision => match self.read_current_revision().await {
                Ok(current) => Error::FutureRevision { current },
                Err(error) => error,
            },
            error => error.into(),
        }
    }

    async fn read(&self, request: api::RangeRequest, at: Option<Revision>) -> Result<api::RangeResponse, Error> {
        self.check_open()?;
        // For etcd, zero means the current revision.
        if at == Some(Revision(0)) {
            return Err(self.read_error(CallError::Compacted).await);
        }
        let request = api::RangeRequest { revision: at.map_or(0, to_i64), ..request };
        match self.context.client.range(request).await {
            Ok(found) => Ok(found),
            Err(error) => Err(self.read_error(error).await),
        }
    }

    async fn read_key(&self, key: Key, at: Option<Revision>) -> Result<Option<Record>, Error> {
        let request = api::RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..api::RangeRequest::default() };
        let found = self.read(request, at).await?.kvs.into_iter().next();
        match found {
            Some(found) => self.context.codec.readable_record(key, found).await.map(Some),
            None => Ok(None),
        }
    }

    async fn read_range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<RangeResponse, Error> {
        let (key, range_end) = etcd_range(&interval);
        // For etcd, zero means no limit.
        let count_only = limit == Some(0);
        let limit = limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let mut request = api::RangeRequest { key, range_end, limit, count_only, ..api::RangeRequest::default() };
        let mut at = at;
        loop {
            let found = self.read(request.clone(), at).await?;
            let count = u64::try_from(found.count).unwrap_or_default();
            let remaining = count.saturating_sub(found.kvs.len() as u64);
            let revision = at.unwrap_or(revision(found.header.unwrap_or_default().revision));
            let last = found.kvs.last().map(|last| last.key.clone());
            let records = self.context.codec.records(found.kvs).await;
            match last {
                // Callers go on after the last record, so there must be one.
                Some(last) if records.is_empty() && remaining > 0 => {
                    request.key = [&last[..], b"\0"].concat().into();
                    at = Some(revision);
                }
                _ => return Ok(RangeResponse { remaining, records, revision }),
            }
        }
    }

    async fn read_stored_page(&self, interval: KeyInterval, limit: usize) -> Result<RecordPage, Error> {
        let (key, range_end) = etcd_range(&interval);
        let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
        let found =
            self.read(api::RangeRequest { key, range_end, limit, ..api::RangeRequest::default() }, None).await?;
        let is_last = u64::try_from(found.count).unwrap_or_default() <= found.kvs.len() as u64;
        let records = found.kvs.into_iter().filter_map(|found| Some(record(Codec::key(&found.key)?, found)));
        Ok(RecordPage { records: records.collect(), is_last })
    }

    /// The oldest revision that etcd has not compacted. etcd reports it only in the answer to a watch.
    async fn read_oldest_revision(&self) -> Result<Revision, Error> {
        self.check_open()?;
        let (key, _) = etcd_range(&self.context.interval);
        let first = api::RangeRequest { key, revision: 1, count_only: true, ..api::RangeRequest::default() };
        match self.context.client.range(first).await {
            Ok(_) => return Ok(Revision::EMPTY),
            Err(CallError::Compacted) => {}
            Err(error) => return Err(error.into()),
        }
        let mut feed = EtcdFeed::new(self.context.clone(), Revision(0));
        match feed.next_batch().await {
            Err(Error::Compacted { oldest }) => Ok(oldest),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Unavailable { detail: "etcd serves a revision that it has compacted".to_owned() }),
        }
    }

    async fn commit_change(&self, change: Change) -> Result<Revision, Error> {
        self.check_open()?;
        let key = change.key.clone();
        let committed = self.commit_transaction(change).await;
        if committed.is_err() {
            self.context.codec.written.remove(&key);
        }
        committed
    }

    async fn commit_transaction(&self, change: Change) -> Result<Revision, Error> {
        let key = Bytes::copy_from_slice(change.key.as_bytes());
        let mut compares = Vec::with_capacity(2 + change.conditions.len());
        push_compare(&mut compares, key.clone(), change.compare);
        change.conditions.iter().for_each(|condition| push_condition(&mut compares, condition));
        let is_delete = change.op == Op::Delete;
        let (request, lease, size) = match change.op {
            Op::Put { value, ttl } => {
                let Codec { written, .. } = &self.context.codec;
                let stored = self.context.codec.stored(&change.key, &value, change.encoded)?;
                let lease = match ttl {
                    Some(ttl) => self.leases.lease(ttl).await?,
                    None => 0,
                };
                let size = key.len() + stored.bytes.len();
                if stored.is_exact && self.context.is_followed(&change.key) {
                    written.insert(change.key.clone(), stored.bytes.clone(), value);
                }
                let value = stored.bytes;
                (api::Request::Put(api::PutRequest { key: key.clone(), value, lease }), lease, size)
            }
            Op::Delete => {
                compares.push(api::Compare::exists(key.clone()));
                (api::Request::DeleteRange(api::DeleteRangeRequest { key: key.clone() }), 0, key.len())
            }
        };
        let read = api::RangeRequest { key, ..api::RangeRequest::default() };
        let transaction = api::TxnRequest {
            compare: compares,
            success: vec![api::RequestOp { request: Some(request) }],
            failure: vec![api::RequestOp { request: Some(api::Request::Range(read)) }],
        };
        let committed = match self.context.client.txn(transaction).await {
            Ok(committed) => committed,
            Err(CallError::TooLarge) => {
                return Err(Error::TooLarge { key: change.key, size, limit: MAX_REQUEST_BYTES });
            }
            Err(error) => {
                if matches!(error, CallError::NoLease) {
                    self.leases.forget(lease).await;
                }
                self.metrics.commit_errors.inc();
                return Err(match error {
                    CallError::Unknown(detail) => Error::OutcomeUnknown { detail },
                    error => error.into(),
                });
            }
        };
        if !committed.succeeded {
            let found = committed.responses.into_iter().next().and_then(|response| response.range).unwrap_or_default();
            let current = self.context.codec.records(found.kvs).await.into_iter().next();
            let current_revision = current.as_ref().map(|record| record.mod_revision);
            let matches = change.compare.holds(current_revision) && (current.is_some() || !is_delete);
            return Err(match matches {
                true => Error::ConditionFailed,
                false => Error::Conflict { current: current.map(Box::new) },
            });
        }
        self.metrics.changes.inc();
        let revision = revision(committed.header.unwrap_or_default().revision);
        match self.context.is_followed(&change.key) {
            true => self.context.expect(revision),
            false => self.context.want(revision),
        }
        Ok(revision)
    }

    async fn open_feed(&self, from: Revision) -> Result<Box<dyn ChangeFeed>, Error> {
        let (key, _) = etcd_range(&self.context.interval);
        self.read(api::RangeRequest { key, count_only: true, ..api::RangeRequest::default() }, Some(from)).await?;
        Ok(Box::new(EtcdFeed::new(self.context.clone(), from)))
    }

    async fn compact_before(&self, before: Revision) -> Result<(), Error> {
        self.check_open()?;
        // etcd accepts zero, and does nothing.
        if before == Revision(0) {
            return Err(self.read_error(CallError::Compacted).await);
        }
        match self.context.client.compact(to_i64(before)).await {
            Ok(()) => Ok(()),
            Err(CallError::Compacted) => {
                let oldest = self.read_oldest_revision().await?;
                if oldest == before { Ok(()) } else { Err(Error::Compacted { oldest }) }
            }
            Err(error) => Err(self.read_error(error).await),
        }
    }

    async fn read_expiries(&self) -> Result<Vec<(Key, Timestamp)>, Error> {
        self.check_open()?;
        let mut expiries = Vec::new();
        for lease in self.context.client.leases().await? {
            let lease = self.context.client.lease_time_to_live(lease.id).await?;
            // The time to live is negative when the lease has expired and its keys are about to be deleted.
            let seconds = u64::try_from(lease.ttl).unwrap_or_default();
            let due = crate::Clock::now(&crate::SystemClock).after(Duration::from_secs(seconds));
            for key in &lease.keys {
                let key = Codec::key(key).filter(|key| self.context.interval.contains(key));
                expiries.extend(key.map(|key| (key, due)));
            }
        }
        Ok(expiries)
    }
}

impl Store for EtcdStore {
    fn current_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(self.read_current_revision())
    }

    fn get(&self, key: Key, at: Option<Revision>) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.read_key(key, at))
    }

    fn range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> StoreFuture<'_, RangeResponse> {
        Box::pin(self.read_range(interval, at, limit))
    }

    fn stored_page(&self, interval: KeyInterval, limit: usize) -> StoreFuture<'_, RecordPage> {
        Box::pin(self.read_stored_page(interval, limit))
    }

    fn commit(&self, change: Change) -> StoreFuture<'_, Revision> {
        Box::pin(self.commit_change(change))
    }

    fn changes(&self, from: Revision) -> StoreFuture<'_, Box<dyn ChangeFeed>> {
        Box::pin(self.open_feed(from))
    }

    fn compact(&self, before: Revision) -> StoreFuture<'_, ()> {
        Box::pin(self.compact_before(before))
    }

    fn oldest_revision(&self) -> StoreFuture<'_, Revision> {
        Box::pin(self.read_oldest_revision())
    }

    fn is_stale(&self, key: Key) -> StoreFuture<'_, bool> {
        Box::pin(is_stale(self, &*self.context.codec.transformer, key))
    }

    fn expiries(&self) -> StoreFuture<'_, Vec<(Key, Timestamp)>> {
        Box::pin(self.read_expiries())
    }

    fn health(&self) -> Result<(), Error> {
        self.check_open()?;
        self.health.check()
    }

    fn readiness(&self) -> Result<(), Error> {
        self.check_open()?;
        self.health.check_readiness()?;
        let lag = self.context.lag();
        match !self.max_feed_lag.is_zero() && lag > self.max_feed_lag {
            true => Err(Error::Behind { seconds: lag.as_secs() }),
            false => Ok(()),
        }
    }

    fn metrics(&self) -> Option<&StoreMetrics> {
        Some(&self.metrics)
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.health.size()).filter(|size| *size > 0)
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        self.is_closed.store(true, Ordering::Release);
        self.context.closed.send_replace(true);
        self.stop_tasks();
        Box::pin(async { Ok(()) })
    }
}
