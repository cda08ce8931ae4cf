//! The contents of token secrets: the token of their service account, its namespace, and the certificate authority of
//! the server.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_value::Value;

use super::{ACCOUNT_NAME, ACCOUNT_UID};

/// The keys of a token secret.
const ROOT_CA_KEY: &str = "ca.crt";
const NAMESPACE_KEY: &str = "namespace";
const TOKEN_KEY: &str = "token";

/// Issues a token for a secret with the given name. The service account is given as its namespace, name and uid.
pub type IssueToken = Arc<dyn Fn((&str, &str, &str), &str) -> Result<String, String> + Send + Sync>;

/// The sources of a token secret's contents.
#[derive(Clone)]
pub struct TokenSecretContents {
    /// The certificate authority of the server, in PEM.
    pub root_ca: String,
    /// Issues the tokens.
    pub issue: IssueToken,
}

impl fmt::Debug for TokenSecretContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSecretContents").finish_non_exhaustive()
    }
}

/// The parts of a secret that are missing or differ (upstream: `secretUpdateNeeded`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Missing {
    root_ca: bool,
    namespace: bool,
    token: bool,
}

impl Missing {
    const NOTHING: Missing = Missing { root_ca: false, namespace: false, token: false };
}

fn encode(text: &str) -> String {
    STANDARD.encode(text)
}

impl TokenSecretContents {
    fn missing(&self, secret: &Value) -> Missing {
        let data = |key: &str| secret.str_at(&["data", key]);
        Missing {
            root_ca: data(ROOT_CA_KEY) != encode(&self.root_ca),
            namespace: data(NAMESPACE_KEY).is_empty(),
            token: data(TOKEN_KEY).is_empty(),
        }
    }

    /// Returns the update that fills a secret of a service account; `None` if nothing is missing.
    ///
    /// # Errors
    /// The token cannot be issued.
    pub(super) fn fill(
        &self,
        secret: &Value,
        account: &Value,
    ) -> Result<Option<impl Fn(&Value) -> Value + Send + Sync + use<>>, String> {
        let missing = self.missing(secret);
        if missing == Missing::NOTHING {
            return Ok(None);
        }
        let token = match missing.token {
            true => (self.issue)((account.namespace(), account.name(), account.uid()), secret.name())?,
            false => String::new(),
        };
        let (contents, secret_uid) = (self.clone(), secret.uid().to_owned());
        let (name, uid) = (account.name().to_owned(), account.uid().to_owned());
        Ok(Some(move |current: &Value| {
            let mut secret = current.clone();
            // The secret may have been changed or replaced since.
            let missing = contents.missing(current);
            if secret.uid() != secret_uid || missing == Missing::NOTHING {
                return secret;
            }
            let mut set = |key: &str, text: &str| secret.set_at(&["data", key], encode(text));
            if missing.root_ca {
                set(ROOT_CA_KEY, &contents.root_ca);
            }
            if missing.namespace {
                set(NAMESPACE_KEY, current.namespace());
            }
            if missing.token && !token.is_empty() {
                set(TOKEN_KEY, &token);
            }
            secret.set_at(&["metadata", "annotations", ACCOUNT_NAME], name.as_str());
            secret.set_at(&["metadata", "annotations", ACCOUNT_UID], uid.as_str());
            secret
        }))
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn only_what_is_missing_is_filled_in() {
        let contents = TokenSecretContents {
            root_ca: "PEM".to_owned(),
            issue: Arc::new(|(namespace, name, uid), secret| Ok(format!("{namespace}/{name}/{uid}/{secret}"))),
        };
        let account = object! { "metadata": object! { "namespace": "ns", "name": "a", "uid": "u" } };
        let secret = |data: Value| {
            object! { "metadata": object! { "namespace": "ns", "name": "s", "uid": "s1" }, "data": data }
        };
        let full = |token: &str| object! { "ca.crt": encode("PEM"), "namespace": encode("ns"), "token": encode(token) };
        for (data, expect) in [
            (Value::Null, full("ns/a/u/s")),
            (object! { "token": encode("kept") }, full("kept")),
            (object! { "ca.crt": encode("old"), "token": encode("kept") }, full("kept")),
        ] {
            let secret = secret(data);
            let fill = contents.fill(&secret, &account).expect("a token").expect("something is missing");
            let filled = fill(&secret);
            assert_eq!(filled["data"], expect);
            assert_eq!((filled.annotation(ACCOUNT_NAME), filled.annotation(ACCOUNT_UID)), (Some("a"), Some("u")));
            assert!(contents.fill(&filled, &account).expect("a token").is_none());
            // Another secret of the name is left alone.
            let mut other = secret.clone();
            other.set_at(&["metadata", "uid"], "s2");
            assert_eq!(fill(&other), other);
        }
        let failing = TokenSecretContents { issue: Arc::new(|_, _| Err("no".to_owned())), ..contents };
        assert_eq!(failing.fill(&secret(Value::Null), &account).err(), Some("no".to_owned()));
    }
}
