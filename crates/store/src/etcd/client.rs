//! Calls of etcd over gRPC.

use std::error::Error as _;
use std::fmt;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::api;
use crate::Error;

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of the members of an etcd. Clones share its connections.
#[derive(Clone)]
pub(super) struct EtcdClient {
    grpc: Grpc<Channel>,
}

impl fmt::Debug for EtcdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdClient").finish_non_exhaustive()
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// etcd has compacted the revision.
    Compacted,
    /// etcd does not have the revision yet.
    FutureRevision,
    /// The request is larger than etcd accepts.
    TooLarge,
    /// The lease has expired.
    NoLease,
    /// The request was sent, and etcd may have executed it or may do so yet. The reason in words.
    Unknown(String),
    /// Anything else, in words. etcd has not executed the request.
    Other(String),
}

/// What is said of a call that takes too long.
const NO_ANSWER: &str = "etcd did not answer in time";

impl CallError {
    /// The reason of a read that takes too long.
    pub(super) fn no_answer() -> Self {
        Self::Other(NO_ANSWER.to_owned())
    }

    fn of(status: &Status) -> Self {
        // The texts of etcd's `rpctypes` are part of its API.
        match status.message() {
            "etcdserver: mvcc: required revision has been compacted" => Self::Compacted,
            "etcdserver: mvcc: required revision is a future revision" => Self::FutureRevision,
            "etcdserver: request is too large" => Self::TooLarge,
            // Much larger ones are refused by the server of gRPC.
            message if message.starts_with("grpc: received message larger than max") => Self::TooLarge,
            "etcdserver: requested lease not found" => Self::NoLease,
            // The proposal is on its way through the cluster.
            message
                if message.starts_with("etcdserver: request timed out")
                    || message.starts_with("etcdserver: server stopped")
                    || message.starts_with("etcdserver: leader changed") =>
            {
                Self::Unknown(message.to_owned())
            }
            message if message.starts_with("etcdserver: ") => Self::Other(message.to_owned()),
            _ if is_not_sent(status) => Self::Other(text_of(status)),
            _ if status.code() == Code::DeadlineExceeded => Self::Unknown(NO_ANSWER.to_owned()),
            message => Self::Unknown(message.to_owned()),
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        let detail = match error {
            CallError::Unknown(detail) | CallError::Other(detail) => detail,
            CallError::Compacted => "the revision has been compacted".to_owned(),
            CallError::FutureRevision => "the revision is in the future".to_owned(),
            CallError::TooLarge => "the request is too large".to_owned(),
            CallError::NoLease => "the lease has expired".to_owned(),
        };
        Error::Unavailable { detail }
    }
}

impl EtcdClient {
    pub(super) fn new(channel: Channel) -> Self {
        // etcd bounds what it stores, and pages bound what is read at once.
        Self { grpc: Grpc::new(channel).max_decoding_message_size(usize::MAX).max_encoding_message_size(usize::MAX) }
    }

    async fn unary<Q, R>(&self, path: &'static str, request: Q) -> Result<R, CallError>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        let mut grpc = self.grpc.clone();
        let deadline = Instant::now() + CALL_TIMEOUT;
        let ready = timeout_at(deadline, grpc.ready()).await.map_err(|_| CallError::no_answer())?;
        ready.map_err(|error| CallError::Other(text_of(&error)))?;
        let path = PathAndQuery::from_static(path);
        let call = grpc.unary(Request::new(request), path, ProstCodec::<Q, R>::default());
        match timeout_at(deadline, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(CallError::of(&status)),
            Err(_) => Err(CallError::Unknown(NO_ANSWER.to_owned())),
        }
    }

    pub(super) async fn range(&self, request: api::RangeRequest) -> Result<api::RangeResponse, CallError> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub(super) async fn txn(&self, request: api::TxnRequest) -> Result<api::TxnResponse, CallError> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), CallError> {
        let request = api::CompactionRequest { revision };
        self.unary::<_, api::CompactionResponse>("/etcdserverpb.KV/Compact", request).await.map(drop)
    }

    pub(super) async fn grant_lease(&self, ttl: i64) -> Result<i64, CallError> {
        let granted: api::LeaseGrantResponse =
            self.unary("/etcdserverpb.Lease/LeaseGrant", api::LeaseGrantRequest { ttl }).await?;
        Ok(granted.id)
    }

    pub(super) async fn leases(&self) -> Result<Vec<api::LeaseStatus>, CallError> {
        let found: api::LeaseLeasesResponse =
            self.unary("/etcdserverpb.Lease/LeaseLeases", api::LeaseLeasesRequest {}).await?;
        Ok(found.leases)
    }

    pub(super) async fn lease_time_to_live(&self, id: i64) -> Result<api::LeaseTimeToLiveResponse, CallError> {
        self.unary("/etcdserverpb.Lease/LeaseTimeToLive", api::LeaseTimeToLiveRequest { id, keys: true }).await
    }

    pub(super) async fn status(&self) -> Result<api::StatusResponse, CallError> {
        self.unary("/etcdserverpb.Maintenance/Status", api::StatusRequest {}).await
    }

    /// Opens a stream of watches. `requests` stays open as long as the stream.
    pub(super) async fn watch(
        &self,
        requests: tokio_stream::wrappers::ReceiverStream<api::WatchRequest>,
    ) -> Result<Streaming<api::WatchResponse>, CallError> {
        let mut grpc = self.grpc.clone();
        let call = async {
            grpc.ready().await.map_err(|error| CallError::Other(text_of(&error)))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let codec = ProstCodec::<api::WatchRequest, api::WatchResponse>::default();
            let mut request = Request::new(requests);
            // A member that has lost its leader ends the watch, instead of being silent.
            request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
            let answer = grpc.streaming(request, path, codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| CallError::of(&status))
        };
        let answer = tokio::time::timeout(CALL_TIMEOUT, call).await;
        answer.unwrap_or_else(|_| Err(CallError::no_answer()))
    }
}

/// True for a call that has failed before a connection had it.
fn is_not_sent(status: &Status) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

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
