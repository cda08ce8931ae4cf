//! Background tasks. Each task has a name, is restarted with exponential backoff after a failure, and reports to health
//! checks whether it works.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use pintle_supervisor::BackgroundTask;
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     let task = BackgroundTask::new("example");
//!     let runs = AtomicUsize::new(0);
//!     // The first run fails, so the task runs again after a while.
//!     let start = || {
//!         let run = runs.fetch_add(1, Ordering::Relaxed);
//!         async move { if run == 0 { Err("no connection".to_owned()) } else { Ok(()) } }
//!     };
//!     task.supervise(start, || runs.load(Ordering::Relaxed) == 2).await;
//!     assert_eq!(task.name(), "example");
//!     assert_eq!(runs.load(Ordering::Relaxed), 2);
//! }
//! ```

mod busy_time;
mod registry;
mod task;

pub use registry::BackgroundTasks;
pub use task::{BackgroundTask, RecoveryTimes};
