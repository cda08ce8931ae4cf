//! Users and service accounts of a cluster.

use serde_json::json;

use crate::access::{Access, Credentials};
use crate::error::Error;

/// A user with a client certificate. Roles and bindings decide about its permissions.
#[derive(Clone, Debug)]
#[must_use]
pub struct User {
    access: Access,
    name: String,
    groups: Vec<String>,
}

impl User {
    pub(crate) fn new(access: &Access, name: &str) -> Self {
        Self { access: access.clone(), name: name.to_owned(), groups: Vec::new() }
    }

    /// Adds the user to groups. Members of `system:masters` have all permissions.
    pub fn groups(mut self, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.groups.extend(groups.into_iter().map(Into::into));
        self
    }

    /// A client of the user.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.access.client(&self.credentials())
    }

    /// The configuration of a client, which the caller may change before it creates a client.
    #[must_use]
    pub fn config(&self) -> kube::Config {
        self.access.config(&self.credentials())
    }

    /// The user's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.access.kubeconfig_of(&self.name, &self.credentials())
    }

    fn credentials(&self) -> Credentials {
        self.access.certificate(&self.name, &self.groups)
    }
}

/// A service account, whose clients present tokens.
#[derive(Clone, Debug)]
#[must_use]
pub struct ServiceAccountUser {
    access: Access,
    namespace: String,
    name: String,
    expiration_seconds: Option<i64>,
}

impl ServiceAccountUser {
    pub(crate) fn new(access: &Access, namespace: &str, name: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { access: access.clone(), namespace, name, expiration_seconds: None }
    }

    /// Sets how long tokens are valid. The minimum is ten minutes. The default is an hour.
    pub fn expiration_seconds(mut self, seconds: i64) -> Self {
        self.expiration_seconds = Some(seconds);
        self
    }

    /// The name of the user, as in bindings: `system:serviceaccount:NAMESPACE:NAME`.
    #[must_use]
    pub fn user_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Requests a token.
    ///
    /// # Errors
    /// The service account does not exist, or the request is not valid.
    pub async fn token(&self) -> Result<String, Error> {
        let Self { access, namespace, name, expiration_seconds } = self;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let spec = json!({ "audiences": [], "expirationSeconds": expiration_seconds });
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
        let answer: serde_json::Value = crate::manifests::post(&access.own_client(), &path, &body).await?;
        let token = answer["status"]["token"].as_str();
        token.map(str::to_owned).ok_or_else(|| Error::Answer("the server has issued no token".to_owned()))
    }

    /// Requests a token, and returns a client that uses it.
    ///
    /// # Errors
    /// See [`ServiceAccountUser::token`].
    pub async fn client(&self) -> Result<kube::Client, Error> {
        Ok(self.access.client(&Credentials::Token(self.token().await?)))
    }

    /// Requests a token, and returns the configuration of a client that uses it.
    ///
    /// # Errors
    /// See [`ServiceAccountUser::token`].
    pub async fn config(&self) -> Result<kube::Config, Error> {
        Ok(self.access.config(&Credentials::Token(self.token().await?)))
    }

    /// Requests a token, and returns a kubeconfig with it.
    ///
    /// # Errors
    /// See [`ServiceAccountUser::token`].
    pub async fn kubeconfig(&self) -> Result<String, Error> {
        let credentials = Credentials::Token(self.token().await?);
        Ok(self.access.kubeconfig_of(&self.name, &credentials))
    }
}
