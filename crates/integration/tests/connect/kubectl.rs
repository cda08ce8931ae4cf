//! kubectl's commands that connect with pods.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pintle_integration::{Cluster, Kubelet, Options, tool_path};
use tokio::runtime::Runtime;

/// The protocol between kubectl and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// SPDY.
    Spdy,
    /// WebSockets, which the server translates to SPDY for the kubelet.
    Translated,
    /// WebSockets that the kubelet itself serves. The server only forwards them.
    PassedOn,
}

impl Transport {
    const ALL: [Transport; 3] = [Transport::Spdy, Transport::Translated, Transport::PassedOn];

    /// The environment variables of kubectl.
    fn variables(self) -> [(&'static str, &'static str); 2] {
        let websockets = if self == Transport::Spdy { "false" } else { "true" };
        [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets), ("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)]
    }

    /// The pod of the transport.
    fn pod(self) -> &'static str {
        if self == Transport::PassedOn { "w" } else { "p" }
    }
}

/// A cluster with a kubelet, and a kubectl for it.
struct Setup {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    cluster: Option<Cluster>,
    runtime: Runtime,
    kubelet: Kubelet,
}

impl Setup {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let kubelet = Kubelet::start();
        let mut cluster = runtime.block_on(async {
            let cluster = kubelet.cluster(Options::default()).await;
            kubelet.create_node(&cluster, "m", &["ExtendWebSocketsToKubelet"]).await;
            kubelet.create_pod_on(&cluster, "w", &["c"], "m").await;
            cluster
        });
        let kubeconfig = cluster.kubeconfig_file();
        let home = tempfile::tempdir().expect("a temporary folder");
        Self { home, kubeconfig, cluster: Some(cluster), runtime, kubelet }
    }

    fn command(&self, transport: Transport, arguments: &[&str]) -> Command {
        let mut command = Command::new(tool_path("kubectl"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(transport.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command with this input.
    fn run(&self, transport: Transport, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(transport, arguments).spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("its input");
        let input = input.as_bytes().to_owned();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("kubectl ends");
        writer.join().expect("no panic");
        output
    }

    #[track_caller]
    fn check(&self, transport: Transport, arguments: &[&str], input: &str, expect: (i32, &str, &str)) {
        let output = self.run(transport, arguments, input);
        let found = (
            output.status.code().unwrap_or(-1),
            &*String::from_utf8_lossy(&output.stdout),
            &*String::from_utf8_lossy(&output.stderr),
        );
        assert_eq!(found, expect, "{transport:?}: kubectl {}", arguments.join(" "));
    }

    fn metrics(&self) -> String {
        let cluster = self.cluster.as_ref().expect("a cluster");
        self.runtime.block_on(async { cluster.get("/metrics").await.expect(200).text() })
    }

    fn stop(mut self) {
        if let Some(cluster) = self.cluster.take() {
            self.runtime.block_on(cluster.stop());
        }
    }
}

#[test]
fn commands_run_in_containers() {
    let setup = Setup::start();
    for transport in Transport::ALL {
        let pod = transport.pod();
        setup.check(transport, &["exec", pod, "--", "echo", "hello"], "", (0, "hello\n", ""));
        setup.check(transport, &["exec", "-i", pod, "--", "cat"], "typed\n", (0, "typed\n", ""));
        let both = ["exec", pod, "--", "sh", "-c", "echo out; echo err >&2"];
        setup.check(transport, &both, "", (0, "out\n", "err\n"));
        let exit = ["exec", pod, "--", "sh", "-c", "echo out; exit 7"];
        setup.check(transport, &exit, "", (7, "out\n", "command terminated with exit code 7\n"));
        let missing = setup.run(transport, &["exec", pod, "--", "no-such-command"], "");
        let stderr = String::from_utf8_lossy(&missing.stderr);
        assert_eq!(missing.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("no-such-command"), "{stderr}");
    }
    setup.stop();
}

#[test]
fn clients_are_connected_as_they_ask_for() {
    let setup = Setup::start();
    for transport in Transport::ALL {
        setup.check(transport, &["exec", transport.pod(), "--", "echo", "hello"], "", (0, "hello\n", ""));
    }
    let metrics = setup.metrics();
    for (name, labels) in [
        ("apiserver_stream_translator_requests_total", &["code=\"200\""][..]),
        (
            "apiserver_websocket_streaming_requests_total",
            &["subresource=\"exec\"", "proxy_type=\"translated_at_apiserver\""],
        ),
        (
            "apiserver_websocket_streaming_requests_total",
            &["subresource=\"exec\"", "proxy_type=\"proxied_to_kubelet\""],
        ),
    ] {
        let has_series = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
        let found = metrics.lines().find(has_series).and_then(|line| line.rsplit(' ').next());
        assert_eq!(found, Some("1"), "{name} {labels:?}");
    }
    setup.stop();
}

#[test]
fn errors_of_kubelets_reach_clients_over_every_transport() {
    let setup = Setup::start();
    let cluster = setup.cluster.as_ref().expect("a cluster");
    setup.runtime.block_on(async {
        setup.kubelet.create_pod(cluster, "b", &["broken"]).await;
        setup.kubelet.create_node(cluster, "down", &[]).await;
        let port = r#"{"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 1}}}}"#;
        let _ = cluster.patch("/api/v1/nodes/down/status", "merge", port).await.expect(200);
        setup.kubelet.create_pod_on(cluster, "u", &["c"], "down").await;
    });
    for transport in [Transport::Spdy, Transport::Translated] {
        for (pod, expect) in [("b", "the container is broken"), ("u", "connect: connection refused")] {
            let output = setup.run(transport, &["exec", pod, "--", "ls"], "");
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{transport:?} {stderr}");
            assert!(stderr.contains(expect), "{transport:?} {stderr}");
        }
    }
    setup.stop();
}

#[test]
fn much_data_passes_both_ways() {
    let setup = Setup::start();
    for transport in Transport::ALL {
        let input = "0123456789abcde\n".repeat(64 * 1024);
        let output = setup.run(transport, &["exec", "-i", transport.pod(), "--", "cat"], &input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == input.as_bytes(), "{transport:?}: {} of {} bytes", output.stdout.len(), input.len());
    }
    setup.stop();
}

#[test]
fn clients_attach_to_processes() {
    let setup = Setup::start();
    for transport in Transport::ALL {
        let arguments = ["attach", "-q", "-i", transport.pod()];
        let output = setup.run(transport, &arguments, "typed\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "attached to c\ntyped\n", "{transport:?} {output:?}");
        assert!(output.status.success());
    }
    setup.stop();
}

#[test]
fn logs_are_printed_and_followed() {
    let setup = Setup::start();
    let transport = Transport::Spdy;
    let log = "query tailLines=2\nline 1 of c\nline 2 of c\nline 3 of c\n";
    setup.check(transport, &["logs", "p", "--tail=2"], "", (0, log, ""));
    let mut child = setup.command(transport, &["logs", "-f", "p"]).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let found = lines.any(|line| line.expect("a line") == "line 7 of C");
    assert!(found, "the log ended");
    child.kill().expect("kubectl can be killed");
    child.wait().expect("kubectl ends");
    setup.stop();
}

/// A process that ends when this value is dropped.
struct Forward {
    child: Child,
    port: u16,
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(setup: &Setup, transport: Transport, port: u16) -> Forward {
    let arguments = ["port-forward", &format!("pod/{}", transport.pod()), &format!(":{port}")];
    let mut child = setup.command(transport, &arguments).spawn().expect("kubectl starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let _ = output.read_line(&mut line).expect("a line");
    if line.is_empty() {
        let mut error = String::new();
        let _ = child.stderr.take().expect("its errors").read_to_string(&mut error);
        panic!("{transport:?}: {error}");
    }
    let local = line.trim().strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next());
    let local = local.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
    // kubectl may write to its output at any time, so the test keeps reading it.
    std::thread::spawn(move || output.read_to_string(&mut String::new()));
    Forward { child, port: local }
}

#[test]
fn ports_are_forwarded() {
    let setup = Setup::start();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // The server sends the received bytes back in upper case, until the client closes the connection.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut stream, mut buffer) = (stream, [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    let _ = stream.write_all(&buffer[..read].to_ascii_uppercase());
                }
            });
        }
    });
    for transport in Transport::ALL {
        let forward = forward(&setup, transport, port);
        let mut streams: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(("127.0.0.1", forward.port)).expect("kubectl listens")).collect();
        for round in 0..3 {
            for (number, stream) in streams.iter_mut().enumerate() {
                let text = format!("round {round} of stream {number}\n");
                stream.write_all(text.as_bytes()).expect("written");
                let mut answer = vec![0; text.len()];
                stream.read_exact(&mut answer).expect("read");
                assert_eq!(String::from_utf8_lossy(&answer), text.to_uppercase(), "{transport:?}");
            }
        }
        let much = "x".repeat(1 << 20);
        let mut stream = streams.pop().expect("a stream");
        let mut writer = stream.try_clone().expect("a clone");
        let sent = much.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(sent.as_bytes()).expect("written");
            writer.shutdown(std::net::Shutdown::Write).expect("ended");
        });
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        writing.join().expect("no panic");
        assert!(answer == much.to_uppercase(), "{transport:?}: {} bytes", answer.len());
    }
    setup.stop();
}

#[test]
fn connections_that_stay_open_do_not_delay_the_end_of_the_server() {
    let setup = Setup::start();
    let open = Transport::ALL.map(|transport| {
        let arguments = ["exec", "-i", transport.pod(), "--", "sh", "-c", "echo ready; cat"];
        let mut child = setup.command(transport, &arguments).spawn().expect("kubectl starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        let _ = output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "{transport:?}");
        (child, output)
    });
    let started = Instant::now();
    setup.stop();
    // The server would wait a minute for requests in progress.
    let took = started.elapsed();
    for (mut child, _output) in open {
        child.kill().expect("kubectl can be killed");
        child.wait().expect("kubectl ends");
    }
    assert!(took < Duration::from_secs(20), "{took:?}");
}
