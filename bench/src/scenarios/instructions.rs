//! Instructions per request, counted by valgrind. The numbers depend neither on the machine nor on its other load, so
//! two builds can be compared anywhere. They do not include the kernel, or the cost of memory accesses and branches.
//! With `--profiles` the profiles stay, for `callgrind_annotate`.

use std::path::Path;

use http::StatusCode;

use super::access::{bind, credentials};
use super::apply::apply_pod;
use super::etcd::start_etcd;
use super::pods::WRITES;
use crate::Result;
use crate::callgrind::{Callgrind, PROFILE};
use crate::client::{Connection, HttpRequest, Protocol, get};
use crate::objects::{config_map, config_maps_path, create, pod, pods_path};
use crate::scenario::{Scenario, ScenarioContext};
use crate::target::{Server, ServerProcess};
use crate::watchers::WatchOptions;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "instructions",
    description: "instructions per request, counted by valgrind, for a user with 50 bindings",
    requires_binary: true,
    on_go_api_server: false,
    run: |bench| Box::pin(run(bench)),
};

const NAMESPACE: &str = "default";
/// The number of requests before the count. They fill caches and grow buffers.
const WARM_UP: u32 = 40;
/// The number of counted requests.
const COUNTED: u32 = 60;
/// The number of watchers of an event.
const WATCHERS: usize = 20;

/// A request whose instructions are counted.
struct CountedRequest {
    name: &'static str,
    protocol: Protocol,
    expect: StatusCode,
    /// Creates the n-th request.
    request: Box<dyn Fn(u64) -> HttpRequest + Send + Sync>,
}

impl CountedRequest {
    fn new(
        name: &'static str,
        expect: StatusCode,
        request: impl Fn(u64) -> HttpRequest + Send + Sync + 'static,
    ) -> Self {
        Self { name, protocol: Protocol::Http1, expect, request: Box::new(request) }
    }
}

async fn run(bench: &mut ScenarioContext) -> Result<()> {
    if !Callgrind::is_installed() {
        bench.report.remark("instructions: skipped, requires valgrind");
        return Ok(());
    }
    let (binary, folder) = (bench.binary()?, bench.scratch().join("data-instructions"));
    let profiles = bench.profiles.clone().unwrap_or_else(|| bench.scratch().join("profiles"));
    std::fs::create_dir_all(&profiles)?;
    let process = ServerProcess::pintle_under_callgrind(&binary, &folder, &profiles.join(PROFILE), None).await?;
    let (maps, pods) = (config_maps_path(NAMESPACE), pods_path(NAMESPACE));
    let user = set_up(&binary, &folder, &process.server).await?;
    let mut setup = process.server.connect().await?;
    setup.execute(create(pods.as_str(), pod("changed", "node", 7)), StatusCode::CREATED).await?;
    setup.execute(apply_pod(&pods, "applied", 0), StatusCode::CREATED).await?;

    bench.report.section("Instructions of a request, without those of the kernel, by a user with 50 bindings");
    let mut callgrind = Callgrind { process: process.id(), profiles: profiles.clone(), dumps: 0 };
    let mut of_create = 0.0;
    for counted in requests(&maps, &pods) {
        let mut connection = user.endpoint.connect(counted.protocol).await?;
        let each = count(&mut callgrind, &mut connection, &counted).await?;
        bench.report.row(counted.name, each / 1e3, "thousand");
        if counted.name == CREATE {
            of_create = each;
        }
    }
    let watch = format!("{maps}?watch=true&resourceVersion=0&fieldSelector=metadata.name%21%3Dnothing");
    let watchers = WatchOptions::new(Protocol::Http1).open(&user, (0..WATCHERS).map(|_| get(watch.as_str()))).await?;
    let create_watched = create_map("event for one of 20 watchers", &maps, "watched");
    let watched = count(&mut callgrind, &mut user.connect().await?, &create_watched).await?;
    bench.report.row(create_watched.name, (watched - of_create) / WATCHERS as f64 / 1e3, "thousand");
    watchers.close().await;
    process.stop().await?;
    count_over_etcd(bench, &profiles).await
}

/// Counts the instructions of a server over an etcd, without etcd's own.
async fn count_over_etcd(bench: &mut ScenarioContext, profiles: &Path) -> Result<()> {
    let (binary, folder, etcd) = (bench.binary()?, bench.scratch().join("data-instructions-etcd"), start_etcd()?);
    let profiles = profiles.join("etcd");
    std::fs::create_dir_all(&profiles)?;
    let url = etcd.url();
    let process = ServerProcess::pintle_under_callgrind(&binary, &folder, &profiles.join(PROFILE), Some(&url)).await?;
    let user = set_up(&binary, &folder, &process.server).await?;
    let (maps, pods) = (config_maps_path(NAMESPACE), pods_path(NAMESPACE));
    bench.report.section("Instructions of a request over etcd, sent one after the other, without those of etcd");
    let mut callgrind = Callgrind { process: process.id(), profiles, dumps: 0 };
    let names = [GET, CREATE, CREATE_POD];
    for counted in requests(&maps, &pods).iter().filter(|request| names.contains(&request.name)) {
        let mut connection = user.endpoint.connect(counted.protocol).await?;
        let each = count(&mut callgrind, &mut connection, counted).await?;
        bench.report.row(format!("over etcd: {}", counted.name), each / 1e3, "thousand");
    }
    process.stop().await
}

/// Creates the roles of a user and the ConfigMaps that are read. Returns the server with the user's credentials.
async fn set_up(binary: &Path, folder: &Path, server: &Server) -> Result<Server> {
    let mut setup = server.connect().await?;
    bind(&mut setup).await?;
    let maps = config_maps_path(NAMESPACE);
    for number in 0..100 {
        setup.execute(create(maps.as_str(), config_map(&format!("map-{number}"), number)), StatusCode::CREATED).await?;
    }
    credentials(binary, folder, server, "user", &["kubeconfig", "--user", "bench"])
}

const GET: &str = "GET of a ConfigMap of 1 KiB, HTTP/1.1";
const CREATE: &str = "create of a ConfigMap of 1 KiB";
const CREATE_POD: &str = "pod: create";

fn create_map(name: &'static str, maps: &str, prefix: &'static str) -> CountedRequest {
    let maps = maps.to_owned();
    CountedRequest::new(name, StatusCode::CREATED, move |number| {
        create(maps.as_str(), config_map(&format!("{prefix}-{number}"), number))
    })
}

fn requests(maps: &str, pods: &str) -> Vec<CountedRequest> {
    let object = format!("{maps}/map-0");
    let of_one = |name, protocol| {
        let path = object.clone();
        CountedRequest { protocol, ..CountedRequest::new(name, StatusCode::OK, move |_| get(path.as_str())) }
    };
    let list = format!("{maps}?limit=100");
    let mut requests = vec![
        of_one(GET, Protocol::Http1),
        of_one("GET of a ConfigMap of 1 KiB, HTTP/2", Protocol::Http2),
        CountedRequest::new("LIST of 100 ConfigMaps", StatusCode::OK, move |_| get(list.as_str())),
        create_map(CREATE, maps, "new"),
    ];
    let changes = [
        (CREATE_POD, "changed"),
        ("pod: merge patch", "changed"),
        ("pod: status update", "changed"),
        ("pod: apply", "applied"),
    ];
    for (write, (name, object)) in WRITES.iter().zip(changes) {
        let (pods, request) = (pods.to_owned(), write.request);
        requests.push(CountedRequest::new(name, write.expect, move |number| request(&pods, object, number + 1)));
    }
    requests
}

/// Sends a request again and again, and returns the instructions of one request. The profile gets the name of the
/// request.
async fn count(callgrind: &mut Callgrind, connection: &mut Connection, counted: &CountedRequest) -> Result<f64> {
    for number in 0..WARM_UP {
        connection.execute((counted.request)(u64::from(number)), counted.expect).await?;
    }
    let requests = (0..COUNTED).map(|number| (counted.request)(u64::from(WARM_UP + number)));
    let count = callgrind.count(connection, counted.expect, requests).await?;
    let file = counted.name.replace([' ', ':', ',', '/'], "-").replace("--", "-");
    std::fs::rename(count.profile, callgrind.profiles.join(format!("{file}.callgrind")))?;
    Ok(count.each)
}
