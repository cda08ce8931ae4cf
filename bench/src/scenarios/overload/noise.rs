//! The clients of the noisy user. They have their own threads with the lowest priority. So reading large responses
//! takes processor time from neither the server nor the other clients, which on a real network run elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustix::process::setpriority_process;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::objects::Objects;
use super::users::User;
use crate::Result;
use crate::client::{Connection, HttpRequest, Protocol, get};
use crate::objects::{config_map, create};
use crate::target::Server;

/// The number of threads, and their priority (nice value).
const THREADS: usize = 2;
const LOWEST_PRIORITY: i32 = 19;
/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// The size of a large object's data, which is below the limit for objects of 1 MiB.
const LARGE_OBJECT_BYTES: usize = 900_000;

/// The kind of noisy requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noise {
    /// Lists of all pods, one after the other.
    Lists,
    /// Watches that begin with all pods, as informers open them.
    Watches,
    /// Lists of all pods whose responses are not read.
    UnreadLists,
    /// Creates that wait for a webhook.
    SlowCreates,
    /// Creates of large ConfigMaps.
    LargeCreates,
}

impl Noise {
    /// The number of clients, each with a connection. A plan divides it.
    pub(super) fn clients(self) -> usize {
        match self {
            Noise::Lists => 200,
            Noise::Watches => 5_000,
            Noise::UnreadLists => 25,
            Noise::SlowCreates => 300,
            Noise::LargeCreates => 30,
        }
    }

    fn request(self, objects: &Objects, name: &str, large: &str) -> HttpRequest {
        match self {
            Noise::Lists | Noise::UnreadLists => get(objects.pods.as_str()),
            Noise::Watches => get(format!(
                "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
                objects.pods
            )),
            Noise::SlowCreates => create(objects.slow_collection.as_str(), config_map(name, 0)),
            Noise::LargeCreates => {
                let object = format!(
                    r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"text":"{large}"}}}}"#
                );
                create(objects.large_collection.as_str(), object.into())
            }
        }
    }
}

/// The responses to noisy requests.
#[derive(Default)]
pub(super) struct NoiseCounts {
    /// The number of successful responses. A watch, and a list that is not read, counts when it begins.
    pub(super) served: AtomicU64,
    /// The number of responses with status 429.
    pub(super) rejected: AtomicU64,
    /// The number of failures.
    pub(super) failed: AtomicU64,
    /// The number of bytes of response bodies.
    pub(super) bytes: AtomicU64,
}

impl NoiseCounts {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The threads of the noisy clients.
pub(super) struct NoisyThreads(Option<Runtime>);

impl NoisyThreads {
    /// Starts the threads.
    pub(super) fn start() -> Result<Self> {
        let lower_priority = || {
            // On Linux this is the priority of the calling thread. Without it, the noisy clients take more time.
            let _ = setpriority_process(None, LOWEST_PRIORITY);
        };
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("noisy").on_thread_start(lower_priority).enable_all();
        Ok(Self(Some(builder.build()?)))
    }

    /// Opens the connections of noisy clients, and then lets all of them send their requests. `part` makes the names of
    /// created objects unique.
    pub(super) async fn begin(
        &self,
        noises: &[Noise],
        server: &Server,
        objects: &Arc<Objects>,
        part: usize,
        divisor: usize,
    ) -> Result<RunningNoise> {
        let handle = self.0.as_ref().ok_or("the noisy threads have ended")?.handle();
        let mut connected = Vec::new();
        for noise in noises {
            let (server, count) = (server.clone(), (noise.clients() / divisor).max(1));
            let opening = handle.spawn(async move { server.endpoint.connect_all(count, Protocol::Http1).await });
            connected.push((*noise, opening.await??));
        }
        let mut running = RunningNoise { counts: Arc::default(), clients: JoinSet::new(), began: Instant::now() };
        let large: Arc<str> = "x".repeat(LARGE_OBJECT_BYTES).into();
        for (noise, connections) in connected {
            for (number, connection) in connections.into_iter().enumerate() {
                let client = NoisyClient {
                    noise,
                    user: User::named("noisy")?,
                    name: format!("n-{part}-{number}"),
                    large: large.clone(),
                    server: server.clone(),
                    objects: objects.clone(),
                    counts: running.counts.clone(),
                };
                running.clients.spawn_on(client.run(connection), handle);
            }
        }
        Ok(running)
    }
}

impl Drop for NoisyThreads {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, and a task must not wait for threads.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Noisy clients that send requests.
pub(super) struct RunningNoise {
    counts: Arc<NoiseCounts>,
    clients: JoinSet<()>,
    began: Instant,
}

impl RunningNoise {
    /// Ends the clients and closes their connections. Returns the responses so far and the time.
    pub(super) async fn end(mut self) -> (Arc<NoiseCounts>, Duration) {
        let time = self.began.elapsed();
        self.clients.shutdown().await;
        (self.counts, time)
    }
}

/// One client of the noisy user.
struct NoisyClient {
    noise: Noise,
    user: User,
    /// The beginning of the names of created objects.
    name: String,
    large: Arc<str>,
    server: Server,
    objects: Arc<Objects>,
    counts: Arc<NoiseCounts>,
}

impl NoisyClient {
    /// Sends requests one after the other. After 429 the client waits as long as the server asks for, as client-go does.
    async fn run(self, connection: Connection) {
        let mut open = Some(connection);
        for number in 0_u64.. {
            let mut connection = match open.take().filter(Connection::is_open) {
                Some(connection) => connection,
                None => match self.server.connect().await {
                    Ok(connection) => connection,
                    Err(_) => {
                        NoiseCounts::count(&self.counts.failed);
                        tokio::time::sleep(FAILURE_PAUSE).await;
                        continue;
                    }
                },
            };
            let request = self.noise.request(&self.objects, &format!("{}-{number}", self.name), &self.large);
            match self.exchange(&mut connection, self.user.sends(request)).await {
                Ok(pause) => {
                    open = Some(connection);
                    tokio::time::sleep(pause).await;
                }
                Err(_) => {
                    NoiseCounts::count(&self.counts.failed);
                    tokio::time::sleep(FAILURE_PAUSE).await;
                }
            }
        }
    }

    /// Sends one request. Returns how long the client waits before its next request.
    async fn exchange(&self, connection: &mut Connection, request: HttpRequest) -> Result<Duration> {
        let response = connection.send(request).await?;
        let code = response.status();
        if code == StatusCode::TOO_MANY_REQUESTS {
            let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            NoiseCounts::count(&self.counts.rejected);
            response.into_body().collect().await?;
            return Ok(Duration::from_secs(seconds.unwrap_or(1)));
        }
        if !code.is_success() {
            response.into_body().collect().await?;
            return Err(format!("{code}").into());
        }
        let body = response.into_body();
        match self.noise {
            Noise::UnreadLists => {
                NoiseCounts::count(&self.counts.served);
                // The body is kept until the client is ended, so the connection stays open.
                let _unread = body;
                std::future::pending::<()>().await;
            }
            Noise::Watches => {
                NoiseCounts::count(&self.counts.served);
                self.read(body).await?;
            }
            Noise::Lists | Noise::SlowCreates | Noise::LargeCreates => {
                self.read(body).await?;
                NoiseCounts::count(&self.counts.served);
            }
        }
        Ok(Duration::ZERO)
    }

    /// Reads a body and counts its bytes.
    async fn read(&self, mut body: Incoming) -> Result<()> {
        while let Some(frame) = body.frame().await {
            let length = frame?.data_ref().map_or(0, Bytes::len);
            self.counts.bytes.fetch_add(length as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
