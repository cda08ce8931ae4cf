//! The data of a request that is kept for its observers, and the interruptions of watches by observers. Servers without
//! observers keep no such data.

use std::sync::OnceLock;

use bytes::Bytes;
use pintle_locks::Mutex;
use pintle_value::Value;
use tokio::sync::watch;

/// An interruption of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The stream breaks off, as if a network connection were lost.
    Disconnect,
    /// The watch ends with the event `ERROR` and a `Status` with code 410, as if its history were gone.
    Expire,
    /// Like [`Interruption::Expire`], but at the next event, which is not sent.
    ExpireAtNextEvent,
}

/// Interrupts a watch as soon as the channel has a value.
pub type Interruptions = watch::Receiver<Option<Interruption>>;

/// The data of a request that exists only while the request is handled.
#[derive(Debug, Default)]
pub(crate) struct ObservedParts {
    /// The body, if the request writes and its body was received.
    body: OnceLock<Bytes>,
    /// The `Status` of an error response.
    failure: Mutex<Option<Value>>,
    /// The interruptions of the request, if it is a watch.
    interruptions: Mutex<Option<Interruptions>>,
}

impl ObservedParts {
    /// Sets the body that was received.
    pub(crate) fn set_body(&self, body: &Bytes) {
        // The body is already set only if the body is read again. Then the new body is empty.
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

    /// Sets the interruptions of the watch.
    pub(crate) fn set_interruptions(&self, interruptions: Interruptions) {
        *self.interruptions.lock() = Some(interruptions);
    }

    /// Takes the interruptions of the watch.
    pub(crate) fn take_interruptions(&self) -> Option<Interruptions> {
        self.interruptions.lock().take()
    }
}

/// Waits for an interruption that ends the watch at once. Never completes if there is none.
pub(crate) async fn interrupted(interruptions: &mut Option<Interruptions>) -> Interruption {
    let Some(receiver) = interruptions else { return std::future::pending().await };
    let is_immediate = |found: &Option<Interruption>| found.filter(|i| *i != Interruption::ExpireAtNextEvent).is_some();
    let found = receiver.wait_for(is_immediate).await.ok().and_then(|found| *found);
    match found {
        Some(interruption) => interruption,
        // No observer can interrupt the watch any more.
        None => std::future::pending().await,
    }
}
