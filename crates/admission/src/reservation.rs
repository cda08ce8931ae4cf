//! Reservations that plugins make for the writes that they admit. A write may still fail after its admission, and then
//! has to give its reservations back.

use std::sync::Arc;

use pintle_registry::{BoxFuture, ObjectClient};

/// The reservation of a plugin for a write.
pub trait Reservation: Send + Sync {
    /// Gives everything back, because the write was not stored.
    fn release<'a>(&'a self, client: &'a dyn ObjectClient) -> BoxFuture<'a, ()>;
}

/// Keeps what plugins reserve for a write until it has ended.
pub trait Reservations: Sync {
    /// From now on, code that waits for the writes with reservations also waits for this write. A plugin calls this
    /// before it reads anything that its reservation depends on.
    fn begin(&self);

    /// Adds a reservation. A plugin adds it before it reserves anything, so code that waits for the writes with
    /// reservations also waits for this write.
    fn add(&self, reservation: Arc<dyn Reservation>);
}

/// The reservations of writes that store nothing of their own (bindings, reviews) or that only delete. No plugin
/// reserves anything for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReservations;

impl Reservations for NoReservations {
    fn begin(&self) {}

    fn add(&self, _: Arc<dyn Reservation>) {}
}
