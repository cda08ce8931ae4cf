//! client-go as a client. `tools/client-go` exercises typed clients over Protobuf, informers, leader election, event
//! recorders, scale and dynamic clients. It also runs informers while this test writes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use pintle_gates::Gates;
use pintle_integration::{AggregatedServer, Cluster, Options, bootstrapped, run_client_program, tool_path};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::informer_workload;

/// The name of the program in `tools`.
const NAME: &str = "client-go";
/// The timeout for informers to catch up.
const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn client_go_works_over_protobuf() {
    run_client_program(NAME, Options::default(), &[]);
}

#[test]
fn client_go_works_over_cbor() {
    let settings = [("CBORServingAndStorage".to_owned(), true)];
    let (gates, _) = Gates::with_overrides(&settings.into()).expect("settable feature gates");
    const FEATURES: &[(&str, &str)] =
        &[("KUBE_FEATURE_ClientsAllowCBOR", "true"), ("KUBE_FEATURE_ClientsPreferCBOR", "true")];
    run_client_program(NAME, Options { gates, ..Options::default() }, FEATURES);
}

/// The running program, which has informers for one namespace.
struct InformerProcess {
    child: Child,
    commands: Option<ChildStdin>,
    lines: UnboundedReceiver<String>,
}

impl InformerProcess {
    fn start(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(tool_path(NAME))
            .arg(kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Informers log broken connections to standard error.
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let commands = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, commands, lines }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(TIMEOUT, self.lines.recv()).await;
        line.expect("a line before the timeout").unwrap_or_default().trim_end().to_owned()
    }

    /// Asserts the next lines, in any order.
    async fn prints(&mut self, expect: &[&str]) {
        let mut lines = Vec::new();
        for _ in expect {
            lines.push(self.line().await);
        }
        lines.sort_unstable();
        assert_eq!(lines, expect);
    }

    async fn compare(&mut self) -> String {
        self.commands.as_mut().expect("its input").write_all(b"compare\n").expect("the program reads its input");
        self.line().await
    }
}

impl Drop for InformerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn informers_stay_consistent_with_lists() {
    pintle_integration::run(async {
        let mut cluster = informer_workload::start_cluster().await;
        let mut informers = InformerProcess::start(&cluster.kubeconfig_file(), &["default"]);
        assert_eq!(informers.line().await, "synced");
        let mut requested = [0; 4];
        let mut number = 0;
        while let Some(relist) = informer_workload::run_step(&cluster, number).await {
            let line = informers.compare().await;
            let counts: Vec<&str> = line.split(' ').collect();
            assert_eq!(counts.len(), 4, "step {number}: {line}");
            // Two informers start with lists, two with watch lists.
            for (i, (count, requested)) in counts.into_iter().zip(&mut requested).enumerate() {
                let (lists, streams) = count.split_once('+').unwrap_or_default();
                let (used, unused) = if i < 2 { (lists, streams) } else { (streams, lists) };
                assert_eq!(unused, "0", "step {number}: {line}");
                *requested =
                    relist.check(&format!("step {number}: {line}"), *requested, used.parse().expect("a number"));
            }
            number += 1;
        }
        informers.commands.take();
        assert_eq!(informers.line().await, "OK");
        cluster.stop().await;
    });
}

const FLUNDERS: &str = "/apis/wardle.example.com/v1/namespaces/default/flunders";

/// Writes a Flunder with a label, as soon as its API server is available.
async fn write_flunder(cluster: &Cluster, name: &str, step: &str) {
    let _ = cluster.get_until_status(FLUNDERS, 200).await;
    let flunder = json!({
        "apiVersion": "wardle.example.com/v1", "kind": "Flunder",
        "metadata": {"name": name, "labels": {"step": step}}, "spec": {"reference": "r", "size": 1},
    });
    let path = format!("{FLUNDERS}/{name}?fieldManager=test");
    let request = cluster.request("PATCH", &path).body("application/apply-patch+yaml", flunder.to_string());
    let answer = request.send().await;
    assert!(answer.status.is_success(), "{}", answer.text());
}

#[test]
fn informers_follow_objects_of_an_api_server_that_fails() {
    pintle_integration::run(async {
        let mut cluster = Cluster::with_options(bootstrapped()).await;
        let kubeconfig = cluster.kubeconfig_file();
        let mut server = AggregatedServer::start(&kubeconfig);
        server.register(&cluster).await;
        write_flunder(&cluster, "a", "1").await;
        let mut informers = InformerProcess::start(&kubeconfig, &["default", "flunders"]);
        informers.prints(&["dynamic add a 1", "metadata add a 1"]).await;
        write_flunder(&cluster, "b", "2").await;
        informers.prints(&["dynamic add b 2", "metadata add b 2"]).await;
        write_flunder(&cluster, "a", "3").await;
        informers.prints(&["dynamic update a 3", "metadata update a 3"]).await;
        let _ = cluster.delete(&format!("{FLUNDERS}/b")).await.expect(200);
        informers.prints(&["dynamic delete b 2", "metadata delete b 2"]).await;
        // With the same data, nothing has changed, and the informers go on.
        server.kill();
        let _ = cluster.get_until_status(FLUNDERS, 503).await;
        server.start_again();
        write_flunder(&cluster, "c", "4").await;
        informers.prints(&["dynamic add c 4", "metadata add c 4"]).await;
        // Without its data, the objects are gone, and resource versions start again.
        server.kill();
        server.remove_data();
        server.start_again();
        informers
            .prints(&["dynamic delete a 3", "dynamic delete c 4", "metadata delete a 3", "metadata delete c 4"])
            .await;
        write_flunder(&cluster, "d", "5").await;
        informers.prints(&["dynamic add d 5", "metadata add d 5"]).await;
        informers.commands.take();
        assert_eq!(informers.line().await, "OK");
        cluster.stop().await;
    });
}
