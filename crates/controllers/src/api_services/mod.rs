//! Keeps the APIServices of the versions that the server serves itself, and the conditions of all APIServices (upstream:
//! kube-aggregator's `pkg/controllers/autoregister` and `pkg/controllers/status`, and
//! `pkg/controlplane/controller/crdregistration`).

mod local_availability;
mod registration;
mod remote_availability;
mod versions;

use std::sync::Arc;

use futures_util::future::join_all;
use pintle_cache::KeyRange;
use pintle_kinds::api_services_resource;
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use crate::objects::{find, watch_cache_of};
use crate::supervisor::supervise;
use crate::{ClusterClient, ObjectRef};

pub use self::remote_availability::ApiServiceOutages;

/// The name of the background task that creates and deletes APIServices.
pub const API_SERVICE_REGISTRATION_TASK: &str = "kube-apiserver-autoregistration";
/// The name of the background task that keeps the condition of APIServices with a service.
pub const REMOTE_API_SERVICES_TASK: &str = "apiservice-status-remote-available-controller";
/// The name of the background task that keeps the condition of local APIServices.
pub const LOCAL_API_SERVICES_TASK: &str = "apiservice-status-local-available-controller";
/// How many APIServices are processed at the same time.
const MAX_CONCURRENT: usize = 32;

/// Keeps the local APIServices and the conditions of all APIServices until the cluster is gone. `built_in` are the
/// APIServices of the built-in versions.
pub fn run_api_services(
    client: &Arc<dyn ClusterClient>,
    built_in: Arc<[Value]>,
) -> impl Future<Output = ()> + Send + use<> {
    let local = supervise(client, LOCAL_API_SERVICES_TASK, || false, local_availability::run);
    let remote = supervise(client, REMOTE_API_SERVICES_TASK, || false, remote_availability::run);
    let registration = supervise(
        client,
        API_SERVICE_REGISTRATION_TASK,
        || false,
        move |client| registration::run(client, built_in.clone()),
    );
    async move {
        tokio::join!(local, remote, registration);
    }
}

/// Creates the missing APIServices of the built-in versions before the server is ready: its health checks wait for
/// them.
pub async fn create_missing_api_services(client: &Arc<dyn ClusterClient>, built_in: &[Value]) {
    let missing = built_in.iter().filter(|service| find(client, &service_ref(service.name())).is_none());
    let creates = missing.map(async |service| {
        let created = client.clone().create(api_services_resource(), service.clone()).await;
        match created {
            Ok(()) | Err(ApiError::AlreadyExists { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, name = service.name(), "Failed to create an APIService, will retry");
            }
        }
    });
    join_all(creates).await;
}

fn service_ref(name: &str) -> ObjectRef {
    ObjectRef { resource: api_services_resource(), namespace: String::new(), name: name.to_owned() }
}

/// The names of all stored APIServices.
fn stored_names(client: &Arc<dyn ClusterClient>) -> Vec<Str> {
    let watch_cache = watch_cache_of(client, &api_services_resource());
    let objects = watch_cache.iter().flat_map(|watch_cache| watch_cache.objects(KeyRange::All));
    objects.map(|object| object.name().into()).collect()
}
