//! The users of a kubeconfig. The server uses one of them for each host (upstream: apiserver's
//! `pkg/util/webhook/authentication.go`).

use std::fs;
use std::path::{Path, PathBuf};

use pintle_outbound::{Dialer, Protocols};
use pintle_schema::base64;
use pintle_value::{Value, object};

use super::kubeconfig::{Selected, decode, named};
use super::{KubeconfigClient, KubeconfigError};

/// The users of a kubeconfig, by hosts.
pub(crate) struct KubeconfigUsers {
    config: Value,
    folder: PathBuf,
}

/// A user of a kubeconfig.
pub(crate) struct KubeconfigUser<'a> {
    name: &'a str,
    user: &'a Value,
    folder: &'a Path,
}

impl KubeconfigUsers {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read or decoded, or one of the users cannot be used. Calls as such a user would fail. Then a
    /// webhook whose failures are ignored would let everything through.
    pub(crate) fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let text = fs::read(path).map_err(|error| {
            let why = pintle_auth::config_file::system_error(&error);
            KubeconfigError::new(format!("stat {}: {why}", path.display()))
        })?;
        let config = decode(&text)
            .map_err(|why| KubeconfigError::new(format!("error loading config file \"{}\": {why}", path.display())))?;
        let users = Self { config, folder: path.parent().unwrap_or(Path::new("/")).to_owned() };
        let unusable = |name: &str, why: KubeconfigError| {
            KubeconfigError::new(format!("error loading config file \"{}\": user \"{name}\": {why}", path.display()))
        };
        for entry in users.config.items_at(&["users"]) {
            let name = entry.str_at(&["name"]);
            if let Some(user) = users.user(name) {
                user.client("https://localhost", &[], Protocols::Http1, Dialer::Direct)
                    .map_err(|why| unusable(name, why))?;
            }
        }
        Ok(users)
    }

    /// The user for a host with its port. Its name is the host with its port, or a wildcard for the first labels of the
    /// host. If the port is 443, the name may omit it. Otherwise it is the user `*`, or the user of the current
    /// context.
    pub(super) fn user_for(&self, authority: &str) -> Option<KubeconfigUser<'_>> {
        let without_port = authority.strip_suffix(":443");
        [Some(authority), without_port]
            .into_iter()
            .flatten()
            .find_map(|name| self.user(name).or_else(|| wildcards(name).find_map(|name| self.user(&name))))
            .or_else(|| self.user("*"))
            .or_else(|| {
                let context = named(&self.config, "contexts", self.config.str_at(&["current-context"]), "context")?;
                self.user(context.str_at(&["user"]))
            })
    }

    fn user(&self, name: &str) -> Option<KubeconfigUser<'_>> {
        let entry = self.config.items_at(&["users"]).iter().find(|entry| entry.str_at(&["name"]) == name)?;
        let user = named(&self.config, "users", name, "user")?;
        Some(KubeconfigUser { name: entry.str_at(&["name"]), user, folder: &self.folder })
    }
}

/// The wildcards for a host: `*.b.c` and `*.c` for `a.b.c`.
fn wildcards(name: &str) -> impl Iterator<Item = String> {
    name.match_indices('.').map(|(at, _)| format!("*{}", &name[at..]))
}

impl KubeconfigUser<'_> {
    /// A client for a server whose certificate is from these authorities, in PEM. Without authorities, the system's
    /// authorities count.
    ///
    /// # Errors
    /// The credentials or the authorities cannot be used.
    pub(super) fn client(
        &self,
        url: &str,
        authorities: &[u8],
        protocols: Protocols,
        dialer: Dialer,
    ) -> Result<KubeconfigClient, KubeconfigError> {
        let cluster = object! {
            "server": url,
            "certificate-authority-data": base64::encode(authorities),
        };
        let Self { name, user, folder } = *self;
        Selected { cluster: &cluster, user, cluster_name: "", user_name: name, folder, protocols, dialer }.client()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("pintle-kubeconfig-users-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn users_that_cannot_be_used_are_refused_when_the_file_is_read() {
        let folder = folder("refused");
        let path = folder.join("config");
        for (user, why) in [
            ("token: t", None),
            ("exec: {command: x}", Some("exec is not supported")),
            ("as: someone", Some("as is not supported")),
            ("auth-provider: {name: x}", Some("auth-provider is not supported")),
        ] {
            fs::write(&path, format!("users: [{{name: a, user: {{token: t}}}}, {{name: u, user: {{{user}}}}}]\n"))
                .expect("a file");
            let error = KubeconfigUsers::load(&path).err().map(|error| error.to_string());
            let expect = why.map(|why| {
                format!("error loading config file \"{}\": user \"u\": invalid configuration: {why}", path.display())
            });
            assert_eq!(error, expect);
        }
        fs::remove_dir_all(&folder).expect("a folder");
    }

    #[test]
    fn the_client_certificate_of_a_user_is_rotated() {
        let folder = folder("rotation");
        let write_certificate = || {
            let certificate = rcgen::generate_simple_self_signed(["a".to_owned()]).expect("a certificate");
            fs::write(folder.join("cert"), certificate.cert.pem()).expect("a file");
            fs::write(folder.join("key"), certificate.signing_key.serialize_pem()).expect("a file");
        };
        write_certificate();
        let path = folder.join("config");
        let user = "users: [{name: '*', user: {client-certificate: cert, client-key: key}}]\n";
        fs::write(&path, user).expect("a file");
        let users = KubeconfigUsers::load(&path).expect("users");
        let client = users
            .user_for("hook:443")
            .expect("a user")
            .client("https://hook", &[], Protocols::Http1, Dialer::Direct)
            .expect("a client");
        assert!(!client.rotate_certificate(Duration::ZERO).expect("the same certificate"));
        write_certificate();
        assert!(client.rotate_certificate(Duration::ZERO).expect("a certificate"));
        fs::remove_dir_all(&folder).expect("a folder");
    }

    #[test]
    fn hosts_have_users() {
        let user = |name: &str| format!("- {{name: '{name}', user: {{token: t}}}}\n");
        let check = |names: &[&str], authority: &str, expect: Option<&str>| {
            let users: String = names.iter().map(|name| user(name)).collect();
            let text =
                format!("current-context: c\ncontexts: [{{name: c, context: {{user: default}}}}]\nusers:\n{users}");
            let config = decode(text.as_bytes()).expect("a kubeconfig");
            let users = KubeconfigUsers { config, folder: PathBuf::new() };
            assert_eq!(users.user_for(authority).map(|user| user.name.to_owned()).as_deref(), expect, "{authority}");
        };
        let all = ["a.n.svc:8443", "a.n.svc", "*.n.svc:8443", "*.svc", "*"];
        check(&all, "a.n.svc:8443", Some("a.n.svc:8443"));
        check(&all, "a.n.svc:443", Some("a.n.svc"));
        check(&all, "b.n.svc:8443", Some("*.n.svc:8443"));
        check(&all, "b.n.svc:443", Some("*.svc"));
        check(&all, "b.n.svc:80", Some("*"));
        check(&["default"], "a:443", Some("default"));
        check(&["other"], "a:443", None);
    }
}
