//! Follows the documents of the API servers of APIServices. Each API server is asked by a task of its own. So an API
//! server that hangs delays no other.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::cluster::{ApiService, Cluster};

/// How often an API server is asked again.
const REFRESH: Duration = Duration::from_secs(60);
/// The delay after the first failure. It doubles with each further failure, up to [`REFRESH`].
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// The documents to follow: a function that reads one from an API server, and a function that takes all of them.
pub(super) struct Followed<D, Read, Publish> {
    /// Reads the document of an API server that serves these APIServices. The last argument is the document that was
    /// read before.
    pub(super) read: Read,
    /// Called when a document, a failure or the APIServices have changed.
    pub(super) publish: Publish,
    pub(super) document: std::marker::PhantomData<fn() -> D>,
}

/// An API server. It is known by the service of its APIServices.
pub(super) struct ApiServer<D> {
    /// The APIServices in the order of their names.
    pub(super) services: Vec<Arc<ApiService>>,
    /// The document that was read last.
    pub(super) document: Option<D>,
    /// True if the last call has succeeded.
    pub(super) is_answering: bool,
    /// The number of failures since the last success.
    failures: u32,
    /// The time of the next call.
    due: Instant,
    /// The task of the call that has not ended yet.
    call: Option<Id>,
    /// True if an APIService has changed since the call began.
    is_outdated: bool,
}

/// The namespace, name and port of a service.
type ServiceKey = (String, String, u16);

/// The API servers of all APIServices.
struct ApiServers<D>(HashMap<ServiceKey, ApiServer<D>>);

impl<D: PartialEq> ApiServers<D> {
    /// Takes over the APIServices that exist now. An API server whose APIServices have changed is asked again. Returns
    /// true if an APIService has changed.
    fn set(&mut self, services: Vec<Arc<ApiService>>, now: Instant) -> bool {
        let mut by_key: HashMap<ServiceKey, Vec<Arc<ApiService>>> = HashMap::new();
        for service in services {
            let Some(remote) = &service.remote else { continue };
            let config = &remote.config;
            let key = (config.namespace.to_string(), config.service.to_string(), config.port);
            by_key.entry(key).or_default().push(service);
        }
        let before = self.0.len();
        self.0.retain(|key, _| by_key.contains_key(key));
        let mut has_changed = self.0.len() < before;
        for (key, services) in by_key {
            let server = self.0.entry(key).or_insert_with(|| ApiServer {
                services: Vec::new(),
                document: None,
                is_answering: false,
                failures: 0,
                due: now,
                call: None,
                is_outdated: false,
            });
            if !is_same(&server.services, &services) {
                has_changed = true;
                (server.due, server.failures, server.is_outdated) = (now, 0, server.call.is_some());
            }
            server.services = services;
        }
        has_changed
    }

    /// The time of the next call.
    fn next_due(&self) -> Option<Instant> {
        self.0.values().filter(|server| server.call.is_none()).map(|server| server.due).min()
    }

    /// Takes over the result of a call, unless its API server is gone. Returns true if it differs from the last.
    fn receive(&mut self, call: Id, result: Result<D, String>, now: Instant) -> bool {
        let Some(server) = self.0.values_mut().find(|server| server.call == Some(call)) else { return false };
        let (has_changed, delay) = match result {
            Ok(document) => {
                let has_changed = !server.is_answering || server.document.as_ref() != Some(&document);
                (server.is_answering, server.document, server.failures) = (true, Some(document), 0);
                (has_changed, REFRESH)
            }
            Err(error) => {
                let names: Vec<&str> = server.services.iter().map(|service| service.name.as_str()).collect();
                tracing::debug!(?names, error, "Failed to read a document of an API server, will retry");
                let delay = FIRST_RETRY.saturating_mul(1 << server.failures.min(10)).min(REFRESH);
                server.failures += 1;
                (std::mem::take(&mut server.is_answering), delay)
            }
        };
        server.call = None;
        server.due = if std::mem::take(&mut server.is_outdated) { now } else { now + delay };
        has_changed
    }
}

/// True if the APIServices are the same, are reached in the same way, and are as available as before.
fn is_same(before: &[Arc<ApiService>], now: &[Arc<ApiService>]) -> bool {
    let state = |service: &Arc<ApiService>| {
        let remote = service.remote.as_ref().map(Arc::as_ptr);
        let priorities = (service.group_priority, service.version_priority);
        (service.name.clone(), service.is_available, remote, priorities)
    };
    before.iter().map(state).eq(now.iter().map(state))
}

impl<D, Read, Publish, F> Followed<D, Read, Publish>
where
    D: Clone + PartialEq + Send + 'static,
    Read: Fn(Arc<Cluster>, Vec<Arc<ApiService>>, Option<D>) -> F,
    F: Future<Output = Result<D, String>> + Send + 'static,
    Publish: Fn(&Cluster, &[&ApiServer<D>]),
{
    /// Follows the documents until the cluster is gone.
    pub(super) async fn run(self, cluster: Weak<Cluster>) {
        let mut servers = ApiServers(HashMap::new());
        let mut calls: JoinSet<Result<D, String>> = JoinSet::new();
        let Some(mut changes) = cluster.upgrade().and_then(|cluster| cluster.api_service_changes()) else {
            // APIServices are turned off.
            return std::future::pending().await;
        };
        let mut has_changed = true;
        loop {
            {
                let Some(cluster) = cluster.upgrade() else { return };
                let services = cluster.api_services().map(|index| index.remote()).unwrap_or_default();
                has_changed |= servers.set(services, Instant::now());
                self.start_calls(&cluster, &mut servers, &mut calls);
                if std::mem::take(&mut has_changed) {
                    (self.publish)(&cluster, &servers.0.values().collect::<Vec<_>>());
                }
            }
            let due = servers.next_due();
            tokio::select! {
                () = changes.changed() => {}
                Some(ended) = calls.join_next_with_id() => {
                    // A document that cannot be read by this program is the fault of its API server alone.
                    let (id, result) = ended.unwrap_or_else(|error| (error.id(), Err(error.to_string())));
                    has_changed = servers.receive(id, result, Instant::now());
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Asks the API servers that are due.
    fn start_calls(&self, cluster: &Arc<Cluster>, servers: &mut ApiServers<D>, calls: &mut JoinSet<Result<D, String>>) {
        let now = Instant::now();
        for server in servers.0.values_mut().filter(|server| server.call.is_none() && server.due <= now) {
            let reading = (self.read)(cluster.clone(), server.services.clone(), server.document.clone());
            server.call = Some(calls.spawn(reading).id());
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_kinds::RemoteApiService;
    use pintle_registry::GroupVersion;

    use super::*;
    use crate::cluster::RemoteApi;

    fn service(version: &str, name: &str, is_available: bool) -> Arc<ApiService> {
        let config = RemoteApiService {
            namespace: "n".into(),
            service: name.into(),
            port: 443,
            authorities: Vec::new(),
            skips_verification: true,
        };
        Arc::new(ApiService {
            name: format!("{version}.a").into(),
            version: GroupVersion::new("a", version),
            group_priority: 1,
            version_priority: 1,
            is_available,
            remote: Some(Arc::new(RemoteApi::new(version, config))),
        })
    }

    /// Begins a call of the only API server.
    fn begin_call(servers: &mut ApiServers<u32>) -> Id {
        let call = tokio::spawn(async {}).id();
        servers.0.values_mut().for_each(|server| server.call = Some(call));
        call
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_is_asked_again_when_its_services_change() {
        let (mut servers, now) = (ApiServers::<u32>(HashMap::new()), Instant::now());
        let (first, second) = (service("v1", "s", true), service("v2", "s", true));
        assert!(servers.set(vec![first.clone(), second.clone()], now));
        assert_eq!(servers.next_due(), Some(now));
        let call = begin_call(&mut servers);
        assert_eq!(servers.next_due(), None);
        assert!(servers.receive(call, Ok(1), now));
        assert_eq!(servers.next_due(), Some(now + REFRESH));
        assert!(!servers.set(vec![first.clone(), second], now));
        let call = begin_call(&mut servers);
        assert!(!servers.receive(call, Ok(1), now));
        // A change while the API server is asked.
        let call = begin_call(&mut servers);
        assert!(servers.set(vec![first.clone()], now));
        assert!(servers.receive(call, Ok(2), now));
        assert_eq!(servers.next_due(), Some(now));
        // The APIService is deleted and created again while the API server is asked.
        let call = begin_call(&mut servers);
        assert!(servers.set(Vec::new(), now) && servers.next_due().is_none());
        assert!(servers.set(vec![first], now));
        assert!(!servers.receive(call, Ok(2), now), "the API server is another one");
        assert_eq!(servers.next_due(), Some(now));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_back_off_and_keep_the_document() {
        let (mut servers, now) = (ApiServers::<u32>(HashMap::new()), Instant::now());
        servers.set(vec![service("v1", "s", true)], now);
        let call = begin_call(&mut servers);
        assert!(servers.receive(call, Ok(1), now));
        let fail = |servers: &mut ApiServers<u32>| {
            let call = begin_call(servers);
            servers.receive(call, Err("no".to_owned()), now)
        };
        assert!(fail(&mut servers));
        let delays: Vec<Duration> = (0..9)
            .map(|_| {
                let due = servers.next_due().expect("a retry");
                assert!(!fail(&mut servers));
                due - now
            })
            .collect();
        assert_eq!(delays[..3], [FIRST_RETRY, FIRST_RETRY * 2, FIRST_RETRY * 4]);
        assert_eq!(delays[8], REFRESH);
        let server = servers.0.values().next().expect("a server");
        assert_eq!((server.document, server.is_answering), (Some(1), false));
    }
}
