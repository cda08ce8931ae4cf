//! client-go as a client. `tools/client-go` exercises typed clients over Protobuf, informers, leader election, event
//! recorders, scale and dynamic clients. It also runs informers while this test writes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use pintle_gates::Gates;
use pintle_integration::{Options, run_client_program, tool_path};
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
    fn start(kubeconfig: &Path, namespace: &str) -> Self {
        let mut child = Command::new(tool_path(NAME))
            .arg(kubeconfig)
            .arg(namespace)
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
        let mut informers = InformerProcess::start(&cluster.kubeconfig_file(), "default");
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
