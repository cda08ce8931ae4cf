//! Clients that leave before their requests have passed the filters. The future of such a request is dropped.

/// Calls a function if the future that holds this value is dropped, because the client has left.
pub(super) struct OnDeparture<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> OnDeparture<F> {
    pub(super) fn new(depart: F) -> Self {
        Self(Some(depart))
    }

    /// The client has not left so far. From now on, the function is not called.
    pub(super) fn cancel(mut self) {
        self.0 = None;
    }
}

impl<F: FnOnce()> Drop for OnDeparture<F> {
    fn drop(&mut self) {
        if let Some(depart) = self.0.take() {
            depart();
        }
    }
}
