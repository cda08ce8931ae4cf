//! A KMS v2 plugin in a process of its own, for servers on the same machine.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Result;

/// The timeout for the start of a plugin.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running plugin. The drop kills it.
pub(crate) struct KmsPlugin {
    child: Child,
    /// The socket's folder. Its path is short, because the system limits the paths of sockets.
    folder: tempfile::TempDir,
}

impl KmsPlugin {
    /// Starts the program (`tools/encryption`) and waits until it accepts connections.
    pub(crate) async fn start(program: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = socket_in(&folder);
        // The program ends when its input is closed.
        let child = Command::new(program).arg("serve").arg(&socket).arg("bench").stdin(Stdio::piped()).spawn()?;
        let plugin = Self { child, folder };
        let deadline = Instant::now() + TIMEOUT;
        while let Err(error) = UnixStream::connect(&socket) {
            if Instant::now() > deadline {
                return Err(format!("the KMS plugin does not accept connections: {error}").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(plugin)
    }

    /// The endpoint for an encryption configuration.
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", socket_in(&self.folder).display())
    }
}

fn socket_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("kms.sock")
}

impl Drop for KmsPlugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
