//! Servers as processes, and kubectl for them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use pintle_integration::{ProcessMemory, tool_path};
use rustix::process::{Pid, Signal, kill_process};

use super::PROGRAM;

/// The command that starts a server.
pub(crate) fn serve(data_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(data_dir).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A serving process. The drop kills it.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn start(data_dir: &Path, arguments: &[&str]) -> Self {
        let mut child = serve(data_dir, arguments).spawn().expect("the program runs");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        // The last line that the server prints.
        let is_ready = lines.any(|line| line.is_ok_and(|line| line.starts_with("try:")));
        assert!(is_ready, "the server ended");
        Self(child)
    }

    /// The largest resident memory of the process so far, in bytes. `None` if the system does not report it.
    pub(crate) fn largest_memory(&self) -> Option<usize> {
        ProcessMemory::of(self.0.id()).map(|memory| memory.peak)
    }

    /// The files that the process has open. Empty if the system does not report them.
    pub(crate) fn open_files(&self) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(format!("/proc/{}/fd", self.0.id())) else { return Vec::new() };
        files.filter_map(|file| fs::read_link(file.ok()?.path()).ok()).collect()
    }

    /// Sends a signal to the server.
    pub(crate) fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a process ID")).expect("a process ID");
        kill_process(pid, signal).expect("the server runs");
    }

    /// Stops the server. Returns its log.
    pub(crate) fn stop(mut self) -> String {
        self.send(Signal::TERM);
        assert!(self.0.wait().expect("the server ends").success());
        let mut log = String::new();
        let mut stderr = self.0.stderr.take().expect("its log");
        stderr.read_to_string(&mut log).expect("UTF-8");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of kubectl, given the data directory of a server.
pub(crate) fn kubectl(data_dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(tool_path("kubectl"));
    command.arg("--kubeconfig").arg(data_dir.join("admin.kubeconfig")).args(arguments);
    command.output().expect("kubectl runs")
}

/// The output of kubectl if it succeeds.
#[track_caller]
pub(crate) fn printed(data_dir: &Path, arguments: &[&str]) -> String {
    let output = kubectl(data_dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
