//! A workload for the informers of real clients. It has ten thousand changes and restarts of the server. During a
//! downtime there are more changes than the watch history keeps. Informers have to be consistent with a list after each
//! step.

use std::sync::Arc;

use pintle_integration::{Cluster, Options};
use serde_json::json;

/// The collection that the workload writes.
pub(crate) const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The size of the watch history: more than the ten thousand changes, less than the changes during the downtime.
const HISTORY_BYTES: usize = 16 << 20;

const WRITERS: usize = 8;
const NAMES: usize = 40;

/// Starts a cluster for [`run_step`].
pub(crate) async fn start_cluster() -> Cluster {
    let mut options = Options::default();
    options.history.bytes = HISTORY_BYTES;
    let cluster = Cluster::durable_with_options(options).await;
    write_configmaps(&cluster, 0, 100, 0).await;
    cluster
}

/// Whether an informer relists in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedRelist {
    /// The informer has to relist.
    Required,
    /// The informer resumes its watch.
    Never,
    /// The informer may relist: some clients do if a connection breaks while it is being established.
    Allowed,
}

impl ExpectedRelist {
    /// Checks the number of lists after the step against the number before it, and returns it.
    #[track_caller]
    pub(crate) fn check(self, description: &str, before: usize, after: usize) -> usize {
        let is_expected = match self {
            ExpectedRelist::Required => after > before,
            ExpectedRelist::Never => after == before,
            ExpectedRelist::Allowed => after >= before,
        };
        assert!(
            is_expected,
            "{description}: {before} lists before the step, {after} after it, relist expected: {self:?}"
        );
        after
    }
}

/// Runs a step of the workload, and returns whether informers relist. `None` after the last step.
pub(crate) async fn run_step(cluster: &Cluster, number: usize) -> Option<ExpectedRelist> {
    match number {
        0 => Some(ExpectedRelist::Required),
        1 => {
            write_configmaps(cluster, 1, 10_000, 0).await;
            Some(ExpectedRelist::Never)
        }
        2 => {
            cluster.stop_server().await;
            cluster.start_server().await;
            write_configmaps(cluster, 2, 200, 0).await;
            Some(ExpectedRelist::Never)
        }
        3 => {
            cluster.kill_server().await;
            cluster.start_server().await;
            write_configmaps(cluster, 3, 200, 0).await;
            Some(ExpectedRelist::Allowed)
        }
        4 => {
            cluster.stop_server().await;
            let other = cluster.start_on_another_port().await;
            write_configmaps(&other, 4, 2000, 20 << 10).await;
            other.stop().await;
            cluster.start_server().await;
            write_configmaps(cluster, 5, 200, 0).await;
            Some(ExpectedRelist::Required)
        }
        _ => None,
    }
}

/// Creates, updates and deletes ConfigMaps, `times` in all.
async fn write_configmaps(cluster: &Cluster, batch: usize, times: usize, padding: usize) {
    let text: Arc<str> = "x".repeat(padding).into();
    let client = Arc::new(cluster.client(pintle_integration::Protocol::Any));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, text) = (client.clone(), text.clone());
            tokio::spawn(async move {
                for i in 0..times / WRITERS {
                    // Each writer has its own names, so that writes do not conflict.
                    let name = format!("map-{}", writer * (NAMES / WRITERS) + i % (NAMES / WRITERS));
                    let path = format!("{CONFIGMAPS}/{name}");
                    let data = json!({"i": format!("{batch}-{i}"), "text": &*text});
                    let object = json!({"metadata": {"name": name}, "data": data}).to_string();
                    if i % 7 == 3 {
                        let response = client.request("DELETE", &path).send().await;
                        assert!(matches!(response.status.as_u16(), 200 | 404), "{}", response.text());
                        continue;
                    }
                    if client.request("PUT", &path).json(object.clone()).send().await.status == 404 {
                        let _ = client.request("POST", CONFIGMAPS).json(object).send().await.expect(201);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("the writer succeeds");
    }
}
