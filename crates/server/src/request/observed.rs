//! What is remembered of a request for its observers, and how they interrupt watches. Requests without observers have
//! none of it.

use std::sync::OnceLock;

use bytes::Bytes;
use pintle_locks::Mutex;
use pintle_value::Value;
use tokio::sync::watch;

/// What interrupts a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The stream breaks off, as when a network connection is lost.
    Disconnect,
    /// The watch ends with the event `ERROR` and a `Status` with code 410, as when its history is gone.
    Expire,
    /// As [`Interruption::Expire`], when there is an event to send, which is not sent.
    ExpireAtNextEvent,
}

/// Interrupts a watch as soon as it has a value.
pub type Interruptions = watch::Receiver<Option<Interruption>>;

/// What observers can learn about a request only while it is handled.
#[derive(Debug, Default)]
pub(crate) struct ObservedParts {
    /// The body, if the request writes and its body was received.
    body: OnceLock<Bytes>,
    /// The `Status` of an error response.
    failure: Mutex<Option<Value>>,
    /// What interrupts the request, if it is a watch.
    interruptions: Mutex<Option<Interruptions>>,
}

impl ObservedParts {
    /// Sets the body that was received.
    pub(crate) fn set_body(&self, body: &Bytes) {
        // Already set only if the body is read again, and empty then.
        let _ = self.body.set(body.clone());
    }

    /// The body, if it was received.
    pub(crate) fn body(&self) -> Option<&Bytes> {
        self.body.get()
    }

    /// Sets the `Status` of an error response.
    pub(crate) fn set_failure(&self, status: &Value) {
        *self.failure.lock() = Some(status.clone());
    }

    /// Takes the `Status` of an error response.
    pub(crate) fn take_failure(&self) -> Option<Value> {
        self.failure.lock().take()
    }

    /// Sets what interrupts the watch.
    pub(crate) fn set_interruptions(&self, interruptions: Interruptions) {
        *self.interruptions.lock() = Some(interruptions);
    }

    /// Takes what interrupts the watch.
    pub(crate) fn take_interruptions(&self) -> Option<Interruptions> {
        self.interruptions.lock().take()
    }
}

/// Waits until a watch is to be interrupted at once. Never completes if nothing interrupts it.
pub(crate) async fn interrupted(interruptions: &mut Option<Interruptions>) -> Interruption {
    let Some(receiver) = interruptions else { return std::future::pending().await };
    let is_immediate = |found: &Option<Interruption>| found.filter(|i| *i != Interruption::ExpireAtNextEvent).is_some();
    let found = receiver.wait_for(is_immediate).await.ok().and_then(|found| *found);
    match found {
        Some(interruption) => interruption,
        // Nobody can interrupt it any more.
        None => std::future::pending().await,
    }
}
