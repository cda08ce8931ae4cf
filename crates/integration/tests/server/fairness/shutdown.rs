//! Requests that wait while the server shuts down.

use pintle_integration::run;

use super::{MAPS, hold_seat, list_as, queue, release_seat, start, wait_until_waiting};

#[test]
fn requests_get_the_seats_of_lingering_writes_during_the_shutdown() {
    run(async {
        let cluster = start(queue(1)).await;
        // A write with so many watches keeps a seat after its end.
        let mut watches = Vec::new();
        for _ in 0..20 {
            watches.push(cluster.watch(&format!("{MAPS}?watch=1")).await);
        }
        let seat = hold_seat(&cluster).await;
        let ends = async {
            wait_until_waiting(&cluster, 1).await;
            let drained = async {
                // The shutdown ends the watches.
                for mut watch in watches {
                    while watch.next().await.is_some() {}
                }
                release_seat(seat).await;
            };
            tokio::join!(cluster.stop_server(), drained)
        };
        let (list, _) = tokio::join!(list_as(&cluster, "noisy"), ends);
        let _ = list.expect(200);
    });
}
