//! A server under valgrind's callgrind, which counts the instructions of its process.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use http::StatusCode;

use crate::Result;
use crate::client::{Connection, HttpRequest};

/// A server under callgrind.
pub(crate) struct Callgrind {
    /// The server's process.
    pub(crate) process: u32,
    /// The directory of its profiles, whose names begin with [`PROFILE`].
    pub(crate) profiles: PathBuf,
    /// The number of profiles that callgrind has written.
    pub(crate) dumps: usize,
}

/// The beginning of the names of profiles.
pub(crate) const PROFILE: &str = "profile";

impl Callgrind {
    /// True if valgrind is installed.
    pub(crate) fn is_installed() -> bool {
        Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok()
    }

    /// Sends requests and returns the number of instructions of each request.
    pub(crate) async fn count(
        &mut self,
        connection: &mut Connection,
        expect: StatusCode,
        requests: impl ExactSizeIterator<Item = HttpRequest>,
    ) -> Result<InstructionCount> {
        let number = requests.len();
        self.control(&["--zero"])?;
        self.control(&["--instr=on"])?;
        for request in requests {
            connection.execute(request, expect).await?;
        }
        self.control(&["--instr=off"])?;
        self.control(&["--dump"])?;
        self.dumps += 1;
        let profile = self.profiles.join(format!("{PROFILE}.{}", self.dumps));
        let text = std::fs::read_to_string(&profile)?;
        let total: Option<u64> = text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
        let total = total.ok_or_else(|| format!("{} has no total", profile.display()))?;
        Ok(InstructionCount { each: total as f64 / number as f64, profile })
    }

    fn control(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("callgrind_control").args(arguments).arg(self.process.to_string()).output()?;
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(format!("callgrind_control {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
            }
        }
    }
}

/// The result of a count by callgrind.
pub(crate) struct InstructionCount {
    /// The instructions of a request.
    pub(crate) each: f64,
    /// The profile of all requests.
    pub(crate) profile: PathBuf,
}
