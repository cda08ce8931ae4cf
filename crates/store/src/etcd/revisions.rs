//! Consistent reads of the current revision: one linearizable read serves all callers that wait when it begins.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::api;
use super::client::{CallError, EtcdClient};
use super::revision;
use crate::{Error, Revision};

/// How long a member may take before another one is asked, too. Callers wait for the first answer.
const HEDGE_AFTER: Duration = Duration::from_secs(1);

/// Reads the current revision for concurrent callers.
#[derive(Debug)]
pub(super) struct RevisionReader {
    callers: mpsc::UnboundedSender<oneshot::Sender<Result<Revision, Error>>>,
}

impl RevisionReader {
    /// Starts the task of the reader, which ends with it. `key` is any key.
    pub(super) fn start(client: EtcdClient, key: Bytes) -> Self {
        let (callers, mut waiting) = mpsc::unbounded_channel::<oneshot::Sender<_>>();
        tokio::spawn(async move {
            let mut callers = Vec::new();
            while waiting.recv_many(&mut callers, usize::MAX).await > 0 {
                // It has to begin after the calls, so those that come meanwhile wait for the next one.
                let request = api::RangeRequest { key: key.clone(), count_only: true, ..api::RangeRequest::default() };
                let read = read(&client, request).await;
                let read = read.map(|found| revision(found.header.unwrap_or_default().revision)).map_err(Error::from);
                for caller in callers.drain(..) {
                    let _ = caller.send(read.clone());
                }
            }
        });
        Self { callers }
    }

    /// The revision of the last change that was committed before the call, or of a later one.
    pub(super) async fn current(&self) -> Result<Revision, Error> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.callers.send(sender);
        receiver.await.unwrap_or(Err(Error::Closed))
    }
}

/// Reads from any member. One that does not answer delays nobody for longer than [`HEDGE_AFTER`].
async fn read(client: &EtcdClient, request: api::RangeRequest) -> Result<api::RangeResponse, CallError> {
    let first = client.range(request.clone());
    tokio::pin!(first);
    let mut others = JoinSet::new();
    let mut failure = None;
    loop {
        tokio::select! {
            result = &mut first, if failure.is_none() => match result {
                Err(error) if !others.is_empty() => failure = Some(error),
                result => return result,
            },
            Some(other) = others.join_next() => match (other, &failure) {
                (Ok(Ok(found)), _) => return Ok(found),
                (_, Some(error)) if others.is_empty() => return Err(error.clone()),
                _ => {}
            },
            () = tokio::time::sleep(HEDGE_AFTER), if others.len() + 1 < client.len() => {
                let (client, request, member) = (client.clone(), request.clone(), client.next_member());
                others.spawn(async move { client.range_from(member, request).await });
            }
        }
    }
}
