//! Reports the end of a connection that was taken over from HTTP.

use std::sync::Arc;

use pintle_locks::Mutex;

use super::{BodyEnd, BodyObserver};

/// Reports when a connection ends that was taken over from HTTP. It is an extension of the response that switches
/// protocols.
#[derive(Clone)]
pub(crate) struct UpgradeEnd(Arc<Mutex<UpgradeState>>);

/// The task that serves the connection holds this guard until the connection ends.
pub(crate) struct UpgradeGuard(UpgradeEnd);

enum UpgradeState {
    Open(Option<BodyObserver>),
    Ended,
}

impl UpgradeEnd {
    /// Creates the state of a connection that is open as long as the guard is held.
    pub(crate) fn new() -> (Self, UpgradeGuard) {
        let end = Self(Arc::new(Mutex::new(UpgradeState::Open(None))));
        (end.clone(), UpgradeGuard(end))
    }

    /// Calls an observer when the connection ends, or at once if it has ended. The bytes of the connection are not
    /// counted.
    pub(crate) fn observe(&self, observer: BodyObserver) {
        let mut state = self.0.lock();
        if let UpgradeState::Open(observers) = &mut *state {
            *observers = Some(observer);
            return;
        }
        drop(state);
        observer(BodyEnd::default());
    }
}

impl Drop for UpgradeGuard {
    fn drop(&mut self) {
        let ended = std::mem::replace(&mut *self.0.0.lock(), UpgradeState::Ended);
        if let UpgradeState::Open(Some(observer)) = ended {
            observer(BodyEnd::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_observer_is_called_once_when_the_connection_has_ended() {
        let calls = Arc::new(AtomicUsize::new(0));
        let observer = || -> BodyObserver {
            let calls = calls.clone();
            Box::new(move |_| {
                calls.fetch_add(1, Ordering::Relaxed);
            })
        };
        let (end, guard) = UpgradeEnd::new();
        end.observe(observer());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        drop(guard);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let (end, guard) = UpgradeEnd::new();
        drop(guard);
        end.observe(observer());
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
