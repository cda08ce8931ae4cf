//! The `scale` subresource: a view of an object that is read and written as an `autoscaling/v1` Scale (upstream: the
//! `ScaleREST` of each kind). The manager that sets the replicas of a scale owns them in the object.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use pintle_apply::managed_fields::{from_scale, to_scale};
use pintle_cache::Object;
use pintle_fieldpath::path::PathElement;
use pintle_kinds::scale::{
    ScaleError, apply_scale, check_replicas_set, check_scale_uid, scale_after_update, scale_for_update, scale_of,
    scale_table,
};
use pintle_registry::{
    ApiError, GroupVersion, GroupVersionKind, Registry, Resource, ScalePaths, SubresourceRole, Verb, missing_fields,
};
use pintle_value::Value;
use pintle_value::metadata::MANAGED_FIELDS;

use super::managed_fields::ManagedFieldsUpdater;
use super::metadata;
use super::patch::{PatchRequest, check_patch_type};
use super::update::{GuaranteedUpdate, SubresourceView, ValidationRules};
use crate::context::RequestContext;
use crate::conversion::{VersionView, from_hub};
use crate::http::Response;
use crate::objects::decode::{ExpectedKind, decode};
use crate::objects::encode::Shape;
use crate::objects::{Routing, model};
use crate::read::{find, wait_until_fresh};
use crate::represent::{ResponseFormat, respond_shaped};
use crate::request::negotiate::{self, EndpointRestrictions, MediaTypeOptions, Transform};
use crate::request::query::{WriteOptions, WriteVerb};

/// A request for the scale of one object.
pub(crate) struct ScaleRequest<'a> {
    pub(crate) request: &'a RequestContext,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) paths: &'a ScalePaths,
    /// The kind of a scale.
    pub(crate) expected: ExpectedKind<'a>,
}

impl ScaleRequest<'_> {
    /// Handles the request.
    ///
    /// # Errors
    /// Returns an error if the object does not exist or the request is rejected.
    pub(crate) async fn respond(&self, verb: Verb) -> Result<Response, ApiError> {
        if verb == Verb::Patch {
            check_patch_type(self.request, self.resource)?;
        }
        // Upstream negotiates the format of the response before it reads the object.
        self.negotiate()?;
        match verb {
            Verb::Get => {
                wait_until_fresh(self.request, self.resource).await?;
                self.respond_with_scale(&find(self.request, self.resource)?, scale_of).await
            }
            Verb::Update => self.update().await,
            Verb::Patch => self.patch().await,
            _ => Err(ApiError::MethodNotAllowed),
        }
    }

    /// Negotiates the format of the response.
    fn negotiate(&self) -> Result<MediaTypeOptions, ApiError> {
        let has_router = model(self.resource).routing() == Routing::Routes;
        let endpoint = EndpointRestrictions { has_router, allows_transform: true, ..self.request.endpoint() };
        negotiate::output(&self.request.headers, &self.request.query, endpoint)
    }

    async fn update(&self) -> Result<Response, ApiError> {
        let Self { request, resource, expected, .. } = self;
        let body = request.body().await?;
        let options = WriteOptions::read(&request.query, WriteVerb::Update)?;
        let encoding = negotiate::input(&request.headers, request.endpoint())?;
        let mut sent = decode(request.decoding(), &body, encoding, expected, options.field_validation)?;
        request.audit_object(&sent, expected.shape());
        let update = GuaranteedUpdate::for_request(request, resource, &options);
        metadata::ensure_namespace(&mut sent, resource, &update.namespace)?;
        metadata::check_name(&sent, &update.name, &update.namespace)?;
        let managed_fields = ManagedFieldsUpdater::for_request(request, expected, &options);
        self.update_object(update, |live| {
            let mut scale = sent.clone();
            managed_fields.update(live, &mut scale);
            Ok(scale)
        })
        .await
    }

    async fn patch(&self) -> Result<Response, ApiError> {
        let Self { request, resource, expected, .. } = self;
        let patch_request = PatchRequest::read(request, resource).await?;
        let managed_fields = ManagedFieldsUpdater::for_request(request, expected, &patch_request.options);
        let update = patch_request.guaranteed_update(request, resource);
        let (name, namespace) = (update.name.clone(), update.namespace.clone());
        self.update_object(update, |live| {
            let mut scale = patch_request.apply(request, expected, &managed_fields, live)?;
            metadata::ensure_namespace(&mut scale, resource, &namespace)?;
            metadata::check_name(&scale, &name, &namespace)?;
            Ok(scale)
        })
        .await
    }

    /// Updates the object from an update of its scale, and responds with the new scale. `compute` returns the new scale
    /// for the current scale.
    async fn update_object(
        &self,
        update: GuaranteedUpdate<'_>,
        compute: impl Fn(&Value) -> Result<Value, ApiError>,
    ) -> Result<Response, ApiError> {
        let update = GuaranteedUpdate { rules: ValidationRules::Object, view: Some(self), ..update };
        self.respond_with_scale(&update.run(compute).await?, scale_after_update).await
    }

    /// The path of the replicas at a version of the resource ([`replicas_path`]).
    fn replicas_path_at(&self, version: &str) -> Option<Vec<PathElement>> {
        replicas_path(&self.request.cluster.registry(), self.resource, version)
    }

    /// The object with the replicas of a scale.
    fn with_replicas(&self, object: &Value, scale: &Value) -> Result<Value, ApiError> {
        if model(self.resource).checks_scale_uid() {
            check_scale_uid(object, scale, &self.resource.group_resource())?;
        }
        check_replicas_set(scale, self.paths)?;
        let mut object = object.clone();
        let errors = apply_scale(&mut object, scale, self.paths, missing_fields(self.request.cluster.gates()));
        if errors.is_empty() {
            return Ok(object);
        }
        let GroupVersion { group, version } = self.expected.group_version.clone();
        let kind = GroupVersionKind::new(group, version, self.expected.kind);
        Err(ApiError::Invalid { kind, name: scale.name().into(), errors })
    }

    /// Responds with the scale of a stored object.
    async fn respond_with_scale(
        &self,
        object: &Arc<Object>,
        scale_of: fn(&Value, &ScalePaths) -> Result<Value, ScaleError>,
    ) -> Result<Response, ApiError> {
        let cluster = &self.request.cluster;
        let object = VersionView::of(cluster, &cluster.hub(self.resource)).tree(object).await?;
        let scale = scale_of(&from_hub(self.resource, object), self.paths).map_err(scale_error)?;
        let media_type = self.negotiate()?;
        match media_type.transform {
            None => {
                let shape = Shape::Typed(&self.expected.schema.types, self.expected.schema.root);
                Ok(respond_shaped(self.request, media_type, StatusCode::OK, &scale, shape))
            }
            Some(Transform::PartialList(_)) => {
                let package = if self.paths.built_in { "autoscaling" } else { "v1" };
                Err(ApiError::NotAcceptable(format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{package}.Scale)"
                )))
            }
            Some(Transform::Partial(_) | Transform::Table(_)) => {
                let format = ResponseFormat::of_view(self.request, self.view(), media_type);
                Ok(format.respond(StatusCode::OK, format.encode_tree(scale)?))
            }
        }
    }

    /// The record of the resource with the types and the table of its scales.
    fn view(&self) -> Arc<Resource> {
        Arc::new(Resource {
            schema: self.expected.schema.clone().into(),
            table: scale_table(self.paths),
            built_in: true,
            ..(**self.resource).clone()
        })
    }
}

fn unclassified(error: impl fmt::Display) -> ApiError {
    ApiError::Unclassified(error.to_string())
}

impl SubresourceView for ScaleRequest<'_> {
    fn before_update(&self, object: &Value) -> Result<Value, ApiError> {
        let mut scale = scale_for_update(object, self.paths).map_err(scale_error)?;
        let path = |version: &str| self.replicas_path_at(version);
        let entries = to_scale(object.items_at(&MANAGED_FIELDS), &path).map_err(unclassified)?;
        if !entries.is_empty() {
            scale.set_at(&MANAGED_FIELDS, entries);
        }
        Ok(scale)
    }

    fn of_validated(&self, object: &Value) -> Result<Value, ApiError> {
        scale_after_update(object, self.paths).map_err(scale_error)
    }

    fn apply(&self, object: &Value, scale: &Value) -> Result<Value, ApiError> {
        let mut updated = self.with_replicas(object, scale)?;
        let version = self.resource.group_version().to_string();
        let path = |version: &str| self.replicas_path_at(version);
        let (entries, of_scale) = (object.items_at(&MANAGED_FIELDS), scale.items_at(&MANAGED_FIELDS));
        let entries = from_scale(entries, of_scale, &version, &path).map_err(unclassified)?;
        if entries.is_empty() {
            updated.remove_at(&MANAGED_FIELDS);
        } else {
            updated.set_at(&MANAGED_FIELDS, entries);
        }
        Ok(updated)
    }
}

fn scale_error(error: ScaleError) -> ApiError {
    match error {
        ScaleError::NoReplicas(_) => ApiError::Internal(error.to_string()),
        ScaleError::Malformed(text) => ApiError::BadRequest(text),
    }
}

/// The path of the replicas at a version of a resource. It is empty if that version has no scale, and `None` if the
/// version does not exist.
fn replicas_path(registry: &Registry, resource: &Resource, version: &str) -> Option<Vec<PathElement>> {
    let GroupVersion { group, version } = GroupVersion::parse(version)?;
    let resource = registry.resource(&group, &version, &resource.plural)?;
    let path = resource.subresource("scale").map(|scale| match &scale.role {
        SubresourceRole::Scale(paths) => paths.replicas.iter().map(|key| PathElement::field(key)).collect(),
        _ => Vec::new(),
    });
    Some(path.unwrap_or_default())
}
