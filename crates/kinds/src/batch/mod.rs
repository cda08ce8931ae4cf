//! Strategies of the group `batch`.

mod cron;
mod cronjob;
mod indexes;
mod job;
mod jobspec;
mod jobstatus;
mod jobupdate;
mod policies;

use std::sync::Arc;

use pintle_registry::Strategy;

pub(crate) fn strategy(plural: &str) -> Option<Arc<dyn Strategy>> {
    match plural {
        "jobs" => Some(Arc::new(job::JobStrategy)),
        "cronjobs" => Some(Arc::new(cronjob::CronJobStrategy)),
        _ => None,
    }
}
