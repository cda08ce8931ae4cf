//! The disk fails while clients read and write. Writes are refused with the cause, reads go on, and health checks
//! report the failure. The server recovers by itself as soon as the disk works.

use std::time::Duration;

use pintle_integration::{Client, Protocol};
use pintle_store_powerloss::{Disk, DiskFailure};
use serde_json::json;

use crate::shared::{SharedState, TIMEOUT};

/// The health check of the store.
const STORE_HEALTH: &str = "/readyz/etcd";

/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The faults of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The disk is full.
    Full,
    /// Writes fail.
    Write,
    /// Reads fail. Requests that are served from memory still work.
    Read,
    /// Writes and syncs do not return.
    Stall,
    /// Syncs fail.
    LostSync,
    /// Syncs fail, and the server is restarted.
    LostSyncAndRestart,
}

const FAULTS: [&[Fault]; 3] = [
    &[Fault::Full, Fault::Stall, Fault::LostSync],
    &[Fault::Write, Fault::Read, Fault::LostSyncAndRestart],
    &[Fault::LostSync, Fault::Full],
];

/// Creates the disk of a scenario.
pub(crate) fn disk(scenario: &str) -> Disk {
    Disk::register_unrecorded(scenario).expect("a new VFS")
}

/// Injects the disk faults of a round, one after the other.
pub(crate) async fn inject(shared: &SharedState, disk: &Disk, round: usize) {
    for fault in FAULTS[round % FAULTS.len()] {
        let client = shared.server().client(Protocol::Any);
        let failure = match fault {
            Fault::Full => DiskFailure::Full,
            Fault::Write => DiskFailure::Write,
            Fault::Read => DiskFailure::Read,
            Fault::Stall => DiskFailure::Stall,
            Fault::LostSync | Fault::LostSyncAndRestart => DiskFailure::Sync,
        };
        disk.fail(failure);
        let cause = match fault {
            Fault::Full => Some("no space left on device"),
            Fault::Write => Some("disk I/O error"),
            Fault::LostSync | Fault::LostSyncAndRestart => Some("an earlier sync failed"),
            Fault::Read | Fault::Stall => None,
        };
        if let Some(cause) = cause {
            wait_for_refused_write(&client, cause).await;
        }
        if *fault != Fault::Read {
            wait_for_health(&client, false).await;
        }
        // Reads go on.
        let _ = client.request("GET", "/api/v1/namespaces").send().await.expect(200);
        disk.fail(DiskFailure::None);
        if *fault == Fault::LostSyncAndRestart {
            shared.restart(round.is_multiple_of(2)).await;
        }
        wait_for_health(&shared.server().client(Protocol::Any), true).await;
    }
}

async fn health(client: &Client) -> u16 {
    client.request("GET", STORE_HEALTH).send().await.status.as_u16()
}

/// Waits until the store is healthy, or until it is unhealthy.
async fn wait_for_health(client: &Client, is_healthy: bool) {
    let changed = async {
        while (health(client).await == 200) != is_healthy {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(
        tokio::time::timeout(TIMEOUT, changed).await.is_ok(),
        "the health of the store does not become {is_healthy}"
    );
}

/// Writes until a write is refused for this cause, and checks the response.
async fn wait_for_refused_write(client: &Client, cause: &str) {
    let refused = async {
        loop {
            // No reflector watches this kind: the write may become visible after a restart.
            let body = json!({"metadata": {"generateName": "f-"}, "value": 1}).to_string();
            let response = client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses").json(body).send().await;
            if response.status == 503 && response.text().contains(cause) {
                assert_eq!(response.header("retry-after"), "1");
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, refused).await.is_ok(), "no write is refused because of: {cause}");
}
