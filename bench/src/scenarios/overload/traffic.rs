//! The requests that have to be served beside the noisy user. They are GETs and creates of the quiet user, renewals of a
//! leader election's lease, and requests of nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;

use super::objects::Objects;
use super::users::User;
use crate::Result;
use crate::client::{Connection, HttpRequest, Protocol, get, patch, with_body};
use crate::load::{Pacer, Percentiles, micros};
use crate::objects::{config_map, create, kubelet_status_patch, lease};
use crate::target::Server;

/// The time limit of a request. A request that fails counts as if it had taken this time.
const LIMIT: Duration = Duration::from_secs(30);
/// The time limit of a renewal. A leader that cannot renew its lease for ten seconds stops.
const RENEWAL_LIMIT: Duration = Duration::from_secs(5);
/// The requests of each loop per second.
const GETS: f64 = 50.0;
const CREATES: f64 = 10.0;
const RENEWALS: f64 = 1.0;
const NODE_REQUESTS: f64 = 20.0;
/// The number of clients of each loop. If all of them wait, the next request is late.
const CLIENTS: usize = 32;

/// The responses to the requests of one loop.
#[derive(Default)]
pub(super) struct Outcome {
    /// The latency of each request from its scheduled time, in microseconds, ascending.
    latencies: Vec<u32>,
    /// The number of requests that got 429.
    pub(super) rejected: u64,
    /// The number of requests that failed in another way, or took too long.
    pub(super) failed: u64,
}

impl Outcome {
    /// The latency percentiles.
    pub(super) fn percentiles(&self) -> Percentiles {
        Percentiles::of(&self.latencies)
    }

    /// The number of requests that were not served.
    pub(super) fn not_served(&self) -> u64 {
        self.rejected + self.failed
    }

    /// The number of requests.
    pub(super) fn requests(&self) -> usize {
        self.latencies.len()
    }

    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

/// The responses to all loops.
pub(super) struct Outcomes {
    pub(super) gets: Outcome,
    pub(super) creates: Outcome,
    pub(super) renewals: Outcome,
    pub(super) node_requests: Outcome,
}

/// Runs all loops for a time. `part` makes the names of created objects unique.
pub(super) async fn run(server: &Server, objects: &Objects, part: usize, time: Duration) -> Result<Outcomes> {
    let quiet = User::named("quiet")?;
    let path = format!("{}/{}", objects.quiet_collection, objects.small_object);
    let gets: Requests = {
        let quiet = quiet.clone();
        Arc::new(move |_| quiet.sends(get(path.as_str())))
    };
    let collection = objects.quiet_collection.clone();
    let creates: Requests = Arc::new(move |number| {
        quiet.sends(create(collection.as_str(), config_map(&format!("c-{part}-{number}"), number)))
    });
    let node_requests = node_requests(objects, part)?;
    let elections = Election { leader: User::named("system:kube-scheduler")?, path: objects.election_lease.clone() };
    let (gets, creates, renewals, node_requests) = tokio::try_join!(
        run_loop(server, GETS, time, Exchange::Requests(gets)),
        run_loop(server, CREATES, time, Exchange::Requests(creates)),
        run_loop(server, RENEWALS, time, Exchange::Renewal(Arc::new(elections))),
        run_loop(server, NODE_REQUESTS, time, Exchange::Requests(node_requests)),
    )?;
    Ok(Outcomes { gets, creates, renewals, node_requests })
}

/// Generates the n-th request of a loop.
type Requests = Arc<dyn Fn(u64) -> HttpRequest + Send + Sync>;

/// The nodes in turn renew their leases and patch the status of one of their pods.
fn node_requests(objects: &Objects, part: usize) -> Result<Requests> {
    let users = objects.nodes.iter().map(|node| User::of_node(node)).collect::<Result<Vec<_>>>()?;
    let (nodes, leases, pods) = (objects.nodes.clone(), objects.node_leases, objects.node_pods.clone());
    Ok(Arc::new(move |number| {
        let turn = number / 2 % users.len() as u64;
        let (user, node) = (&users[turn as usize], &nodes[turn as usize]);
        let seed = (part as u64) << 20 | number;
        user.sends(if number % 2 == 0 {
            patch(format!("{leases}/{node}"), "application/merge-patch+json", lease(node, seed, None))
        } else {
            let path = format!("{pods}/pod-{turn}/status");
            patch(path, "application/strategic-merge-patch+json", kubelet_status_patch(seed / 2))
        })
    }))
}

/// One scheduled unit of a loop.
#[derive(Clone)]
enum Exchange {
    /// One request.
    Requests(Requests),
    /// A renewal of the leader's lease: a GET and a PUT.
    Renewal(Arc<Election>),
}

/// A lease that its leader renews as client-go does.
struct Election {
    leader: User,
    path: String,
}

impl Exchange {
    fn limit(&self) -> Duration {
        match self {
            Exchange::Requests(_) => LIMIT,
            Exchange::Renewal(_) => RENEWAL_LIMIT,
        }
    }

    async fn run(&self, client: &mut Client, number: u64) -> Result<StatusCode> {
        let Election { leader, path } = match self {
            Exchange::Requests(request) => return Ok(client.send(request(number)).await?.0),
            Exchange::Renewal(election) => &**election,
        };
        let (code, body) = client.send(leader.sends(get(path.as_str()))).await?;
        if code != StatusCode::OK {
            return Ok(code);
        }
        let mut lease: Value = serde_json::from_slice(&body)?;
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or_default();
        lease["spec"]["leaseTransitions"] = (transitions + 1).into();
        let request = with_body(Method::PUT, path.as_str(), lease.to_string());
        Ok(client.send(leader.sends(request)).await?.0)
    }
}

/// Runs an open loop.
async fn run_loop(server: &Server, rate: f64, time: Duration, exchange: Exchange) -> Result<Outcome> {
    // A loop has at least one request, also in the shortest run.
    let rate = rate.max(1.0 / time.as_secs_f64());
    let total = (rate * time.as_secs_f64()).round() as usize;
    let clients = CLIENTS.min(total);
    let connections = server.endpoint.connect_all(clients, Protocol::Http1).await?;
    let pacer = Arc::new(Pacer::start(rate, time, clients)?);
    let running: Vec<_> = connections
        .into_iter()
        .map(|connection| {
            let client = Client { server: server.clone(), connection: Some(connection) };
            tokio::spawn(run_client(client, pacer.clone(), exchange.clone()))
        })
        .collect();
    let mut outcome = Outcome::default();
    for task in running {
        outcome.add(task.await?);
    }
    // The pacer drops requests that are too late.
    let dropped = total.saturating_sub(outcome.latencies.len());
    outcome.failed += dropped as u64;
    outcome.latencies.extend(std::iter::repeat_n(micros(LIMIT), dropped));
    outcome.latencies.sort_unstable();
    Ok(outcome)
}

async fn run_client(mut client: Client, pacer: Arc<Pacer>, exchange: Exchange) -> Outcome {
    let mut outcome = Outcome::default();
    while let Some((number, due)) = pacer.next().await {
        let left = exchange.limit().saturating_sub(due.elapsed());
        let served = match timeout(left, exchange.run(&mut client, number)).await {
            Ok(Ok(code)) if code.is_success() => true,
            Ok(Ok(StatusCode::TOO_MANY_REQUESTS)) => {
                outcome.rejected += 1;
                false
            }
            _ => {
                outcome.failed += 1;
                false
            }
        };
        let latency = if served { Instant::now().saturating_duration_since(due) } else { exchange.limit() };
        outcome.latencies.push(micros(latency));
    }
    outcome
}

/// A client that opens its connection again after a failure.
struct Client {
    server: Server,
    connection: Option<Connection>,
}

impl Client {
    /// Sends a request and reads the response. The connection of a request that fails or is given up is not used again.
    async fn send(&mut self, request: HttpRequest) -> Result<(StatusCode, Bytes)> {
        let mut connection = match self.connection.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => self.server.connect().await?,
        };
        let response = connection.send(request).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        self.connection = Some(connection);
        Ok((code, body))
    }
}
