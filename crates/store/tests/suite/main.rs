//! Black-box tests of the store: the contract on every engine, and the guarantees of the durable engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod concurrency;
mod continued;
mod contract;
mod corruption;
mod encrypted;
mod encryption;
mod etcd;
mod etcd_faults;
mod form;
mod health;
mod model;
mod script;
mod transformer;
mod unencrypted;
mod upgrade;

use std::time::{Duration, Instant};

/// Waits until a condition returns a value, and returns the value.
async fn until<T>(condition: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "the condition does not hold");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
