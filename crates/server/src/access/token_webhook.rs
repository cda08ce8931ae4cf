//! The webhook that reviews tokens: asks another server with a `TokenReview` (upstream:
//! `plugin/pkg/authenticator/token/webhook`). In kube-apiserver this webhook has no metrics of its own.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_auth::review::{ReviewKind, ReviewVersion};
use pintle_auth::{
    AuthFuture, Authentication, AuthenticationError, AuthenticationResult, TokenAuthenticator, UserInfo,
};
use pintle_codec::json;
use pintle_schema::Scalar;
use pintle_value::{Str, Value, object};

use crate::cluster::Cluster;
use crate::egress::EgressType;
use crate::request::log_limit::{LogLimit, Shortened};
use crate::webhook::ReviewClient;

/// The time limit of a call.
const TIMEOUT: Duration = Duration::from_secs(30);

static TOKEN_REVIEW: LazyLock<ReviewKind> = LazyLock::new(|| {
    let (kind, v1, v1beta1) = ("TokenReview", "authentication.k8s.io/v1", "authentication.k8s.io/v1beta1");
    let mut types = ConfigTypes::default();
    let (text, flag, any) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool), types.any());
    let texts = types.list(text);
    let extra = types.map(texts);
    let mut kinds = Vec::new();
    for (version, package) in [(v1, "v1"), (v1beta1, "v1beta1")] {
        let user = [("username", text), ("uid", text), ("groups", texts), ("extra", extra)];
        let user = types.object(&format!("{package}.UserInfo"), &user);
        let status = [("authenticated", flag), ("user", user), ("audiences", texts), ("error", text)];
        let status = types.object(&format!("{package}.TokenReviewStatus"), &status);
        let fields = [("kind", text), ("apiVersion", text), ("metadata", any), ("spec", any), ("status", status)];
        kinds.push((version, kind, types.object(&format!("{package}.{kind}"), &fields)));
    }
    let name = "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook/webhook.go:198";
    ReviewKind { kind, v1, v1beta1, scheme: ConfigScheme { name, strict: false, types, kinds } }
});

/// Authenticates tokens by asking a webhook.
pub struct TokenWebhookAuthenticator {
    cluster: Arc<Cluster>,
    client: ReviewClient,
    version: ReviewVersion,
    /// The audiences of the server.
    audiences: Vec<Str>,
}

impl TokenWebhookAuthenticator {
    /// Creates the authenticator for a kubeconfig, a version of reviews and the audiences of the server.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or there is no such version.
    pub fn new(cluster: &Arc<Cluster>, kubeconfig: &Path, version: &str, audiences: &[Str]) -> Result<Self, String> {
        let dialer = cluster.outbound.egress.dialer(EgressType::ControlPlane);
        let client = ReviewClient::load(kubeconfig, TIMEOUT, dialer).map_err(|error| error.to_string())?;
        let version = ReviewVersion::parse(version, "authentication webhook")?;
        Ok(Self { cluster: cluster.clone(), client, version, audiences: audiences.to_vec() })
    }

    async fn review(&self, token: &str, requested: &[Str]) -> AuthenticationResult {
        let requested = if requested.is_empty() { &self.audiences[..] } else { requested };
        let body = Bytes::from(encode(self.version, token, requested));
        let decode = |body: &[u8]| decode(self.version, body);
        let reviewed = self.client.post(&self.cluster, body, None, decode, &|_, _| {}).await;
        let status = reviewed.map_err(|error| {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(unlogged) = LIMIT.allow() {
                let unlogged = (unlogged > 0).then_some(unlogged);
                tracing::error!(error = %Shortened(&error.message), unlogged, "Failed to make webhook authenticator request");
            }
            AuthenticationError(error.message)
        })?;
        authentication(&status, requested, &self.audiences)
    }
}

/// The body of a request.
fn encode(version: ReviewVersion, token: &str, audiences: &[Str]) -> Vec<u8> {
    let mut spec = object! {"token": token};
    if !audiences.is_empty() {
        spec.set("audiences", Value::Array(audiences.iter().cloned().map(Value::from).collect()));
    }
    json::encode(&object! {
        "kind": TOKEN_REVIEW.kind,
        "apiVersion": TOKEN_REVIEW.api_version(version),
        "metadata": object! {},
        "spec": spec,
        "status": object! {"user": object! {}},
    })
}

/// Reads the status of a review: the body of a successful response.
///
/// # Errors
/// The body is not a review of this version.
fn decode(version: ReviewVersion, body: &[u8]) -> Result<Value, String> {
    let mut review = TOKEN_REVIEW.decode(version, body)?;
    Ok(review.remove("status").unwrap_or_default())
}

/// The authentication result of a response, for the requested audiences and the audiences of the server.
///
/// # Errors
/// The body is not a review of this version, or the webhook reports an error.
pub(crate) fn read_token_review(
    version: ReviewVersion,
    body: &[u8],
    requested: &[Str],
    of_server: &[Str],
) -> AuthenticationResult {
    authentication(&decode(version, body).map_err(AuthenticationError)?, requested, of_server)
}

fn texts(value: &Value, path: &[&str]) -> Vec<Str> {
    value.items_at(path).iter().map(|text| text.as_str().unwrap_or_default().into()).collect()
}

/// The authentication result of a review's status. A webhook that names no audiences does not know them, so its tokens
/// count as tokens for the audiences of the server.
fn authentication(status: &Value, requested: &[Str], of_server: &[Str]) -> AuthenticationResult {
    let mut audiences = Vec::new();
    if !requested.is_empty() {
        let named = texts(status, &["audiences"]);
        let found = if named.is_empty() { of_server } else { &named };
        audiences.extend(found.iter().filter(|audience| requested.contains(audience)).cloned());
        if audiences.is_empty() {
            return Ok(None);
        }
    }
    if !status.bool_at(&["authenticated"]) {
        return match status.str_at(&["error"]) {
            "" => Ok(None),
            error => Err(AuthenticationError(error.to_owned())),
        };
    }
    let mut extra: Vec<_> =
        status.entries_at(&["user", "extra"]).map(|(key, values)| (Str::from(key), texts(values, &[]))).collect();
    extra.sort();
    let user = UserInfo {
        name: status.str_at(&["user", "username"]).into(),
        uid: status.str_at(&["user", "uid"]).into(),
        groups: texts(status, &["user", "groups"]),
        extra,
    };
    Ok(Some(Authentication { audiences, ..user.into() }))
}

impl TokenAuthenticator for TokenWebhookAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [Str]) -> AuthFuture<'a, AuthenticationResult> {
        AuthFuture::boxed(self.review(token, audiences))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value
    }

    fn list(texts: &[&str]) -> Vec<Str> {
        texts.iter().map(|text| Str::from(*text)).collect()
    }

    #[test]
    fn a_review_has_the_token_and_the_audiences() {
        let body = tree(&String::from_utf8_lossy(&encode(ReviewVersion::V1Beta1, "t", &list(&["a", "b"]))));
        let expect = r#"{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1beta1", "metadata": {},
            "spec": {"token": "t", "audiences": ["a", "b"]}, "status": {"user": {}}}"#;
        assert_eq!(body, tree(expect));
        let body = tree(&String::from_utf8_lossy(&encode(ReviewVersion::V1, "t", &[])));
        assert_eq!((body.api_version(), &body["spec"]), ("authentication.k8s.io/v1", &tree(r#"{"token": "t"}"#)));
    }

    #[test]
    fn an_answer_is_the_user_for_requested_audiences() {
        let decide = |requested: &[&str], status: &str| {
            let body = format!(r#"{{"status": {status}}}"#);
            read_token_review(ReviewVersion::V1, body.as_bytes(), &list(requested), &list(&["api", "other"]))
        };
        let user = |name: &str, audiences: &[&str]| {
            let user = UserInfo { name: name.into(), ..UserInfo::default() };
            Ok(Some(Authentication { audiences: list(audiences), ..user.into() }))
        };
        let failure = |error: &str| Err(AuthenticationError(error.to_owned()));
        let jane = r#"{"authenticated": true, "user": {"username": "jane"}}"#;
        assert_eq!(decide(&["api"], jane), user("jane", &["api"]));
        assert_eq!(decide(&["else"], jane), Ok(None));
        assert_eq!(decide(&[], jane), user("jane", &[]));
        let named = r#"{"authenticated": true, "user": {"username": "jane"}, "audiences": ["b", "a", "x"]}"#;
        assert_eq!(decide(&["a", "b"], named), user("jane", &["b", "a"]));
        assert_eq!(decide(&["api"], named), Ok(None));
        for status in ["{}", "null", r#"{"authenticated": false}"#, r#"{"user": {"username": "jane"}}"#] {
            assert_eq!(decide(&["api"], status), Ok(None), "{status}");
        }
        assert_eq!(decide(&["api"], r#"{"error": "why"}"#), failure("why"));
        assert_eq!(decide(&["else"], r#"{"error": "why"}"#), Ok(None));
        assert!(decide(&["api"], r#"{"authenticated": "yes"}"#).is_err());
        let complete = r#"{"authenticated": true, "user": {"username": "jane", "uid": "1", "groups": ["a"],
            "extra": {"z": ["1"], "k": ["a", "b"]}}}"#;
        let expect = UserInfo {
            name: "jane".into(),
            uid: "1".into(),
            groups: list(&["a"]),
            extra: vec![("k".into(), list(&["a", "b"])), ("z".into(), list(&["1"]))],
        };
        assert_eq!(decide(&[], complete), Ok(Some(expect.into())));
    }
}
