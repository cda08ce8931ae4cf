//! The resources of random sequences: some built-in kinds, and custom resources of random CRDs.

use fastrand::Rng;
use serde_json::Value;

use crate::random::bodies::{config_map, custom_object, deployment, event, lease, pod, secret};
use crate::random::definitions::{create, definition};
use crate::random::{one_in, pick, random_metadata};
use crate::sequence::Request;

/// The resource of a sequence.
pub(crate) struct Resource {
    /// The part of the sequence's name.
    pub(crate) name: &'static str,
    pub(crate) api_version: String,
    pub(crate) kind: &'static str,
    /// The path of the collection.
    pub(crate) collection: String,
    pub(crate) is_namespaced: bool,
    pub(crate) is_custom: bool,
    /// The subresources with the object's own kind.
    pub(crate) subresources: &'static [&'static str],
    pub(crate) field_selectors: &'static [&'static str],
    /// The requests that come first in a sequence.
    pub(crate) prepare: Vec<Request>,
    /// Makes the members other than the metadata.
    content: fn(&mut Rng) -> Value,
}

impl Resource {
    /// The path of an object or of a subresource.
    pub(crate) fn path(&self, rng: &mut Rng, name: &str) -> String {
        let subresource = if one_in(rng, 6) && !self.subresources.is_empty() {
            format!("/{}", pick(rng, self.subresources))
        } else {
            String::new()
        };
        format!("{}/{name}{subresource}", self.collection)
    }

    /// An object for a create or an update.
    pub(crate) fn object(&self, rng: &mut Rng, name: Option<&str>) -> Value {
        let mut object = self.content(rng);
        object["metadata"] = random_metadata(rng, self, name);
        self.set_type(rng, &mut object);
        object
    }

    /// An object for server-side apply.
    pub(crate) fn applied(&self, rng: &mut Rng, name: &str) -> Value {
        let mut object = self.object(rng, Some(name));
        if let Some(members) = object.as_object_mut() {
            members.insert("apiVersion".to_owned(), self.api_version.clone().into());
            members.insert("kind".to_owned(), self.kind.into());
        }
        object
    }

    /// The members other than metadata and type.
    pub(crate) fn content(&self, rng: &mut Rng) -> Value {
        (self.content)(rng)
    }

    /// Sets apiVersion and kind. They are rarely wrong, and sometimes left out where that is allowed.
    fn set_type(&self, rng: &mut Rng, object: &mut Value) {
        let (api_version, kind) = match rng.usize(..40) {
            0 => (Some("v9"), Some(self.kind)),
            1 => (Some(self.api_version.as_str()), Some("Other")),
            2 => (None, Some(self.kind)),
            3 => (Some(self.api_version.as_str()), None),
            4 => (None, None),
            5 => (Some(""), Some("")),
            _ => (Some(self.api_version.as_str()), Some(self.kind)),
        };
        if let Some(api_version) = api_version {
            object["apiVersion"] = api_version.into();
        }
        if let Some(kind) = kind {
            object["kind"] = kind.into();
        }
    }
}

/// Chooses the resource of a sequence.
pub(crate) fn choose_resource(rng: &mut Rng) -> Resource {
    match rng.usize(..14) {
        0 | 1 => built_in("configmaps", "v1", "ConfigMap", "/api/v1", config_map),
        2 => built_in("leases", "coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1", lease),
        3 => Resource {
            subresources: &["status"],
            ..built_in("deployments", "apps/v1", "Deployment", "/apis/apps/v1", deployment)
        },
        4 => Resource {
            field_selectors: &["type=Opaque", "type!=Opaque"],
            ..built_in("secrets", "v1", "Secret", "/api/v1", secret)
        },
        5 => Resource {
            subresources: &["status"],
            field_selectors: &["spec.nodeName=", "status.phase=Pending", "spec.restartPolicy!=Always"],
            ..built_in("pods", "v1", "Pod", "/api/v1", pod)
        },
        6 => Resource {
            field_selectors: &["reason=Started", "type!=Normal", "involvedObject.name=a,reason=Killed"],
            ..built_in("events", "v1", "Event", "/api/v1", event)
        },
        _ => custom(rng),
    }
}

fn built_in(
    name: &'static str,
    api_version: &str,
    kind: &'static str,
    root: &str,
    content: fn(&mut Rng) -> Value,
) -> Resource {
    Resource {
        name,
        api_version: api_version.to_owned(),
        kind,
        collection: format!("{root}/namespaces/{{ns}}/{name}"),
        is_namespaced: true,
        is_custom: false,
        subresources: &[],
        field_selectors: &[],
        prepare: Vec::new(),
        content,
    }
}

/// A custom resource of a CRD with random features.
fn custom(rng: &mut Rng) -> Resource {
    let is_namespaced = !one_in(rng, 4);
    let definition = definition(rng, is_namespaced);
    let has_status = definition["spec"]["versions"][0]["subresources"].get("status").is_some();
    let has_scale = definition["spec"]["versions"][0]["subresources"].get("scale").is_some();
    let is_selectable = definition["spec"]["versions"][0].get("selectableFields").is_some();
    let version = if one_in(rng, 4) { "v2" } else { "v1" };
    let root = format!("/apis/{{group}}/{version}");
    Resource {
        name: "custom",
        api_version: format!("{{group}}/{version}"),
        kind: "Foo",
        collection: if is_namespaced { format!("{root}/namespaces/{{ns}}/foos") } else { format!("{root}/foos") },
        is_namespaced,
        is_custom: true,
        subresources: match (has_status, has_scale) {
            (true, true) => &["status", "status", "scale"],
            (true, false) => &["status"],
            (false, true) => &["scale"],
            (false, false) => &[],
        },
        field_selectors: if is_selectable { &["spec.text=x", "spec.text!=x", "spec.number=1"] } else { &[] },
        prepare: vec![create(&definition)],
        content: custom_object,
    }
}
