//! The versions of a CRD, served or not, and the conversion between them.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_registry::{Conversion, CrdSource, MultiVersion, WebhookClientConfig};
use pintle_value::{Str, Value, ValueKey};

use crate::lazy_schema::{self, LazySchema};
use crate::schema::to_types;

/// All versions of a CRD.
pub(crate) struct CrdVersions {
    versions: Vec<CrdVersion>,
    stored: Str,
    conversion: Conversion,
    since: u64,
}

/// One version of a CRD.
pub(crate) struct CrdVersion {
    /// The name as in `apiVersion`.
    name: Str,
    pub(crate) schema: Arc<LazySchema>,
    /// The index of the first version with the same schema.
    schema_index: usize,
    /// The subresources of the version.
    subresources: Vec<&'static str>,
    /// The types for server-side apply, built on first use ([`MultiVersion::types`]).
    pub(crate) types: pintle_schema::LazySchema,
}

impl CrdVersions {
    /// Reads the versions of a CRD.
    ///
    /// # Errors
    /// Returns an error if no version is the storage version.
    pub(crate) fn of(crd: &Value, source: &Arc<dyn CrdSource>) -> Result<Self, String> {
        let named = |version: &Value| Str::from(api_version(crd, version.str_at(&["name"])));
        let versions = crd.items_at(&["spec", "versions"]);
        let mut schemas = HashMap::new();
        let mut parsed = |(i, version)| {
            let version: &Value = version;
            let schema_index = *schemas.entry(version.at(&["schema"]).map(ValueKey)).or_insert(i);
            let schema = lazy_schema::schema(source, version.str_at(&["name"]));
            let types = {
                let schema = schema.clone();
                pintle_schema::LazySchema::from_fn(move || to_types(&schema))
            };
            let has = |name: &&str| version.at(&["subresources", name]).is_some();
            let subresources = ["status", "scale"].into_iter().filter(has).collect();
            CrdVersion { name: named(version), schema, schema_index, subresources, types }
        };
        let stored = versions.iter().find(|version| version.bool_at(&["storage"]));
        Ok(Self {
            stored: stored.map(named).ok_or("no storage version")?,
            versions: versions.iter().enumerate().map(&mut parsed).collect(),
            conversion: conversion(crd),
            since: crd.resource_version().parse().unwrap_or(0),
        })
    }

    /// Returns a version by its name in `apiVersion`.
    pub(crate) fn version(&self, name: &str) -> Option<&CrdVersion> {
        self.versions.iter().find(|version| version.name == name)
    }
}

impl MultiVersion for CrdVersions {
    fn storage_version(&self) -> &str {
        &self.stored
    }

    fn contains(&self, version: &str) -> bool {
        self.version(version).is_some()
    }

    fn conversion(&self) -> &Conversion {
        &self.conversion
    }

    fn types(&self, version: &str) -> Option<&pintle_schema::Schema> {
        self.version(version).map(|version| &*version.types)
    }

    fn identical_versions(&self, version: &str) -> Vec<&str> {
        let Some(schema_index) = self.version(version).map(|version| version.schema_index) else { return Vec::new() };
        let others = self.versions.iter().filter(|other| other.schema_index == schema_index && other.name != version);
        match self.conversion {
            Conversion::None => others.map(|other| other.name.as_str()).collect(),
            Conversion::Webhook { .. } => Vec::new(),
        }
    }

    fn versions_with(&self, subresource: &str) -> Vec<&str> {
        let has = |version: &&CrdVersion| subresource.is_empty() || version.subresources.contains(&subresource);
        self.versions.iter().filter(has).map(|version| version.name.as_str()).collect()
    }

    fn crd_revision(&self) -> u64 {
        self.since
    }

    fn lacks_default(&self, object: &Value) -> bool {
        self.version(object.api_version()).is_some_and(|version| version.schema.lacks_default(object))
    }

    fn prune_and_default_stored(&self, object: &mut Value) {
        let Some(CrdVersion { schema, .. }) = self.version(object.api_version()) else { return };
        schema.repair(object);
        if object.generation() == 0 {
            // Very old objects have no generation.
            object.set_at(&["metadata", "generation"], 1);
        }
        schema.default(object);
    }

    fn prune_converted(&self, object: &mut Value) -> Result<(), String> {
        let Some(CrdVersion { schema, .. }) = self.version(object.api_version()) else { return Ok(()) };
        schema.conform(object).map(drop).map_err(|error| error.to_string())
    }
}

/// Formats a version of a CRD as in `apiVersion`.
pub(crate) fn api_version(crd: &Value, version: &str) -> String {
    format!("{}/{version}", crd.str_at(&["spec", "group"]))
}

fn conversion(crd: &Value) -> Conversion {
    let spec = &crd["spec"]["conversion"];
    if spec.str_at(&["strategy"]) != "Webhook" {
        return Conversion::None;
    }
    let Some(webhook) = WebhookClientConfig::parse(&spec["webhook"]["clientConfig"]) else { return Conversion::None };
    let reviews = spec.items_at(&["webhook", "conversionReviewVersions"]).iter().filter_map(Value::as_str);
    Conversion::Webhook { webhook, review_versions: reviews.map(Str::from).collect(), crd: crd.name().into() }
}
