//! A kubectl with a home of its own (it caches discovery there) and the cluster that it talks to; command lines in,
//! what it printed out.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use pintle_testkit::{Cluster, bootstrapped, tool_path};

/// How long one command may take, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stack of a worker, as in the binary.
const WORKER_STACK: usize = 64 << 20;

/// A cluster and a kubectl for it.
pub(crate) struct Kubectl {
    home: tempfile::TempDir,
    kubeconfig: PathBuf,
    // Dropped in this order: the cluster needs its runtime to the end.
    cluster: Cluster,
    runtime: tokio::runtime::Runtime,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Output {
    line: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Kubectl {
    /// An empty cluster.
    pub(crate) fn start() -> Self {
        Self::with(Cluster::start())
    }

    /// An empty cluster that can be restarted.
    pub(crate) fn durable() -> Self {
        Self::with(Cluster::durable())
    }

    /// A cluster as the binary makes it.
    pub(crate) fn bootstrapped() -> Self {
        Self::with(Cluster::with_options(bootstrapped()))
    }

    fn with(start: impl Future<Output = Cluster>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(WORKER_STACK)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut cluster = runtime.block_on(start);
        let home = tempfile::tempdir().expect("a temporary folder");
        let kubeconfig = cluster.kubeconfig_file();
        Self { home, kubeconfig, cluster, runtime }
    }

    /// Takes the server away and brings it back at the same address.
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

    /// A file in the home, and its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path.to_str().expect("a path that is text").to_owned()
    }

    /// A program for `kubectl edit` that runs a script of `sed` on the file.
    pub(crate) fn editor(&self, script: &str) -> String {
        let path = self.file("editor.sh", &format!("#!/bin/sh\nsed -i '{script}' \"$1\"\n"));
        format!("sh {path}")
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(tool_path("kubectl"));
        command
            .args(words(line))
            .env_clear()
            // `kubectl diff` and `kubectl edit` call other programs.
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(self.home.path());
        command
    }

    /// Runs a command line, in which single quotes hold words together.
    pub(crate) fn run(&self, line: &str) -> Output {
        finish(line, self.command(line), "")
    }

    /// Runs a command line with something on standard input.
    pub(crate) fn pipe(&self, line: &str, input: &str) -> Output {
        finish(line, self.command(line), input)
    }

    /// Runs `kubectl edit` with an editor.
    pub(crate) fn edit(&self, line: &str, editor: &str) -> Output {
        let mut command = self.command(line);
        command.env("KUBE_EDITOR", editor);
        finish(line, command, "")
    }

    /// Sees to it that a command succeeds and prints this.
    #[track_caller]
    pub(crate) fn prints(&self, line: &str, expect: &str) {
        self.run(line).prints(expect);
    }

    /// Sees to it that a command fails with this on standard error.
    #[track_caller]
    pub(crate) fn fails(&self, line: &str, expect: &str) {
        self.run(line).fails(expect);
    }

    /// Sees to it that a command succeeds.
    #[track_caller]
    pub(crate) fn works(&self, line: &str) -> Output {
        self.run(line).works()
    }

    /// Starts a command that goes on, such as `get -w`.
    pub(crate) fn follow(&self, line: &str) -> Follow {
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
        Follow { line: line.to_owned(), child, lines }
    }
}

impl Output {
    /// Sees to it that the command succeeded.
    #[track_caller]
    pub(crate) fn works(self) -> Self {
        assert_eq!(self.code, 0, "kubectl {}: {}{}", self.line, self.stdout, self.stderr);
        self
    }

    /// Sees to it that the command succeeded and printed this.
    #[track_caller]
    pub(crate) fn prints(self, expect: &str) {
        let output = self.works();
        assert_eq!(tidy(&output.stdout), tidy(&dedent(expect)), "kubectl {}", output.line);
    }

    /// Sees to it that the command failed with this on standard error.
    #[track_caller]
    pub(crate) fn fails(self, expect: &str) {
        assert_eq!(tidy(&self.stderr), tidy(&dedent(expect)), "kubectl {}: {}", self.line, self.stdout);
        assert_eq!(self.code, 1, "kubectl {}", self.line);
    }

    /// Sees to it that the output has these lines, in this order, however indented, with others between them or not.
    #[track_caller]
    pub(crate) fn has_lines(self, expect: &str) {
        let output = self.works();
        let text = tidy(&output.stdout);
        let mut rest = text.lines();
        for line in tidy(&dedent(expect)).lines() {
            assert!(
                rest.any(|found| found.trim_start() == line.trim_start()),
                "kubectl {}: {line:?} is not (any more) in:\n{text}",
                output.line
            );
        }
    }
}

/// A command that is still running.
pub(crate) struct Follow {
    line: String,
    child: Child,
    lines: Receiver<String>,
}

impl Follow {
    /// Sees to it that the next line is this.
    #[track_caller]
    pub(crate) fn prints(&self, expect: &str) {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => assert_eq!(tidy(&line), tidy(expect), "kubectl {}", self.line),
            Err(error) => panic!("kubectl {}: {error} while waiting for {expect:?}", self.line),
        }
    }
}

impl Follow {
    /// Sees to it that the command ends by itself, and well.
    #[track_caller]
    pub(crate) fn ends(mut self) {
        let start = Instant::now();
        loop {
            match self.child.try_wait().expect("kubectl runs") {
                Some(status) => return assert!(status.success(), "kubectl {}: {status}", self.line),
                None if start.elapsed() > PATIENCE => panic!("kubectl {}: no end after {PATIENCE:?}", self.line),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end. What it prints goes through files, so that it never waits for a reader.
fn finish(line: &str, mut command: Command, input: &str) -> Output {
    let file = |text: &str| -> File {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(text.as_bytes()).expect("a temporary file can be written");
        file.rewind().expect("a temporary file can be read");
        file
    };
    let (mut stdout, mut stderr) = (file(""), file(""));
    let output = |file: &File| Stdio::from(file.try_clone().expect("a second handle"));
    command.stdin(Stdio::from(file(input))).stdout(output(&stdout)).stderr(output(&stderr));
    let mut child = command.spawn().expect("kubectl starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("kubectl runs") {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("kubectl {line}: no end after {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |file: &mut File| {
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("what kubectl printed");
        text
    };
    let (stdout, stderr) = (text(&mut stdout), text(&mut stderr));
    Output { line: line.to_owned(), stdout, stderr, code: status.code().unwrap_or(-1) }
}

/// The words of a command line; single quotes hold words together.
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

/// Takes away the indentation that a text has in the test's source.
pub(crate) fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().skip_while(|line| line.trim().is_empty()).collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// A text without what differs from run to run: ages, times, uids and revisions become words, and columns stand two
/// spaces apart however wide they are.
pub(crate) fn tidy(text: &str) -> String {
    let mut tidy = String::new();
    for line in text.trim_end().lines() {
        let body = line.trim_start();
        tidy.push_str(&line[..line.len() - body.len()]);
        let mut spaces = 0;
        for word in body.trim_end().split(' ') {
            if word.is_empty() {
                spaces += 1;
                continue;
            }
            if word.as_ptr() != body.as_ptr() {
                tidy.push_str(if spaces == 0 { " " } else { "  " });
            }
            tidy.push_str(steady(word));
            spaces = 0;
        }
        tidy.push('\n');
    }
    tidy
}

/// A word, or what stands for words of its sort.
fn steady(word: &str) -> &str {
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
fn output_is_compared_without_what_varies() {
    let check = |text: &str, expect: &str| assert_eq!(tidy(text), expect);
    check("NAME   AGE\nweb    12s  \n", "NAME  AGE\nweb  AGE\n");
    check("  uid: d876a10d-3906-45ef-bad8-802a28acbd50", "  uid: UID\n");
    check("  at: \"2026-11-21T03:53:31Z\"\n  v: \"17\"", "  at: TIME\n  v: NUMBER\n");
    assert_eq!(words("patch cm a -p '{\"a\": \"b c\"}' ''"), ["patch", "cm", "a", "-p", "{\"a\": \"b c\"}", ""]);
    assert_eq!(dedent("\n    a:\n      b\n    "), "a:\n  b");
}
