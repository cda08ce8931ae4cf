//! Health checks: what they answer, to whom, and that a single one can be asked.

use pintle_testkit::{Cluster, run};

#[test]
fn a_healthy_server_says_so_to_anyone() {
    run(async {
        let cluster = Cluster::durable().await;
        for path in ["/livez", "/readyz", "/healthz", "/readyz/etcd", "/readyz/informer-sync"] {
            let answer = cluster.ask("GET", path).anonymous().send().await.expect(200);
            assert_eq!(answer.text(), "ok", "{path}");
        }
        let verbose = cluster.ask("GET", "/readyz?verbose&exclude=log").anonymous().send().await.expect(200).text();
        assert_eq!(
            verbose,
            "[+]ping ok\n[+]log excluded: ok\n[+]etcd ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n"
        );
        let _ = cluster.ask("GET", "/metrics").anonymous().send().await.expect(401);
        cluster.stop().await;
    });
}
