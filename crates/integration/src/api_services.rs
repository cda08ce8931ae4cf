//! An APIService of `x.example.com/v1` whose API server is an HTTPS server in the test's process.

use pintle::Options;
use serde_json::{Value, json};

use crate::{Cluster, HttpsServer};

/// The host of the service `s`, for which the certificate of its API server is valid.
pub const SERVICE_HOST: &str = "s.default.svc";
/// The path of the APIService.
pub const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.x.example.com";

impl Cluster {
    /// Starts a cluster that keeps APIServices.
    ///
    /// # Panics
    /// Panics if the server does not start.
    pub async fn with_api_services() -> Self {
        Self::with_options(Options { api_services: true, ..Options::default() }).await
    }

    /// Creates the service `s` of an API server and an APIService.
    ///
    /// # Panics
    /// Panics if a request fails.
    pub async fn register(&self, server: &HttpsServer, ca_bundle: &str) {
        let service = json!({
            "metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let _ = self.post("/api/v1/namespaces/default/services", service.to_string()).await.expect(201);
        let api_service = json!({
            "metadata": {"name": "v1.x.example.com"},
            "spec": {
                "group": "x.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                "caBundle": ca_bundle,
                "service": {"namespace": "default", "name": "s", "port": server.port},
            },
        });
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let _ = self.post(path, api_service.to_string()).await.expect(201);
    }

    /// Registers an API server with its own authority, and waits until it is available.
    ///
    /// # Panics
    /// Panics if a request fails, or the API server is not available in time.
    pub async fn register_available(&self, server: &HttpsServer) {
        self.register(server, &server.ca_bundle()).await;
        assert_eq!(self.wait_for_reason("Passed").await, "all checks passed");
    }

    /// Waits until the APIService has a condition with this reason. Returns the message.
    ///
    /// # Panics
    /// Panics if no such condition appears in time.
    pub async fn wait_for_reason(&self, reason: &str) -> String {
        let found = self.get_until(API_SERVICE, |found| condition(&found.json())["reason"] == reason).await.json();
        condition(&found)["message"].as_str().expect("a text").to_owned()
    }
}

/// The first condition of an object.
#[must_use]
pub fn condition(object: &Value) -> &Value {
    &object["status"]["conditions"][0]
}
