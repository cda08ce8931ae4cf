//! The engine over etcd, for several servers that share one store. Revisions are etcd's; a commit is one transaction; the
//! change feed is a watch (upstream: `apiserver/pkg/storage/etcd3`).

mod api;
mod client;
mod compaction;
mod feed;
mod health;
mod leases;
mod revisions;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use self::client::{CallError, EtcdClient, text_of};
use self::compaction::{CompactionSchedule, compact_periodically};
use self::feed::{EtcdFeed, FeedContext};
use self::health::{Health, ProbeLimits, probe};
use self::leases::Leases;
use self::revisions::RevisionReader;
use crate::{
    Change, ChangeFeed, CommitResponse, Compare, Condition, Error, IdentityTransformer, Key, KeyInterval, Op,
    RangeResponse, Record, Revision, Store, StoreFuture, StoreMetrics, StoredChange, Timestamp, TransformError,
    TransformedValue, ValueTransformer,
};

/// The largest request that etcd accepts by default (etcd: `--max-request-bytes`).
const MAX_REQUEST_BYTES: usize = 1_572_864;
/// How long connecting to a member may take. Calls that have not been sent by then are sent to another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How many bytes of an answer may be on their way. Pages and histories are large.
const STREAM_WINDOW: u32 = 2 << 20;
/// Every key, or everything after the last key, in etcd's API.
const ZERO: Bytes = Bytes::from_static(b"\0");

/// The options of a store in etcd.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The URLs of the members (`--etcd-servers`).
    pub servers: Vec<String>,
    /// The PEM of the authority that signs the members' certificates (`--etcd-cafile`).
    pub certificate_authority: Option<Vec<u8>>,
    /// The PEM of the client's certificate and its key (`--etcd-certfile`, `--etcd-keyfile`).
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The keys of the feeds.
    pub interval: KeyInterval,
    /// Converts values to and from their stored form.
    pub transformer: Arc<dyn ValueTransformer>,
    /// How much longer than asked a key may live, so that keys can share a lease (`--lease-reuse-duration-seconds`).
    pub lease_reuse: Duration,
    /// How often the history is compacted that is older than this (`--etcd-compaction-interval`); zero for never.
    pub compaction_interval: Duration,
    /// How old history is at least before it is compacted, however often that happens.
    pub min_history: Duration,
    /// How long etcd may take to answer before it counts as unhealthy (`--etcd-healthcheck-timeout`).
    pub health_timeout: Duration,
    /// How long etcd may take to answer before it counts as not ready (`--etcd-readycheck-timeout`).
    pub ready_timeout: Duration,
    /// How late changes may arrive before the store is not ready (`--max-feed-lag`); zero for any time.
    pub max_feed_lag: Duration,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            certificate_authority: None,
            identity: None,
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
    /// The probe of the health, and the compactions.
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

/// Converts between etcd's messages and those of the contract.
#[derive(Clone, Debug)]
struct Codec {
    transformer: Arc<dyn ValueTransformer>,
}

fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

fn to_i64(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// Adds the compares of etcd for one on the changed key.
fn push_compare(compares: &mut Vec<api::Compare>, key: Bytes, compare: Compare) {
    match compare {
        Compare::Absent => compares.push(api::Compare::mod_revision(key, api::CompareResult::Equal, 0)),
        Compare::ModRevision(seen) => {
            // etcd takes zero for a key that does not exist.
            if seen == Revision(0) {
                compares.push(api::Compare::exists(key.clone()));
            }
            compares.push(api::Compare::mod_revision(key, api::CompareResult::Equal, to_i64(seen)));
        }
        Compare::Any => {}
    }
}

/// Adds the compares of etcd for a condition on other keys.
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
    fn key(bytes: &[u8]) -> Result<Key, Error> {
        let text = std::str::from_utf8(bytes);
        text.map(Key::from).map_err(|_| Error::Unavailable {
            detail: format!("etcd has a key that is not UTF-8: {}", String::from_utf8_lossy(bytes)),
        })
    }

    /// A record. A value that cannot be transformed is an error.
    fn readable_record(&self, found: api::KeyValue) -> Result<Record, Error> {
        self.record_or(found, |key, error| Err(Error::Transform { key, detail: error.0 }))
    }

    /// A record among others. A value that cannot be transformed is empty, so that the others can be read.
    fn record(&self, found: api::KeyValue) -> Result<Record, Error> {
        let revision = found.mod_revision;
        self.record_or(found, |key, error| {
            tracing::error!(%key, revision, %error, "Failed to transform a stored value");
            Ok(TransformedValue { value: Bytes::new(), stale: false })
        })
    }

    fn record_or(
        &self,
        found: api::KeyValue,
        failed: impl FnOnce(Key, TransformError) -> Result<TransformedValue, Error>,
    ) -> Result<Record, Error> {
        let key = Self::key(&found.key)?;
        let value = match self.transformer.transform_from_storage(&key, found.value) {
            Ok(value) => value,
            Err(error) => failed(key.clone(), error)?,
        };
        Ok(Record {
            key,
            value: value.value,
            mod_revision: revision(found.mod_revision),
            create_revision: revision(found.create_revision),
            stale: value.stale,
        })
    }

    fn change(&self, event: api::Event) -> Result<StoredChange, Error> {
        let is_deletion = event.r#type == api::EventType::Delete as i32;
        let found = event.kv.unwrap_or_default();
        if is_deletion {
            let previous = event.prev_kv.unwrap_or_default();
            return Ok(StoredChange {
                revision: revision(found.mod_revision),
                key: Self::key(&found.key)?,
                value: None,
                create_revision: revision(previous.create_revision),
                stale: false,
            });
        }
        let Record { key, value, mod_revision, create_revision, stale } = self.record(found)?;
        Ok(StoredChange { revision: mod_revision, key, value: Some(value), create_revision, stale })
    }
}

impl EtcdStore {
    /// Opens a store. Connections are made when they are needed.
    ///
    /// # Errors
    /// An address or a certificate is not valid.
    pub fn open(options: EtcdOptions) -> Result<Self, Error> {
        let invalid = |error: &dyn std::error::Error| Error::Unavailable { detail: text_of(error) };
        let mut members = Vec::new();
        for server in &options.servers {
            let endpoint = Endpoint::from_shared(server.clone()).map_err(|error| invalid(&error))?;
            // As upstream's client: a connection that does not answer pings is closed (`keepaliveTime`, `keepaliveTimeout`).
            let mut endpoint = endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(Duration::from_secs(30))
                .keep_alive_timeout(Duration::from_secs(10))
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(2 * STREAM_WINDOW)
                .tcp_nodelay(true);
            if server.starts_with("https://") {
                let mut tls = ClientTlsConfig::new();
                if let Some(authority) = &options.certificate_authority {
                    tls = tls.ca_certificate(Certificate::from_pem(authority));
                }
                if let Some((certificate, key)) = &options.identity {
                    tls = tls.identity(Identity::from_pem(certificate, key));
                }
                endpoint = endpoint.tls_config(tls).map_err(|error| invalid(&error))?;
            }
            members.push((server.clone(), endpoint.connect_lazy()));
        }
        if members.is_empty() {
            return Err(Error::Unavailable { detail: "no server of etcd is named".to_owned() });
        }
        let client = EtcdClient::new(members);
        let context = Arc::new(FeedContext {
            client: client.clone(),
            codec: Codec { transformer: options.transformer },
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
        // etcd takes zero for the current one.
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
        let key = Bytes::copy_from_slice(key.as_bytes());
        let found = self.read(api::RangeRequest { key, ..api::RangeRequest::default() }, at).await?;
        found.kvs.into_iter().next().map(|found| self.context.codec.readable_record(found)).transpose()
    }

    async fn read_range(
        &self,
        interval: KeyInterval,
        at: Option<Revision>,
        limit: Option<usize>,
    ) -> Result<RangeResponse, Error> {
        let (key, range_end) = etcd_range(&interval);
        // etcd takes zero for no limit.
        let count_only = limit == Some(0);
        let limit = limit.map_or(0, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let request = api::RangeRequest { key, range_end, limit, count_only, ..api::RangeRequest::default() };
        let found = self.read(request, at).await?;
        let records = found.kvs.into_iter().map(|found| self.context.codec.record(found));
        let records = records.collect::<Result<Vec<Record>, Error>>()?;
        let count = u64::try_from(found.count).unwrap_or_default();
        let current = revision(found.header.unwrap_or_default().revision);
        Ok(RangeResponse {
            remaining: count.saturating_sub(records.len() as u64),
            records,
            revision: at.unwrap_or(current),
        })
    }

    /// The oldest revision that etcd has not compacted. It tells which one only in the answer to a watch.
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

    async fn commit_change(&self, change: Change) -> Result<CommitResponse, Error> {
        self.check_open()?;
        let key = Bytes::copy_from_slice(change.key.as_bytes());
        let mut compares = Vec::with_capacity(2 + change.conditions.len());
        push_compare(&mut compares, key.clone(), change.compare);
        change.conditions.iter().for_each(|condition| push_condition(&mut compares, condition));
        let is_delete = change.op == Op::Delete;
        let (request, lease, size) = match change.op {
            Op::Put { value, ttl } => {
                let transformed = self.context.codec.transformer.transform_to_storage(&change.key, value);
                let value =
                    transformed.map_err(|error| Error::Transform { key: change.key.clone(), detail: error.0 })?;
                let lease = match ttl {
                    Some(ttl) => self.leases.lease(ttl).await?,
                    None => 0,
                };
                let size = key.len() + value.len();
                (api::Request::Put(api::PutRequest { key: key.clone(), value, lease, prev_kv: true }), lease, size)
            }
            Op::Delete => {
                compares.push(api::Compare::exists(key.clone()));
                (api::Request::DeleteRange(api::DeleteRangeRequest { key: key.clone(), prev_kv: true }), 0, key.len())
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
        let response = committed.responses.into_iter().next().and_then(|response| response.response);
        let previous = match response {
            Some(api::Response::Put(put)) => put.prev_kv,
            Some(api::Response::DeleteRange(deleted)) => deleted.prev_kvs.into_iter().next(),
            Some(api::Response::Range(found)) => found.kvs.into_iter().next(),
            None => None,
        };
        let previous = previous.map(|found| self.context.codec.record(found)).transpose()?;
        if !committed.succeeded {
            let current = previous.as_ref().map(|record| record.mod_revision);
            let matches = change.compare.holds(current) && (current.is_some() || !is_delete);
            return Err(match matches {
                true => Error::ConditionFailed,
                false => Error::Conflict { current: previous.map(Box::new) },
            });
        }
        self.metrics.changes.inc();
        let revision = revision(committed.header.unwrap_or_default().revision);
        self.context.want(revision);
        Ok(CommitResponse { revision, previous })
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
            // It is negative when the lease has expired and its keys are about to go.
            let seconds = u64::try_from(lease.ttl).unwrap_or_default();
            let due = crate::Clock::now(&crate::SystemClock).after(Duration::from_secs(seconds));
            for key in &lease.keys {
                let key = Codec::key(key)?;
                if self.context.interval.contains(&key) {
                    expiries.push((key, due));
                }
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

    fn commit(&self, change: Change) -> StoreFuture<'_, CommitResponse> {
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
