//! What admission plugins reserve for one write. It is given back unless the write is stored.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use pintle_admission::{Reservation, Reservations};
use pintle_registry::ObjectClient;

use crate::cluster::{Cluster, ReservedWrite};

/// The reservations of a write. [`WriteReservations::finish`] has to be called when it has ended.
pub(super) struct WriteReservations<'a> {
    cluster: &'a Cluster,
    reservations: Mutex<Vec<Arc<dyn Reservation>>>,
    /// The write as others wait for it, from the first reservation on.
    in_progress: OnceLock<ReservedWrite<'a>>,
}

impl<'a> WriteReservations<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, reservations: Mutex::default(), in_progress: OnceLock::new() }
    }

    /// Gives everything back unless the write was stored, and ends the write for those who wait for it.
    pub(super) async fn finish(self, client: &dyn ObjectClient, is_stored: bool) {
        if !is_stored {
            for reservation in self.reservations.into_inner() {
                reservation.release(client).await;
            }
        }
    }
}

impl Reservations for WriteReservations<'_> {
    fn add(&self, reservation: Arc<dyn Reservation>) {
        self.in_progress.get_or_init(|| self.cluster.reserved_writes.begin());
        self.reservations.lock().push(reservation);
    }
}
