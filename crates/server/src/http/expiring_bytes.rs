//! The bytes of a response that are dropped at a deadline if their client has not asked for them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// Bytes that are dropped at a deadline, together with what is held until they are taken.
pub struct ExpiringBytes {
    bytes: Arc<Mutex<Option<HeldBytes>>>,
    /// The number of bytes that were not taken yet.
    size: usize,
    timer: AbortHandle,
}

struct HeldBytes {
    bytes: Bytes,
    _held: Box<dyn Send>,
}

impl ExpiringBytes {
    pub(super) fn new(bytes: Bytes, deadline: Instant, held: impl Send + 'static) -> Self {
        let size = bytes.len();
        let bytes = Arc::new(Mutex::new(Some(HeldBytes { bytes, _held: Box::new(held) })));
        let expiring = bytes.clone();
        let timer = tokio::spawn(async move {
            sleep_until(deadline).await;
            drop(expiring.lock().take());
        });
        Self { bytes, size, timer: timer.abort_handle() }
    }

    /// The number of bytes that were not taken yet.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Takes the bytes. `None` if they were taken before.
    pub(super) fn take(&mut self) -> Option<io::Result<Bytes>> {
        if std::mem::take(&mut self.size) == 0 {
            return None;
        }
        let expired = || io::Error::new(io::ErrorKind::TimedOut, "the response was not sent in time");
        Some(self.bytes.lock().take().map(|held| held.bytes).ok_or_else(expired))
    }
}

impl Drop for ExpiringBytes {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_are_dropped_at_the_deadline() {
        let (held, deadline) = (Arc::new(()), Instant::now() + Duration::from_secs(60));
        let new = || ExpiringBytes::new(Bytes::from_static(b"bytes"), deadline, held.clone());
        let (mut taken, mut expired) = (new(), new());
        assert_eq!(taken.size(), 5);
        assert_eq!(taken.take().expect("bytes").expect("in time"), "bytes");
        assert!(taken.take().is_none());
        assert_eq!(Arc::strong_count(&held), 2);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(expired.take().expect("a result").expect_err("too late").kind(), io::ErrorKind::TimedOut);
        assert!(expired.take().is_none());
    }
}
