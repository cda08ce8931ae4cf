//! Requests that several clients send at the same moment. Their common result does not depend on which client is first.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::random::resources::Resource;
use crate::random::{one_in, pick, with};
use crate::sequence::Request;

/// A request of several clients to one object, the requests that must come before it, and a list that shows the result.
pub(crate) fn at_once(rng: &mut Rng, resource: &Resource, name: &str, step: usize) -> Vec<Request> {
    let path = format!("{}/{name}", resource.collection);
    let patch = |media_type: &str, patch: Value| Request::new("PATCH", &path).body(media_type, patch.to_string());
    let mut requests = Vec::new();
    let request = match rng.usize(..8) {
        0 | 1 => Request::new("POST", &resource.collection).json(resource.object(rng, Some(name)).to_string()),
        2 => patch("application/merge-patch+json", json!({"metadata": {"labels": {"client-{client}": "x"}}})),
        3 => patch(
            "application/json-patch+json",
            json!([
                {"op": "test", "path": "/metadata/name", "value": name},
                {"op": "add", "path": "/metadata/annotations/client-{client}", "value": "x"}
            ]),
        ),
        4 | 5 => {
            let mut applied = resource.applied(rng, name);
            // Only one of several applies can create the object, so an earlier apply creates it.
            let first = patch("application/apply-patch+yaml", applied.clone());
            requests.push(with(first, "fieldManager=alice&force=true"));
            applied["metadata"]["annotations"] = json!({"client-{client}": "x"});
            with(patch("application/apply-patch+yaml", applied), "fieldManager=client-{client}")
        }
        6 => {
            let mut object = resource.object(rng, Some(name));
            if rng.bool() {
                object["metadata"]["resourceVersion"] = format!("{{rv:{}}}", rng.usize(..=step)).into();
            }
            Request::new("PUT", &path).json(object.to_string())
        }
        _ => Request::new("DELETE", &path),
    };
    let request =
        if one_in(rng, 6) { with(request, pick(rng, &["dryRun=All", "fieldValidation=Strict"])) } else { request };
    requests.extend([request.sent_at_once(rng.usize(2..=4)), Request::new("GET", &resource.collection)]);
    requests
}
