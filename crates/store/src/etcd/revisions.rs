//! Consistent reads of the current revision: one linearizable read serves all callers that wait when it begins.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::api;
use super::client::EtcdClient;
use super::revision;
use crate::{Error, Revision};

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
                let read = client.range(request).await;
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
