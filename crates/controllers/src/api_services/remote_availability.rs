//! Decides whether the API servers of APIServices with a service are available, and keeps the condition (upstream:
//! kube-aggregator's `pkg/controllers/status/remote`). The checks need the service, its endpoints, and an answer of the
//! API server. They are made again when any of these objects changes, and after an interval.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_cache::{Event, KeyRange, Object, WatchScope};
use pintle_kinds::{
    ApiServiceAvailability, RemoteApiService, SERVICE_NAME_LABEL, api_services_resource, is_available_api_service,
    is_ready_endpoint, set_availability,
};
use pintle_locks::Mutex;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::print::quote;
use pintle_value::{Str, Value};

use super::service_ref;
use crate::informer::{Informer, InformerEvent, InformerSource};
use crate::objects::{find, tree, try_find, watch_cache_of};
use crate::work_queue::{ReconcileResult, WorkQueue};
use crate::{ClusterClient, ObjectRef};

/// The name of the work queue in metrics.
const QUEUE: &str = "RemoteAvailabilityController";
const FAILURE: &str = "Failed to check an APIService or to update its status, will retry";
/// How often available APIServices are checked again.
const RESYNC: Duration = Duration::from_secs(30);

/// The collections that the informer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    ApiServices,
    Services,
    EndpointSlices,
}

/// How often APIServices became unavailable, by name and reason. The server reads it for `/metrics`.
#[derive(Debug, Default)]
pub struct ApiServiceOutages(Mutex<HashMap<(Str, &'static str), u64>>);

impl ApiServiceOutages {
    fn record(&self, name: &str, reason: &'static str) {
        *self.0.lock().entry((name.into(), reason)).or_default() += 1;
    }

    /// The names and reasons in their order, with the number of outages.
    #[must_use]
    pub fn all(&self) -> Vec<((Str, &'static str), u64)> {
        let mut all: Vec<_> = self.0.lock().iter().map(|(key, count)| (key.clone(), *count)).collect();
        all.sort();
        all
    }
}

/// The services of the stored APIServices, each as its namespace and name.
#[derive(Default)]
struct UsedServices(HashMap<Str, (Str, Str)>);

impl UsedServices {
    fn set(&mut self, name: &str, service: Option<&Value>) {
        match service.and_then(RemoteApiService::of) {
            Some(remote) => drop(self.0.insert(name.into(), (remote.namespace, remote.service))),
            None => drop(self.0.remove(name)),
        }
    }

    /// The APIServices of a service.
    fn users(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Str> {
        let is_it = move |of: &(Str, Str)| of.0 == namespace && of.1 == name;
        self.0.iter().filter(move |(_, of)| is_it(of)).map(|(user, _)| user)
    }
}

fn services_resource() -> GroupResource {
    GroupResource::new("", "services")
}

fn endpoint_slices_resource() -> GroupResource {
    GroupResource::new("discovery.k8s.io", "endpointslices")
}

/// The sources of the informer. Services and their endpoints are followed only if an APIService needs them.
fn sources(with_services: bool) -> Vec<InformerSource<Source>> {
    let source = |id, resource| InformerSource::new(id, resource, WatchScope::All);
    let mut sources = vec![source(Source::ApiServices, api_services_resource())];
    if with_services {
        sources.push(source(Source::Services, services_resource()).without_list());
        sources.push(source(Source::EndpointSlices, endpoint_slices_resource()).without_list());
    }
    sources
}

/// Runs the controller until the cluster is gone.
pub(super) async fn run(client: Weak<dyn ClusterClient>) {
    let Some((mut informer, mut queue, mut resync)) = client.upgrade().map(|client| {
        // A check waits for its API server, and must not hold up the checks of others.
        let queue: WorkQueue<Str> = WorkQueue::new(usize::MAX, client.work_queues().queue(QUEUE));
        (Informer::new(&client, sources(false)), queue, client.sleep(RESYNC))
    }) else {
        return;
    };
    let mut used = UsedServices::default();
    loop {
        queue.start_with(&client, FAILURE, |client, name| async move { reconcile(&client, &name).await });
        tokio::select! {
            event = informer.next() => {
                let Some(event) = event else { return };
                let needed_services = !used.0.is_empty();
                handle_event(event, &mut used, &mut queue);
                if used.0.is_empty() == needed_services && let Some(client) = client.upgrade() {
                    informer.set_sources(&client, sources(!needed_services));
                }
            }
            () = &mut resync => {
                used.0.keys().for_each(|name| queue.add(name.clone()));
                let Some(client) = client.upgrade() else { return };
                resync = client.sleep(RESYNC);
            }
            _ = queue.wait() => {}
        }
    }
}

fn handle_event(event: InformerEvent<Source>, used: &mut UsedServices, queue: &mut WorkQueue<Str>) {
    match event {
        InformerEvent::Added(_, services) => {
            for service in services {
                used.set(service.name(), tree(&service).as_ref());
                queue.add(service.name().into());
            }
        }
        InformerEvent::Changed(events) => {
            for (source, event) in events {
                match source {
                    Source::ApiServices => {
                        used.set(&event.key, event.object.as_ref().and_then(|service| tree(service)).as_ref());
                        queue.add((&*event.key).into());
                    }
                    Source::Services => {
                        let (namespace, name) = event.key.split_once('/').unwrap_or_default();
                        used.users(namespace, name).for_each(|user| queue.add(user.clone()));
                    }
                    Source::EndpointSlices => {
                        for (namespace, name) in services_of_slice(&event) {
                            used.users(&namespace, &name).for_each(|user| queue.add(user.clone()));
                        }
                    }
                }
            }
        }
        InformerEvent::Reset(Source::ApiServices) => used.0.clear(),
        InformerEvent::Reset(_) => used.0.keys().for_each(|name| queue.add(name.clone())),
    }
}

/// The services, each as its namespace and name, to which an endpoint slice belongs before and after a change.
fn services_of_slice(event: &Event) -> Vec<(String, String)> {
    let states = [event.object.as_ref(), event.previous.as_ref()].into_iter().flatten();
    let named = states.filter_map(|slice| {
        let name = slice.label(SERVICE_NAME_LABEL)?;
        Some((slice.namespace().to_owned(), name.to_owned()))
    });
    named.collect()
}

async fn reconcile(client: &Arc<dyn ClusterClient>, name: &str) -> Result<ReconcileResult, ApiError> {
    let Some(service) = find(client, &service_ref(name)) else { return Ok(ReconcileResult::Done) };
    let Some(remote) = RemoteApiService::of(&service) else { return Ok(ReconcileResult::Done) };
    let found = match check_objects(client, &remote) {
        Some(found) => found,
        None => match client.clone().probe_api_service(name.into()).await? {
            Ok(()) => condition("True", "Passed", "all checks passed".to_owned()),
            Err(message) => condition("False", "FailedDiscoveryCheck", message),
        },
    };
    let (is_available, is_retried) = (found.status == "True", found.reason == "FailedDiscoveryCheck");
    let (now, reason, message) = (client.now(), found.reason, found.message.clone());
    let spec = service["spec"].clone();
    let restore = move |current: &Value| {
        let mut updated = current.clone();
        // A service that has changed meanwhile is checked again.
        if current["spec"] == spec {
            set_availability(&mut updated, &found, now);
        }
        updated
    };
    if restore(&service)["status"] != service["status"] {
        match client.clone().update(service_ref(name), "status", Arc::new(restore)).await {
            Ok(_) => {}
            Err(ApiError::NotFound { .. }) => return Ok(ReconcileResult::Done),
            Err(error) => return Err(error),
        }
        let was_available = is_available_api_service(&service);
        if was_available != is_available {
            tracing::info!(name, is_available, reason, message, "The availability of an APIService has changed");
        }
        if was_available && !is_available {
            client.api_service_outages().record(name, reason);
        }
    }
    Ok(if is_retried { ReconcileResult::Retry } else { ReconcileResult::Done })
}

fn condition(status: &'static str, reason: &'static str, message: String) -> ApiServiceAvailability {
    ApiServiceAvailability { status, reason, message }
}

/// The condition, if the service and its endpoints decide it. As in upstream, only services of the type `ClusterIP`
/// need endpoints.
fn check_objects(client: &Arc<dyn ClusterClient>, remote: &RemoteApiService) -> Option<ApiServiceAvailability> {
    let RemoteApiService { namespace, service: name, port, .. } = remote;
    let in_namespace = format!("service/{name} in {}", quote(namespace));
    let target = ObjectRef { resource: services_resource(), namespace: namespace.to_string(), name: name.to_string() };
    let service = match try_find(client, &target) {
        Ok(Some(service)) => service,
        Ok(None) => return Some(condition("False", "ServiceNotFound", format!("{in_namespace} is not present"))),
        Err(error) => {
            let message = format!("{in_namespace} cannot be checked due to: {error}");
            return Some(condition("Unknown", "ServiceAccessError", message));
        }
    };
    if service.str_at(&["spec", "type"]) != "ClusterIP" {
        return None;
    }
    let ports = service.items_at(&["spec", "ports"]);
    let Some(found) = ports.iter().find(|candidate| candidate.int_at(&["port"]) == Some(i64::from(*port))) else {
        let message = format!("{in_namespace} is not listening on port {port}");
        return Some(condition("False", "ServicePortError", message));
    };
    let port_name = found.str_at(&["name"]);
    let Some(watch_cache) = watch_cache_of(client, &endpoint_slices_resource()) else {
        let message = format!("{in_namespace} cannot be checked due to: endpoint slices are not served");
        return Some(condition("Unknown", "EndpointsAccessError", message));
    };
    let in_range = watch_cache.objects(KeyRange::Namespace(namespace.as_str().into()));
    let slices: Vec<Arc<Object>> =
        in_range.filter(|slice| slice.label(SERVICE_NAME_LABEL) == Some(name.as_str())).collect();
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for {in_namespace}");
        return Some(condition("False", "EndpointsNotFound", message));
    }
    if !slices.iter().filter_map(|slice| tree(slice)).any(|slice| has_endpoint(&slice, port_name)) {
        let name = quote(port_name);
        let message = format!("endpointslices for {in_namespace} have no addresses with port name {name}");
        return Some(condition("False", "MissingEndpoints", message));
    }
    None
}

/// True if a slice has a ready endpoint and a port with this name.
fn has_endpoint(slice: &Value, port_name: &str) -> bool {
    let is_wanted =
        |port: &Value| port.get("name").and_then(Value::as_str) == Some(port_name) && port.int_at(&["port"]).is_some();
    slice.items_at(&["endpoints"]).iter().any(is_ready_endpoint) && slice.items_at(&["ports"]).iter().any(is_wanted)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn endpoints_are_ready_unless_they_say_otherwise() {
        let slice = |ready: Option<bool>, port: &str| {
            let mut endpoint = object! { "addresses": vec!["10.0.0.1"] };
            if let Some(ready) = ready {
                endpoint.set("conditions", object! { "ready": ready });
            }
            object! { "endpoints": vec![endpoint], "ports": vec![object! { "name": port, "port": 443 }] }
        };
        assert!(has_endpoint(&slice(None, ""), ""));
        assert!(has_endpoint(&slice(Some(true), "https"), "https"));
        assert!(!has_endpoint(&slice(Some(false), "https"), "https"));
        assert!(!has_endpoint(&slice(None, "http"), "https"));
        assert!(!has_endpoint(&object! { "ports": vec![object! { "name": "", "port": 443 }] }, ""));
    }

    #[test]
    fn outages_are_counted_by_name_and_reason() {
        let outages = ApiServiceOutages::default();
        ["b", "a", "b"].into_iter().for_each(|name| outages.record(name, "ServiceNotFound"));
        let all = outages.all();
        assert_eq!(all, [(("a".into(), "ServiceNotFound"), 1), (("b".into(), "ServiceNotFound"), 2)]);
    }

    #[test]
    fn apiservices_are_found_by_their_service() {
        let service = |name: &str| {
            object! { "spec": object! { "service": object! { "namespace": "n", "name": name, "port": 443 } } }
        };
        let mut used = UsedServices::default();
        used.set("v1.a", Some(&service("s")));
        used.set("v1.b", Some(&service("other")));
        used.set("v1.c", Some(&object! { "spec": object! {} }));
        assert_eq!(used.users("n", "s").collect::<Vec<_>>(), ["v1.a"]);
        used.set("v1.a", None);
        assert_eq!(used.users("n", "s").count(), 0);
        assert_eq!(used.0.len(), 1);
    }
}
