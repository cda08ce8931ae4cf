//! Background tasks: each has a name, is started again with exponential backoff after a failure, and reports whether it
//! works, for health checks.

mod busy_time;
mod registry;
mod task;

pub use registry::BackgroundTasks;
pub use task::{BackgroundTask, RecoveryTimes};
