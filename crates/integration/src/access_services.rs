//! The webhooks and the OpenID provider that a server asks about access, in a program with upstream's types
//! (`tools/access-services`).

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{Client, Protocol, tool_path};

/// The running program. It ends when this value is dropped.
pub struct AccessServices {
    program: Child,
    url: String,
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
        Self { program, url: url.trim_end().to_owned(), files }
    }

    /// The kubeconfig of the authorization webhook, which knows the user `alice` and nodes.
    #[must_use]
    pub fn authorizer(&self) -> PathBuf {
        self.files.path().join("authorizer.kubeconfig")
    }

    /// The kubeconfig of the webhook that reviews tokens. It knows `token-of-jane`, which has no audiences,
    /// `token-of-robot` for the audiences `vault` and `backup`, and `expired-token`, whose review has an error.
    #[must_use]
    pub fn token_reviewer(&self) -> PathBuf {
        self.files.path().join("token-reviewer.kubeconfig")
    }

    /// The file with the certificate authority of the program, in PEM.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.files.path().join("ca.crt")
    }

    /// The URL of the OpenID provider.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("{}/issuer", self.url)
    }

    /// A token that the OpenID provider signs with this algorithm. It expires after `expires_in` seconds. It has these
    /// claims, and `iss`, `iat` and `exp`.
    ///
    /// # Panics
    /// Panics if the program does not respond with a token.
    pub async fn issue_token(&self, algorithm: &str, expires_in: i64, claims: Value) -> String {
        let body = json!({"algorithm": algorithm, "expiresInSeconds": expires_in, "claims": claims});
        self.client().request("POST", "/issuer/token").json(body.to_string()).send().await.expect(200).text()
    }

    /// Makes the OpenID provider sign with new keys. With `keep`, the previous keys stay in its key set.
    ///
    /// # Panics
    /// Panics if the program does not respond.
    pub async fn rotate_keys(&self, keep: bool) {
        let _ = self.client().request("POST", &format!("/issuer/rotate?keep={keep}")).send().await.expect(200);
    }

    /// A client whose connections belong to the caller's runtime.
    fn client(&self) -> Client {
        let authority = std::fs::read(self.authority()).expect("a certificate");
        Client::trusting(&self.url, &authority, Protocol::Any)
    }
}

impl Drop for AccessServices {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
