//! Compacts etcd's history. Several servers may run this. A server that finds that another one was faster leaves the
//! compaction to it. The key and the protocol are upstream's (`storage/etcd3/compact.go`).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::api;
use super::client::{CallError, EtcdClient};

/// The key whose version counts the compactions, and whose value is the revision of the last one.
const COMPACT_REVISION_KEY: Bytes = Bytes::from_static(b"compact_rev_key");

/// When the history is compacted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CompactionSchedule {
    /// The time between two compactions.
    pub(super) interval: Duration,
    /// The minimum age of compacted history. Servers have the history of this time in memory. A watch that one server
    /// could resume must be able to go on at another server.
    pub(super) min_age: Duration,
}

/// The known compactions of all servers, and the known revisions.
#[derive(Debug, Default)]
struct Compactions {
    /// The version of the key when it was read last.
    version: i64,
    /// Past current revisions with the times when they were current, from the oldest to the newest.
    seen: VecDeque<(Instant, i64)>,
}

impl Compactions {
    /// The newest revision that was current long enough ago; zero if there is none.
    fn old_enough(&mut self, now: Instant, min_age: Duration) -> i64 {
        let is_old = |(seen, _): &(Instant, i64)| now.duration_since(*seen) >= min_age;
        while self.seen.get(1).is_some_and(is_old) {
            self.seen.pop_front();
        }
        self.seen.front().filter(|first| is_old(first)).map_or(0, |(_, revision)| *revision)
    }
}

/// Compacts the history that is old enough, at each interval, until the task is aborted.
pub(super) async fn compact_periodically(client: EtcdClient, schedule: CompactionSchedule) {
    let mut known = Compactions::default();
    loop {
        tokio::time::sleep(schedule.interval).await;
        match compact(&client, &mut known, schedule).await {
            Ok(()) | Err(CallError::Compacted) => {}
            Err(error) => {
                let error = crate::Error::from(error);
                tracing::error!(%error, "Failed to compact the history in etcd, will retry");
            }
        }
    }
}

/// Compacts the history before the newest revision that is old enough, unless another server has compacted since the
/// last call.
async fn compact(client: &EtcdClient, known: &mut Compactions, schedule: CompactionSchedule) -> Result<(), CallError> {
    let compacted = known.old_enough(Instant::now(), schedule.min_age);
    let compare = api::Compare {
        result: api::CompareResult::Equal as i32,
        target: api::CompareTarget::Version as i32,
        key: COMPACT_REVISION_KEY,
        operand: Some(api::CompareOperand::Version(known.version)),
        range_end: Bytes::new(),
    };
    let put = api::PutRequest {
        key: COMPACT_REVISION_KEY,
        value: compacted.to_string().into(),
        ..api::PutRequest::default()
    };
    let read = api::RangeRequest { key: COMPACT_REVISION_KEY, ..api::RangeRequest::default() };
    let transaction = api::TxnRequest {
        compare: vec![compare],
        success: vec![api::RequestOp { request: Some(api::Request::Put(put)) }],
        failure: vec![api::RequestOp { request: Some(api::Request::Range(read)) }],
    };
    let answer = client.txn(transaction).await?;
    known.seen.push_back((Instant::now(), answer.header.unwrap_or_default().revision));
    if answer.succeeded {
        known.version += 1;
        // At first no revision is known to be old enough.
        if compacted > 0 {
            client.compact(compacted).await?;
        }
        return Ok(());
    }
    let found = answer.responses.into_iter().next().and_then(|response| response.range);
    known.version = found.and_then(|found| found.kvs.first().map(|found| found.version)).unwrap_or_default();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_old_enough_is_compacted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let seen = [(at(0), 10), (at(60), 20), (at(120), 30), (at(180), 40)].into();
        let mut known = Compactions { version: 0, seen };
        for (now, min_age, expect) in [(200, 300, 0), (299, 300, 0), (300, 300, 10), (370, 300, 20), (370, 10, 40)] {
            assert_eq!(known.old_enough(at(now), Duration::from_secs(min_age)), expect, "{now} {min_age}");
        }
        assert_eq!(known.seen.len(), 1);
        assert_eq!(Compactions::default().old_enough(at(0), Duration::ZERO), 0);
    }
}
