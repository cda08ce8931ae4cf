//! Conversion of objects of built-in kinds between a version and the hub version.

use pintle_registry::Resource;
use pintle_value::Value;

use crate::objects::model;

/// Converts an object of the hub version to a resource's version.
pub(crate) fn from_hub(resource: &Resource, mut object: Value) -> Value {
    if !resource.is_hub() {
        resource.strategy.convert_from_hub(&mut object);
        object.set("kind", resource.kind.as_str());
        object.set("apiVersion", resource.group_version().to_string());
    }
    object
}

/// Converts an object of a resource's version to the hub version. The result is in normal form, like a decoded and
/// encoded Go struct. Conversions may take empty lists from annotations, but stored objects must be in normal form.
pub(crate) fn to_hub(resource: &Resource, hub: &Resource, mut object: Value) -> Value {
    if !resource.is_hub() {
        resource.strategy.convert_to_hub(&mut object);
        model(hub).normalise(&hub.schema, None, &mut object, None);
        object.set("kind", hub.kind.as_str());
        object.set("apiVersion", hub.group_version().to_string());
    }
    object
}
