//! Measures the CPU time of this process, without etcd's, per call of etcd. The rows are consistent reads of the
//! revision by many callers, commits with a feed that delivers them, and commits alone.
//!
//! `cargo run --release --package pintle-store --example etcd_costs`

#![allow(clippy::print_stdout, reason = "this program's purpose is to print")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pintle_etcd_process::{EtcdProcess, EtcdSettings};
use pintle_store::{Change, EtcdOptions, EtcdStore, Key, Store};

/// How long each row is measured.
const DURATION: Duration = Duration::from_secs(3);
/// The number of concurrent callers.
const CALLERS: usize = 16;

fn main() {
    let settings = EtcdSettings { quota: 8 << 30, ..EtcdSettings::default() };
    let etcd = EtcdProcess::with_settings(&settings);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = EtcdOptions { servers: vec![etcd.url()], ..EtcdOptions::default() };
        let store = Arc::new(EtcdStore::open(options).expect("a store"));
        measure("reads of the revision", &store, |store, _| async move {
            store.current_revision().await.expect("a revision");
        })
        .await;
        let commit = |store: Arc<EtcdStore>, number: u64| async move {
            let key = Key::from(format!("/registry/configmaps/default/object-{number:09}"));
            store.commit(Change::create(key, Bytes::from(vec![b'x'; 1000]))).await.expect("a commit");
        };
        measure("commits", &store, commit).await;
        let from = store.current_revision().await.expect("a revision");
        let mut feed = store.changes(from).await.expect("a feed");
        let follower = tokio::spawn(async move {
            while let Ok(batch) = feed.next_batch().await {
                drop(batch);
            }
        });
        measure("commits with a feed", &store, commit).await;
        measure("reads of the revision with a feed", &store, |store, _| async move {
            store.current_revision().await.expect("a revision");
        })
        .await;
        follower.abort();
    });
}

/// Runs the calls in a loop, and prints the number of calls per second and the CPU time of each call.
async fn measure<F>(name: &str, store: &Arc<EtcdStore>, call: impl Fn(Arc<EtcdStore>, u64) -> F + Copy + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (started, cpu, first) = (Instant::now(), cpu_time(), NUMBER.load(Ordering::Relaxed));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                while started.elapsed() < DURATION {
                    call(store.clone(), NUMBER.fetch_add(1, Ordering::Relaxed)).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("a caller ends");
    }
    let calls = NUMBER.load(Ordering::Relaxed) - first;
    let (time, cpu) = (started.elapsed(), cpu_time() - cpu);
    println!(
        "{name}: {:.0}/s, {:.1} µs of CPU time each",
        calls as f64 / time.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / calls as f64
    );
}

/// The CPU time of this process.
fn cpu_time() -> Duration {
    let usage = std::fs::read_to_string("/proc/self/stat").expect("the process's times");
    let fields: Vec<&str> = usage.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number");
    Duration::from_millis(ticks * 10)
}
