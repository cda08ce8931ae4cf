//! `pintle serve --memory-limit-mib`, and a client that sends as much as it can.

use std::sync::atomic::{AtomicBool, Ordering};

use super::server::{Server, kubectl, printed};

const LIMIT_MIB: usize = 512;

#[test]
fn the_client_with_a_costly_request_is_refused_and_the_others_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = &folder.path().join("data");
    let server = Server::start(data_dir, &["--memory-limit-mib", &LIMIT_MIB.to_string()]);
    // The body has 2.4 MB. A decoder without limits would use gigabytes for it.
    let containers = vec!["{}"; 800_000].join(",");
    let pod = format!(r#"{{"metadata":{{"name":"costly"}},"spec":{{"containers":[{containers}]}}}}"#);
    let file = folder.path().join("pod.json");
    std::fs::write(&file, pod).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let is_over = AtomicBool::new(false);
    let (created, refused) = std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut created = 0;
            // The failure of any create fails the test.
            while !is_over.load(Ordering::Relaxed) {
                created += 1;
                printed(data_dir, &["create", "configmap", &format!("small-{created}")]);
            }
            created
        });
        let create = ["create", "--raw", "/api/v1/namespaces/default/pods", "-f", file];
        let refused: Vec<_> = (0..4).map(|_| kubectl(data_dir, &create)).collect();
        is_over.store(true, Ordering::Relaxed);
        (others.join().expect("the others go on"), refused)
    });
    assert!(created > 0);
    for output in refused {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains("Request entity too large: it needs more than"), "{text}");
    }
    printed(data_dir, &["create", "configmap", "afterwards"]);
    if let Some(largest) = server.largest_memory() {
        assert!(largest <= LIMIT_MIB << 20, "{largest} bytes");
    }
    server.stop();
}
