//! Clusters of the test kit, in their own process so that its memory is the clusters' memory. It measures how long they
//! take to start, to fork and to stop, one by one and many at once.

use std::process::Command;
use std::time::{Duration, Instant};

use pintle_testkit::TestCluster;
use serde_json::{Value, json};

use crate::Result;
use crate::target::ProcessMeter;

/// The argument that makes this program measure clusters and print the numbers.
pub(crate) const COMMAND: &str = "test-clusters";

/// The content of a prepared cluster.
const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// The numbers that the process has measured. Times are in milliseconds.
pub(crate) struct Measured {
    pub(crate) starts: Vec<f64>,
    pub(crate) forks: Vec<f64>,
    pub(crate) stops: Vec<f64>,
    /// The time from the first start until the last cluster is ready.
    pub(crate) until_all_ready: f64,
    /// The resident memory of the process with all clusters.
    pub(crate) resident_bytes: u64,
}

/// Starts a process that starts `single` clusters one after the other, and then `parallel` clusters at once.
///
/// # Errors
/// Returns an error if the process fails.
pub(crate) fn measure(single: usize, parallel: usize) -> Result<Measured> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg(COMMAND).arg(single.to_string()).arg(parallel.to_string()).output()?;
    if !output.status.success() {
        return Err(format!("the clusters failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let printed: Value = serde_json::from_slice(&output.stdout)?;
    let times = |name: &str| printed[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    Ok(Measured {
        starts: times("starts"),
        forks: times("forks"),
        stops: times("stops"),
        until_all_ready: printed["untilAllReady"].as_f64().ok_or("no time until all clusters are ready")?,
        resident_bytes: printed["residentBytes"].as_u64().ok_or("no resident memory")?,
    })
}

/// Measures in this process and prints the numbers as JSON. `arguments` are the number of clusters that start one after
/// the other, and the number that start at once.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [single, parallel] = arguments else {
        return Err(format!("usage: pintle-bench {COMMAND} SINGLE PARALLEL").into());
    };
    let (single, parallel) = (single.parse()?, parallel.parse()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let numbers = runtime.block_on(numbers(single, parallel))?;
    Ok(serde_json::to_writer(std::io::stdout(), &numbers)?)
}

async fn numbers(single: usize, parallel: usize) -> Result<Value> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let (mut starts, mut forks, mut stops) = (Vec::new(), Vec::new(), Vec::new());
    // The first start loads the data that all clusters share.
    let prepared = TestCluster::builder().manifests(CRD).start().await;
    for _ in 0..single {
        let start = Instant::now();
        let cluster = TestCluster::start().await;
        starts.push(millis(start.elapsed()));
        let start = Instant::now();
        cluster.stop().await?;
        stops.push(millis(start.elapsed()));
        let start = Instant::now();
        let fork = prepared.fork().await;
        forks.push(millis(start.elapsed()));
        fork.stop().await?;
    }
    prepared.stop().await?;
    let start = Instant::now();
    let starting: Vec<_> = (0..parallel).map(|_| tokio::spawn(TestCluster::start())).collect();
    let mut clusters = Vec::with_capacity(parallel);
    for cluster in starting {
        clusters.push(cluster.await?);
    }
    let until_all_ready = millis(start.elapsed());
    let resident_bytes = ProcessMeter::new(vec![std::process::id()]).resident_bytes()?;
    for cluster in clusters {
        cluster.stop().await?;
    }
    Ok(json!({
        "starts": starts,
        "forks": forks,
        "stops": stops,
        "untilAllReady": until_all_ready,
        "residentBytes": resident_bytes,
    }))
}
