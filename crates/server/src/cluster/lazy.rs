//! Values that are built when they are first needed.

use std::sync::OnceLock;

use pintle_locks::Mutex;

/// A value that its first user builds. Other users wait for it instead of building it, too. At a start, many requests
/// need the same value at the same time.
pub(super) struct Lazy<T> {
    value: OnceLock<T>,
    building: Mutex<()>,
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self { value: OnceLock::new(), building: Mutex::default() }
    }
}

impl<T> Lazy<T> {
    /// The value, if it has been built.
    pub(super) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value. After an error, the next user builds it.
    ///
    /// # Errors
    /// The value cannot be built.
    pub(super) fn get_or_try_build<E>(&self, build: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _building = self.building.lock();
        match self.value.get() {
            Some(value) => Ok(value),
            None => build().map(|value| self.value.get_or_init(|| value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_value_is_built_once() {
        const USERS: usize = 4;
        let (lazy, built, users) = (Lazy::default(), AtomicUsize::new(0), Barrier::new(USERS));
        assert_eq!(lazy.get_or_try_build(|| Err("not yet")), Err("not yet"));
        let build = || {
            built.fetch_add(1, Ordering::Relaxed);
            // Gives the other threads time to begin.
            (0..1000).for_each(|_| std::thread::yield_now());
            Ok::<_, ()>(built.load(Ordering::Relaxed))
        };
        std::thread::scope(|scope| {
            for _ in 0..USERS {
                scope.spawn(|| {
                    users.wait();
                    assert_eq!(lazy.get_or_try_build(build), Ok(&1));
                });
            }
        });
        assert_eq!((lazy.get(), built.into_inner()), (Some(&1), 1));
    }
}
