//! Implements the interface of the controllers (`pintle_controllers`), and starts and stops them.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pintle_auth::AuthenticationTrust;
use pintle_cache::{CacheError, EventStream, WatchCache};
use pintle_catalog::Catalog;
use pintle_controllers::{
    ApiServiceOutages, CaughtUp, ClusterClient, CrdController, CrdHost, DeleteRequest, DesiredObject, LeaderElection,
    ObjectReconciler, ObjectRef, RemoteEvent, RemoteOperation, RemoteResource, RemoteResources, SYSTEM_NAMESPACES,
    ServerIdentity, ServerRegistration, StorageVersionManager, TokenSecretContents, UpdateFn, WorkQueues,
    authentication_config_map, create_missing_api_services, every_namespace_objects, legacy_token_tracking,
    prepare_default_service_cidr, run_allocation_repair, run_api_services, run_controllers, run_default_service_cidr,
    run_flow_control, run_policy_type_checks, run_resource_quotas, run_service_cidr_protection,
    run_storage_version_collector, run_storage_version_updater, run_while_leading,
};
use pintle_gates::{Feature, Gates};
use pintle_kinds::{ServiceNetwork, recorded_storage_versions};
use pintle_locks::Mutex;
use pintle_registry::{ApiError, BoxFuture, GroupResource, ObjectClient, Registry, Resource};
use pintle_supervisor::BackgroundTask;
use pintle_value::time::Time;
use pintle_value::{Str, Value};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::aggregation::{
    REMOTE_DISCOVERY_TASK, REMOTE_OPENAPI_TASK, follow_remote, probe, remote_resources, request_remote, run_discovery,
    run_openapi,
};
use crate::cluster::Cluster;
use crate::write::{InternalClient, delete_all, delete_kind};

/// The configuration of a cluster's controllers.
pub struct ControllerOptions {
    /// True to run the namespace controller, the garbage collector, the controller of token secrets and the aggregation
    /// of cluster roles. These controllers pause while a controller manager is active.
    pub controllers: bool,
    /// The certificate authority of the server, in PEM.
    pub root_ca: String,
    /// True if every namespace gets the objects that a controller manager creates there: the default service account,
    /// and a ConfigMap with the certificate authority.
    pub every_namespace_objects: bool,
    /// True to count the used amounts of resource quotas. This controller pauses while a controller manager is active,
    /// too.
    pub resource_quotas: bool,
    /// Whether validating admission policies are type checked.
    pub policy_type_checks: bool,
    /// Whether the priority levels and flow schemas of the bootstrap configuration exist.
    pub flow_control: bool,
    /// Whether ServiceCIDRs in use are protected by a finalizer.
    pub service_cidr_protection: bool,
    /// Whether the versions that the server serves have APIServices.
    pub api_services: bool,
    /// The authentication data that aggregated servers need; `None` if the server does not publish it.
    pub authentication_trust: Option<AuthenticationTrust>,
    /// The target port of the service `kubernetes`.
    pub port: u16,
    /// The endpoint of that service, if it is published.
    pub endpoint: Option<SocketAddr>,
    /// The hostname in the server's identity lease, if the server has one.
    pub hostname: Option<String>,
    /// The name of this server in the election among the servers that share the store. The elected server runs the
    /// controllers. `None` if the store is the server's own.
    pub election_name: Option<String>,
}

/// The controllers of a running server.
pub(crate) struct RunningControllers {
    stopping: watch::Sender<bool>,
    network: ServiceNetwork,
    server: ServerRegistration,
    /// Elects the server that runs the controllers.
    pub(crate) election: Arc<LeaderElection>,
    /// Reconciles the server's own objects and its lease.
    server_task: Mutex<Option<JoinHandle<()>>>,
}

impl RunningControllers {
    pub(crate) fn new(controller_options: &ControllerOptions, network: &ServiceNetwork, gates: &Gates) -> Self {
        let (_, service) = network.kubernetes_service(controller_options.port);
        let peer =
            controller_options.endpoint.filter(|_| gates.is_enabled(Feature::UNKNOWN_VERSION_INTEROPERABILITY_PROXY));
        let run = uuid::Uuid::new_v4().to_string();
        let hostname = controller_options.hostname.as_ref().filter(|_| gates.is_enabled(Feature::API_SERVER_IDENTITY));
        let identity = hostname.map(|hostname| ServerIdentity::new(hostname, &run, peer));
        let shares_store = controller_options.election_name.is_some();
        let server = ServerRegistration { service, endpoint: controller_options.endpoint, shares_store, identity };
        let election = match &controller_options.election_name {
            Some(name) => LeaderElection::among_servers(format!("{name}_{run}")),
            None => LeaderElection::alone(),
        };
        Self {
            stopping: watch::Sender::new(false),
            network: network.clone(),
            server,
            election: Arc::new(election),
            server_task: Mutex::default(),
        }
    }

    /// Records the storage versions of the server's resources; `None` if the server records none.
    pub(crate) fn storage_versions(
        &self,
        catalog: &Catalog,
        registry: &Registry,
        gates: &Gates,
    ) -> Option<Arc<StorageVersionManager>> {
        let records = self.server.identity.is_some() && gates.is_enabled(Feature::STORAGE_VERSION_API);
        records.then(|| {
            Arc::new(StorageVersionManager::new(recorded_storage_versions(catalog, registry, gates.version())))
        })
    }

    /// Creates the objects that have to exist when the server is ready, and starts the controllers. The controllers end
    /// with the cluster or when the server shuts down.
    pub(crate) async fn start(&self, cluster: &Arc<Cluster>, controller_options: &ControllerOptions) {
        let client: Arc<dyn ClusterClient> = cluster.clone();
        let mut desired = self.server.objects();
        let service_ranges = self.network.bootstrap_objects();
        desired.extend(service_ranges.into_iter().map(|(kind, object)| DesiredObject::cluster_scoped(kind, object)));
        if controller_options.every_namespace_objects {
            desired.extend(every_namespace_objects(&controller_options.root_ca));
        }
        if controller_options.hostname.is_some() {
            desired.push(legacy_token_tracking(cluster.now()));
        }
        desired.extend(controller_options.authentication_trust.as_ref().map(authentication_config_map));
        let reconciler = ObjectReconciler::new(&client, desired);
        let ranges: Arc<[String]> = self.network.range_texts().into();
        let built_in: Arc<[Value]> = match controller_options.api_services {
            true => cluster.built_in_api_services().into(),
            false => Arc::default(),
        };
        // The concurrent writes share a commit.
        tokio::join!(
            create_missing_api_services(&client, &built_in),
            reconciler.create_missing(&client, &SYSTEM_NAMESPACES),
            prepare_default_service_cidr(&client, &ranges)
        );
        if controller_options.api_services {
            // Controllers have to know from the start which versions other API servers serve.
            cluster.enable_api_services();
        }
        cluster.spawn_until_shutdown(self.election.run(&client));
        if controller_options.controllers {
            let issuer = cluster.settings.service_accounts.issuer.clone();
            let issue = move |account: (&str, &str, &str), secret: &str| {
                issuer.issue_legacy(account, secret).map(|token| token.0).map_err(|error| error.to_string())
            };
            let contents = TokenSecretContents { root_ca: controller_options.root_ca.clone(), issue: Arc::new(issue) };
            run_as_leader(cluster, move |client| run_controllers(client, contents.clone()));
        }
        if controller_options.service_cidr_protection {
            run_as_leader(cluster, run_service_cidr_protection);
        }
        if controller_options.resource_quotas {
            run_as_leader(cluster, run_resource_quotas);
        }
        if controller_options.policy_type_checks {
            run_as_leader(cluster, run_policy_type_checks);
        }
        if controller_options.flow_control {
            run_as_leader(cluster, run_flow_control);
        }
        run_as_leader(cluster, run_allocation_repair);
        run_as_leader(cluster, move |client| run_default_service_cidr(client, ranges.clone()));
        if controller_options.api_services {
            follow_api_servers(cluster, REMOTE_DISCOVERY_TASK, run_discovery);
            follow_api_servers(cluster, REMOTE_OPENAPI_TASK, run_openapi);
            run_as_leader(cluster, move |client| run_api_services(client, built_in.clone()));
        }
        if let Some((manager, identity)) =
            cluster.lifecycle.storage_versions.as_ref().zip(self.server.identity.as_ref())
        {
            cluster.spawn_until_shutdown(run_storage_version_updater(&client, manager.clone(), identity));
            if controller_options.controllers {
                run_as_leader(cluster, run_storage_version_collector);
            }
        }
        let reconciler = self.run_reconciler(cluster, reconciler);
        let server = self.server.run(&client, self.stopping.subscribe());
        let task = async move {
            tokio::join!(reconciler, server);
        };
        *self.server_task.lock() = Some(tokio::spawn(task));
    }

    /// Reconciles objects while this server runs the controllers. When this server stops running them, writes that have
    /// begun are completed.
    fn run_reconciler(
        &self,
        cluster: &Arc<Cluster>,
        reconciler: ObjectReconciler,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (mut stopping, weak) = (self.stopping.subscribe(), Arc::downgrade(cluster));
        let until_stopped = stopping.clone();
        let client: Arc<dyn ClusterClient> = cluster.clone();
        let first = Mutex::new(Some(reconciler.clone().run(&client, until_stopped.clone())));
        let running = while_leading(&self.election, move || {
            let first = first.lock().take();
            first.or_else(|| {
                let client = weak.upgrade()? as Arc<dyn ClusterClient>;
                Some(reconciler.clone().run(&client, until_stopped.clone()))
            })
        });
        let mut leadership = self.election.leadership();
        async move {
            let ended = async {
                let _ = stopping.wait_for(|stopping| *stopping).await;
                let _ = leadership.wait_for(|leads| !*leads).await;
            };
            tokio::select! {
                biased;
                () = running => {}
                () = ended => {}
            }
        }
    }

    /// Stops reconciling the server's own objects, then withdraws the server from the cluster.
    pub(crate) async fn stop(&self, cluster: &Arc<Cluster>) {
        self.stopping.send_replace(true);
        let task = self.server_task.lock().take();
        if let Some(task) = task {
            let _ = task.await;
            let client: Arc<dyn ClusterClient> = cluster.clone();
            tokio::join!(self.server.deregister(&client), self.election.release(&client));
        }
    }
}

/// Follows documents of other API servers.
fn follow_api_servers<F: Future<Output = ()> + Send + 'static>(
    cluster: &Arc<Cluster>,
    name: &'static str,
    run: impl Fn(Weak<Cluster>) -> F + Send + Sync + 'static,
) {
    let task = cluster.lifecycle.background_tasks.task(name);
    let weak = Arc::downgrade(cluster);
    cluster.spawn_until_shutdown(async move {
        let start = || {
            task.report_success();
            let running = run(weak.clone());
            async move {
                running.await;
                Ok(())
            }
        };
        task.supervise(start, || weak.strong_count() == 0).await;
    });
}

/// Runs controllers while this server is elected to run them.
fn run_as_leader<F: Future<Output = ()> + Send + 'static>(
    cluster: &Arc<Cluster>,
    run: impl Fn(&Arc<dyn ClusterClient>) -> F + Send + Sync + 'static,
) {
    let weak = Arc::downgrade(cluster);
    // The background tasks exist from now on, even if this server does not lead, because health checks list them in
    // this order.
    let first = Mutex::new(Some(run(&(cluster.clone() as Arc<dyn ClusterClient>))));
    cluster.spawn_until_shutdown(while_leading(&cluster.lifecycle.election, move || {
        let first = first.lock().take();
        first.or_else(|| weak.upgrade().map(|cluster| run(&(cluster as Arc<dyn ClusterClient>))))
    }));
}

/// Runs the future that `start` returns, if any, while this server leads.
fn while_leading<F, S>(election: &LeaderElection, start: S) -> impl Future<Output = ()> + Send + use<F, S>
where
    F: Future<Output = ()> + Send,
    S: Fn() -> Option<F> + Send,
{
    run_while_leading(election.leadership(), move || {
        let running = start();
        async move {
            if let Some(running) = running {
                running.await;
            }
        }
    })
}

/// Serves the custom resources of all stored CRDs, and starts the CRD controller.
///
/// # Errors
/// Returns an error if the store cannot be read.
pub(crate) async fn start_crds(controller: CrdController, cluster: &Arc<Cluster>) -> Result<(), ApiError> {
    let host: Arc<dyn CrdHost> = cluster.clone();
    cluster.spawn_until_shutdown(controller.start(&host).await?);
    Ok(())
}

impl ClusterClient for Cluster {
    fn gates(&self) -> &Gates {
        &self.settings.gates
    }

    fn work_queues(&self) -> &WorkQueues {
        &self.metrics.work_queues
    }

    fn api_service_outages(&self) -> &ApiServiceOutages {
        &self.metrics.api_service_outages
    }

    fn probe_api_service(self: Arc<Self>, name: Str) -> BoxFuture<'static, Result<Result<(), String>, ApiError>> {
        Box::pin(async move {
            let service = self.api_services().and_then(|index| index.get_by_name(&name));
            probe(&self, &*service.ok_or(ApiError::NoSuchPath)?).await
        })
    }

    fn remote_resources(&self) -> Arc<RemoteResources> {
        remote_resources(self)
    }

    fn remote_changes(&self) -> watch::Receiver<()> {
        Cluster::remote_changes(self)
    }

    fn follow_remote(
        self: Arc<Self>,
        resource: Arc<RemoteResource>,
        events: mpsc::Sender<(Str, RemoteEvent)>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(follow_remote(Arc::downgrade(&self), resource, events))
    }

    fn request_remote(
        self: Arc<Self>,
        resource: RemoteResource,
        namespace: Str,
        operation: RemoteOperation,
    ) -> BoxFuture<'static, Result<Vec<Value>, ApiError>> {
        Box::pin(async move { request_remote(&self, &resource, &namespace, operation).await })
    }

    fn registry(&self) -> Arc<Registry> {
        Cluster::registry(self)
    }

    fn registry_changes(&self) -> watch::Receiver<()> {
        self.served.changed.subscribe()
    }

    fn watch_cache(&self, resource: &Resource) -> Option<Arc<WatchCache>> {
        Cluster::watch_cache(self, resource).ok()
    }

    fn event_stream(&self) -> EventStream {
        self.stores.cache.event_stream()
    }

    fn now(&self) -> Time {
        Cluster::now(self)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Cluster::sleep(self, duration)
    }

    fn background_task(&self, name: &'static str) -> BackgroundTask {
        self.lifecycle.background_tasks.task(name)
    }

    fn catch_up_all(self: Arc<Self>) -> BoxFuture<'static, Result<CaughtUp, ApiError>> {
        Box::pin(async move { Cluster::catch_up_all(&self).await })
    }

    fn catch_up(self: Arc<Self>) -> BoxFuture<'static, Result<u64, ApiError>> {
        Box::pin(async move { Cluster::catch_up(&self).await })
    }

    fn leadership(&self) -> watch::Receiver<bool> {
        self.lifecycle.election.leadership()
    }

    fn record_server_address(
        self: Arc<Self>,
        address: IpAddr,
        time_to_live: Duration,
    ) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>> {
        Box::pin(async move { Cluster::record_server_address(&self, address, time_to_live).await })
    }

    fn remove_server_address(self: Arc<Self>, address: IpAddr) -> BoxFuture<'static, Result<Vec<IpAddr>, ApiError>> {
        Box::pin(async move { Cluster::remove_server_address(&self, address).await })
    }

    fn sync_allocations(self: Arc<Self>, resource: Arc<Resource>) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move {
            match resource.strategy.allocation() {
                Some(hooks) => hooks.sync(&InternalClient(self)).await,
                None => Ok(()),
            }
        })
    }

    fn wait_for_reserved_writes(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.writes.reserved.wait().await })
    }

    fn create(self: Arc<Self>, resource: GroupResource, object: Value) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).create(&resource, object).await.map(drop) })
    }

    fn create_as(
        self: Arc<Self>,
        resource: GroupResource,
        field_manager: &'static str,
        object: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).create_as(&resource, field_manager, object).await.map(drop) })
    }

    fn delete_collection(
        self: Arc<Self>,
        resource: Arc<Resource>,
        namespace: String,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { delete_all(&self, &resource, &namespace).await })
    }

    fn delete(self: Arc<Self>, target: ObjectRef, request: DeleteRequest) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).delete_with(&target, &request).await })
    }

    fn update(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>> {
        Box::pin(async move {
            let ObjectRef { resource, namespace, name } = &target;
            let client = InternalClient(self);
            client.update_subresource(resource, subresource, (namespace, name), |object| compute(object)).await
        })
    }

    fn update_as(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        field_manager: &'static str,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move {
            let client = InternalClient(self);
            client.update_as(&target, subresource, field_manager, |object| compute(object)).await.map(drop)
        })
    }

    fn apply(
        self: Arc<Self>,
        target: ObjectRef,
        subresource: &'static str,
        field_manager: &'static str,
        configuration: Value,
    ) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { InternalClient(self).apply(&target, subresource, field_manager, &configuration).await })
    }
}

impl CrdHost for Cluster {
    fn is_built_in(&self, prefix: &str) -> bool {
        Cluster::is_built_in(self, prefix)
    }

    fn is_built_in_group(&self, group: &str) -> bool {
        Cluster::is_built_in_group(self, group)
    }

    fn publish(&self, groups: Vec<(Str, Vec<Arc<Resource>>)>) {
        Cluster::publish(self, groups);
    }

    fn open_watch_cache(
        self: Arc<Self>,
        prefix: Str,
        resource: Option<Arc<Resource>>,
    ) -> BoxFuture<'static, Result<(), CacheError>> {
        Box::pin(async move {
            let has_fields = resource.is_some_and(|resource| self.stores.indexers.set(&resource));
            match has_fields && self.stores.cache.watch_cache(&prefix).is_some() {
                true => self.stores.cache.reindex(&prefix).await,
                false => self.stores.cache.open(&prefix).await,
            }
        })
    }

    fn close_watch_cache(&self, prefix: &str) {
        self.stores.cache.close(prefix);
        self.stores.indexers.remove(prefix);
    }

    fn update_status_as_leader(
        self: Arc<Self>,
        target: ObjectRef,
        compute: UpdateFn,
    ) -> BoxFuture<'static, Result<Value, ApiError>> {
        Box::pin(async move {
            let ObjectRef { resource, namespace, name } = &target;
            let client = InternalClient(self);
            client.update_status_as_leader(resource, (namespace, name), |object| compute(object)).await
        })
    }

    fn delete_all_objects(self: Arc<Self>, resource: Arc<Resource>) -> BoxFuture<'static, Result<(), ApiError>> {
        Box::pin(async move { delete_kind(&self, &resource).await })
    }
}
