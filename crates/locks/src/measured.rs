//! The locks of `parking_lot`, with guards that record how long they exist.

use std::any::type_name;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;

use crate::sites::Hold;

/// A mutex that records how long it is held.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

/// A lock for one writer or many readers that records how long it is held.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

macro_rules! guard {
    ($(#[$docs:meta])* $name:ident, $hold:ident) => {
        $(#[$docs])*
        #[derive(Debug)]
        pub struct $name<'a, T: ?Sized> {
            // This field is dropped first, before the lock is released.
            $hold: Hold,
            guard: parking_lot::$name<'a, T>,
        }

        impl<T: ?Sized> Deref for $name<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.guard
            }
        }
    };
}

guard!(
    /// A locked mutex.
    MutexGuard,
    hold
);
guard!(
    /// A lock held by a reader.
    RwLockReadGuard,
    _hold
);
guard!(
    /// A lock held by its writer.
    RwLockWriteGuard,
    _hold
);

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Mutex<T> {
    /// A mutex with this value.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock();
        MutexGuard { hold: Hold::begin(type_name::<T>(), "lock", Location::caller()), guard }
    }

    /// Takes the lock if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.0.try_lock()?;
        Some(MutexGuard { hold: Hold::begin(type_name::<T>(), "lock", Location::caller()), guard })
    }

    /// The value. The exclusive reference needs no lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> RwLock<T> {
    /// A lock with this value.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let guard = self.0.read();
        RwLockReadGuard { _hold: Hold::begin(type_name::<T>(), "read", Location::caller()), guard }
    }

    /// Waits until no thread reads or writes.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let guard = self.0.write();
        RwLockWriteGuard { _hold: Hold::begin(type_name::<T>(), "write", Location::caller()), guard }
    }

    /// The value. The exclusive reference needs no lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A condition variable. Its waiters release their mutex while they wait.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) -> bool {
        self.0.notify_one()
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) -> usize {
        self.0.notify_all()
    }

    /// Waits until another thread wakes this one.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.hold.record();
        self.0.wait(&mut guard.guard);
        guard.hold.restart();
    }

    /// Waits until another thread wakes this one, or until the time has passed.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> parking_lot::WaitTimeoutResult {
        guard.hold.record();
        let result = self.0.wait_for(&mut guard.guard, timeout);
        guard.hold.restart();
        result
    }
}
