//! The caches and requests that the server gives up while memory is short (`--memory-limit-mib`). The tests set the
//! memory in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pintle::{MemoryBudget, MemoryUsage, Options};
use pintle_integration::{Cluster, eventually, run};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The memory in use, in percent of the limit.
#[derive(Debug, Default)]
struct FakeUsage(AtomicU64);

impl MemoryUsage for FakeUsage {
    fn used_bytes(&self) -> std::io::Result<u64> {
        match self.0.load(Ordering::Relaxed) {
            u64::MAX => Err(std::io::Error::other("a fault")),
            percent => Ok(percent << 20),
        }
    }
}

struct ShortOfMemory {
    cluster: Cluster,
    usage: Arc<FakeUsage>,
}

impl ShortOfMemory {
    async fn start() -> Self {
        let usage = Arc::new(FakeUsage::default());
        let memory = Some(MemoryBudget { limit: 100 << 20, usage: usage.clone() });
        Self { cluster: Cluster::with_options(Options { memory, ..Options::default() }).await, usage }
    }

    async fn metric(&self, name: &str) -> f64 {
        let metrics = self.cluster.get("/metrics").await.expect(200).text();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.expect("the metric").parse().expect("a number")
    }

    /// Sets the memory in use and waits until the server has reached a level.
    async fn use_memory(&self, percent: u64, level: f64) {
        self.usage.0.store(percent, Ordering::Relaxed);
        let reached = || async { self.metric("pintle_memory_pressure_level").await == level };
        eventually(&format!("level {level}"), reached).await;
    }

    async fn create(&self, name: &str, text: &str) -> u16 {
        self.cluster.post(MAPS, map(name, text)).await.status.as_u16()
    }
}

fn map(name: &str, text: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","finalizers":[]}},"data":{{"a":"{text}"}}}}"#)
}

#[test]
fn encodings_are_given_up_first_then_history_and_both_come_back() {
    run(async {
        let server = ShortOfMemory::start().await;
        assert_eq!(server.metric("pintle_memory_limit_bytes").await, f64::from(100 << 20));
        let text = "x".repeat(100_000);
        assert_eq!(server.create("a", &text).await, 201);
        let first = server.cluster.get(MAPS).await.expect(200).json()["metadata"]["resourceVersion"].clone();
        let first = first.as_str().expect("a revision");
        let exact = format!("{MAPS}?limit=1&resourceVersionMatch=Exact&resourceVersion={first}");
        for n in 0..40 {
            let _ = server.cluster.put(&format!("{MAPS}/a"), map("a", &format!("{text}{n}"))).await.expect(200);
        }
        let encodings = async || {
            let _ = server.cluster.request("GET", MAPS).header("Accept", PROTOBUF).send().await.expect(200);
            server.metric("pintle_encoding_cache_bytes").await
        };
        assert!(encodings().await > 0.0);
        server.use_memory(76, 1.0).await;
        assert_eq!((server.metric("pintle_encoding_cache_bytes").await, encodings().await), (0.0, 0.0));
        let _ = server.cluster.get(&exact).await.expect(200);
        let mut watch = server.cluster.watch(&format!("{MAPS}?watch=1")).await;
        watch.expect("ADDED", "a").await;
        server.use_memory(86, 2.0).await;
        server.cluster.get_until_status(&exact, 410).await;
        let expired = "The resourceVersion for the provided list is too old.";
        server.cluster.get(&exact).await.expect_error(410, "Expired", expired);
        // Watches and writes go on, and the newest history is available.
        assert_eq!(server.create("b", "small").await, 201);
        watch.expect("ADDED", "b").await;
        let now = server.cluster.get(MAPS).await.expect(200).json()["metadata"]["resourceVersion"].clone();
        assert_eq!(server.create("c", "small").await, 201);
        let now = now.as_str().expect("a revision");
        server.cluster.watch(&format!("{MAPS}?watch=1&resourceVersion={now}")).await.expect("ADDED", "c").await;
        server.use_memory(50, 0.0).await;
        assert!(encodings().await > 0.0);
        server.cluster.stop().await;
    });
}

#[test]
fn writes_that_add_memory_are_refused_last_and_reads_deletes_and_watches_go_on() {
    run(async {
        let server = ShortOfMemory::start().await;
        let cluster = &server.cluster;
        for name in ["a", "b"] {
            assert_eq!(server.create(name, "some text").await, 201);
        }
        let _ = cluster.post(MAPS, r#"{"metadata":{"name":"held","finalizers":["x/y","x/z"]}}"#).await.expect(201);
        let lease = |second: &str| {
            let renewed = format!("2026-01-01T00:00:{second}.000000Z");
            format!(r#"{{"metadata":{{"name":"l"}},"spec":{{"holderIdentity":"x","renewTime":"{renewed}"}}}}"#)
        };
        let _ = cluster.post(LEASES, lease("01")).await.expect(201);
        let _ = cluster.post("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await.expect(201);
        let _ = cluster.post("/api/v1/namespaces/n/configmaps", map("a", "some text")).await.expect(201);
        let mut watch = cluster.watch(&format!("{MAPS}?watch=1&resourceVersion=0")).await;
        for name in ["a", "b", "held"] {
            watch.expect("ADDED", name).await;
        }
        server.use_memory(96, 3.0).await;

        let message = "the server is short of memory and accepts only deletes and updates that make no object larger";
        let large = "x".repeat(10_000);
        let refused = cluster.post(MAPS, map("c", "text")).await.expect(503);
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(refused.json()["details"]["retryAfterSeconds"], 1);
        refused.expect_error(503, "ServiceUnavailable", message);
        let path = format!("{MAPS}/a");
        cluster.put(&path, map("a", &large)).await.expect_error(503, "ServiceUnavailable", message);
        let patch = format!(r#"{{"data":{{"a":"{large}"}}}}"#);
        cluster.patch(&path, "merge", &patch).await.expect_error(503, "ServiceUnavailable", message);
        let applied = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"},"data":{"a":"x"}}"#.to_owned();
        let apply = cluster.request("PATCH", &format!("{MAPS}/d?fieldManager=x"));
        let applied = apply.body("application/apply-patch+yaml", applied).send().await;
        applied.expect_error(503, "ServiceUnavailable", message);
        let dry_run = cluster.post(&format!("{MAPS}?dryRun=All"), map("c", "text")).await;
        dry_run.expect_error(503, "ServiceUnavailable", message);

        // Reads, reviews, and updates that enlarge no object go on.
        assert_eq!(cluster.get(MAPS).await.expect(200).json()["items"].as_array().map(Vec::len), Some(3));
        let review = r#"{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}"#;
        let _ = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).await.expect(201);
        let _ = cluster.patch(&format!("{LEASES}/l"), "merge", lease("02")).await.expect(200);
        let _ = cluster.put(&path, map("a", "text")).await.expect(200);
        watch.expect("MODIFIED", "a").await;
        // Deletes go on, with finalizers and of namespaces, too.
        let _ = cluster.delete(&path).await.expect(200);
        watch.expect("DELETED", "a").await;
        let held = format!("{MAPS}/held");
        let _ = cluster.delete(&held).await.expect(200);
        watch.expect("MODIFIED", "held").await;
        // An object may become larger before it is deleted: by a new field manager, and by a last annotation.
        let first =
            format!(r#"{{"metadata":{{"finalizers":["x/z"],"annotations":{{"end":"{}"}}}}}}"#, "x".repeat(1000));
        let _ = cluster.patch(&format!("{held}?fieldManager=new"), "merge", &first).await.expect(200);
        watch.expect("MODIFIED", "held").await;
        cluster.patch(&held, "merge", &patch).await.expect_error(503, "ServiceUnavailable", message);
        let _ = cluster.patch(&held, "merge", r#"{"metadata":{"finalizers":null}}"#).await.expect(200);
        watch.expect("DELETED", "held").await;
        let _ = cluster.delete("/api/v1/namespaces/n").await.expect(200);
        cluster.get_until_status("/api/v1/namespaces/n", 404).await;
        let _ = cluster.get("/readyz").await.expect(200);

        // The server leaves a level well below its threshold.
        server.use_memory(91, 3.0).await;
        assert_eq!(server.create("c", "text").await, 503);
        server.use_memory(60, 0.0).await;
        assert_eq!(server.create("c", &large).await, 201);
        watch.expect("ADDED", "c").await;
        server.cluster.stop().await;
    });
}

#[test]
fn memory_that_cannot_be_measured_fails_readiness_until_it_can() {
    run(async {
        let server = ShortOfMemory::start().await;
        server.usage.0.store(u64::MAX, Ordering::Relaxed);
        server.cluster.get_until_status("/readyz", 500).await;
        let check = server.cluster.get("/readyz/memory-budget").await.expect(500).text();
        assert!(check.contains("failed to measure the memory in use: a fault"), "{check}");
        server.usage.0.store(0, Ordering::Relaxed);
        server.cluster.get_until_status("/readyz", 200).await;
        server.cluster.stop().await;
    });
}
