//! Consistent reads of the current revision. One linearizable read serves all callers that wait when it begins.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::api;
use super::client::{CallError, EtcdClient, NO_ANSWER, RETRY_TIME};
use super::revision;
use crate::{Error, Revision};

/// How long a member may take before another member is asked too. Callers wait for the first answer.
const HEDGE_AFTER: Duration = Duration::from_secs(1);

/// How long to wait before members are asked again if none could answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Reads the current revision for concurrent callers.
#[derive(Debug)]
pub(super) struct RevisionReader {
    callers: mpsc::UnboundedSender<oneshot::Sender<Result<Revision, Error>>>,
}

impl RevisionReader {
    /// Starts the task of the reader. The task ends when the reader is dropped. `key` is any key.
    pub(super) fn start(client: EtcdClient, key: Bytes) -> Self {
        let (callers, mut waiting) = mpsc::unbounded_channel::<oneshot::Sender<_>>();
        tokio::spawn(async move {
            let mut callers = Vec::new();
            while waiting.recv_many(&mut callers, usize::MAX).await > 0 {
                // Callers that the last answer has woken, and requests that have arrived meanwhile, share this read.
                tokio::task::yield_now().await;
                while let Ok(caller) = waiting.try_recv() {
                    callers.push(caller);
                }
                // The read must begin after the calls, so later callers wait for the next read.
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

    /// The revision of the last change that was committed before the call, or of a later change.
    pub(super) async fn current(&self) -> Result<Revision, Error> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.callers.send(sender);
        receiver.await.unwrap_or(Err(Error::Closed))
    }
}

/// Reads from any member. A member that does not answer delays nobody for longer than [`HEDGE_AFTER`].
async fn read(client: &EtcdClient, request: api::RangeRequest) -> Result<api::RangeResponse, CallError> {
    let give_up = Instant::now() + RETRY_TIME;
    let mut order = VecDeque::from(client.order());
    let mut reads = FuturesUnordered::new();
    let mut asked: Vec<(usize, Instant)> = Vec::new();
    let mut failure = CallError::no_answer();
    let ask = async |member| (member, client.range_from(member, request.clone()).await);
    loop {
        if reads.is_empty() {
            match order.pop_front() {
                Some(member) => {
                    asked.push((member, Instant::now()));
                    reads.push(ask(member));
                }
                None if Instant::now() >= give_up => return Err(failure),
                None => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    order = client.order().into();
                    continue;
                }
            }
        }
        tokio::select! {
            Some(read) = reads.next() => match read {
                (member, Ok(found)) => {
                    let is_slow = |(other, since): &(usize, Instant)| *other != member && since.elapsed() >= HEDGE_AFTER;
                    if !reads.is_empty() {
                        asked.iter().filter(|asked| is_slow(asked)).for_each(|(slow, _)| client.set_usable(*slow, Err(NO_ANSWER)));
                    }
                    return Ok(found);
                }
                (member, Err(error)) => {
                    asked.retain(|(other, _)| *other != member);
                    failure = error;
                }
            },
            () = tokio::time::sleep(HEDGE_AFTER), if !order.is_empty() => {
                if let Some(member) = order.pop_front() {
                    asked.push((member, Instant::now()));
                    reads.push(ask(member));
                }
            }
        }
    }
}
