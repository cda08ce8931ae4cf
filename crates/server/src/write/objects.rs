//! Access to a cluster's objects for the server's own use: hooks, admission, controllers.

use std::sync::Arc;

use pintle_auth::UserInfo;
use pintle_cache::KeyRange;
use pintle_controllers::SYSTEM_NAMESPACES;
use pintle_registry::{ApiError, BoxFuture, GroupResource, ObjectClient, Resource};
use pintle_value::Value;

use super::create::CreateOperation;
use super::decode::default;
use super::delete::delete_ours;
use super::ownership::ManagedFieldsUpdater;
use super::update::{GuaranteedUpdate, Judge};
use crate::cluster::{Cluster, object_key, tree};
use crate::query::DeleteOptions;
use crate::versions::View;
use crate::warnings::Warnings;

/// Objects of a cluster, read and written as the server itself.
pub(crate) struct InternalClient(pub(crate) Arc<Cluster>);

pub(super) fn api_server_user() -> UserInfo {
    UserInfo { name: "system:apiserver".into(), groups: vec!["system:masters".into()], ..UserInfo::default() }
}

impl InternalClient {
    fn prepared(resource: &Arc<Resource>, mut object: Value) -> Value {
        object.set("kind", resource.kind.as_str());
        object.set("apiVersion", resource.group_version().to_string());
        let schema = &resource.schema;
        pintle_schema::normalise(&schema.types, schema.root, &mut object, &mut pintle_schema::Problems::default());
        default(resource, &mut object);
        object
    }
}

impl InternalClient {
    /// Changes an object through one of its subresources, as the server itself. `compute` makes the new object of the
    /// one there is.
    ///
    /// # Errors
    /// The object is not there, or the change is refused.
    pub(crate) async fn update_subresource(
        &self,
        resource: &GroupResource,
        subresource: &str,
        (namespace, name): (&str, &str),
        compute: impl Fn(&Value) -> Value,
    ) -> Result<Value, ApiError> {
        let hub = self.0.stored(resource)?;
        let ownership = ManagedFieldsUpdater::own(&self.0, &hub, subresource);
        self.change(&hub, subresource, (namespace, name), |old| {
            let mut object = compute(old);
            ownership.update(old, &mut object);
            object
        })
        .await
    }

    /// Takes a finalizer off an object. With the last one a terminating object goes.
    ///
    /// # Errors
    /// The object is not there.
    pub(crate) async fn remove_finalizer(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
        finalizer: &str,
    ) -> Result<(), ApiError> {
        let hub = self.0.stored(resource)?;
        self.change(&hub, "", (namespace, name), |old| {
            let mut object = old.clone();
            let left = old.items_at(&["metadata", "finalizers"]).iter().filter(|f| f.as_str() != Some(finalizer));
            object.set_at(&["metadata", "finalizers"], left.cloned().collect::<Vec<_>>());
            object
        })
        .await?;
        Ok(())
    }

    async fn change(
        &self,
        hub: &Arc<Resource>,
        subresource: &str,
        (namespace, name): (&str, &str),
        compute: impl Fn(&Value) -> Value,
    ) -> Result<Value, ApiError> {
        let (user, warnings) = (api_server_user(), Warnings::default());
        let change = GuaranteedUpdate {
            cluster: &self.0,
            resource: hub,
            user: &user,
            context: self.0.own_context(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource,
            judge: if subresource.is_empty() { Judge::Object } else { Judge::Subresource },
            uid_is_precondition: true,
            warnings: &warnings,
            conversions: Arc::default(),
            as_stored: false,
        };
        let updated = change.run(|old| Ok(compute(old))).await?;
        View::of(&self.0, hub).tree(&updated.object).await
    }
}

impl ObjectClient for InternalClient {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let hub = self.0.stored(resource)?;
        let object = self.0.watch_cache(&hub)?.read(&object_key(namespace, name));
        let object = object.map_err(|corrupt| self.0.unreadable(&hub, &corrupt))?;
        object.map(|object| tree(&object)).transpose()
    }

    fn list(&self, resource: &GroupResource, namespace: &str) -> Result<Vec<Value>, ApiError> {
        let hub = self.0.stored(resource)?;
        let watch_cache = self.0.watch_cache(&hub)?;
        let range = if namespace.is_empty() { KeyRange::All } else { KeyRange::Namespace(namespace.into()) };
        self.0.check_readable(&hub, &watch_cache, &range, None, (None, None))?;
        watch_cache.objects(range).map(|object| tree(&object)).collect()
    }

    fn create<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let hub = self.0.stored(resource)?;
            let user = api_server_user();
            let creation = CreateOperation {
                cluster: &self.0,
                resource: &hub,
                user: &user,
                context: self.0.own_context(),
                warnings: &Warnings::default(),
            };
            let mut object = Self::prepared(&hub, object);
            ManagedFieldsUpdater::own(&self.0, &hub, "").create(&mut object);
            let created = creation.run(object).await?;
            View::of(&self.0, &hub).tree(&created).await
        })
    }

    fn update<'a>(&'a self, resource: &'a GroupResource, object: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let hub = self.0.stored(resource)?;
            let object = Self::prepared(&hub, object);
            let ownership = ManagedFieldsUpdater::own(&self.0, &hub, "");
            let made = |old: &Value| {
                let mut object = object.clone();
                ownership.update(old, &mut object);
                object
            };
            self.change(&hub, "", (object.namespace(), object.name()), made).await
        })
    }

    fn delete<'a>(
        &'a self,
        resource: &'a GroupResource,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            let hub = self.0.stored(resource)?;
            delete_ours(&self.0, &hub, (namespace, name), &DeleteOptions::default()).await
        })
    }
}

impl Cluster {
    /// Makes the objects that every cluster has, where they are not there.
    pub(crate) async fn bootstrap(self: &Arc<Self>) -> Result<(), ApiError> {
        let access = InternalClient(self.clone());
        let namespaces = GroupResource::new("", "namespaces");
        let named = |name: &str| pintle_value::object! { "metadata": pintle_value::object! { "name": name } };
        let mut wanted: Vec<(GroupResource, Value)> =
            SYSTEM_NAMESPACES.iter().map(|name| (namespaces.clone(), named(name))).collect();
        wanted.extend(pintle_kinds::bootstrap_objects(self.now()));
        wanted.extend(pintle_kinds::system_priority_classes());

        // All at once, so that they share a commit.
        let mut creations = tokio::task::JoinSet::new();
        for (resource, object) in wanted {
            // What is there but cannot be read is for someone to look at, who needs a server for that.
            if !matches!(access.get(&resource, object.namespace(), object.name()), Ok(None)) {
                continue;
            }
            let access = InternalClient(self.clone());
            creations.spawn(async move { access.create(&resource, object).await });
        }
        while let Some(created) = creations.join_next().await {
            match created {
                Ok(Ok(_) | Err(ApiError::AlreadyExists { .. })) => {}
                Ok(Err(error)) => return Err(error),
                Err(error) => return Err(ApiError::Internal(error.to_string())),
            }
        }
        Ok(())
    }
}
