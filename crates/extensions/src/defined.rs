//! The versions that a definition has, served or not, as they stand to each other.

use std::sync::Arc;

use pintle_registry::{Conversion, DefinitionSource, MultiVersion, WebhookClientConfig};
use pintle_value::{Str, Value};

use crate::lazy::{self, LazySchema};
use crate::schema::to_types;

/// All versions of a definition.
pub(crate) struct Defined {
    versions: Vec<Version>,
    stored: Str,
    conversion: Conversion,
    since: u64,
}

/// A version of a definition.
pub(crate) struct Version {
    /// As `apiVersion` names it.
    name: Str,
    pub(crate) schema: Arc<LazySchema>,
    /// The place of the first version that has this schema.
    shape: usize,
    /// What [`MultiVersion::types`] gives, once somebody asks.
    pub(crate) types: pintle_schema::LazySchema,
}

impl Defined {
    /// The versions of a definition.
    ///
    /// # Errors
    /// There is none to store objects at.
    pub(crate) fn of(definition: &Value, source: &Arc<dyn DefinitionSource>) -> Result<Self, String> {
        let named = |version: &Value| Str::from(api_version(definition, version.str_at(&["name"])));
        let versions = definition.items_at(&["spec", "versions"]);
        let parsed = |version: &Value| {
            let same = |other: &Value| other.at(&["schema"]) == version.at(&["schema"]);
            let shape = versions.iter().position(same).unwrap_or_default();
            let schema = lazy::schema(source, version.str_at(&["name"]));
            let types = {
                let schema = schema.clone();
                pintle_schema::LazySchema::made_by(move || to_types(&schema))
            };
            Version { name: named(version), schema, shape, types }
        };
        let stored = versions.iter().find(|version| version.bool_at(&["storage"]));
        Ok(Self {
            stored: stored.map(named).ok_or("there is no version to store objects at")?,
            versions: versions.iter().map(parsed).collect(),
            conversion: conversion(definition),
            since: definition.resource_version().parse().unwrap_or(0),
        })
    }

    /// A version, named as `apiVersion` names it.
    pub(crate) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|known| known.name == name)
    }
}

impl MultiVersion for Defined {
    fn stored(&self) -> &str {
        &self.stored
    }

    fn has(&self, version: &str) -> bool {
        self.version(version).is_some()
    }

    fn conversion(&self) -> &Conversion {
        &self.conversion
    }

    fn types(&self, version: &str) -> Option<&pintle_schema::Schema> {
        self.version(version).map(|known| &*known.types)
    }

    fn identical_versions(&self, version: &str) -> Vec<&str> {
        let Some(shape) = self.version(version).map(|known| known.shape) else { return Vec::new() };
        let others = self.versions.iter().filter(|other| other.shape == shape && other.name != version);
        match self.conversion {
            Conversion::None => others.map(|other| other.name.as_str()).collect(),
            Conversion::Webhook { .. } => Vec::new(),
        }
    }

    fn since(&self) -> u64 {
        self.since
    }

    fn read(&self, object: &mut Value) {
        let Some(Version { schema, .. }) = self.version(object.api_version()) else { return };
        schema.repair(object);
        if object.generation() == 0 {
            // Very old ones have none.
            object.set_at(&["metadata", "generation"], 1);
        }
        schema.default(object);
    }

    fn conform(&self, object: &mut Value) -> Result<(), String> {
        let Some(Version { schema, .. }) = self.version(object.api_version()) else { return Ok(()) };
        schema.conform(object).map(drop).map_err(|error| error.to_string())
    }
}

/// A version of a definition as `apiVersion` names it.
pub(crate) fn api_version(definition: &Value, version: &str) -> String {
    format!("{}/{version}", definition.str_at(&["spec", "group"]))
}

fn conversion(definition: &Value) -> Conversion {
    let spec = &definition["spec"]["conversion"];
    if spec.str_at(&["strategy"]) != "Webhook" {
        return Conversion::None;
    }
    let Some(webhook) = WebhookClientConfig::parse(&spec["webhook"]["clientConfig"]) else { return Conversion::None };
    let reviews = spec.items_at(&["webhook", "conversionReviewVersions"]).iter().filter_map(Value::as_str);
    Conversion::Webhook { webhook, reviews: reviews.map(Str::from).collect(), definition: definition.name().into() }
}
