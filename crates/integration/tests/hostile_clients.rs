//! Hostile clients beside a well-behaved client. The server answers the well-behaved client. It ends attacks that have
//! a time limit, and spends a bounded amount of memory on the others. `pintle-bench --only hostile` measures latency
//! and memory.

use std::sync::Arc;
use std::time::Duration;

use pintle::Options;
use pintle_integration::{ATTACKS, Attack, AttackEnd, Cluster, ProcessMemory, Protocol, eventually, manual_clock};
use pintle_server::RequestLimits;
use pintle_server::http::ListenerOptions;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The number of connections of each attack.
const CONNECTIONS: usize = 4;
/// The number of objects in the list that hostile clients do not read, and the size of each object. The list does not
/// fit into the buffers of a connection.
const OBJECTS: usize = 200;
const OBJECT_BYTES: usize = 100 << 10;
/// A large object, and its size. It is the last object of the list, so that it is not the first event of a watch.
const LARGE: &str = "/api/v1/namespaces/default/configmaps/z-large";
const LARGE_BYTES: usize = 1 << 20;
/// The time limits of the server. They are shorter than the defaults, but long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(3);
/// The time limit of each step on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum cost of a connection, in bytes: 100 streams with one chunk of a response each. It includes the client's
/// side, which is in the same process.
const MAX_CONNECTION_BYTES: usize = 32 << 20;

/// The tests measure the memory of their process, so they run one by one.
static SERIAL: Mutex<()> = Mutex::const_new(());

/// A server with short time limits and a large list.
async fn start() -> Cluster {
    let listener = ListenerOptions {
        handshake_timeout: LIMIT,
        head_timeout: LIMIT,
        idle_timeout: LIMIT,
        ping_interval: LIMIT,
        write_timeout: LIMIT,
        ..ListenerOptions::default()
    };
    let limits = RequestLimits { request_timeout: LIMIT, ..RequestLimits::default() };
    let cluster = Cluster::with_options(Options { listener, limits, ..Options::default() }).await;
    fill(&cluster).await;
    cluster
}

async fn fill(cluster: &Cluster) {
    let object = json!({"metadata": {"name": "z-large"}, "data": {"text": "x".repeat(LARGE_BYTES)}});
    let _ = cluster.post(MAPS, object.to_string()).await.expect(201);
    let text = "x".repeat(OBJECT_BYTES);
    for number in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("m{number}")}, "data": {"text": text}});
        let _ = cluster.post(MAPS, object.to_string()).await.expect(201);
    }
}

/// Starts a number of connections of an attack.
fn attack(cluster: &Cluster, attack: &'static Attack, connections: usize, running: &mut JoinSet<&'static str>) {
    let target = cluster.attack_target(MAPS, LARGE);
    for _ in 0..connections {
        let target = target.clone();
        running.spawn(async move {
            attack.run(&target).await;
            attack.name
        });
    }
}

/// Sends a GET on a new connection and on an existing connection. The server has to answer both.
async fn check_served(cluster: &Cluster, what: &str) {
    let answered = async {
        let _ = cluster.client(Protocol::Http1).request("GET", "/version").send().await.expect(200);
        // The server may be closing an idle connection at this moment, which is no failure.
        while cluster.request("GET", "/api/v1/namespaces/default").try_send().await.is_err() {}
    };
    assert!(tokio::time::timeout(TIMEOUT, answered).await.is_ok(), "{what}: a GET is not answered");
}

#[test]
fn attacks_end_at_the_time_limits_of_the_server() {
    pintle_integration::run(async {
        let _serial = SERIAL.lock().await;
        let cluster = start().await;
        let before = ProcessMemory::own().map_or(0, |memory| memory.resident);
        let (mut running, mut started) = (JoinSet::new(), 0);
        for closed in ATTACKS.iter().filter(|attack| attack.end == AttackEnd::Closed) {
            attack(&cluster, closed, CONNECTIONS, &mut running);
            started += CONNECTIONS;
        }
        let closed = ATTACKS.iter().filter(|attack| attack.end == AttackEnd::Closed);
        let mut left: Vec<&str> = closed.flat_map(|attack| [attack.name; CONNECTIONS]).collect();
        let deadline = tokio::time::Instant::now() + 2 * TIMEOUT;
        while !running.is_empty() {
            tokio::select! {
                Some(ended) = running.join_next() => {
                    let ended = ended.expect("no panic");
                    left.remove(left.iter().position(|name| *name == ended).expect("an attack that runs"));
                }
                () = check_served(&cluster, "during attacks") => {}
                () = tokio::time::sleep_until(deadline) => panic!("not ended: {left:?}"),
            }
        }
        let grown = ProcessMemory::own().map_or(0, |memory| memory.resident).saturating_sub(before);
        assert!(grown < started * MAX_CONNECTION_BYTES, "{started} connections cost {grown} bytes");
        cluster.stop().await;
    });
}

#[test]
fn attacks_that_stay_open_cost_a_bounded_amount() {
    pintle_integration::run(async {
        let _serial = SERIAL.lock().await;
        let cluster = start().await;
        for open in ATTACKS.iter().filter(|attack| attack.end == AttackEnd::Open) {
            let before = ProcessMemory::own().map_or(0, |memory| memory.resident);
            let mut running = JoinSet::new();
            attack(&cluster, open, CONNECTIONS, &mut running);
            for _ in 0..30 {
                check_served(&cluster, open.name).await;
            }
            let grown = ProcessMemory::own().map_or(0, |memory| memory.resident).saturating_sub(before);
            assert!(grown < CONNECTIONS * MAX_CONNECTION_BYTES, "{}: {grown} bytes", open.name);
            running.shutdown().await;
        }
        cluster.stop().await;
    });
}

/// The sum of a metric of the server over the series of ConfigMaps.
async fn metric(cluster: &Cluster, name: &str) -> f64 {
    let text = cluster.get("/metrics").await.expect(200).text();
    let lines = text.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')) && line.contains("resource=\"configmaps\"")
    });
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn a_watch_whose_client_does_not_read_ends() {
    pintle_integration::run(async {
        let _serial = SERIAL.lock().await;
        let clock = manual_clock();
        let listener = ListenerOptions { write_timeout: LIMIT, ..ListenerOptions::default() };
        let options = Options { clock: clock.clone(), listener, ..Options::default() };
        let cluster = Arc::new(Cluster::with_options(options).await);
        let terminated = "apiserver_terminated_watchers_total";
        let running = "apiserver_longrunning_requests";
        let unread = ATTACKS.iter().find(|attack| attack.name == "HTTP/2 watches without a window").expect("it exists");
        let target = cluster.attack_target(MAPS, LARGE);
        let attack = tokio::spawn(async move { unread.run(&target).await });
        let mut reading = cluster.watch(&format!("{MAPS}?watch=1&timeoutSeconds=36000")).await;
        eventually("all watches run", || async { metric(&cluster, running).await == 101.0 }).await;
        let _ = cluster.post(MAPS, r#"{"metadata": {"name": "a"}}"#).await.expect(201);
        reading.expect("ADDED", "a").await;
        let have_ended = || async {
            clock.advance(Duration::from_secs(5));
            metric(&cluster, terminated).await == 100.0
        };
        eventually("the watches that nobody reads end", have_ended).await;
        assert_eq!(metric(&cluster, running).await, 1.0);
        // The watch whose client reads goes on.
        let _ = cluster.post(MAPS, r#"{"metadata": {"name": "b"}}"#).await.expect(201);
        reading.expect("ADDED", "b").await;
        // The connection still holds an event of each ended watch, so the server closes it.
        tokio::time::timeout(TIMEOUT, attack).await.expect("the connection is closed").expect("no panic");
    });
}
