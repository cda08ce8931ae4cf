//! The health of etcd. A probe asks every member again and again, so that calls leave out members that cannot serve. A
//! caller that asks for the health does not wait.

use pintle_locks::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::NO_ANSWER;
use super::feed::FeedContext;
use super::{api, revision};
use crate::Error;

/// How often the members are asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);

/// The first release of etcd 3.5 that is sound. Earlier releases deliver progress notifications too early, so reads
/// would miss changes, or they lose changes after a compaction. (etcd issues 15220, 17507, 17529; upstream:
/// `FeatureSupportChecker`.)
const FIRST_SOUND_3_5: u64 = 13;

/// How long a member may take to answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeLimits {
    /// The limit before a member counts as unhealthy (`--etcd-healthcheck-timeout`).
    pub(super) health: Duration,
    /// The limit before a member counts as not ready (`--etcd-readycheck-timeout`).
    pub(super) readiness: Duration,
}

/// The result of the last probe.
#[derive(Debug, Default)]
pub(super) struct Health {
    unhealthy: Mutex<Option<Error>>,
    unready: Mutex<Option<Error>>,
    size: AtomicU64,
}

impl Health {
    pub(super) fn check(&self) -> Result<(), Error> {
        self.unhealthy.lock().clone().map_or(Ok(()), Err)
    }

    pub(super) fn check_readiness(&self) -> Result<(), Error> {
        self.unready.lock().clone().map_or(Ok(()), Err)
    }

    /// The database size of a member, in bytes; zero if it is not known.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }
}

/// The answer of a member to a probe, and how long it took.
#[derive(Debug)]
struct Answer {
    time: Duration,
    /// The alarms, or the reason why the member cannot serve.
    alarms: Result<String, String>,
}

/// Checks again and again which members can serve and whether the feed keeps up with etcd, until the task is aborted.
pub(super) async fn probe(context: Arc<FeedContext>, health: Arc<Health>, limits: ProbeLimits) {
    let mut alarms = String::new();
    loop {
        let mut probes = JoinSet::new();
        for member in 0..context.client.len() {
            let (context, health) = (context.clone(), health.clone());
            probes.spawn(async move { probe_member(&context, &health, member, limits).await });
        }
        let answers = probes.join_all().await;
        let now = answers.iter().find_map(|answer| answer.alarms.as_ref().ok()).cloned().unwrap_or_default();
        if !now.is_empty() && now != alarms {
            tracing::error!(alarms = now, "etcd has raised an alarm");
        }
        alarms = now;
        *health.unhealthy.lock() = failure(&answers, limits.health);
        *health.unready.lock() = failure(&answers, limits.readiness);
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

/// The alarm after which no answer of etcd can be trusted. With the other alarm, that there is no space, reads go on.
const CORRUPT: &str = "alarm:CORRUPT";

/// The error if no member that answered in time can serve, or if the data is corrupt.
fn failure(answers: &[Answer], limit: Duration) -> Option<Error> {
    let in_time = |answer: &Answer| match &answer.alarms {
        Ok(_) if answer.time > limit => Err(NO_ANSWER.to_owned()),
        alarms => alarms.clone(),
    };
    let answers: Vec<Result<String, String>> = answers.iter().map(in_time).collect();
    let is_served = answers.iter().any(Result::is_ok);
    let failure = answers.into_iter().find_map(|answer| match answer {
        Ok(alarms) => alarms.contains(CORRUPT).then_some(alarms),
        Err(error) => (!is_served).then_some(error),
    });
    failure.map(|detail| Error::Unavailable { detail })
}

/// Asks a member.
async fn probe_member(context: &FeedContext, health: &Health, member: usize, limits: ProbeLimits) -> Answer {
    let started = Instant::now();
    let status = context.client.status(member, limits.health.max(limits.readiness)).await;
    let time = started.elapsed();
    let status = match status {
        Ok(status) => check_status(&status).map(|()| status),
        Err(error) => Err(error.into_detail()),
    };
    context.client.set_usable(member, status.as_ref().map(drop).map_err(String::as_str));
    let alarms = status.map(|status| {
        context.want(revision(status.header.unwrap_or_default().revision));
        health.size.store(u64::try_from(status.db_size).unwrap_or_default(), Ordering::Relaxed);
        status.errors.join(", ")
    });
    Answer { time, alarms }
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
    fn one_member_is_enough() {
        let answer = |millis, alarms: Result<&str, &str>| Answer {
            time: Duration::from_millis(millis),
            alarms: alarms.map(str::to_owned).map_err(str::to_owned),
        };
        let check = |answers: &[Answer]| failure(answers, Duration::from_millis(100)).map(|error| error.to_string());
        assert_eq!(check(&[answer(1, Err("gone")), answer(99, Ok(""))]), None);
        let gone = "the store is unavailable: gone".to_owned();
        assert_eq!(check(&[answer(1, Err("gone")), answer(101, Ok(""))]), Some(gone));
        let late = "the store is unavailable: etcd did not answer in time".to_owned();
        assert_eq!(check(&[answer(101, Ok(""))]), Some(late));
        let alarm = "the store is unavailable: alarm:CORRUPT".to_owned();
        assert_eq!(check(&[answer(1, Ok("")), answer(1, Ok("alarm:CORRUPT"))]), Some(alarm));
        assert_eq!(check(&[answer(1, Ok("alarm:NOSPACE"))]), None);
    }

    #[test]
    fn members_that_cannot_serve_are_known() {
        let check = |version: &str, leader, is_learner| {
            let version = version.to_owned();
            check_status(&api::StatusResponse { version, leader, is_learner, ..api::StatusResponse::default() })
        };
        for version in ["3.5.13", "3.5.21", "3.6.0", "3.6.8", "3.7.0-alpha.0", "4.0.0"] {
            assert_eq!(check(version, 1, false), Ok(()), "{version}");
        }
        for version in ["3.5.12", "3.5.0", "3.4.37", "2.3.8"] {
            assert!(check(version, 1, false).unwrap_err().contains("is not supported"), "{version}");
        }
        assert_eq!(check("3.6.8", 0, false).unwrap_err(), "etcdserver: no leader");
        assert_eq!(check("3.6.8", 1, true).unwrap_err(), "the member is a learner");
    }
}
