//! Observers that interfere with requests, over HTTP/1.1 and HTTP/2.

use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use pintle::{Interruption, Interruptions, Intervention, ObservedAnswer, ObservedRequest, RequestObserver};
use pintle_integration::{Cluster, Options, Protocol, run};
use tokio::sync::watch;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Interferes with requests that have a header `User-Agent`, and interrupts watches of ConfigMaps.
#[derive(Debug)]
struct Meddler {
    interruption: watch::Sender<Option<Interruption>>,
    answers: Mutex<Vec<(String, u16)>>,
}

impl RequestObserver for Meddler {
    fn intervene(
        &self,
        request: &ObservedRequest<'_>,
    ) -> Option<Pin<Box<dyn Future<Output = Intervention> + Send + 'static>>> {
        let intervention = match request.user_agent() {
            "close" => Intervention::CloseConnection,
            "lose" => Intervention::LoseAnswer,
            _ => return None,
        };
        Some(Box::pin(std::future::ready(intervention)))
    }

    fn interruptions(&self, request: &ObservedRequest<'_>) -> Option<Interruptions> {
        (request.resource() == "configmaps").then(|| self.interruption.subscribe())
    }

    fn answered(&self, request: &ObservedRequest<'_>, answer: &ObservedAnswer) {
        if request.verb() == "create" {
            self.answers.lock().push((request.user_agent().to_owned(), answer.code));
        }
    }
}

async fn cluster() -> (Cluster, Arc<Meddler>) {
    let observer = Arc::new(Meddler { interruption: watch::Sender::new(None), answers: Mutex::default() });
    let options = Options { observers: vec![observer.clone()], ..Options::default() };
    (Cluster::with_options(options).await, observer)
}

#[test]
fn a_closed_connection_takes_all_its_requests_with_it() {
    run(async {
        for protocol in [Protocol::Http1, Protocol::Any] {
            let (cluster, observer) = cluster().await;
            let client = cluster.client(protocol);
            let create = |name: &str, agent: &str| {
                let object = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
                client.request("POST", MAPS).header("User-Agent", agent).json(object)
            };
            let _ = create("a", "").send().await.expect(201);
            // Over HTTP/2, the watch is on the same connection.
            let mut watch = client.request("GET", &format!("{SECRETS}?watch=1")).stream().await.expect("a connection");
            let watch = watch.as_mut().expect("a watch");
            let _ = create("b", "close").try_send().await.expect_err("no answer");
            if protocol == Protocol::Any {
                let _ = watch.next().await.expect_err("the connection is closed");
            }
            let _ = create("c", "lose").try_send().await.expect_err("no answer");
            for (name, code) in [("a", 200), ("b", 404), ("c", 200)] {
                let _ = cluster.get(&format!("{MAPS}/{name}")).await.expect(code);
            }
            let expect = [("", 201), ("close", 0), ("lose", 201)].map(|(agent, code)| (agent.to_owned(), code));
            assert_eq!(*observer.answers.lock(), expect);
            cluster.stop().await;
        }
    });
}

#[test]
fn an_interrupted_watch_leaves_other_watches_alone() {
    run(async {
        for protocol in [Protocol::Http1, Protocol::Any] {
            let (cluster, observer) = cluster().await;
            let client = cluster.client(protocol);
            let watch = |path: &str| client.request("GET", &format!("{path}?watch=1"));
            let mut other = watch(SECRETS).watch().await;
            let mut broken = watch(MAPS).stream().await.expect("a connection").expect("a watch");
            observer.interruption.send_replace(Some(Interruption::Disconnect));
            let error = broken.next().await.expect_err("it breaks off");
            assert!(!error.to_string().is_empty());
            observer.interruption.send_replace(None);
            let mut expired = watch(MAPS).watch().await;
            observer.interruption.send_replace(Some(Interruption::Expire));
            let event = expired.next().await.expect("an event");
            assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()));
            assert!(expired.next().await.is_none());
            let _ = cluster.post(SECRETS, r#"{"metadata":{"name":"a"}}"#).await.expect(201);
            let _ = other.expect("ADDED", "a").await;
            cluster.stop().await;
        }
    });
}
