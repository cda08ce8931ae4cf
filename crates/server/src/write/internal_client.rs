//! The server's own access to objects, for controllers, admission plugins and allocation hooks (upstream: the loopback
//! client). It needs no authorization; strategies, validation and admission apply as for any client. Its writes are not
//! limited by the budget of the request that causes them.

use std::sync::Arc;

use pintle_budget::unlimited;
use pintle_controllers::{DeleteRequest, ObjectRef};
use pintle_registry::{
    ApiError, BoxFuture, EquivalentResource, GroupResource, GroupVersionKind, ObjectClient, Resource, StoredObject,
    StoredObjects,
};
use pintle_value::Value;

use super::create::CreateOperation;
use super::delete::delete_internally;
use super::internal_audit::{InternalAudit, InternalWrite};
use super::managed_fields::ManagedFieldsUpdater;
use super::update::{GuaranteedUpdate, UpdateMode, ValidationRules};
use super::writer::InternalWriter;
use crate::cluster::{Cluster, RANGES_PREFIX};
use crate::conversion::VersionView;
use crate::objects::decode::{ExpectedKind, set_defaults};
use crate::request::query::{DeleteOptions, Preconditions};

/// Reads and writes objects of a cluster at their storage version, as the user `system:apiserver`.
pub(crate) struct InternalClient(pub(crate) Arc<Cluster>);

impl InternalClient {
    /// Updates an object through a subresource, or the object itself if `subresource` is empty. `compute` returns the
    /// new object for the stored object.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or the update is rejected.
    pub(crate) async fn update_subresource(
        &self,
        resource: &GroupResource,
        subresource: &str,
        target: (&str, &str),
        compute: impl Fn(&Value) -> Value,
    ) -> Result<Value, ApiError> {
        let hub = self.0.hub_of(resource)?;
        let managed_fields = ManagedFieldsUpdater::internal(&self.0, &hub, subresource);
        let compute = Self::update_with(&hub, managed_fields, compute);
        self.run_update(InternalWrite::update(&hub, subresource, target), UpdateMode::Replace, compute).await
    }

    /// Updates an object like [`update_subresource`](Self::update_subresource), as a field manager. `compute` returns
    /// the new object for the stored object.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or the update is rejected.
    pub(crate) async fn update_as(
        &self,
        target: &ObjectRef,
        subresource: &str,
        manager: &str,
        compute: impl Fn(&Value) -> Value,
    ) -> Result<Value, ApiError> {
        let hub = self.0.hub_of(&target.resource)?;
        let managed_fields = ManagedFieldsUpdater::for_controller(&self.0, &hub, subresource, manager);
        let compute = Self::update_with(&hub, managed_fields, compute);
        let write = InternalWrite::update(&hub, subresource, (&target.namespace, &target.name));
        self.run_update(write, UpdateMode::Replace, compute).await
    }

    /// Creates an object as a field manager. If its kind and apiVersion are missing, they are set.
    ///
    /// # Errors
    /// Returns an error if the object exists or the create is rejected.
    pub(crate) async fn create_as(
        &self,
        resource: &GroupResource,
        manager: &str,
        object: Value,
    ) -> Result<Value, ApiError> {
        let hub = self.0.hub_of(resource)?;
        self.run_create(&hub, &ManagedFieldsUpdater::for_controller(&self.0, &hub, "", manager), object).await
    }

    /// Updates the status of an object like [`update_subresource`](Self::update_subresource), but stores it only while
    /// this server runs the controllers.
    ///
    /// # Errors
    /// Returns an error if another server runs the controllers, the object does not exist, or the update is rejected.
    pub(crate) async fn update_status_as_leader(
        &self,
        resource: &GroupResource,
        target: (&str, &str),
        compute: impl Fn(&Value) -> Value,
    ) -> Result<Value, ApiError> {
        let hub = self.0.hub_of(resource)?;
        let managed_fields = ManagedFieldsUpdater::internal(&self.0, &hub, "status");
        let compute = Self::update_with(&hub, managed_fields, compute);
        self.run_update(InternalWrite::update(&hub, "status", target), UpdateMode::AsLeader, compute).await
    }

    /// Computes the new object, completes it and sets its managed fields.
    fn update_with<'a>(
        hub: &'a Arc<Resource>,
        managed_fields: ManagedFieldsUpdater<'a>,
        compute: impl Fn(&Value) -> Value + 'a,
    ) -> impl Fn(&Value) -> Result<Value, ApiError> + 'a {
        move |old| {
            let mut object = Self::complete(hub, compute(old))?;
            managed_fields.update(old, &mut object);
            Ok(object)
        }
    }

    /// Applies a configuration to an existing object, or to its subresource if `subresource` is not empty, with force
    /// (server-side apply).
    ///
    /// # Errors
    /// Returns an error if the object does not exist or the apply is rejected.
    pub(crate) async fn apply(
        &self,
        target: &ObjectRef,
        subresource: &str,
        manager: &str,
        configuration: &Value,
    ) -> Result<(), ApiError> {
        let hub = self.0.hub_of(&target.resource)?;
        let managed_fields = ManagedFieldsUpdater::for_controller(&self.0, &hub, subresource, manager);
        let compute = |old: &Value| managed_fields.apply(old, configuration, true);
        let write = InternalWrite::update(&hub, subresource, (&target.namespace, &target.name));
        let write = InternalWrite { verb: "patch", body: Some(configuration), ..write };
        self.run_update(write, UpdateMode::Replace, compute).await.map(drop)
    }

    /// Deletes an object for a controller.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or fails the preconditions.
    pub(crate) async fn delete_with(&self, target: &ObjectRef, request: &DeleteRequest) -> Result<(), ApiError> {
        let hub = self.0.hub_of(&target.resource)?;
        let preconditions =
            Preconditions { uid: Some(request.uid.to_string()), version: Some(request.revision.to_string()) };
        let propagation = Some(request.propagation);
        let options = DeleteOptions { propagation, preconditions, ..DeleteOptions::default() };
        unlimited(delete_internally(&self.0, &hub, (&target.namespace, &target.name), &options)).await
    }

    async fn run_create(
        &self,
        hub: &Arc<Resource>,
        managed_fields: &ManagedFieldsUpdater<'_>,
        object: Value,
    ) -> Result<Value, ApiError> {
        let writer = InternalWriter::default();
        let operation = CreateOperation { writer: writer.for_cluster(&self.0), resource: hub };
        let namespace = object.namespace().to_owned();
        let write = InternalWrite { verb: "create", ..InternalWrite::update(hub, "", (&namespace, "")) };
        let audit = InternalAudit::begin(&self.0, &writer, write).await?;
        let created = unlimited(async {
            let mut object = Self::complete(hub, object)?;
            managed_fields.create(&mut object);
            audit.set_object(&object);
            let created = operation.run(object).await?;
            VersionView::of(&self.0, hub).tree(&created).await
        })
        .await;
        audit.end(created.as_ref().map(Some)).await;
        created
    }

    async fn run_update(
        &self,
        write: InternalWrite<'_>,
        mode: UpdateMode,
        compute: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let writer = InternalWriter::default();
        let audit = InternalAudit::begin(&self.0, &writer, write).await?;
        let InternalWrite { resource: hub, subresource, namespace, name, .. } = write;
        let rules = if subresource.is_empty() { ValidationRules::Object } else { ValidationRules::Subresource };
        let update = GuaranteedUpdate {
            subresource,
            rules,
            mode,
            ..GuaranteedUpdate::new(writer.for_cluster(&self.0), hub, (namespace, name))
        };
        let compute = |old: &Value| {
            let object = compute(old)?;
            audit.set_object(&object);
            Ok(object)
        };
        let updated = unlimited(async {
            let updated = update.run(compute).await?;
            VersionView::of(&self.0, hub).tree(&updated).await
        })
        .await;
        audit.end(updated.as_ref().map(Some)).await;
        updated
    }

    /// Sets the type and defaults of an object and normalises it, like the object of a request. Unset fields are
    /// omitted or null, as their type requires.
    fn complete(resource: &Arc<Resource>, mut object: Value) -> Result<Value, ApiError> {
        let expected = ExpectedKind::of(resource);
        expected.set_type(&mut object);
        let problems = expected.normalise(&mut object, None);
        if let Some(error) = problems.errors.into_iter().next().filter(|_| resource.built_in) {
            return Err(ApiError::Internal(error));
        }
        set_defaults(resource, &mut object);
        Ok(object)
    }
}

impl ObjectClient for InternalClient {
    fn read(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
        self.0.read_object(resource, namespace, name)
    }

    fn read_all(&self, resource: &GroupResource, namespace: &str) -> Result<StoredObjects, ApiError> {
        self.0.read_objects(resource, namespace)
    }

    fn last_change(&self, resource: &GroupResource) -> Result<u64, ApiError> {
        self.0.last_change(resource)
    }

    fn range_allocation<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<(Value, u64)>, ApiError>> {
        Box::pin(self.0.read_record(RANGES_PREFIX, name))
    }

    fn set_range_allocation<'a>(
        &'a self,
        name: &'a str,
        record: Value,
        revision: Option<u64>,
    ) -> BoxFuture<'a, Result<Option<u64>, ApiError>> {
        Box::pin(unlimited(async move { self.0.write_record(RANGES_PREFIX, name, &record, revision).await }))
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async { self.0.catch_up().await.map(drop) })
    }

    fn is_crd_terminating(&self, resource: &Resource) -> Result<bool, ApiError> {
        self.0.is_crd_terminating(resource)
    }

    fn resource_of_kind(&self, kind: &GroupVersionKind) -> Option<Arc<Resource>> {
        self.0.registry().kind(kind).cloned()
    }

    fn serves(&self, group: &str, version: &str) -> bool {
        self.0.registry().serves(group, version)
    }

    fn equivalent_resources(&self, resource: &Resource, subresource: &str) -> Vec<EquivalentResource> {
        self.0.registry().equivalent_resources(resource, subresource)
    }

    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let hub = self.0.hub_of(resource)?;
            self.run_create(&hub, &ManagedFieldsUpdater::internal(&self.0, &hub, ""), object).await
        })
    }

    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(unlimited(async move {
            let hub = self.0.hub_of(resource)?;
            let object = Self::complete(&hub, object)?;
            let managed_fields = ManagedFieldsUpdater::internal(&self.0, &hub, "");
            let compute = |old: &Value| {
                let mut object = object.clone();
                managed_fields.update(old, &mut object);
                Ok(object)
            };
            let write = InternalWrite::update(&hub, "", (object.namespace(), object.name()));
            self.run_update(write, UpdateMode::Replace, compute).await
        }))
    }

    fn update_status<'a>(
        &'a self,
        resource: &'a GroupResource,
        object: Value,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let target = (object.namespace(), object.name());
            self.update_subresource(resource, "status", target, |_| object.clone()).await
        })
    }

    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(unlimited(async move {
            let hub = self.0.hub_of(resource)?;
            delete_internally(&self.0, &hub, (namespace, name), &DeleteOptions::default()).await
        }))
    }
}
