//! Calls of etcd over gRPC.

use pintle_locks::Mutex;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, timeout_at};

use super::api;
use super::connection::{ConnectionError, MemberConnection};
use super::grpc::{self, Code, EncodedMessage, GrpcError, GrpcStream, Status};
use crate::Error;

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a member may take to open a watch.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a member may take for an idempotent call with a small answer, if there are other members.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a member may take to read a page of records.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// For how long reads, and calls that etcd has not executed, are repeated. An election takes one or two seconds.
pub(super) const RETRY_TIME: Duration = Duration::from_millis(2500);
/// The shortest and the longest wait before a call is repeated that no member could execute.
const RETRY_BACKOFF: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_millis(200);

/// A client of the members of an etcd. Clones share its connections.
///
/// Calls take turns among the members, as in upstream's client. A member that fails is left out until a probe succeeds.
/// The same holds for a member that has no leader or does not answer a probe.
#[derive(Clone)]
pub(super) struct EtcdClient {
    members: Arc<[Member]>,
    turn: Arc<AtomicUsize>,
}

struct Member {
    url: String,
    connection: Mutex<MemberConnection>,
    is_usable: AtomicBool,
}

impl fmt::Debug for EtcdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<&str> = self.members.iter().map(|member| member.url.as_str()).collect();
        f.debug_struct("EtcdClient").field("members", &members).finish_non_exhaustive()
    }
}

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    /// etcd has compacted the revision.
    Compacted,
    /// etcd does not have the revision yet.
    FutureRevision,
    /// The request is larger than etcd accepts.
    TooLarge,
    /// The lease has expired.
    NoLease,
    /// The request was sent. etcd may have executed it, or may still do so. The text is the reason.
    Unknown(String),
    /// The member could not be reached, or cannot execute requests now, so it has not executed the request. The text is
    /// the reason.
    NotExecuted(String),
    /// Any other error, as text. etcd has not executed the request, and another member would refuse it too.
    Refused(String),
}

/// The text of the error of a call that takes too long.
pub(super) const NO_ANSWER: &str = "etcd did not answer in time";

impl CallError {
    /// The error of a read that takes too long.
    pub(super) fn no_answer() -> Self {
        Self::NotExecuted(NO_ANSWER.to_owned())
    }

    fn of_status(Status { code, message }: Status) -> Self {
        // The texts of etcd's `rpctypes` are part of its API.
        match &*message {
            "etcdserver: mvcc: required revision has been compacted" => Self::Compacted,
            "etcdserver: mvcc: required revision is a future revision" => Self::FutureRevision,
            "etcdserver: request is too large" => Self::TooLarge,
            // gRPC's server itself refuses much larger requests.
            text if text.starts_with("grpc: received message larger than max") => Self::TooLarge,
            "etcdserver: requested lease not found" => Self::NoLease,
            "etcdserver: no leader"
            | "etcdserver: not leader"
            | "etcdserver: not capable"
            | "etcdserver: too many requests"
            | "etcdserver: rpc not supported for learner"
            | "raft proposal dropped" => Self::NotExecuted(message),
            _ => match code {
                Code::INVALID_ARGUMENT | Code::PERMISSION_DENIED | Code::UNAUTHENTICATED | Code::UNIMPLEMENTED => {
                    Self::Refused(message)
                }
                // etcd also returns these codes for a proposal that is still on its way through the cluster. It also
                // reports missing space with them, maybe only after it has executed the transaction.
                Code::DEADLINE_EXCEEDED => Self::Unknown(NO_ANSWER.to_owned()),
                _ => Self::Unknown(message),
            },
        }
    }

    /// The text of the error.
    pub(super) fn into_detail(self) -> String {
        match self {
            Self::Unknown(detail) | Self::NotExecuted(detail) | Self::Refused(detail) => detail,
            Self::Compacted => "the revision has been compacted".to_owned(),
            Self::FutureRevision => "the revision is in the future".to_owned(),
            Self::TooLarge => "the request is too large".to_owned(),
            Self::NoLease => "the lease has expired".to_owned(),
        }
    }

    /// True if the request can be sent again, maybe to another member.
    fn can_repeat(&self, effect: Effect) -> bool {
        match self {
            Self::NotExecuted(_) => true,
            Self::Unknown(_) => effect == Effect::Idempotent,
            Self::Compacted | Self::FutureRevision | Self::TooLarge | Self::NoLease | Self::Refused(_) => false,
        }
    }
}

/// The effect of executing a request twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The effect is the same as of one execution.
    Idempotent,
    /// The effect differs, so the request may be executed only once.
    Once,
}

impl From<GrpcError> for CallError {
    fn from(error: GrpcError) -> Self {
        match error {
            GrpcError::Connection(ConnectionError::NotSent(reason)) => Self::NotExecuted(reason),
            GrpcError::Connection(ConnectionError::Lost(reason)) => Self::Unknown(reason),
            GrpcError::Status(status) => Self::of_status(status),
            GrpcError::Malformed(reason) => Self::Unknown(reason),
            GrpcError::TooLarge => Self::TooLarge,
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        Error::Unavailable { detail: error.into_detail() }
    }
}

impl EtcdClient {
    /// Creates a client of these members: their URLs and the connections with them.
    pub(super) fn new(members: impl IntoIterator<Item = (String, MemberConnection)>) -> Self {
        let member =
            |(url, connection)| Member { url, connection: Mutex::new(connection), is_usable: AtomicBool::new(true) };
        Self { members: members.into_iter().map(member).collect(), turn: Arc::default() }
    }

    /// Replaces the connections with the members, by their URLs. Calls in progress and watches keep their old
    /// connections.
    ///
    /// # Errors
    /// A connection cannot be made. Then all connections stay as they are.
    pub(super) fn reconnect(&self, connect: impl Fn(&str) -> Result<MemberConnection, Error>) -> Result<(), Error> {
        let connections = self.members.iter().map(|member| connect(&member.url)).collect::<Result<Vec<_>, Error>>()?;
        for (member, connection) in self.members.iter().zip(connections) {
            *member.connection.lock() = connection;
        }
        Ok(())
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The members in the order in which a call tries them. Members that are left out come last.
    pub(super) fn order(&self) -> Vec<usize> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut order: Vec<usize> = (0..self.len()).map(|offset| (first + offset) % self.len()).collect();
        order.sort_by_key(|member| !self.members[*member].is_usable.load(Ordering::Relaxed));
        order
    }

    /// The member whose turn it is.
    pub(super) fn next_member(&self) -> usize {
        self.order().first().copied().unwrap_or_default()
    }

    /// Leaves a member out, or uses it again.
    pub(super) fn set_usable(&self, member: usize, usable: Result<(), &str>) {
        let Member { url, is_usable, .. } = &self.members[member];
        match (is_usable.swap(usable.is_ok(), Ordering::Relaxed), usable) {
            (true, Err(error)) => tracing::warn!(member = url, error, "A member of etcd fails, so it is left out"),
            (false, Ok(())) => tracing::info!(member = url, "A member of etcd works again"),
            _ => {}
        }
    }

    /// Calls members until one executes the request, or until the time for the call is over.
    async fn call<A>(&self, method: &'static str, request: &impl Message, effect: Effect) -> Result<A, CallError>
    where
        A: Message + Default,
    {
        let attempt = match effect {
            Effect::Idempotent if self.len() > 1 => ATTEMPT_TIMEOUT,
            _ => CALL_TIMEOUT,
        };
        self.call_within(method, request, effect, attempt).await
    }

    /// Like [`call`](Self::call), with the time that one member may take. Each member is asked at least once.
    async fn call_within<A>(
        &self,
        method: &'static str,
        request: &impl Message,
        effect: Effect,
        attempt: Duration,
    ) -> Result<A, CallError>
    where
        A: Message + Default,
    {
        let request = EncodedMessage::new(request)?;
        let give_up = Instant::now() + RETRY_TIME;
        let mut backoff = *RETRY_BACKOFF.start();
        loop {
            let mut failure = CallError::no_answer();
            for member in self.order() {
                match self.call_member(member, method, request.clone(), Instant::now() + attempt).await {
                    Err(error) if error.can_repeat(effect) => failure = error,
                    result => return result,
                }
            }
            if Instant::now() + backoff >= give_up {
                return Err(failure);
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(*RETRY_BACKOFF.end());
        }
    }

    /// Calls a member once. A member that does not execute the request is left out.
    async fn call_member<A>(
        &self,
        member: usize,
        method: &'static str,
        request: EncodedMessage,
        deadline: Instant,
    ) -> Result<A, CallError>
    where
        A: Message + Default,
    {
        let connection = self.members[member].connection.lock().clone();
        let result = match timeout_at(deadline, grpc::call(&connection, method, request)).await {
            Ok(result) => result.map_err(CallError::from),
            Err(_) => Err(CallError::Unknown(NO_ANSWER.to_owned())),
        };
        if let Err(CallError::NotExecuted(error) | CallError::Unknown(error)) = &result {
            self.set_usable(member, Err(error));
        }
        result
    }

    pub(super) async fn range(&self, request: api::RangeRequest) -> Result<api::RangeResponse, CallError> {
        match request.range_end.is_empty() || request.count_only {
            true => self.call(RANGE, &request, Effect::Idempotent).await,
            false => self.call_within(RANGE, &request, Effect::Idempotent, PAGE_TIMEOUT).await,
        }
    }

    /// Reads from one member.
    pub(super) async fn range_from(
        &self,
        member: usize,
        request: api::RangeRequest,
    ) -> Result<api::RangeResponse, CallError> {
        self.call_member(member, RANGE, EncodedMessage::new(&request)?, Instant::now() + CALL_TIMEOUT).await
    }

    pub(super) async fn txn(&self, request: api::TxnRequest) -> Result<api::TxnResponse, CallError> {
        self.call("/etcdserverpb.KV/Txn", &request, Effect::Once).await
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), CallError> {
        let request = api::CompactionRequest { revision };
        self.call::<api::CompactionResponse>("/etcdserverpb.KV/Compact", &request, Effect::Once).await.map(drop)
    }

    pub(super) async fn grant_lease(&self, ttl: i64) -> Result<i64, CallError> {
        let request = api::LeaseGrantRequest { ttl };
        // A lease without keys does no harm.
        let granted: api::LeaseGrantResponse =
            self.call("/etcdserverpb.Lease/LeaseGrant", &request, Effect::Idempotent).await?;
        Ok(granted.id)
    }

    pub(super) async fn leases(&self) -> Result<Vec<api::LeaseStatus>, CallError> {
        let request = api::LeaseLeasesRequest {};
        let found: api::LeaseLeasesResponse =
            self.call("/etcdserverpb.Lease/LeaseLeases", &request, Effect::Idempotent).await?;
        Ok(found.leases)
    }

    pub(super) async fn lease_time_to_live(&self, id: i64) -> Result<api::LeaseTimeToLiveResponse, CallError> {
        let request = api::LeaseTimeToLiveRequest { id, keys: true };
        self.call("/etcdserverpb.Lease/LeaseTimeToLive", &request, Effect::Idempotent).await
    }

    /// The status that a member reports of itself.
    pub(super) async fn status(&self, member: usize, limit: Duration) -> Result<api::StatusResponse, CallError> {
        let request = EncodedMessage::new(&api::StatusRequest {})?;
        self.call_member(member, "/etcdserverpb.Maintenance/Status", request, Instant::now() + limit).await
    }

    /// Opens a stream of watches at a member, with a first watch.
    pub(super) async fn watch(&self, member: usize, first: api::WatchCreateRequest) -> Result<GrpcStream, CallError> {
        let connection = self.members[member].connection.lock().clone();
        let first = api::WatchRequest { action: Some(api::WatchAction::Create(first)) };
        // A member that has lost its leader ends the watch, instead of being silent.
        let opened = GrpcStream::open(&connection, "/etcdserverpb.Watch/Watch", &[("hasleader", "true")], &first);
        let opened = match tokio::time::timeout(WATCH_TIMEOUT, opened).await {
            Ok(opened) => opened.map_err(CallError::from),
            Err(_) => Err(CallError::no_answer()),
        };
        opened.inspect_err(|error| self.set_usable(member, Err(&error.clone().into_detail())))
    }
}

/// The path of the method that reads.
const RANGE: &str = "/etcdserverpb.KV/Range";

/// An error with its causes.
pub(super) fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
