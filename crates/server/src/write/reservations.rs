//! The reservations of admission plugins for one write. They are given back if the write is not stored.

use std::sync::{Arc, OnceLock};

use pintle_admission::{Reservation, Reservations};
use pintle_controllers::{ClusterClient, is_controller_manager_active};
use pintle_locks::Mutex;
use pintle_registry::ObjectClient;

use super::commit::WriteEnd;
use crate::cluster::{Cluster, ReservedWrite};

/// The reservations of a write. [`WriteReservations::finish`] has to be called when the write has ended.
pub(super) struct WriteReservations<'a> {
    cluster: &'a Arc<Cluster>,
    reservations: Mutex<Vec<Arc<dyn Reservation>>>,
    /// The write in [`ReservedWrites`](crate::cluster::ReservedWrites), for tasks that wait for it.
    in_progress: OnceLock<ReservedWrite<'a>>,
}

impl<'a> WriteReservations<'a> {
    pub(super) fn new(cluster: &'a Arc<Cluster>) -> Self {
        Self { cluster, reservations: Mutex::default(), in_progress: OnceLock::new() }
    }

    /// Gives all reservations back if the write was not stored. Ends the write for tasks that wait for it.
    ///
    /// While a kube-controller-manager is active, nothing is given back, as in upstream. It counts stored objects
    /// without waiting for this write. So it may have removed the reservation already, and giving it back would take
    /// away the reservation of another write.
    pub(super) async fn finish(self, client: &dyn ObjectClient, end: WriteEnd) {
        let reservations = self.reservations.into_inner();
        if end != WriteEnd::NotStored || reservations.is_empty() {
            return;
        }
        let cluster: Arc<dyn ClusterClient> = self.cluster.clone();
        if is_controller_manager_active(&cluster) {
            return;
        }
        for reservation in reservations {
            reservation.release(client).await;
        }
    }
}

impl Reservations for WriteReservations<'_> {
    fn begin(&self) {
        self.in_progress.get_or_init(|| self.cluster.writes.reserved.begin());
    }

    fn add(&self, reservation: Arc<dyn Reservation>) {
        self.begin();
        self.reservations.lock().push(reservation);
    }
}
