//! Audit of a server that runs as a process: its policy file, signals, and faults of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pintle_integration::{Client, Cluster, Options, Protocol, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::PROGRAM;
use super::server::{Server, kubectl, printed};

/// The time limit of a wait.
const LIMIT: Duration = Duration::from_secs(120);

/// Waits until a condition holds.
#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A policy that records requests for a resource.
fn policy_for(resource: &str) -> String {
    format!(
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n  users: [kubernetes-admin]\n  \
         verbs: [create]\n  resources: [{{group: '', resources: [{resource}]}}]\n"
    )
}

/// A server with a policy file and an audit log.
struct AuditedServer {
    server: Server,
    folder: tempfile::TempDir,
}

impl AuditedServer {
    /// Starts a server that records the creation of config maps. The path of the log is below the folder.
    fn start(log: &str, mode: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_in(folder, log, mode)
    }

    fn start_in(folder: tempfile::TempDir, log: &str, mode: &str) -> Self {
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        fs::write(path("policy"), policy_for("configmaps")).expect("a file");
        let (policy, log) = (path("policy"), path(log));
        let flags = ["--audit-policy-file", &policy, "--audit-log-path", &log, "--audit-log-mode", mode];
        let arguments = [&["--storage-backend", "memory"][..], &flags].concat();
        Self { server: Server::start(folder.path(), &arguments), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates an object. Returns whether the server has accepted it, and the error.
    fn create(&self, kind: &[&str], name: &str) -> (bool, String) {
        let output = kubectl(self.folder.path(), &[&["create"], kind, &[name]].concat());
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    #[track_caller]
    fn create_config_map(&self, name: &str) {
        assert_eq!(self.create(&["configmap"], name), (true, String::new()));
    }

    /// The value of a metric with these labels, such as `name{a="b"`; 0 if it is absent.
    fn metric(&self, start: &str) -> f64 {
        let text = printed(self.folder.path(), &["get", "--raw", "/metrics"]);
        let line = text.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }

    fn reloads(&self, status: &str) -> f64 {
        let text = printed(self.folder.path(), &["get", "--raw", "/metrics"]);
        let name = "apiserver_audit_policy_config_controller_automatic_reloads_total{";
        let status = format!("status=\"{status}\"");
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(&status));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }
}

/// The names of the objects in a log, in events of complete requests.
fn logged(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let events = text.lines().map(|line| -> Value { serde_json::from_str(line).expect("an event") });
    let complete = events.filter(|event| event["stage"] == "ResponseComplete");
    complete.map(|event| event["objectRef"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_changed_policy_is_followed_and_a_broken_policy_is_not() {
    let audited = AuditedServer::start("audit.log", "blocking");
    let log = audited.path("audit.log");
    audited.create_config_map("a");
    assert_eq!(logged(&log), ["a"]);
    fs::write(audited.path("policy"), "apiVersion: audit.k8s.io/v1\nkind: Policy\n").expect("a file");
    wait_until("the policy is refused", || audited.reloads("failure") > 0.0);
    audited.create_config_map("b");
    assert_eq!(logged(&log), ["a", "b"]);
    let before = audited.reloads("success");
    fs::write(audited.path("policy"), policy_for("secrets")).expect("a file");
    wait_until("the policy is in use", || audited.reloads("success") > before);
    audited.create_config_map("c");
    assert!(audited.create(&["secret", "generic"], "d").0);
    assert_eq!(logged(&log), ["a", "b", "d"]);
    let log = audited.server.stop();
    let refused = "Failed to reload a configuration file configuration=\"audit policy\" error=\"loaded illegal policy with 0 rules\"";
    assert!(log.contains(refused), "{log}");
}

#[test]
fn the_log_is_opened_again_after_a_signal() {
    let audited = AuditedServer::start("audit.log", "blocking");
    let (log, moved) = (audited.path("audit.log"), audited.path("moved"));
    audited.create_config_map("a");
    fs::rename(&log, &moved).expect("a file");
    let is_open = || audited.server.open_files().contains(&moved);
    assert!(is_open());
    audited.server.send(Signal::HUP);
    // No event is needed to close the file.
    wait_until("the file is closed", || !is_open());
    audited.create_config_map("b");
    assert_eq!((logged(&moved), logged(&log)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    audited.server.stop();
}

#[test]
fn a_full_disk_refuses_requests_only_in_strict_mode() {
    for (mode, refuses) in [("blocking", false), ("batch", false), ("blocking-strict", true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("audit.log");
        symlink("/dev/full", &log).expect("a link");
        let audited = AuditedServer::start_in(folder, "audit.log", mode);
        let (is_created, error) = audited.create(&["configmap"], "a");
        assert_eq!(is_created, !refuses, "{mode}: {error}");
        assert_eq!(error.contains("failed to store audit event"), refuses, "{mode}: {error}");
        // The stage ResponseComplete is not reached by a refused request.
        let errors = || audited.metric("apiserver_audit_error_total{plugin=\"log\"}");
        let expect = if refuses { 1.0 } else { 2.0 };
        wait_until("the errors are counted", || errors() >= expect);
        let rejected = audited.metric("apiserver_audit_requests_rejected_total");
        assert_eq!(rejected > 0.0, refuses, "{mode}");
        // The server serves requests that are not recorded, and recovers when there is space again.
        assert!(kubectl(audited.folder.path(), &["get", "configmaps"]).status.success());
        fs::remove_file(&log).expect("the link");
        audited.create_config_map("b");
        wait_until("the event is written", || logged(&log) == ["b"]);
        audited.server.stop();
    }
}

#[test]
fn a_folder_that_cannot_be_written_refuses_requests_in_strict_mode_until_it_can() {
    let audited = AuditedServer::start("log/audit.log", "blocking-strict");
    let (folder, log) = (audited.path("log"), audited.path("log/audit.log"));
    audited.create_config_map("a");
    fs::remove_dir_all(&folder).expect("the folder");
    fs::write(&folder, "").expect("a file in its place");
    // The server may notice the change a moment later.
    let mut names = 0..;
    let is_refused = || !audited.create(&["configmap"], &format!("n{}", names.next().expect("a number"))).0;
    wait_until("a refusal", is_refused);
    assert!(kubectl(audited.folder.path(), &["get", "configmap", "a"]).status.success());
    fs::remove_file(&folder).expect("the file");
    audited.create_config_map("b");
    assert_eq!(logged(&log), ["b"]);
    audited.server.stop();
}

/// The number of writes before a server is killed. `PINTLE_AUDIT_KILLS` is the number of kills, instead of two.
const WRITES: usize = 200;

/// The audit IDs of the events in a log, by stage.
fn audit_ids(log: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids = BTreeMap::<String, BTreeSet<String>>::new();
    for line in fs::read_to_string(log).expect("a log").lines() {
        // The last line that a killed process has written may be a part.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |field: &str| event[field].as_str().expect("a text").to_owned();
        ids.entry(text("stage")).or_default().insert(text("auditID"));
    }
    ids
}

/// Creates config maps until the server is gone, and remembers the acknowledged names.
async fn write_until_killed(client: Client, writer: String, acknowledged: Arc<Mutex<BTreeSet<String>>>) {
    for number in 0.. {
        let name = format!("{writer}-{number}");
        let body = json!({"metadata": {"name": name}}).to_string();
        let request = client.request("POST", "/api/v1/namespaces/default/configmaps");
        match request.header("audit-id", &name).json(body).try_send().await {
            Ok(response) => drop(response.expect(201)),
            Err(_) => return,
        }
        acknowledged.lock().expect("the names").insert(name);
    }
}

#[test]
fn every_acknowledged_write_has_its_events_although_the_server_is_killed() {
    let rounds = std::env::var("PINTLE_AUDIT_KILLS").map_or(2, |rounds| rounds.parse().expect("a number"));
    pintle_integration::run(async move {
        let folder = tempfile::tempdir().expect("a folder");
        let (policy, log) = (folder.path().join("policy"), folder.path().join("audit.log"));
        fs::write(&policy, policy_for("configmaps")).expect("a file");
        let mut options = Options::default();
        options.audit.policy_file = policy.to_string_lossy().into_owned();
        options.audit.log.path = log.to_string_lossy().into_owned();
        options.audit.log.batch.mode = "blocking-strict".to_owned();
        let cluster = Cluster::of_process(Path::new(PROGRAM), options).await;
        let acknowledged = Arc::<Mutex<BTreeSet<String>>>::default();
        let count = || acknowledged.lock().expect("the names").len();
        for round in 0..rounds {
            let wanted = count() + WRITES;
            let mut writers = JoinSet::new();
            for writer in 0..8 {
                let client = cluster.client(Protocol::Http1);
                writers.spawn(write_until_killed(client, format!("w{round}-{writer}"), acknowledged.clone()));
            }
            eventually("enough writes", async || count() >= wanted).await;
            cluster.kill_server().await;
            while let Some(ended) = writers.join_next().await {
                ended.expect("a writer");
            }
            cluster.start_server().await;
        }
        cluster.kill_server().await;
        let (acknowledged, recorded) = (acknowledged.lock().expect("the names").clone(), audit_ids(&log));
        for stage in ["RequestReceived", "ResponseComplete"] {
            let lost: Vec<_> = acknowledged.difference(&recorded[stage]).collect();
            assert!(lost.is_empty(), "{} of {} have no event {stage}: {lost:?}", lost.len(), acknowledged.len());
        }
    });
}
