//! Waits for conditions. A test waits for a condition and never for a time.

use std::time::{Duration, Instant};

use crate::client::Response;
use crate::cluster::Cluster;

/// The time limit of a wait. It is long, because the machine may be busy.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The pause before the next attempt.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How long a future must wait in [`expect_waiting`].
const PATIENCE: Duration = Duration::from_millis(300);

/// Waits until a condition holds.
///
/// # Panics
/// Panics with the name of the condition if the condition does not hold within two minutes.
pub async fn eventually<F: Future<Output = bool>>(condition: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {TIME_LIMIT:?}: {condition}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Asserts that a future has to wait. Nothing announces that, so the future gets some time in which it must not end.
///
/// # Panics
/// Panics if the future ends.
pub async fn expect_waiting<T>(what: &str, future: &mut (impl Future<Output = T> + Unpin)) {
    assert!(tokio::time::timeout(PATIENCE, future).await.is_err(), "does not wait: {what}");
}

impl Cluster {
    /// Sends GETs until a response is as expected, and returns this response.
    ///
    /// # Panics
    /// Panics with the last response if no response is as expected within two minutes.
    pub async fn get_until(&self, path: &str, is_expected: impl Fn(&Response) -> bool) -> Response {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let response = self.get(path).await;
            if is_expected(&response) {
                return response;
            }
            let (status, text) = (response.status, response.text());
            assert!(Instant::now() < deadline, "GET {path}: still {status} after {TIME_LIMIT:?}: {text}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Sends GETs until a response has this status code, and returns this response.
    ///
    /// # Panics
    /// Panics with the last response if no response has the status code within two minutes.
    pub async fn get_until_status(&self, path: &str, code: u16) -> Response {
        self.get_until(path, |response| response.status == code).await
    }
}
