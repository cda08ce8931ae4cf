//! Runs kubectl commands against a cluster, and asserts their output. kubectl has its own home directory, in which it
//! caches discovery.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pintle_integration::{Cluster, bootstrapped, tool_path};

/// The timeout of a command. It is long enough for a machine that is busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster and a kubectl for it.
pub(crate) struct Kubectl {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    // The fields are dropped in this order: the cluster needs its runtime.
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
}

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    line: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Kubectl {
    /// Starts a cluster in memory.
    pub(crate) fn start() -> Self {
        Self::with(Cluster::start())
    }

    /// Starts a cluster that can be restarted.
    pub(crate) fn durable() -> Self {
        Self::with(Cluster::durable())
    }

    /// Starts a cluster with the objects that the binary bootstraps.
    pub(crate) fn bootstrapped() -> Self {
        Self::with(Cluster::with_options(bootstrapped()))
    }

    /// Starts the cluster of a future.
    pub(crate) fn with(start: impl Future<Output = Cluster>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let mut cluster = runtime.block_on(start);
        let home = tempfile::tempdir().expect("a temporary folder");
        let kubeconfig = cluster.kubeconfig_file();
        Self { home, kubeconfig, cluster, runtime }
    }

    /// The file with the administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Sends requests to the cluster.
    pub(crate) fn run_async<T>(&self, requests: impl AsyncFnOnce(&Cluster) -> T) -> T {
        self.runtime.block_on(requests(&self.cluster))
    }

    /// Runs a command line until its standard output is as expected.
    #[track_caller]
    pub(crate) fn eventually(&self, line: &str, is_expected: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let output = self.run(line);
            if is_expected(&output.stdout) {
                return;
            }
            assert!(Instant::now() < deadline, "still not as expected: {output:?}");
        }
    }

    /// Stops or kills the server, and starts it again at the same address.
    pub(crate) fn restart(&self, kill: bool) {
        self.runtime.block_on(async {
            if kill {
                self.cluster.kill_server().await;
            } else {
                self.cluster.stop_server().await;
            }
            self.cluster.start_server().await;
        });
    }

    /// Writes a file in the home directory, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    /// An editor command for `kubectl edit` that applies a `sed` script to the file.
    pub(crate) fn editor(&self, script: &str) -> String {
        let path = self.file("editor.sh", &format!("#!/bin/sh\nsed -i '{script}' \"$1\"\n"));
        format!("sh {path}")
    }

    fn command(&self, line: &str) -> Command {
        self.command_of("kubectl", line)
    }

    /// Runs a command line of Helm.
    pub(crate) fn helm(&self, line: &str) -> CommandOutput {
        run_to_end(&format!("(helm) {line}"), self.command_of("helm", line), "")
    }

    fn command_of(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(tool_path(program));
        command
            .args(words(line))
            .env_clear()
            // `kubectl diff` and `kubectl edit` run other programs.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(self.home.path());
        command
    }

    /// Runs a command line. Single quotes delimit arguments with spaces.
    pub(crate) fn run(&self, line: &str) -> CommandOutput {
        run_to_end(line, self.command(line), "")
    }

    /// Runs a command line with this standard input.
    pub(crate) fn run_with_stdin(&self, line: &str, input: &str) -> CommandOutput {
        run_to_end(line, self.command(line), input)
    }

    /// Runs `kubectl edit` with an editor.
    pub(crate) fn edit(&self, line: &str, editor: &str) -> CommandOutput {
        let mut command = self.command(line);
        command.env("KUBE_EDITOR", editor);
        run_to_end(line, command, "")
    }

    /// Asserts that a command succeeds with this standard output.
    #[track_caller]
    pub(crate) fn prints(&self, line: &str, expect: &str) {
        self.run(line).prints(expect);
    }

    /// Asserts that a command fails with this standard error.
    #[track_caller]
    pub(crate) fn fails(&self, line: &str, expect: &str) {
        self.run(line).fails(expect);
    }

    /// Asserts that a command succeeds.
    #[track_caller]
    pub(crate) fn succeeds(&self, line: &str) -> CommandOutput {
        self.run(line).succeeds()
    }

    /// Asserts that a command succeeds, and returns its standard output.
    #[track_caller]
    pub(crate) fn stdout(&self, line: &str) -> String {
        self.succeeds(line).stdout
    }

    /// The flags of a client that has only a token. The cluster has to be bootstrapped.
    pub(crate) fn with_token(&self, token: &str) -> String {
        let server = self.stdout("config view -o jsonpath={.clusters[0].cluster.server}");
        let authority = self.stdout(r"get cm kube-root-ca.crt -o jsonpath={.data.ca\.crt}");
        let (authority, empty) = (self.file("ca.crt", &authority), self.file("empty", ""));
        format!("--kubeconfig={empty} --server={server} --certificate-authority={authority} --token={token}")
    }

    /// Starts a command that keeps running, such as `get -w`.
    pub(crate) fn spawn(&self, line: &str) -> RunningCommand {
        let mut command = self.command(line);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("kubectl starts");
        let stdout = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        RunningCommand { line: line.to_owned(), child, lines }
    }
}

impl CommandOutput {
    /// Asserts that the command succeeded.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert_eq!(self.code, 0, "kubectl {}: {}{}", self.line, self.stdout, self.stderr);
        self
    }

    /// Asserts that the command succeeded with this standard output.
    #[track_caller]
    pub(crate) fn prints(self, expect: &str) {
        let output = self.succeeds();
        assert_eq!(normalize(&output.stdout), normalize(&dedent(expect)), "kubectl {}", output.line);
    }

    /// Asserts that the command failed with this standard error.
    #[track_caller]
    pub(crate) fn fails(self, expect: &str) {
        assert_eq!(normalize(&self.stderr), normalize(&dedent(expect)), "kubectl {}: {}", self.line, self.stdout);
        assert_eq!(self.code, 1, "kubectl {}", self.line);
    }

    /// Asserts that the output contains these lines in this order. The indentation and lines between them are ignored.
    #[track_caller]
    pub(crate) fn has_lines(self, expect: &str) {
        let output = self.succeeds();
        let text = normalize(&output.stdout);
        let mut rest = text.lines();
        for line in normalize(&dedent(expect)).lines() {
            assert!(
                rest.any(|found| found.trim_start() == line.trim_start()),
                "kubectl {}: {line:?} is not in the (remaining) output:\n{text}",
                output.line
            );
        }
    }
}

/// A running command.
pub(crate) struct RunningCommand {
    line: String,
    child: Child,
    lines: Receiver<String>,
}

impl RunningCommand {
    /// Asserts the next line of the standard output.
    #[track_caller]
    pub(crate) fn prints(&self, expect: &str) {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => assert_eq!(normalize(&line), normalize(expect), "kubectl {}", self.line),
            Err(error) => panic!("kubectl {}: {error} while waiting for {expect:?}", self.line),
        }
    }
}

impl RunningCommand {
    /// Asserts that the command exits successfully.
    #[track_caller]
    pub(crate) fn exits(mut self) {
        let start = Instant::now();
        loop {
            match self.child.try_wait().expect("kubectl runs") {
                Some(status) => return assert!(status.success(), "kubectl {}: {status}", self.line),
                None if start.elapsed() > TIMEOUT => panic!("kubectl {}: not finished after {TIMEOUT:?}", self.line),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end. Its output goes to files, so that it never blocks on a full pipe.
fn run_to_end(line: &str, mut command: Command, input: &str) -> CommandOutput {
    let file = |text: &str| -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("a temporary file can be written");
        file.rewind().expect("a temporary file can be read");
        file
    };
    let (mut stdout, mut stderr) = (file(""), file(""));
    let output = |file: &File| Stdio::from(file.try_clone().expect("a duplicated handle"));
    command.stdin(Stdio::from(file(input))).stdout(output(&stdout)).stderr(output(&stderr));
    let mut child = command.spawn().expect("kubectl starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("kubectl runs") {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            let _ = child.kill();
            panic!("kubectl {line}: not finished after {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |file: &mut File| {
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("output in UTF-8");
        text
    };
    let (stdout, stderr) = (text(&mut stdout), text(&mut stderr));
    CommandOutput { line: line.to_owned(), stdout, stderr, code: status.code().unwrap_or(-1) }
}

/// Splits a command line into arguments. Single quotes delimit arguments with spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' if !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Removes the indentation that a text has in the test's source.
pub(crate) fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().skip_while(|line| line.trim().is_empty()).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Replaces values that differ between runs: ages, times, UIDs and revisions become placeholders. Columns are separated
/// by two spaces.
pub(crate) fn normalize(text: &str) -> String {
    let mut normalized = String::new();
    for line in text.trim_end().lines() {
        let body = line.trim_start();
        normalized.push_str(&line[..line.len() - body.len()]);
        let mut spaces = 0;
        for word in body.trim_end().split(' ') {
            if word.is_empty() {
                spaces += 1;
                continue;
            }
            if word.as_ptr() != body.as_ptr() {
                normalized.push_str(if spaces == 0 { " " } else { "  " });
            }
            normalized.push_str(normalize_word(word));
            spaces = 0;
        }
        normalized.push('\n');
    }
    normalized
}

/// A word, or the placeholder for a value that differs between runs.
fn normalize_word(word: &str) -> &str {
    let bare = word.trim_matches('"');
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if word.len() <= 4 && word.strip_suffix('s').is_some_and(digits) {
        "AGE"
    } else if bare.len() == 20 && bare.ends_with('Z') && bare.as_bytes()[10] == b'T' {
        "TIME"
    } else if bare.len() == 36 && bare.split('-').map(str::len).eq([8, 4, 4, 4, 12]) {
        "UID"
    } else if word.starts_with('"') && digits(bare) {
        "NUMBER"
    } else {
        word
    }
}

#[test]
fn values_that_differ_from_run_to_run_are_replaced() {
    let check = |text: &str, expect: &str| assert_eq!(normalize(text), expect);
    check("NAME   AGE\nweb    12s  \n", "NAME  AGE\nweb  AGE\n");
    check("  uid: d876a10d-3906-45ef-bad8-802a28acbd50", "  uid: UID\n");
    check("  at: \"2026-11-21T03:53:31Z\"\n  v: \"17\"", "  at: TIME\n  v: NUMBER\n");
    assert_eq!(words("patch cm a -p '{\"a\": \"b c\"}' ''"), ["patch", "cm", "a", "-p", "{\"a\": \"b c\"}", ""]);
    assert_eq!(dedent("\n    a:\n      b\n    "), "a:\n  b");
}
