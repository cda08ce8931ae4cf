//! Strategies of the group `batch`.

mod cron;
pub(crate) mod cronjob;
mod indexes;
pub(crate) mod job;
mod jobspec;
mod jobstatus;
mod jobupdate;
mod policies;
mod scheduling;
