//! Compacts etcd's history. Several servers may run this: those that find that another one was faster leave it to that one
//! (upstream: `storage/etcd3/compact.go`, whose key and protocol these are).

use std::time::Duration;

use bytes::Bytes;

use super::api;
use super::client::{CallError, EtcdClient};

/// The key whose version counts the compactions, and whose value is the revision of the last one.
const COMPACT_REVISION_KEY: Bytes = Bytes::from_static(b"compact_rev_key");

/// What is known of the compactions of all servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compactions {
    /// The version of the key when it was read last.
    version: i64,
    /// The revision at that time, which is compacted next.
    revision: i64,
}

/// Compacts the history that is older than the interval, again and again, until the task is aborted.
pub(super) async fn compact_periodically(client: EtcdClient, interval: Duration) {
    let mut known = Compactions::default();
    loop {
        tokio::time::sleep(interval).await;
        match compact(&client, known).await {
            Ok(now) => known = now,
            Err(CallError::Compacted) => {}
            Err(error) => {
                let error = crate::Error::from(error);
                tracing::error!(%error, "Failed to compact the history in etcd, will retry");
            }
        }
    }
}

/// Compacts the revision that was the current one at the last call, unless another server has compacted since.
async fn compact(client: &EtcdClient, known: Compactions) -> Result<Compactions, CallError> {
    let compare = api::Compare {
        result: api::CompareResult::Equal as i32,
        target: api::CompareTarget::Version as i32,
        key: COMPACT_REVISION_KEY,
        operand: Some(api::CompareOperand::Version(known.version)),
        range_end: Bytes::new(),
    };
    let put = api::PutRequest {
        key: COMPACT_REVISION_KEY,
        value: known.revision.to_string().into(),
        ..api::PutRequest::default()
    };
    let read = api::RangeRequest { key: COMPACT_REVISION_KEY, ..api::RangeRequest::default() };
    let transaction = api::TxnRequest {
        compare: vec![compare],
        success: vec![api::RequestOp { request: Some(api::Request::Put(put)) }],
        failure: vec![api::RequestOp { request: Some(api::Request::Range(read)) }],
    };
    let answer = client.txn(transaction).await?;
    let revision = answer.header.unwrap_or_default().revision;
    if answer.succeeded {
        // At the first call nothing is known to be old enough.
        if known.revision > 0 {
            client.compact(known.revision).await?;
        }
        return Ok(Compactions { version: known.version + 1, revision });
    }
    let found = answer.responses.into_iter().next().and_then(|response| response.response);
    let version = match found {
        Some(api::Response::Range(found)) => found.kvs.first().map_or(0, |found| found.version),
        _ => 0,
    };
    Ok(Compactions { version, revision })
}
