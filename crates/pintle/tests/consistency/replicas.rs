//! Several servers over an etcd of three members. Members, servers and the connections between them fail. Each server
//! reaches each member through a proxy of its own, and the members reach each other through proxies.

use std::time::Duration;

use pintle_etcd_process::{EtcdCluster, EtcdSettings, Link, Proxy};
use pintle_integration::{Cluster, Engine, Etcd, Options, Protocol};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::random::SeededRandom;
use crate::shared::{SharedState, TIMEOUT};

const SERVERS: usize = 3;
const MEMBERS: usize = 3;
/// The number of rounds between compactions of the history that is older than the servers' histories. The servers do
/// not live long enough to compact etcd. A starting server reads the whole history of etcd.
const COMPACTION_ROUNDS: usize = 10;
/// How much history servers keep.
const WATCH_HISTORY: Duration = Duration::from_secs(300);
/// How often a condition is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The maximum duration of most faults.
const SHORT: Duration = Duration::from_millis(600);
/// The maximum duration of the other faults. It is longer than a server waits for a silent member.
const LONG: Duration = Duration::from_millis(4500);

/// The fault of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A member is killed and started again.
    KilledMember,
    /// A member hangs.
    PausedMember,
    /// Two members hang, so nothing can be written.
    PausedMajority,
    /// The disk of a member is full, so it ends.
    FullDisk,
    /// All members are killed.
    KilledMembers,
    /// The other members do not reach a member.
    IsolatedMember(Link),
    /// A server does not reach a member.
    CutLink(Link),
    /// A server reaches no member.
    CutServer(Link),
    /// The connections between a server and etcd are slow.
    SlowServer,
    /// A server is killed, or stopped, and started again.
    RestartedServer { kill: bool },
    /// A server reaches no member until etcd has compacted the changes that the server has missed.
    CompactedAway,
}

const FAULTS: [Fault; 15] = [
    Fault::KilledMember,
    Fault::CutServer(Link::Closed),
    Fault::PausedMember,
    Fault::CutLink(Link::HalfOpen),
    Fault::RestartedServer { kill: true },
    Fault::IsolatedMember(Link::Silent),
    Fault::CutServer(Link::Silent),
    Fault::FullDisk,
    Fault::CutLink(Link::Silent),
    Fault::PausedMajority,
    Fault::SlowServer,
    Fault::IsolatedMember(Link::Closed),
    Fault::CutServer(Link::HalfOpen),
    Fault::RestartedServer { kill: false },
    Fault::KilledMembers,
];

/// The etcd of several servers, and its faults.
#[derive(Debug)]
pub(crate) struct Replicas {
    etcd: EtcdCluster,
    /// The proxies to the members, by server.
    links: Vec<Vec<Proxy>>,
    random: SeededRandom,
    compactions: bool,
}

impl Replicas {
    /// Starts the members and the servers.
    pub(crate) async fn start(options: &Options, seed: u64, compactions: bool) -> (Self, Vec<Cluster>) {
        let settings = EtcdSettings { election_timeout: Duration::from_millis(300), ..EtcdSettings::default() };
        let etcd = block_in_place(|| EtcdCluster::start(MEMBERS, &settings));
        let links: Vec<Vec<Proxy>> = (0..SERVERS).map(|_| etcd.client_proxies()).collect();
        let mut servers = Vec::new();
        for (number, links) in links.iter().enumerate() {
            let mut config = Etcd::config_of(links.iter().map(Proxy::url));
            config.health_timeout = Duration::from_millis(500);
            let advertise_address = Some([192, 0, 2, number as u8 + 1].into());
            let engine = Engine::Etcd(config);
            // Each server has keys of its own, and the clients of this test trust the keys of their server.
            let accept_key_change = true;
            let options = Options { engine, register: true, advertise_address, accept_key_change, ..options.clone() };
            servers.push(Cluster::durable_with_options(options).await);
        }
        let random = SeededRandom::for_part(seed, "replicas", 0);
        (Self { etcd, links, random, compactions }, servers)
    }

    /// Injects the fault of a round, and waits until all servers have recovered.
    pub(crate) async fn inject(&mut self, shared: &SharedState, round: usize) {
        if round.is_multiple_of(COMPACTION_ROUNDS)
            && let Some(old) = shared.revision_before(WATCH_HISTORY)
        {
            let _ = self.call("kv/compaction", &json!({"revision": old.to_string()})).await;
        }
        let faults = if self.compactions { &[Fault::CompactedAway][..] } else { &FAULTS };
        let mut fault = faults[round % faults.len()];
        loop {
            self.fail(shared, fault).await;
            for server in 0..SERVERS {
                wait_for_readiness(shared, server, true).await;
            }
            if !self.random.one_in(3) {
                return;
            }
            fault = *self.random.choose(faults);
        }
    }

    async fn fail(&mut self, shared: &SharedState, fault: Fault) {
        let member = self.random.below(MEMBERS);
        let others = [(member + 1) % MEMBERS, (member + 2) % MEMBERS];
        let server = self.random.below(SERVERS);
        match fault {
            Fault::KilledMember => {
                block_in_place(|| self.etcd.member_mut(member).kill());
                self.hold().await;
                self.restart(&[member]);
            }
            Fault::PausedMember => {
                self.etcd.member(member).pause();
                self.hold().await;
                self.etcd.member(member).resume();
            }
            Fault::PausedMajority => {
                others.iter().for_each(|member| self.etcd.member(*member).pause());
                self.hold().await;
                others.iter().for_each(|member| self.etcd.member(*member).resume());
            }
            Fault::FullDisk => {
                self.etcd.member(member).fill_disk();
                while self.etcd.member_mut(member).is_running() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                self.hold().await;
                self.restart(&[member]);
            }
            Fault::KilledMembers => {
                block_in_place(|| (0..MEMBERS).for_each(|member| self.etcd.member_mut(member).kill()));
                self.hold().await;
                self.restart(&[0, 1, 2]);
            }
            Fault::IsolatedMember(link) => {
                self.etcd.set_peer_link(member, link);
                self.hold().await;
                self.etcd.set_peer_link(member, Link::Open);
            }
            Fault::CutLink(link) => {
                self.links[server][member].set(link);
                self.hold().await;
                self.links[server][member].set(Link::Open);
            }
            Fault::CutServer(link) => {
                self.links[server].iter().for_each(|proxy| proxy.set(link));
                wait_for_readiness(shared, server, false).await;
                self.hold().await;
                self.links[server].iter().for_each(|proxy| proxy.set(Link::Open));
            }
            Fault::SlowServer => {
                let delay = Duration::from_millis(self.random.below(60) as u64);
                self.links[server].iter().for_each(|proxy| proxy.set(Link::Delayed(delay)));
                self.hold().await;
                self.links[server].iter().for_each(|proxy| proxy.set(Link::Open));
            }
            Fault::RestartedServer { kill } => {
                match kill {
                    true => shared.servers[server].kill_server().await,
                    false => shared.servers[server].stop_server().await,
                }
                self.hold().await;
                shared.servers[server].start_server().await;
            }
            Fault::CompactedAway => {
                // The first server keeps its whole history, because it serves the reference reflectors.
                let server = 1 + self.random.below(SERVERS - 1);
                self.links[server].iter().for_each(|proxy| proxy.set(Link::Closed));
                let missed = self.revision().await + 20;
                let mut current = missed;
                while current <= missed {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    current = self.revision().await;
                }
                let _ = self.call("kv/compaction", &json!({"revision": current.to_string(), "physical": true})).await;
                self.links[server].iter().for_each(|proxy| proxy.set(Link::Open));
            }
        }
    }

    /// Waits for the duration of a fault.
    async fn hold(&mut self) {
        let longest = if self.random.one_in(4) { LONG } else { SHORT };
        let time = longest.mul_f64(self.random.below(1000) as f64 / 1000.0);
        tokio::time::sleep(time).await;
    }

    fn restart(&mut self, members: &[usize]) {
        block_in_place(|| self.etcd.restart(members));
    }

    /// The revision of etcd.
    async fn revision(&self) -> u64 {
        let found = self.call("kv/range", &json!({"key": "YQ=="})).await;
        found["header"]["revision"].as_str().and_then(|text| text.parse().ok()).expect("a revision")
    }

    /// Calls a method of etcd until a member executes it: there may be an election.
    async fn call(&self, method: &str, request: &Value) -> Value {
        let called = async {
            loop {
                let answer = block_in_place(|| self.etcd.member(0).call(method, request));
                if answer["code"].is_null() {
                    return answer;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        tokio::time::timeout(TIMEOUT, called).await.expect("etcd executes the request")
    }
}

/// Waits until a server is ready, or until it is not ready.
async fn wait_for_readiness(shared: &SharedState, server: usize, is_ready: bool) {
    let client = shared.servers[server].client(Protocol::Any);
    let mut last = String::new();
    let changed = async {
        loop {
            let answer = client.request("GET", "/readyz?verbose").try_send().await;
            if answer.as_ref().is_ok_and(|answer| answer.status == 200) == is_ready {
                return;
            }
            last = answer.map_or_else(|error| error.to_string(), |answer| answer.text());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let is_changed = tokio::time::timeout(TIMEOUT, changed).await.is_ok();
    assert!(is_changed, "the readiness of server {server} does not become {is_ready}: {last}");
}
