//! What real clients have to keep in step with: ten thousand changes, the server's going and coming back, and more
//! changes than are kept while they cannot see them.

use std::sync::Arc;

use pintle_testkit::{Cluster, Options};
use serde_json::json;

/// The objects that change.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Bytes of history: more than the ten thousand changes, less than what comes while nobody sees it.
const WINDOW: usize = 16 << 20;

const WRITERS: usize = 8;
const NAMES: usize = 40;

/// A cluster for [`step`].
pub(crate) async fn cluster() -> Cluster {
    let mut options = Options::default();
    options.window.bytes = WINDOW;
    let cluster = Cluster::durable_with_options(options).await;
    change(&cluster, 0, 100, 0).await;
    cluster
}

/// Whether a client asks for everything once more to be in step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asks {
    /// It has to.
    Again,
    /// It goes on from where it was.
    No,
    /// It may: a connection that is cut while it is made is to some clients no reason to wait.
    Maybe,
}

impl Asks {
    /// Sees to it that this is how often a client asked, after `before`, and returns it.
    #[track_caller]
    pub(crate) fn check(self, what: &str, before: usize, now: usize) -> usize {
        let fits = match self {
            Asks::Again => now > before,
            Asks::No => now == before,
            Asks::Maybe => now >= before,
        };
        assert!(fits, "{what}: asked for everything {now} times, {before} times before; again: {self:?}");
        now
    }
}

/// Does the next of the things that clients keep in step through, and says what they do; `None` after the last.
pub(crate) async fn step(cluster: &Cluster, number: usize) -> Option<Asks> {
    match number {
        0 => Some(Asks::Again),
        1 => {
            change(cluster, 1, 10_000, 0).await;
            Some(Asks::No)
        }
        2 => {
            cluster.stop_server().await;
            cluster.start_server().await;
            change(cluster, 2, 200, 0).await;
            Some(Asks::No)
        }
        3 => {
            cluster.kill_server().await;
            cluster.start_server().await;
            change(cluster, 3, 200, 0).await;
            Some(Asks::Maybe)
        }
        4 => {
            cluster.stop_server().await;
            let aside = cluster.start_on_another_port().await;
            change(&aside, 4, 2000, 20 << 10).await;
            aside.stop().await;
            cluster.start_server().await;
            change(cluster, 5, 200, 0).await;
            Some(Asks::Again)
        }
        _ => None,
    }
}

/// Creates, updates and deletes so many times in all.
async fn change(cluster: &Cluster, part: usize, times: usize, filler: usize) {
    let text: Arc<str> = "x".repeat(filler).into();
    let client = Arc::new(cluster.client(pintle_testkit::Protocol::Any));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, text) = (client.clone(), text.clone());
            tokio::spawn(async move {
                for i in 0..times / WRITERS {
                    // Each writer has names of its own, so that it knows what is there.
                    let name = format!("map-{}", writer * (NAMES / WRITERS) + i % (NAMES / WRITERS));
                    let path = format!("{MAPS}/{name}");
                    let data = json!({"i": format!("{part}-{i}"), "text": &*text});
                    let object = json!({"metadata": {"name": name}, "data": data}).to_string();
                    if i % 7 == 3 {
                        let gone = client.request("DELETE", &path).send().await;
                        assert!(matches!(gone.status.as_u16(), 200 | 404), "{}", gone.text());
                        continue;
                    }
                    if client.request("PUT", &path).json(object.clone()).send().await.status == 404 {
                        let _ = client.request("POST", MAPS).json(object).send().await.expect(201);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer");
    }
}
