//! Background tasks. Each task has a name, is restarted with exponential backoff after a failure, and reports to health
//! checks whether it works.

mod busy_time;
mod registry;
mod task;

pub use registry::BackgroundTasks;
pub use task::{BackgroundTask, RecoveryTimes};
