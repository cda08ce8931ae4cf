//! The health of etcd: a probe asks every member again and again, so that calls leave out those that cannot serve, and nobody
//! who asks for the health waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use super::feed::FeedContext;
use super::{api, revision};
use crate::{Error, lock};

/// How often the members are asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// The releases of etcd 3.5 before this one deliver progress notifications too early, with which reads would miss changes
/// (etcd issue 15220; upstream: `FeatureSupportChecker`).
const FIRST_SOUND_3_5: u64 = 8;

/// What the last probe has found.
#[derive(Debug, Default)]
pub(super) struct Health {
    failure: Mutex<Option<Error>>,
    size: AtomicU64,
}

impl Health {
    pub(super) fn check(&self) -> Result<(), Error> {
        lock(&self.failure).clone().map_or(Ok(()), Err)
    }

    /// The size of the database of a member, in bytes; zero if it is not known.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }
}

/// Checks again and again which members can serve, and whether the feed reaches what etcd has, until the task is aborted.
pub(super) async fn probe(context: Arc<FeedContext>, health: Arc<Health>, timeout: Duration) {
    loop {
        let mut probes = JoinSet::new();
        for member in 0..context.client.len() {
            let (context, health) = (context.clone(), health.clone());
            probes.spawn(async move { probe_member(&context, &health, member, timeout).await });
        }
        let results = probes.join_all().await;
        let is_served = results.iter().any(Result::is_ok);
        // An alarm is one of all members.
        let failure = results.into_iter().find_map(|result| match result {
            Ok(alarms) if alarms.is_empty() => None,
            Ok(alarms) => Some(alarms),
            Err(error) => (!is_served).then_some(error),
        });
        *lock(&health.failure) = failure.map(|detail| Error::Unavailable { detail });
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// Asks a member, and says why it cannot serve. Returns the alarms.
async fn probe_member(
    context: &FeedContext,
    health: &Health,
    member: usize,
    timeout: Duration,
) -> Result<String, String> {
    let result = match context.client.status(member, timeout).await {
        Ok(status) => check_status(&status).map(|()| status),
        Err(error) => Err(error.into_detail()),
    };
    context.client.set_usable(member, result.as_ref().map(drop).map_err(String::as_str));
    let status = result?;
    context.want(revision(status.header.unwrap_or_default().revision));
    health.size.store(u64::try_from(status.db_size).unwrap_or_default(), Ordering::Relaxed);
    // A member without a leader says so here, too.
    let alarms = status.errors.into_iter().filter(|error| error != "etcdserver: no leader");
    Ok(alarms.collect::<Vec<_>>().join(", "))
}

fn check_status(status: &api::StatusResponse) -> Result<(), String> {
    let version: Vec<u64> = status.version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    match version[..] {
        [3, 5, patch] if patch < FIRST_SOUND_3_5 => {
            return Err(format!("etcd {} is not supported; 3.5.{FIRST_SOUND_3_5} or newer is needed", status.version));
        }
        [3, 0..5, _] | [0..3, ..] => {
            return Err(format!("etcd {} is not supported; 3.5 or newer is needed", status.version));
        }
        _ => {}
    }
    match (status.leader, status.is_learner) {
        (0, _) => Err("etcdserver: no leader".to_owned()),
        (_, true) => Err("the member is a learner".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_cannot_serve_are_known() {
        let check = |version: &str, leader, is_learner| {
            let version = version.to_owned();
            check_status(&api::StatusResponse { version, leader, is_learner, ..api::StatusResponse::default() })
        };
        for version in ["3.5.8", "3.5.21", "3.6.0", "3.6.8", "3.7.0-alpha.0", "4.0.0"] {
            assert_eq!(check(version, 1, false), Ok(()), "{version}");
        }
        for version in ["3.5.7", "3.5.0", "3.4.37", "2.3.8"] {
            assert!(check(version, 1, false).unwrap_err().contains("is not supported"), "{version}");
        }
        assert_eq!(check("3.6.8", 0, false).unwrap_err(), "etcdserver: no leader");
        assert_eq!(check("3.6.8", 1, true).unwrap_err(), "the member is a learner");
    }
}
