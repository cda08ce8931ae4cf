//! The events of a server's requests, in its log and at its webhook.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_audit::AuditOptions;
use pintle_integration::{Cluster, Options, eventually, expect_waiting, tool_path};
use serde_json::{Value, json};

use super::receiver::{AuditReceiver, Behaviour};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The files of a server with audit.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    /// A kubeconfig of a webhook, and a policy that records the administrator's requests for config maps.
    fn new(receiver: &AuditReceiver) -> Self {
        let files = Self { folder: tempfile::tempdir().expect("a folder") };
        fs::write(files.path("webhook"), receiver.kubeconfig()).expect("a file");
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: RequestResponse\n  users: \
                      [kubernetes-admin]\n  resources: [{group: '', resources: [configmaps]}]\n";
        fs::write(files.path("policy"), policy).expect("a file");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// The options of a server that sends its events to the webhook.
    fn options(&self, mode: &str) -> AuditOptions {
        let mut options = AuditOptions { policy_file: self.text("policy"), ..AuditOptions::default() };
        options.webhook.config_file = self.text("webhook");
        options.webhook.initial_backoff = pintle_value::time::Duration(1_000_000);
        options.webhook.batch.mode = mode.to_owned();
        options
    }
}

async fn start(audit: AuditOptions) -> Cluster {
    assert_eq!(audit.validate(), [""; 0]);
    Cluster::with_options(Options { audit, ..Options::default() }).await
}

fn config_map(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

/// The stages and the verbs of events.
fn stages(events: &[Value]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (text_at(event, "stage"), text_at(event, "verb"))).collect()
}

fn text_at<'e>(event: &'e Value, field: &str) -> &'e str {
    event[field].as_str().expect("a text")
}

fn lines(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
}

fn kubectl(kubeconfig: &Path, arguments: &str) {
    let mut command = Command::new(tool_path("kubectl"));
    let output = command.arg("--kubeconfig").arg(kubeconfig).args(arguments.split(' ')).output().expect("kubectl runs");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_events_of_a_kubectl_session_reach_the_log_and_the_webhook() {
    pintle_integration::run(async {
        let receiver = AuditReceiver::start().await;
        let files = Files::new(&receiver);
        let mut audit = files.options("batch");
        audit.webhook.batch.max_wait = pintle_value::time::Duration(10_000_000);
        audit.log.path = files.text("audit.log");
        let cluster = start(audit).await;
        let kubeconfig = files.path("kubeconfig");
        fs::write(&kubeconfig, cluster.kubeconfig()).expect("a file");
        let session = move || {
            for arguments in [
                "create configmap a --from-literal=k=v",
                "label configmap a l=m",
                "get configmaps",
                "delete configmap a --wait=false",
            ] {
                kubectl(&kubeconfig, arguments);
            }
        };
        tokio::task::spawn_blocking(session).await.expect("a session");
        let logged = lines(&files.path("audit.log"));
        let verbs = ["create", "get", "patch", "list", "delete"];
        let expect: Vec<_> =
            verbs.iter().flat_map(|verb| [("RequestReceived", *verb), ("ResponseComplete", *verb)]).collect();
        assert_eq!(stages(&logged), expect);
        let created = &logged[1];
        assert_eq!(created["objectRef"]["name"], "a");
        assert_eq!(created["requestObject"]["data"], json!({"k": "v"}));
        assert_eq!(created["responseObject"]["data"], json!({"k": "v"}));
        assert!(created["userAgent"].as_str().is_some_and(|agent| agent.starts_with("kubectl/")));
        eventually("the webhook has the events", async || receiver.events().len() == logged.len()).await;
        // Items of a list have no kind, and batches may overtake each other.
        let without_kind = |event: &Value| {
            let mut event = event.clone();
            event.as_object_mut().expect("an event").retain(|field, _| field != "kind" && field != "apiVersion");
            event.to_string()
        };
        let sent: BTreeSet<_> = receiver.events().iter().map(without_kind).collect();
        assert!(sent == logged.iter().map(without_kind).collect(), "the log and the webhook have other events");
    });
}

#[test]
fn events_that_wait_are_delivered_when_the_server_stops() {
    pintle_integration::run(async {
        let receiver = AuditReceiver::start().await;
        let files = Files::new(&receiver);
        // A batch waits for half a minute.
        let cluster = start(files.options("batch")).await;
        for id in 0..10 {
            let _ = cluster.post(CONFIG_MAPS, config_map(&format!("c{id}"))).await.expect(201);
        }
        assert_eq!(receiver.calls().len(), 0);
        receiver.set_next(&[Behaviour::Answer(500), Behaviour::Close]);
        let begun = Instant::now();
        cluster.stop_server().await;
        assert!(begun.elapsed() < Duration::from_secs(25), "the batch has waited");
        // The calls that failed had the same events.
        assert_eq!(receiver.calls().len(), 3);
        assert_eq!(receiver.events().len(), 3 * 20);
    });
}

#[test]
fn a_webhook_that_fails_refuses_requests_only_in_strict_mode() {
    pintle_integration::run(async {
        for (mode, code) in [("batch", 201), ("blocking", 201), ("blocking-strict", 500)] {
            let receiver = AuditReceiver::start().await;
            let files = Files::new(&receiver);
            let mut audit = files.options(mode);
            audit.webhook.batch.max_wait = pintle_value::time::Duration(0);
            let cluster = start(audit).await;
            receiver.set(Behaviour::Answer(503));
            let refused = cluster.post(CONFIG_MAPS, config_map("a")).await.expect(code).text();
            assert_eq!(refused.contains("failed to store audit event"), code == 500, "{mode}: {refused}");
            let errors = "apiserver_audit_error_total{plugin=\"webhook\"} ";
            let _ = cluster.get_until("/metrics", |metrics| metrics.text().contains(errors)).await;
            // The server serves on, and records again when the webhook is back.
            let _ = cluster.get("/api/v1/namespaces/default/secrets").await.expect(200);
            receiver.set(Behaviour::Answer(200));
            let before = receiver.calls().len();
            let _ = cluster.post(CONFIG_MAPS, config_map("b")).await.expect(201);
            eventually("the webhook has the events", async || {
                let calls = receiver.calls().len() > before;
                calls && receiver.events().iter().any(|event| event["responseObject"]["metadata"]["name"] == "b")
            })
            .await;
        }
    });
}

#[test]
fn a_webhook_that_is_slow_delays_only_the_requests_that_are_recorded() {
    pintle_integration::run(async {
        for mode in ["blocking", "blocking-strict"] {
            let receiver = AuditReceiver::start().await;
            let files = Files::new(&receiver);
            let cluster = Arc::new(start(files.options(mode)).await);
            // The client gets its answer after the webhook has taken the second event.
            for calls_before in [0, 1] {
                let taken = receiver.calls().len();
                receiver.set_next(&vec![Behaviour::Answer(200); calls_before]);
                receiver.set(Behaviour::Hang);
                let name = format!("{mode}-{calls_before}");
                let writer = cluster.clone();
                let mut writing = tokio::spawn(async move { writer.post(CONFIG_MAPS, config_map(&name)).await });
                eventually("a call", async || receiver.calls().len() > taken + calls_before).await;
                expect_waiting("the request", &mut writing).await;
                let _ = cluster.get("/api/v1/namespaces/default/secrets").await.expect(200);
                receiver.set(Behaviour::Answer(200));
                let _ = writing.await.expect("a response").expect(201);
                assert_eq!(receiver.calls().len(), taken + 2, "{mode}");
            }
        }
    });
}

#[test]
fn a_request_whose_client_leaves_has_its_last_event() {
    pintle_integration::run(async {
        let receiver = AuditReceiver::start().await;
        let files = Files::new(&receiver);
        let cluster = Arc::new(start(files.options("blocking")).await);
        // The client leaves while the first event of a create, or the second event of a watch, is being sent.
        for (calls_before, verb) in [(0, "create"), (1, "watch")] {
            let taken = receiver.events().len();
            receiver.set_next(&vec![Behaviour::Answer(200); calls_before]);
            receiver.set(Behaviour::NeverAnswer);
            let client = cluster.clone();
            let asking = tokio::spawn(async move {
                match verb {
                    "create" => client.request("POST", CONFIG_MAPS).json(config_map("left")).try_send().await.map(drop),
                    _ => client.request("GET", &format!("{CONFIG_MAPS}?watch=1")).try_send().await.map(drop),
                }
            });
            eventually("a call", async || receiver.events().len() > taken + calls_before).await;
            asking.abort();
            assert!(asking.await.is_err_and(|error| error.is_cancelled()));
            receiver.set(Behaviour::Answer(200));
            let is_complete = async || receiver.events().last().is_some_and(|last| last["stage"] == "ResponseComplete");
            eventually("the last event", is_complete).await;
            let events = receiver.events().split_off(taken);
            let codes: Vec<_> = events.iter().map(|event| event["responseStatus"]["code"].as_i64()).collect();
            let names: Vec<_> = stages(&events);
            match verb {
                "create" => {
                    assert_eq!(names, [("RequestReceived", verb), ("ResponseComplete", verb)]);
                    assert_eq!(codes, [None, Some(504)]);
                }
                _ => {
                    let expect = [("RequestReceived", verb), ("ResponseStarted", verb), ("ResponseComplete", verb)];
                    assert_eq!((names, codes), (expect.to_vec(), vec![None, Some(200), Some(200)]));
                }
            }
        }
        // The watch counts as a request that was not answered in time, although it was about to be answered.
        let metrics = cluster.get("/metrics").await.expect(200).text();
        let ended =
            |line: &str| line.starts_with("apiserver_request_terminations_total{") && line.contains("code=\"504\"");
        assert!(metrics.lines().any(ended), "{metrics}");
    });
}
