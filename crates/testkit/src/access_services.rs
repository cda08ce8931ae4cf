//! The services that a server asks about access, as a program made of upstream's types (`tools/access-services`).

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::tool_path;

/// The running program, which ends with this value.
pub struct AccessServices {
    program: Child,
    /// The files that the program has written.
    files: tempfile::TempDir,
}

impl AccessServices {
    /// Starts the program.
    ///
    /// # Panics
    /// Panics if the program does not start.
    #[must_use]
    pub fn start() -> Self {
        let files = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(tool_path("access-services"));
        let command = command.arg(files.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().expect("the program starts");
        let mut output = BufReader::new(program.stdout.take().expect("its output"));
        let mut url = String::new();
        let _ = output.read_line(&mut url).expect("a line");
        assert!(url.starts_with("https://"), "{url}");
        Self { program, files }
    }

    /// The kubeconfig of the authorization webhook, which knows the user `alice` and nodes.
    #[must_use]
    pub fn authorizer(&self) -> PathBuf {
        self.files.path().join("authorizer.kubeconfig")
    }

    /// The kubeconfig of the webhook that reviews tokens. It knows `token-of-jane`, which says nothing about audiences,
    /// `token-of-robot` for the audiences `vault` and `backup`, and `expired-token`, which has an error.
    #[must_use]
    pub fn token_reviewer(&self) -> PathBuf {
        self.files.path().join("token-reviewer.kubeconfig")
    }
}

impl Drop for AccessServices {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
