//! What plugins reserve for the writes that they admit. A write may still fail after that, and has to give it back.

use std::sync::Arc;

use pintle_registry::{BoxFuture, ObjectClient};

/// What a plugin has reserved for a write.
pub trait Reservation: Send + Sync {
    /// Gives everything back, because the write was not stored.
    fn release<'a>(&'a self, client: &'a dyn ObjectClient) -> BoxFuture<'a, ()>;
}

/// Keeps what plugins reserve for a write until it has ended.
pub trait Reservations: Sync {
    /// Whoever waits for the writes with reservations waits for this one from now on. A plugin begins before it reads what
    /// its reservation depends on.
    fn begin(&self);

    /// Adds a reservation. A plugin adds it before it reserves anything, so whoever waits for the writes with reservations
    /// waits for this one.
    fn add(&self, reservation: Arc<dyn Reservation>);
}

/// The reservations of writes that store nothing of their own (bindings, reviews) or that only delete: no plugin reserves
/// anything for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReservations;

impl Reservations for NoReservations {
    fn begin(&self) {}

    fn add(&self, _: Arc<dyn Reservation>) {}
}
