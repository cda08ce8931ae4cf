//! Random hostile inputs over HTTP, to a process with little address space. Six users send mutations of the fuzz
//! targets' inputs, objects with very large parts, and costly requests. The invariants:
//!
//! - The server is not killed, and no thread of it panics.
//! - Every request is answered by its deadline, and never with an `InternalError`.
//! - Once all objects are deleted, the server uses as much memory as before.
//!
//! `PINTLE_SEED` sets the seed that determines the users' requests. `PINTLE_HOSTILE` is the number of seconds of a long
//! run (`cargo xtask soak --hostile`); without it, each user sends a few requests.

mod request;
mod users;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pintle_integration::{COSTLY_REQUESTS, Cluster, Options, ProcessMemory, Protocol, run};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::task::JoinSet;

use request::{HostileRequest, Requests, TIMEOUT};
use users::{USERS, User};

/// The address space of the server, in bytes: the reserved stacks of the threads and a few gigabytes. Without budgets,
/// single requests use up to 47 GB.
const ADDRESS_SPACE: u64 = 12 << 30;
/// The maximum delay of an answer after the request's deadline: the users share the processors with the server.
const MAX_DELAY: Duration = Duration::from_secs(4);
/// How long the allocator usually takes to return memory to the system. Nothing announces the end. A pause that is too
/// short only raises the bound.
const GIVE_BACK: Duration = Duration::from_secs(5);
/// The requests of each user in a short run.
const SHORT: usize = 60;

/// When a run ends.
#[derive(Clone, Copy)]
enum End {
    Requests(usize),
    At(Instant),
}

/// How long the allocator may take until it gives memory back. It does so when a thread of the server asks it for memory.
const GIVE_BACK_LIMIT: Duration = Duration::from_secs(30);

/// The server under attack, and the counts of the run.
struct Run {
    cluster: Cluster,
    requests: AtomicUsize,
    longest_millis: AtomicUsize,
}

fn env_number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Prints a line, even if the test's output is captured.
fn report(line: &str) {
    // A closed standard error does not fail the test.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn hostile_inputs_harm_only_their_senders() {
    let seconds = env_number("PINTLE_HOSTILE");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = env_number("PINTLE_SEED").unwrap_or(now.as_secs());
    report(&format!("repeat it with PINTLE_SEED={seed}"));
    run(async move {
        let cluster = Cluster::of_process(Path::new(env!("CARGO_BIN_EXE_pintle")), Options::default()).await;
        let pid = Pid::from_raw(cluster.process_id().await.cast_signed());
        let limit = Rlimit { current: Some(ADDRESS_SPACE), maximum: Some(ADDRESS_SPACE) };
        prlimit(pid, Resource::As, limit).expect("a limit of the address space");
        let run = Arc::new(Run { cluster, requests: AtomicUsize::default(), longest_millis: AtomicUsize::default() });
        for costly in COSTLY_REQUESTS {
            for (path, object) in (costly.setup)() {
                let _ = run.cluster.post(path, object.to_string()).await.expect(201);
            }
        }
        users::set_up(&run.cluster).await;
        // The memory before the attack includes caches, such as compiled rules, and the allocator's free memory.
        let first = seconds.map_or(End::Requests(SHORT), |seconds| after(seconds / 6));
        run.attack(seed, first).await;
        tokio::time::sleep(GIVE_BACK).await;
        let before = run.memory().await;
        let second = seconds.map_or(End::Requests(SHORT), |seconds| after(seconds - seconds / 6));
        let bound = before + before * 3 / 10 + (64 << 20);
        run.attack(seed + 1, second).await;
        let (mut afterwards, ended) = (run.memory().await, Instant::now());
        while afterwards > bound && ended.elapsed() < GIVE_BACK_LIMIT {
            let _ = run.cluster.get("/api/v1/namespaces").await.expect(200);
            tokio::time::sleep(Duration::from_millis(200)).await;
            afterwards = run.memory().await;
        }
        report(&format!(
            "{} requests, the longest took {} ms; resident memory {} MB, then {} MB",
            run.requests.load(Ordering::Relaxed),
            run.longest_millis.load(Ordering::Relaxed),
            before >> 20,
            afterwards >> 20
        ));
        assert!(afterwards <= bound, "{before} bytes, then {afterwards}");
        let log = run.log();
        assert!(!log.contains("panicked"), "{log}");
    });
}

fn after(seconds: u64) -> End {
    End::At(Instant::now() + Duration::from_secs(seconds))
}

impl Run {
    /// The log of the server.
    fn log(&self) -> String {
        let data_dir = self.cluster.data_dir().expect("a folder");
        std::fs::read_to_string(data_dir.join("log")).expect("a log")
    }

    /// The last lines of the log, which tell why a server has ended.
    fn end_of_log(&self) -> String {
        let log = self.log();
        let first = log.lines().count().saturating_sub(5);
        log.lines().skip(first).collect::<Vec<_>>().join("\n")
    }

    /// Lets all users send requests, and deletes what they have created.
    async fn attack(self: &Arc<Self>, seed: u64, end: End) {
        let mut users = JoinSet::new();
        for (number, user) in USERS.iter().enumerate() {
            let requests = Requests::new(seed.wrapping_mul(31).wrapping_add(number as u64));
            let protocol = if number % 2 == 0 { Protocol::Any } else { Protocol::Http1 };
            users.spawn(self.clone().attack_as(user, protocol, requests, end));
        }
        while let Some(user) = users.join_next().await {
            user.expect("a user ends");
        }
        users::delete_everything(&self.cluster).await;
    }

    /// The resident memory of the server without its files, in bytes.
    async fn memory(&self) -> usize {
        let process = self.cluster.process_id().await;
        ProcessMemory::of(process).expect("the server runs").anonymous
    }

    async fn attack_as(self: Arc<Self>, user: &User, protocol: Protocol, mut requests: Requests, end: End) {
        let client = self.cluster.client(protocol);
        let mut sent = 0;
        while match end {
            End::Requests(count) => sent < count,
            End::At(end) => Instant::now() < end,
        } {
            sent += 1;
            let HostileRequest { method, path, media_type, body, headers } = requests.next();
            let mut request = client.request(method, &path).header("impersonate-user", user.name);
            for group in user.groups {
                request = request.header("impersonate-group", group);
            }
            for (name, value) in &headers {
                request = request.header_bytes(name, value);
            }
            let started = Instant::now();
            let described = || {
                let start = body[..body.len().min(1000)].escape_ascii();
                format!("{} {method} {path} {headers:?} ({media_type}, {} bytes: {start})", user.name, body.len())
            };
            let request = if media_type.is_empty() { request } else { request.body(media_type, body.clone()) };
            let answer = request.try_send().await;
            let took = started.elapsed();
            self.longest_millis.fetch_max(took.as_millis() as usize, Ordering::Relaxed);
            assert!(took <= TIMEOUT + MAX_DELAY, "{}: answered after {took:?}", described());
            self.requests.fetch_add(1, Ordering::Relaxed);
            let response = match answer {
                Ok(response) => response,
                // A list that has begun is cut off at its deadline, without a status code.
                Err(_) if method == "GET" && took >= TIMEOUT => continue,
                Err(error) => panic!("{}: {error}; the end of the log: {}", described(), self.end_of_log()),
            };
            let text = response.text();
            let text = text.get(..1000).unwrap_or(&text);
            // As in a Go API server, some validation errors have code 500, but no reason.
            let is_fault = response.status == 500 && text.contains("\"InternalError\"");
            assert!(!is_fault, "{}: {text}", described());
        }
    }
}
