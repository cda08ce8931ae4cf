//! The locks of the server: those of `parking_lot`. With the feature `hold-times` they are wrapped, and record how long each is
//! held, for `cargo xtask bench --only contention`. Without it nothing is recorded, and nothing is wrapped.

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

/// How often a lock was held for a time, by one place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldCount {
    /// What the lock guards: the name of the type.
    pub guarded: &'static str,
    /// `lock`, `read` or `write`.
    pub mode: &'static str,
    /// The file and the line that took the lock.
    pub place: String,
    /// `cpu` for the processor time that the thread took while it held the lock, `wall` for the time that passed. The thread
    /// may have been preempted meanwhile, so only a difference that others do not have is one of waiting.
    pub clock: &'static str,
    /// The upper limit of the times, in nanoseconds. The next lower limit is at most an eighth below it.
    pub nanoseconds: u64,
    /// How often it was held so long.
    pub count: u64,
}

/// What was recorded so far. Empty without the feature `hold-times`.
#[must_use]
pub fn hold_counts() -> Vec<HoldCount> {
    #[cfg(feature = "hold-times")]
    return sites::hold_counts();
    #[cfg(not(feature = "hold-times"))]
    Vec::new()
}
