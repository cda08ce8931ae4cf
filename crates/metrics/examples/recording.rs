//! Measures the cost of recording one request, with the same steps as the API server. It finds the series by labels
//! that borrow from a registry. It updates a counter by response code and two counters of requests in flight. It also
//! updates the histograms of authentication, authorization, duration and size.
//!
//! `cargo run --release -p pintle-metrics --example recording [threads]`

use std::hash::Hash;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::Equivalent;
use pintle_metrics::{Buckets, Counter, Family, Histogram};

const BUCKETS: Buckets = Buckets::seconds(&[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
]);
const SIZES: Buckets = Buckets::bytes(&[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]);
const ROUNDS: u32 = 5_000_000;

/// Seven labels, as in the metrics of requests.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Labels([String; 7]);

#[derive(Hash)]
struct BorrowedLabels<'r>([&'r str; 7]);

impl Equivalent<Labels> for BorrowedLabels<'_> {
    fn equivalent(&self, labels: &Labels) -> bool {
        self.0.iter().zip(&labels.0).all(|(own, other)| own == other)
    }
}

impl From<&BorrowedLabels<'_>> for Labels {
    fn from(labels: &BorrowedLabels<'_>) -> Self {
        Labels(labels.0.map(str::to_owned))
    }
}

struct Series {
    codes: [Counter; 12],
    durations: Histogram,
    sizes: Histogram,
}

#[derive(Default)]
struct Server {
    family: Family<Labels, Series>,
    in_flight: [Counter; 2],
}

fn record(server: &Server, filters: &[Histogram; 2], resource: &str) {
    let started = Instant::now();
    filters[0].observe(started.elapsed());
    filters[1].observe(started.elapsed());
    server.in_flight[0].inc();
    let labels = BorrowedLabels(["GET", "resource", "apiserver", "apps", "v1", resource, ""]);
    let series = server.family.get(&labels, || Series {
        codes: Default::default(),
        durations: Histogram::new(BUCKETS),
        sizes: Histogram::new(SIZES),
    });
    series.codes[black_box(3)].inc();
    series.durations.observe(started.elapsed());
    series.sizes.observe_bytes(black_box(900));
    server.in_flight[1].inc();
}

fn main() {
    let threads: u32 = std::env::args().nth(1).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let server = Arc::new(Server::default());
    let filters = Arc::new([Histogram::new(BUCKETS), Histogram::new(BUCKETS)]);
    // There are as many series as in a busy server.
    for index in 0..500 {
        record(&server, &filters, &format!("resource{index}"));
    }
    let started = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (server, filters) = (server.clone(), filters.clone());
            std::thread::spawn(move || (0..ROUNDS).for_each(|_| record(&server, &filters, black_box("resource7"))))
        })
        .collect();
    workers.into_iter().for_each(|worker| drop(worker.join()));
    let nanos = started.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
    let _ = writeln!(
        std::io::stdout(),
        "{threads} threads: {nanos:.0} ns per request, of which four looks at the clock are a part"
    );
}
