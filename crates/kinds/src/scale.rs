//! The scale subresource: a view (`autoscaling/v1` Scale) of the replica fields of an object. One implementation with
//! configurable paths serves built-in kinds and custom resources (upstream: the `ScaleREST` of each kind).

use std::sync::Arc;

use pintle_registry::{ApiError, Column, ScalePaths, ScaleSelector, TableConvertor};
use pintle_selector::LabelSelector;
use pintle_value::metadata::{MissingFields, validate_object_meta};
use pintle_value::time::{Time, age};
use pintle_value::{Errors, FieldPath, Str, Value, names, object};

use crate::validation::reject_negative;

/// Why an object has no scale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// The number of replicas at this path is not set. Upstream answers 500.
    #[error("the spec replicas field {} does not exist", pintle_value::field::quote(.0))]
    NoReplicas(String),
    /// A field has the wrong type. Upstream answers 400.
    #[error("{0}")]
    Malformed(String),
}

/// The table of scales. Scales of custom resources have other descriptions, and no number where Go omits a zero.
struct ScaleTable {
    columns: &'static [Column],
    omitted_replicas: Value,
}

const BUILT_IN_COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "=autoscaling/v1.ScaleSpec.replicas"),
    Column::integer("Available", "=autoscaling/v1.ScaleStatus.replicas"),
    Column::AGE,
];
const CUSTOM_COLUMNS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "Number of desired replicas"),
    Column::integer("Available", "Number of actual replicas"),
    Column::new("Age", "date", "", "=meta/v1.ObjectMeta.creationTimestamp"),
];

impl TableConvertor for ScaleTable {
    fn columns(&self) -> &[Column] {
        self.columns
    }

    fn cells(&self, scale: &Value, now: Time) -> Vec<Value> {
        let desired = scale.at(&["spec", "replicas"]).unwrap_or(&self.omitted_replicas).clone();
        let available = scale.int_at(&["status", "replicas"]).unwrap_or(0);
        vec![scale.name().into(), desired, available.into(), age(scale, now)]
    }
}

/// Converts the scales that these paths show to table rows.
#[must_use]
pub fn scale_table(paths: &ScalePaths) -> Arc<dyn TableConvertor> {
    Arc::new(match paths.built_in {
        true => ScaleTable { columns: BUILT_IN_COLUMNS, omitted_replicas: Value::Int(0) },
        false => ScaleTable { columns: CUSTOM_COLUMNS, omitted_replicas: Value::Null },
    })
}

fn path_segments(path: &[Str]) -> Vec<&str> {
    path.iter().map(Str::as_str).collect()
}

fn dotted_path(path: &[Str]) -> String {
    format!(".{}", path.join("."))
}

/// The replicas of a scale that is to be updated, if the object has none.
const UNSET_REPLICAS: i64 = i32::MIN as i64;

/// Returns the scale of an object.
///
/// # Errors
/// Returns an error if the object has no replicas, or a field of another type.
pub fn scale_of(object: &Value, paths: &ScalePaths) -> Result<Value, ScaleError> {
    let no_replicas = || ScaleError::NoReplicas(dotted_path(&paths.replicas));
    scale_with(object, paths, None)?.ok_or_else(no_replicas)
}

/// Returns the scale of an object that is to be updated, which may have no replicas.
///
/// # Errors
/// Returns an error if a field has another type.
pub fn scale_for_update(object: &Value, paths: &ScalePaths) -> Result<Value, ScaleError> {
    Ok(scale_with(object, paths, Some(UNSET_REPLICAS))?.unwrap_or_default())
}

/// Returns the scale of an object that was updated. Pruning may have removed its replicas.
///
/// # Errors
/// Returns an error if a field has another type.
pub fn scale_after_update(object: &Value, paths: &ScalePaths) -> Result<Value, ScaleError> {
    Ok(scale_with(object, paths, Some(0))?.unwrap_or_default())
}

/// Returns the scale of an object, or `None` if the object has no replicas and no default is given.
fn scale_with(object: &Value, paths: &ScalePaths, default: Option<i64>) -> Result<Option<Value>, ScaleError> {
    let number = |path: &[Str]| match object.at(&path_segments(path)) {
        None => Ok(None),
        Some(Value::Int(number)) => Ok(Some(*number)),
        Some(_) => Err(ScaleError::Malformed(format!("{} accessor error: expected int64", dotted_path(path)))),
    };
    let replicas = match number(&paths.replicas)? {
        Some(replicas) => replicas,
        None if paths.built_in => 0,
        None => match default {
            Some(default) => default,
            None => return Ok(None),
        },
    };
    let current = number(&paths.status_replicas)?.unwrap_or(0);
    let selector = selector_text(object, &paths.selector)?;

    let mut metadata = Value::object();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", field]) {
            metadata.set(field, value.clone());
        }
    }
    let mut scale = object! {
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": Value::object(),
        "status": object! { "replicas": current },
    };
    // Go omits zero values, except the current number of replicas.
    if replicas != 0 {
        scale.set_at(&["spec", "replicas"], replicas);
    }
    if !selector.is_empty() {
        scale.set_at(&["status", "selector"], selector);
    }
    Ok(Some(scale))
}

fn selector_text(object: &Value, selector: &ScaleSelector) -> Result<String, ScaleError> {
    let at = |path: &[Str]| object.at(&path_segments(path)).cloned().unwrap_or_default();
    match selector {
        ScaleSelector::None => Ok(String::new()),
        ScaleSelector::LabelSelector(path) => LabelSelector::from_label_selector(&at(path))
            .map(|selector| selector.to_string())
            .map_err(|e| ScaleError::Malformed(e.to_string())),
        ScaleSelector::Labels(path) => Ok(LabelSelector::from_labels(&at(path)).to_string()),
        ScaleSelector::Text(path) => match at(path) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.into()),
            _ => Err(ScaleError::Malformed(format!("{} accessor error: expected string", dotted_path(path)))),
        },
    }
}

/// Applies a scale to its object: the number of replicas and the resourceVersion precondition. Returns errors about a
/// `Scale` of the group `autoscaling` with the object's name, and then changes nothing.
pub fn apply_scale(object: &mut Value, scale: &Value, paths: &ScalePaths, missing: MissingFields) -> Errors {
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    if paths.built_in {
        let mut errors = validate_object_meta(scale, true, &names::dns1123_subdomain_name, missing);
        let spec = FieldPath::new("spec");
        reject_negative(&mut errors, &spec.child("replicas"), replicas);
        if !errors.is_empty() {
            return errors;
        }
    }
    object.set_at(&path_segments(&paths.replicas), replicas);
    let version = ["metadata", "resourceVersion"];
    match scale.at(&version) {
        Some(requested) => object.set_at(&version, requested.clone()),
        None if paths.built_in => {
            object.remove_at(&version);
        }
        None => {}
    }
    Errors::new()
}

/// Rejects an update of a scale that leaves the replicas unset.
///
/// # Errors
/// Returns an error if [`scale_for_update`] has set the replicas of an object without replicas.
pub fn check_replicas_set(scale: &Value, paths: &ScalePaths) -> Result<(), ApiError> {
    if paths.built_in || scale.int_at(&["spec", "replicas"]) != Some(UNSET_REPLICAS) {
        return Ok(());
    }
    let path = pintle_value::field::quote(&dotted_path(&paths.replicas));
    Err(ApiError::BadRequest(format!("the spec replicas field {path} cannot be empty")))
}

/// Rejects a scale for another object with the same name. `resource` is the resource of the object.
pub fn check_scale_uid(
    object: &Value,
    scale: &Value,
    resource: &pintle_registry::GroupResource,
) -> Result<(), ApiError> {
    if scale.uid().is_empty() || scale.uid() == object.uid() {
        return Ok(());
    }
    let plural = format!("{}/scale", resource.resource);
    Err(ApiError::Conflict {
        resource: pintle_registry::GroupResource::new(resource.group.clone(), Str::from(plural)),
        name: Str::from(object.name()),
        why: format!("Precondition failed: UID in precondition: {}, UID in object meta: {}", scale.uid(), object.uid()),
    })
}

#[cfg(test)]
mod tests {
    use pintle_registry::SubresourceRole;

    use super::*;
    use crate::testing::{messages, object};

    /// Returns the paths of a built-in kind.
    fn built_in(group: &str, plural: &str) -> Option<ScalePaths> {
        let resources = crate::resources(pintle_catalog::shared());
        let resource = resources.iter().find(|r| r.group == group && r.plural == plural).expect("a resource");
        match &resource.subresource("scale")?.role {
            SubresourceRole::Scale(paths) => Some(paths.clone()),
            role => panic!("{role:?}"),
        }
    }

    fn deployment() -> Value {
        object(
            r#"{"kind":"Deployment","metadata":{"name":"d","namespace":"n","uid":"u","resourceVersion":"5","labels":{"a":"b"},"creationTimestamp":"2024-01-01T00:00:00Z"},
                "spec":{"replicas":3,"selector":{"matchLabels":{"app":"x"},"matchExpressions":[{"key":"t","operator":"In","values":["b","a"]}]}},
                "status":{"replicas":2}}"#,
        )
    }

    #[test]
    fn built_in_kinds_have_a_scale() {
        let paths = built_in("apps", "deployments").expect("scalable");
        let expect = r#"{"kind":"Scale","apiVersion":"autoscaling/v1",
            "metadata":{"name":"d","namespace":"n","uid":"u","resourceVersion":"5","creationTimestamp":"2024-01-01T00:00:00Z"},
            "spec":{"replicas":3},"status":{"replicas":2,"selector":"app=x,t in (a,b)"}}"#;
        assert_eq!(scale_of(&deployment(), &paths), Ok(object(expect)));
        let controller = object(r#"{"metadata":{"name":"r"},"spec":{"replicas":0,"selector":{"a":"b"}},"status":{}}"#);
        let paths = built_in("", "replicationcontrollers").expect("scalable");
        let scale = scale_of(&controller, &paths).expect("a scale");
        assert_eq!(scale["spec"], Value::object());
        assert_eq!(scale["status"], object(r#"{"replicas":0,"selector":"a=b"}"#));
        assert_eq!(built_in("apps", "daemonsets"), None);
    }

    #[test]
    fn custom_resources_have_a_scale_at_their_paths() {
        let paths = ScalePaths::from_crd(".spec.size", ".status.size", Some(".status.selector"));
        let check = |json: &str, expect: Result<&str, &str>| {
            let found = scale_of(&object(json), &paths).map_err(|e| e.to_string());
            let found = found.map(|scale| object! { "spec": scale["spec"].clone(), "status": scale["status"].clone() });
            assert_eq!(found, expect.map(object).map_err(str::to_owned));
        };
        check(
            r#"{"spec":{"size":1},"status":{"selector":"a=b"}}"#,
            Ok(r#"{"spec":{"replicas":1},"status":{"replicas":0,"selector":"a=b"}}"#),
        );
        check(r#"{"spec":{}}"#, Err("the spec replicas field \".spec.size\" does not exist"));
        let mut custom = object(r#"{"metadata":{"resourceVersion":"1"},"spec":{}}"#);
        let errors = apply_scale(&mut custom, &object(r#"{"spec":{"replicas":4}}"#), &paths, MissingFields::Invalid);
        assert!(errors.is_empty());
        assert_eq!(custom, object(r#"{"metadata":{"resourceVersion":"1"},"spec":{"size":4}}"#));
    }

    #[test]
    fn apply_scale_updates_replicas_and_resource_version() {
        let paths = built_in("apps", "deployments").expect("scalable");
        let mut deployment = deployment();
        let check = |deployment: &mut Value, scale: &str, expect: &[&str], replicas: i64| {
            assert_eq!(messages(&apply_scale(deployment, &object(scale), &paths, MissingFields::Invalid)), expect);
            assert_eq!(deployment.int_at(&["spec", "replicas"]), Some(replicas));
        };
        check(
            &mut deployment,
            r#"{"metadata":{"name":"d","namespace":"n"},"spec":{"replicas":-1}}"#,
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            3,
        );
        check(
            &mut deployment,
            r#"{"metadata":{"name":"d","namespace":"n","resourceVersion":"4"},"spec":{"replicas":7}}"#,
            &[],
            7,
        );
        assert_eq!(deployment.resource_version(), "4");
        check(&mut deployment, r#"{"metadata":{"name":"d","namespace":"n"},"spec":{}}"#, &[], 0);
        let resource = pintle_registry::GroupResource::new("apps", "deployments");
        let other = check_scale_uid(&deployment, &object(r#"{"metadata":{"uid":"v"}}"#), &resource);
        assert_eq!(
            other.map_err(|e| e.to_string()),
            Err("Operation cannot be fulfilled on deployments/scale.apps \"d\": Precondition failed: UID in precondition: v, UID in object meta: u".to_owned())
        );
    }
}
