//! The locks of the server, from `parking_lot`. With the feature `hold-times`, wrappers record how long each lock is
//! held, for `cargo xtask bench --only contention`. Without the feature there are no wrappers and no records.
//!
//! ```
//! use pintle_locks::{Mutex, hold_counts};
//!
//! let count = Mutex::new(1);
//! *count.lock() += 1;
//! assert_eq!(*count.lock(), 2);
//! if cfg!(not(feature = "hold-times")) {
//!     assert!(hold_counts().is_empty());
//! }
//! ```

#[cfg(feature = "hold-times")]
mod histogram;
#[cfg(feature = "hold-times")]
mod measured;
#[cfg(feature = "hold-times")]
mod sites;

#[cfg(feature = "hold-times")]
pub use measured::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "hold-times"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How often a lock was held for a time, by the place in the source that took the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldCount {
    /// The type that the lock guards.
    pub guarded: &'static str,
    /// `lock`, `read` or `write`.
    pub mode: &'static str,
    /// The file and the line that took the lock.
    pub place: String,
    /// `cpu` for the processor time of the thread while it held the lock, `wall` for the elapsed time. The thread may
    /// have been preempted while it held the lock. So a difference is waiting time only if other locks do not show it.
    pub clock: &'static str,
    /// The upper limit of the times, in nanoseconds. The next lower limit is at most an eighth below it.
    pub nanoseconds: u64,
    /// How often the lock was held for this time.
    pub count: u64,
}

/// The records so far. Empty without the feature `hold-times`.
#[must_use]
pub fn hold_counts() -> Vec<HoldCount> {
    #[cfg(feature = "hold-times")]
    return sites::hold_counts();
    #[cfg(not(feature = "hold-times"))]
    Vec::new()
}
