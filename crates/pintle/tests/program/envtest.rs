//! The folder of `pintle envtest`, The tests start its programs as controller-runtime's envtest does.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pintle_integration::{Client, Etcd, Protocol, RequestBuilder, ReservedPort, eventually, run, tool_path};
use pintle_store::{EtcdOptions, EtcdStore, Store as _};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::PROGRAM;

/// The maximum time for a program to start or to stop.
const TIMEOUT: Duration = Duration::from_secs(60);
const ADMIN: &str = "Bearer admin-token";

/// The folder of programs, the folder of the etcd's data, and the folder with the API server's certificates.
struct Environment {
    assets: PathBuf,
    folder: TempDir,
    /// The port of etcd. No other process gets the reserved ports while the programs are stopped.
    etcd_port: ReservedPort,
    api_port: ReservedPort,
    authority: String,
}

impl Environment {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let assets = folder.path().join("assets");
        let made = Command::new(PROGRAM).args(["envtest", "--assets-dir"]).arg(&assets).output();
        let made = made.expect("the program runs");
        assert!(made.status.success(), "{made:?}");
        assert_eq!(String::from_utf8_lossy(&made.stdout), format!("{}\n", assets.display()));
        let certificates = folder.path().join("certificates");
        fs::create_dir(&certificates).expect("a new folder");
        fs::create_dir(folder.path().join("data")).expect("a new folder");
        // envtest writes the certificate of the signing key where kube-apiserver expects a public key.
        let authority = write_certificate(&certificates, "apiserver");
        write_certificate(&certificates, "sa-signer");
        fs::write(certificates.join("tokens"), "admin-token,admin,admin,system:masters\n").expect("a file");
        Self { assets, folder, etcd_port: ReservedPort::reserve(), api_port: ReservedPort::reserve(), authority }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.assets.join(name));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn start_etcd(&self) -> Process {
        let url = format!("http://127.0.0.1:{}", self.etcd_port.number);
        let mut command = self.program("etcd");
        command.arg(format!("--advertise-client-urls={url}")).arg(format!("--listen-client-urls={url}"));
        command.arg("--listen-peer-urls=http://localhost:0").arg("--unsafe-no-fsync=true");
        command.arg(format!("--data-dir={}", self.folder.path().join("data").display()));
        let process = Process(command.spawn().expect("the program starts"));
        wait_for_port(self.etcd_port.number);
        process
    }

    fn api_server(&self) -> Command {
        self.api_server_of(&format!("http://127.0.0.1:{}", self.etcd_port.number))
    }

    fn api_server_of(&self, etcd: &str) -> Command {
        let certificates = self.folder.path().join("certificates");
        let file = |name: &str| certificates.join(name).display().to_string();
        let mut command = self.program("kube-apiserver");
        command.args(["--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1"]);
        command.args(["--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24"]);
        command.arg(format!("--cert-dir={}", certificates.display()));
        command.arg(format!("--etcd-servers={etcd}"));
        command.arg(format!("--secure-port={}", self.api_port.number));
        command.arg(format!("--service-account-issuer=https://127.0.0.1:{}/", self.api_port.number));
        command.arg(format!("--service-account-key-file={}", file("sa-signer.crt")));
        command.arg(format!("--service-account-signing-key-file={}", file("sa-signer.key")));
        command.arg(format!("--token-auth-file={}", file("tokens")));
        command
    }

    async fn start_api_server(&self) -> (Process, Client) {
        self.start(self.api_server()).await
    }

    async fn start(&self, mut command: Command) -> (Process, Client) {
        let process = Process(command.spawn().expect("the program starts"));
        wait_for_port(self.api_port.number);
        let url = format!("https://127.0.0.1:{}", self.api_port.number);
        let client = Client::trusting(&url, self.authority.as_bytes(), Protocol::Http1);
        // envtest sends no credentials.
        let _ = client.request("GET", "/healthz").anonymous().send().await.expect(200);
        (process, client)
    }
}

/// A process that is killed when it is dropped.
struct Process(Child);

impl Process {
    /// Sends SIGTERM and waits for the end.
    fn stop(mut self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process ID");
        kill_process(id, Signal::TERM).expect("the process runs");
        let status = self.0.wait().expect("the process ends");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes a self-signed certificate and its key. Returns the certificate.
fn write_certificate(folder: &Path, name: &str) -> String {
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).and_then(|params| params.self_signed(&key)).expect("a certificate");
    fs::write(folder.join(format!("{name}.crt")), certificate.pem()).expect("a file");
    fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).expect("a file");
    certificate.pem()
}

fn wait_for_port(port: u16) {
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < TIMEOUT, "nothing listens on port {port}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A request of the administrator, who has a token.
fn admin<'c>(client: &'c Client, method: &str, path: &str) -> RequestBuilder<'c> {
    client.request(method, path).anonymous().header("Authorization", ADMIN)
}

/// The output of a program that fails.
fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn objects_survive_restarts_of_the_api_server_and_of_etcd() {
    run(async {
        let environment = Environment::new();
        let etcd = environment.start_etcd();
        let (server, client) = environment.start_api_server().await;
        let create = admin(&client, "POST", "/api/v1/namespaces").json(r#"{"metadata":{"name":"a"}}"#);
        let _ = create.send().await.expect(201);
        server.stop();
        let (server, client) = environment.start_api_server().await;
        let found = admin(&client, "GET", "/api/v1/namespaces/a").send().await.expect(200).json();
        assert_eq!(found["status"]["phase"], "Active");
        server.stop();
        etcd.stop();
        let _etcd = environment.start_etcd();
        let (_server, client) = environment.start_api_server().await;
        let again = admin(&client, "GET", "/api/v1/namespaces/a").send().await.expect(200).json();
        assert_eq!(again, found);
    });
}

#[test]
fn no_controllers_run_as_beside_the_original_programs() {
    run(async {
        let environment = Environment::new();
        let _etcd = environment.start_etcd();
        let (_server, client) = environment.start_api_server().await;
        let request = |method: &str, path: &str| admin(&client, method, path);
        let _ = request("POST", "/api/v1/namespaces").json(r#"{"metadata":{"name":"a"}}"#).send().await.expect(201);
        // Pods need no service account, because envtest disables the plugin.
        let pod = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
        let _ = request("POST", "/api/v1/namespaces/a/pods").json(pod).send().await.expect(201);
        let deleted = request("DELETE", "/api/v1/namespaces/a").send().await.expect(200).json();
        assert_eq!(deleted["status"]["phase"], "Terminating");
        let _ = request("POST", "/api/v1/namespaces").json(r#"{"metadata":{"name":"b"}}"#).send().await.expect(201);
        for (path, count) in
            [("/api/v1/namespaces/a/pods", 1), ("/api/v1/serviceaccounts", 0), ("/api/v1/namespaces/b/configmaps", 0)]
        {
            let list = request("GET", path).send().await.expect(200).json();
            assert_eq!(list["items"].as_array().map(Vec::len), Some(count), "{path}");
        }
        let namespace = request("GET", "/api/v1/namespaces/a").send().await.expect(200).json();
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
        let service = request("GET", "/api/v1/namespaces/default/services/kubernetes").send().await.expect(200).json();
        assert_eq!(service["spec"]["clusterIP"], "10.0.0.1");
    });
}

#[test]
fn a_variable_names_the_log_of_requests() {
    run(async {
        let environment = Environment::new();
        let _etcd = environment.start_etcd();
        let log = environment.folder.path().join("requests");
        let mut command = environment.api_server();
        command.env("PINTLE_LOG_REQUESTS", &log);
        let (server, client) = environment.start(command).await;
        let create = admin(&client, "POST", "/api/v1/namespaces").json(r#"{"metadata":{"name":"a"}}"#);
        let _ = create.send().await.expect(201);
        server.stop();
        let text = fs::read_to_string(&log).expect("the log");
        let line = text.lines().find(|line| line.contains("\"verb\":\"create\"")).expect("a line");
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(
            (&line["user"], &line["code"], &line["body"]["metadata"]["name"]),
            (&json!("admin"), &json!(201), &json!("a"))
        );
    });
}

#[test]
fn a_variable_turns_controllers_on() {
    run(async {
        let environment = Environment::new();
        let _etcd = environment.start_etcd();
        let mut command = environment.api_server();
        command.env("PINTLE_CONTROLLERS", "auto");
        let (_server, client) = environment.start(command).await;
        let request = |method: &str, path: &str| admin(&client, method, path);
        let _ = request("POST", "/api/v1/namespaces").json(r#"{"metadata":{"name":"a"}}"#).send().await.expect(201);
        let path = "/api/v1/namespaces/a/configmaps/kube-root-ca.crt";
        let is_published = || async { request("GET", path).send().await.status == 200 };
        eventually("certificates are published", is_published).await;
        let published = request("GET", path).send().await.expect(200).json();
        // Clients in the cluster verify the server with the certificate that envtest made.
        assert_eq!(published["data"]["ca.crt"], environment.authority);
        let _ = request("DELETE", "/api/v1/namespaces/a").send().await.expect(200);
        let is_deleted = || async { request("GET", "/api/v1/namespaces/a").send().await.status == 404 };
        eventually("the namespace is deleted", is_deleted).await;
    });
}

#[test]
fn privileged_containers_are_only_allowed_with_the_flag_as_upstream() {
    run(async {
        let environment = Environment::new();
        let _etcd = environment.start_etcd();
        let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
        let path = "/api/v1/namespaces/default/pods?dryRun=All";
        for (argument, code) in [("", 422), ("--allow-privileged=false", 422), ("--allow-privileged", 201)] {
            let mut command = environment.program("kube-apiserver");
            let all = environment.api_server();
            command.args(all.get_args().filter(|given| *given != "--allow-privileged=true"));
            command.args(Some(argument).filter(|argument| !argument.is_empty()));
            let (server, client) = environment.start(command).await;
            let answer = admin(&client, "POST", path).json(pod.to_string()).send().await.expect(code).json();
            let message = "Pod \"p\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by \
                           cluster policy";
            assert_eq!(answer["message"] == message, code == 422, "{argument}: {answer}");
            server.stop();
        }
    });
}

#[test]
fn programs_print_help_and_version() {
    let environment = Environment::new();
    for (program, argument, expect) in [
        ("kube-apiserver", "--help", "\n      --secure-port int "),
        ("kube-apiserver", "--version", "Kubernetes v1.36."),
        ("etcd", "--help", "\n      --unsafe-no-fsync "),
        ("etcd", "--version", "etcd Version: 3."),
    ] {
        let output = environment.program(program).arg(argument).stdout(Stdio::piped()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(expect), "{program} {argument}: {text}");
    }
}

#[test]
fn errors_of_a_start_say_what_is_wrong_at_once() {
    run(async {
        let environment = Environment::new();
        let start =
            |arguments: &str| environment.api_server().args(arguments.split(' ')).output().expect("the program runs");
        for (argument, expect) in [
            ("--insecure-port=0", "Error: unknown flag: --insecure-port\n"),
            (
                "--strict-transport-security-directives=x",
                "Error: --strict-transport-security-directives is not supported: the header is not sent\n",
            ),
            (
                "--encryption-provider-config-automatic-reload",
                "Error: --encryption-provider-config-automatic-reload must be set with --encryption-provider-config\n",
            ),
            (
                "--audit-log-path=/no/file --audit-log-maxsize=-1",
                "Error: --audit-log-maxsize -1 can't be a negative number\n",
            ),
            (
                "--secure-port=70000",
                "Error: invalid value '70000' for '--secure-port <PORT>': 70000 is not in 0..=65535\n",
            ),
            (
                "--service-node-port-range=2-x",
                "Error: invalid argument \"2-x\" for \"--service-node-port-range\" flag: strconv.Atoi: parsing \"x\": \
                 invalid syntax\n",
            ),
            ("--service-cluster-ip-range=x", "Error: service-cluster-ip-range[0] is not a valid cidr\n"),
        ] {
            assert!(failure(&start(argument)).ends_with(expect), "{argument}: {:?}", start(argument));
        }
        for argument in
            ["--storage-backend=embedded", "--storage-media-type=application/yaml", "--etcd-cafile=/no/file"]
        {
            let mut command = environment.api_server_of("https://127.0.0.1:1");
            let flag = argument.split(['=']).next().unwrap_or_default();
            let error = failure(&command.arg(argument).output().expect("the program runs"));
            assert!(error.contains(flag) || error.contains("/no/file: No such file"), "{argument}: {error}");
        }
        // A server that is not the folder's etcd counts as a real etcd.
        let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", other.local_addr().expect("an address"));
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = other.accept().expect("a connection");
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).expect("a request");
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").expect("an open connection");
        });
        let error = failure(&environment.api_server_of(&url).output().expect("the program runs"));
        assert!(error.contains("the store is unavailable"), "{error}");
        answer.join().expect("no panic");
    });
}

#[test]
fn a_real_etcd_is_used_with_the_flags_of_kube_apiserver() {
    run(async {
        let (environment, etcd) = (Environment::new(), Etcd::start());
        // Several URLs lead to a real etcd. Here they have the same member.
        let servers = format!("{},{}", etcd.url(), etcd.url());
        let api_server = |servers: &str| {
            let mut command = environment.api_server_of(servers);
            command.args(["--storage-backend=etcd3", "--etcd-prefix=test", "--storage-media-type=application/json"]);
            command.args(["--etcd-compaction-interval=0", "--etcd-healthcheck-timeout=3s"]);
            command.args(["--etcd-readycheck-timeout=3s", "--lease-reuse-duration-seconds=10"]);
            command.args(["--etcd-count-metric-poll-period=0", "--etcd-db-metric-poll-interval=0"]);
            command
        };
        let (server, client) = environment.start(api_server(&servers)).await;
        let kubectl = |arguments: &[&str]| {
            let mut command = Command::new(tool_path("kubectl"));
            let authority = environment.folder.path().join("certificates/apiserver.crt");
            command.arg(format!("--server=https://127.0.0.1:{}", environment.api_port.number));
            command.arg(format!("--certificate-authority={}", authority.display())).arg("--token=admin-token");
            let output = command.args(arguments).output().expect("kubectl runs");
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        kubectl(&["create", "configmap", "a", "--from-literal=k=v"]);
        let store = EtcdStore::open(EtcdOptions { servers: vec![etcd.url().to_owned()], ..EtcdOptions::default() });
        let store = store.expect("a store");
        let stored = store.get("/test/configmaps/default/a".into(), None).await.expect("a read").expect("the object");
        let stored: serde_json::Value = serde_json::from_slice(&stored.value).expect("JSON");
        assert_eq!(stored["data"]["k"], "v");
        let metrics = admin(&client, "GET", "/metrics").send().await.expect(200).text();
        for absent in ["apiserver_storage_objects", "apiserver_resource_objects", "apiserver_storage_size_bytes"] {
            assert!(!metrics.contains(absent), "{absent}");
        }
        server.stop();
        let (server, _) = environment.start(api_server(etcd.url())).await;
        assert_eq!(kubectl(&["get", "configmap", "a", "-o", "jsonpath={.data.k}"]), "v");
        server.stop();
        // The folder's etcd has no prefixes.
        let _stand_in = environment.start_etcd();
        let refused = environment.api_server().arg("--etcd-prefix=/test").output().expect("the program runs");
        let error = failure(&refused);
        assert!(error.contains("--etcd-prefix=/test: the etcd of 'pintle envtest' has no prefixes"), "{error}");
    });
}
