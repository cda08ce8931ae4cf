//! The scale of an object: a view of it that is read and written as an `autoscaling/v1` Scale of its own (upstream: the
//! `ScaleREST` of each kind). Who sets the replicas through it owns them in the object.

use std::sync::Arc;

use http::StatusCode;
use pintle_apply::managed_fields::{from_scale, to_scale};
use pintle_apply::path::PathElement;
use pintle_cache::Object;
use pintle_kinds::scale::{ScaleError, apply_scale, check_scale_uid, scale_of};
use pintle_registry::{
    ApiError, GroupVersion, GroupVersionKind, Registry, Resource, ScalePaths, SubresourceRole, Verb,
};
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::patch::Prepared;
use super::subresource::answer;
use super::update::{GuaranteedUpdate, ValidationRules};
use crate::context::RequestContext;
use crate::conversion::VersionView;
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode};
use crate::read::find;
use crate::represent::from_hub;
use crate::request::negotiate;
use crate::request::query::{WriteOptions, Writing};

/// The scale of one object, and a request for it.
pub(crate) struct Scale<'a> {
    pub(crate) call: &'a RequestContext,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) paths: &'a ScalePaths,
    /// What a scale is.
    pub(crate) expected: ExpectedKind<'a>,
}

impl Scale<'_> {
    /// Answers a request.
    ///
    /// # Errors
    /// There is no such object, or what is asked for is refused.
    pub(crate) async fn respond(&self, verb: Verb) -> Result<Response, ApiError> {
        match verb {
            Verb::Get => {
                self.call.cluster.catch_up().await?;
                self.show(&find(self.call, self.resource)?).await
            }
            Verb::Update => self.replace().await,
            Verb::Patch => self.patch().await,
            _ => Err(ApiError::MethodNotAllowed),
        }
    }

    async fn replace(&self) -> Result<Response, ApiError> {
        let Self { call, resource, expected, .. } = self;
        let body = call.body().await?;
        let options = WriteOptions::read(&call.query, Writing::Update)?;
        let encoding = negotiate::input(&call.headers, call.endpoint())?;
        let mut wanted = decode(call, &body, encoding, expected, options.field_validation)?;
        let change = GuaranteedUpdate::of(call, resource, &options);
        metadata::ensure_namespace(&mut wanted, resource, &change.namespace)?;
        metadata::ensure_name(&wanted, &change.name, &change.namespace)?;
        let ownership = ManagedFieldsUpdater::of(call, expected, &options);
        self.change(change, |scale| {
            let mut wanted = wanted.clone();
            ownership.update(scale, &mut wanted);
            Ok(wanted)
        })
        .await
    }

    async fn patch(&self) -> Result<Response, ApiError> {
        let Self { call, resource, expected, .. } = self;
        let prepared = Prepared::read(call, resource).await?;
        let ownership = ManagedFieldsUpdater::of(call, expected, &prepared.options);
        let change = prepared.change(call, resource);
        let (name, namespace) = (change.name.clone(), change.namespace.clone());
        self.change(change, |scale| {
            let mut wanted = prepared.apply(call, expected, &ownership, scale)?;
            metadata::ensure_namespace(&mut wanted, resource, &namespace)?;
            metadata::ensure_name(&wanted, &name, &namespace)?;
            Ok(wanted)
        })
        .await
    }

    /// Changes the object as a change of its scale says, and answers with the scale.
    async fn change(
        &self,
        change: GuaranteedUpdate<'_>,
        wanted: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Response, ApiError> {
        let registry = self.call.cluster.registry();
        let change = GuaranteedUpdate { rules: ValidationRules::Object, ..change };
        let updated = change.run(|object| {
            let mut scale = self.of(object)?;
            let paths = |version: &str| replicas_path(&registry, self.resource, version);
            let owners = object.items_at(&MANAGED_FIELDS);
            let unread = |error| ApiError::Unclassified(format!("{error}"));
            scale.set_at(&MANAGED_FIELDS, to_scale(owners, &paths).map_err(unread)?);
            let wanted = wanted(&scale)?;
            let mut changed = self.written(object, &wanted)?;
            let version = self.resource.group_version().to_string();
            let owners = from_scale(owners, wanted.items_at(&MANAGED_FIELDS), &version, &paths).map_err(unread)?;
            changed.set_at(&MANAGED_FIELDS, owners);
            Ok(changed)
        });
        self.show(&updated.await?).await
    }

    /// The object with the replicas that a scale asks for.
    fn written(&self, object: &Value, wanted: &Value) -> Result<Value, ApiError> {
        check_scale_uid(object, wanted, &self.resource.group_resource())?;
        let mut object = object.clone();
        let errors = apply_scale(&mut object, wanted, self.paths);
        if errors.is_empty() {
            return Ok(object);
        }
        let GroupVersion { group, version } = self.expected.group_version.clone();
        let kind = GroupVersionKind::new(group, version, self.expected.kind);
        Err(ApiError::Invalid { kind, name: wanted.name().into(), errors })
    }

    /// Answers with the scale of a stored object.
    async fn show(&self, object: &Arc<Object>) -> Result<Response, ApiError> {
        let cluster = &self.call.cluster;
        let object = VersionView::of(cluster, &cluster.hub(self.resource)).tree(object).await?;
        let scale = self.of(&from_hub(self.resource, object))?;
        answer(self.call, StatusCode::OK, &scale, self.expected.schema)
    }

    fn of(&self, object: &Value) -> Result<Value, ApiError> {
        scale_of(object, self.paths).map_err(|error| match error {
            ScaleError::NoReplicas(_) => ApiError::Internal(error.to_string()),
            ScaleError::Malformed(text) => ApiError::BadRequest(text),
        })
    }
}

/// The path of the replicas at a version of a resource; empty if that has no scale, `None` if there is no such version.
fn replicas_path(registry: &Registry, resource: &Resource, version: &str) -> Option<Vec<PathElement>> {
    let GroupVersion { group, version } = GroupVersion::parse(version)?;
    let of_version = registry.resource(&group, &version, &resource.plural)?;
    let path = of_version.subresource("scale").map(|scale| match &scale.role {
        SubresourceRole::Scale(paths) => paths.replicas.iter().map(|key| PathElement::field(key)).collect(),
        _ => Vec::new(),
    });
    Some(path.unwrap_or_default())
}
