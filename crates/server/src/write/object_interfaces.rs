//! Converts, decodes and encodes objects for admission plugins (upstream: the parts of `RequestScope` that
//! `admission.ObjectInterfaces` names).

use std::sync::Arc;

use pintle_admission::objects::{Decoding, ObjectInterfaces};
use pintle_catalog::Catalog;
use pintle_registry::{ApiError, BoxFuture, GroupVersion, GroupVersionKind, MultiVersion, Registry, Resource};
use pintle_value::Value;

use super::internal_client::InternalClient;
use crate::conversion;
use crate::conversion::{from_hub, to_hub};
use crate::objects::decode::{ExpectedKind, convert_strategic_patch, decode_patched};
use crate::objects::encode::{Shape, write_json};
use crate::objects::model;

/// The versions of a custom resource. `None` if the kind is the kind of a subresource.
fn versions_of<'r>(resource: &'r Resource, kind: &GroupVersionKind) -> Option<&'r dyn MultiVersion> {
    resource.versions.as_deref().filter(|_| kind.kind == resource.kind && kind.group == resource.group)
}

/// Decodes a tree. As in upstream, a tree of a built-in kind may lack its kind and apiVersion.
fn decode(
    catalog: &Catalog,
    mut tree: Value,
    expected: &ExpectedKind<'_>,
    decoding: Decoding,
) -> Result<Value, String> {
    let is_typed = !expected.model.requires_type();
    if is_typed && decoding == Decoding::Unstructured {
        let converted = convert_strategic_patch(tree, None, expected);
        return converted.map(|(object, _)| object).map_err(|why| {
            let ExpectedKind { group_version: GroupVersion { group, version }, kind, .. } = expected;
            format!("unable to convert unstructured object to {group}/{version}, Kind={kind}: {why}")
        });
    }
    if is_typed {
        if tree.kind().is_empty() {
            tree.set("kind", expected.kind);
        }
        if tree.api_version().is_empty() {
            tree.set("apiVersion", expected.group_version.to_string());
        }
    }
    // The message contains the tree's text only if the tree has no kind.
    let text = if tree.kind().is_empty() { pintle_value::print::json(&tree) } else { String::new() };
    let before = tree.clone();
    let decoded = decode_patched(catalog, tree, None, || before, expected);
    let (object, unknown) = decoded.map_err(|error| error.message(|| text))?;
    match is_typed && decoding == Decoding::Strict && !unknown.is_empty() {
        true => Err(format!("strict decoding error: {}", unknown.join(", "))),
        false => Ok(object),
    }
}

/// Converts, decodes and encodes objects of the kinds of a registry, without a cluster.
pub(crate) struct PluginObjects<'a> {
    pub(crate) catalog: &'a Arc<Catalog>,
    pub(crate) registry: &'a Registry,
}

impl PluginObjects<'_> {
    /// Converts an object of a built-in kind to another version.
    ///
    /// # Errors
    /// The kinds have no version in common.
    pub(crate) fn convert(&self, object: Value, kind: &GroupVersionKind) -> Result<Value, ApiError> {
        let Self { registry, .. } = self;
        let GroupVersion { group, version } = GroupVersion::parse(object.api_version()).unwrap_or_default();
        let from = GroupVersionKind::new(group, version, object.kind());
        let convertible = match (registry.kind(&from), registry.kind(kind)) {
            (Some(from), Some(to)) => {
                from.collection().and_then(|collection| registry.hub(collection)).map(|hub| (from, hub, to))
            }
            _ => None,
        };
        let Some((from, hub, to)) = convertible else {
            return Err(ApiError::Unclassified(format!("cannot convert {from} to {kind}")));
        };
        let mut converted = from_hub(to, to_hub(from, hub, object));
        model(to).normalise(&to.schema, None, &mut converted, None);
        Ok(converted)
    }

    /// See [`ObjectInterfaces::decode`].
    ///
    /// # Errors
    /// The tree does not match the kind.
    pub(crate) fn decode(
        &self,
        resource: &Arc<Resource>,
        mut tree: Value,
        kind: &GroupVersionKind,
        decoding: Decoding,
    ) -> Result<Value, String> {
        if let Some(resource) = self.registry.kind(kind) {
            return decode(self.catalog, tree, &ExpectedKind::of(resource), decoding);
        }
        if let Some(versions) = versions_of(resource, kind) {
            // This is a version that is not served.
            versions.prune_converted(&mut tree)?;
            return Ok(tree);
        }
        let schema = self.catalog.kind_schema(&kind.group, &kind.version, &kind.kind);
        let schema = schema.ok_or_else(|| format!("no kind \"{}\" is registered", kind.kind))?;
        let expected = ExpectedKind::of_type(kind.group_version(), &kind.kind, &schema);
        decode(self.catalog, tree, &expected, decoding)
    }

    /// See [`ObjectInterfaces::set_defaults`].
    pub(crate) fn set_defaults(&self, object: &mut Value, kind: &GroupVersionKind) {
        if let Some(resource) = self.registry.kind(kind) {
            ExpectedKind::of(resource).set_defaults(object);
        }
    }

    /// See [`ObjectInterfaces::encode`].
    pub(crate) fn encode(&self, resource: &Arc<Resource>, object: &Value, kind: &GroupVersionKind, out: &mut Vec<u8>) {
        let is_requested =
            *kind.kind == *resource.kind && *kind.version == *resource.version && *kind.group == *resource.group;
        if is_requested {
            return write_json(object, Shape::of(resource), out);
        }
        if let Some(resource) = self.registry.kind(kind) {
            return write_json(object, Shape::of(resource), out);
        }
        if kind.group == "meta.k8s.io" {
            return write_json(object, Shape::named(self.catalog, &format!("meta/v1.{}", kind.kind)), out);
        }
        match self.catalog.kind_schema(&kind.group, &kind.version, &kind.kind) {
            Some(schema) => write_json(object, Shape::Typed(&schema.types, schema.root), out),
            None => write_json(object, Shape::Untyped, out),
        }
    }
}

impl InternalClient {
    fn plugin_objects<T>(&self, call: impl FnOnce(PluginObjects<'_>) -> T) -> T {
        call(PluginObjects { catalog: &self.0.served.catalog, registry: &self.0.registry() })
    }
}

impl ObjectInterfaces for InternalClient {
    fn convert<'a>(
        &'a self,
        resource: &'a Arc<Resource>,
        object: Value,
        kind: &'a GroupVersionKind,
    ) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            if let Some(versions) = versions_of(resource, kind) {
                let version = kind.group_version().to_string();
                let converted = conversion::convert(&self.0, versions, vec![object], &version).await?;
                return Ok(converted.into_iter().next().unwrap_or_default());
            }
            self.plugin_objects(|objects| objects.convert(object, kind))
        })
    }

    fn decode(
        &self,
        resource: &Arc<Resource>,
        tree: Value,
        kind: &GroupVersionKind,
        decoding: Decoding,
    ) -> Result<Value, String> {
        self.plugin_objects(|objects| objects.decode(resource, tree, kind, decoding))
    }

    fn set_defaults(&self, object: &mut Value, kind: &GroupVersionKind) {
        self.plugin_objects(|objects| objects.set_defaults(object, kind));
    }

    fn encode(&self, resource: &Arc<Resource>, object: &Value, kind: &GroupVersionKind, out: &mut Vec<u8>) {
        self.plugin_objects(|objects| objects.encode(resource, object, kind, out));
    }
}
