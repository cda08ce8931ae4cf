//! Which claims pods use. Only a pod that is bound to a node counts: the kubelet starts no pod whose claim is
//! terminating.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memchr::memmem;
use pintle_cache::{Event, KeyRange, Object};
use pintle_registry::ApiError;
use pintle_value::{Str, Value};

use super::{Protection, is_terminating, readable};
use crate::ClusterClient;
use crate::objects::tree;

const PODS: (&str, &str) = ("", "pods");
/// The maximum number of claims for which the JSON of pods is searched. For more claims, all pods with claims are
/// decoded.
const MAX_SEARCHED: usize = 16;

/// Claims, which pods use.
pub(crate) static CLAIMS: Protection = Protection {
    controller: "persistentvolumeclaim-protection-controller",
    queue: "pvcprotection",
    resource: ("", "persistentvolumeclaims"),
    finalizer: pintle_value::metadata::CLAIM_PROTECTION,
    adds_finalizer: true,
    users: &[PODS],
    released,
    used,
};

/// True if a pod may have a claim. The pod is not decoded.
fn may_have_claims(pod: &Object) -> bool {
    [&b"\"claimName\""[..], b"\"ephemeral\""].iter().any(|key| memmem::find(&pod.json, key).is_some())
}

/// True if a pod may name one of the claims, or have it for an ephemeral volume. The pod is not decoded.
fn names_one_of(pod: &Object, claims: &BTreeMap<&str, &str>) -> bool {
    let is_of_pod = |claim: &str| claim.strip_prefix(pod.name()).is_some_and(|volume| volume.starts_with('-'));
    claims.keys().any(|claim| is_of_pod(claim) || memmem::find(&pod.json, claim.as_bytes()).is_some())
}

/// The claims of a pod that ends or is gone.
fn released(event: &Event) -> Vec<(Str, Str)> {
    let ends = event.object.as_ref().is_none_or(|pod| is_terminating(pod));
    let pod = event.previous.as_ref().filter(|pod| ends && may_have_claims(pod)).and_then(|pod| tree(pod));
    let Some(pod) = pod else { return Vec::new() };
    claims(&pod).map(|claim| (pod.namespace().into(), claim.name)).collect()
}

/// A claim that a pod names.
struct PodClaim {
    name: Str,
    /// True if the claim was created for an ephemeral volume of the pod.
    is_ephemeral: bool,
}

fn claims(pod: &Value) -> impl Iterator<Item = PodClaim> {
    pod.items_at(&["spec", "volumes"]).iter().filter_map(|volume| {
        if volume.get("ephemeral").is_some() {
            let name = format!("{}-{}", pod.name(), volume.str_at(&["name"])).into();
            return Some(PodClaim { name, is_ephemeral: true });
        }
        let name = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        (!name.is_empty()).then(|| PodClaim { name: name.into(), is_ephemeral: false })
    })
}

fn used(client: &Arc<dyn ClusterClient>, namespace: &str, terminating: &[Value]) -> Result<BTreeSet<Str>, ApiError> {
    let owners: BTreeMap<&str, &str> = terminating.iter().map(|claim| (claim.name(), controller_uid(claim))).collect();
    let (pods, range) = readable(client, PODS, KeyRange::Namespace(namespace.into()))?;
    let mut used = BTreeSet::new();
    let may_use = |pod: &Object| may_have_claims(pod) && (owners.len() > MAX_SEARCHED || names_one_of(pod, &owners));
    for pod in pods.objects(range).filter(|pod| may_use(pod)).filter_map(|pod| tree(&pod)) {
        used.extend(claims(&pod).filter(|claim| is_used(&pod, claim, &owners)).map(|claim| claim.name));
    }
    Ok(used)
}

/// True if a pod uses one of the claims whose controllers are given.
fn is_used(pod: &Value, claim: &PodClaim, owners: &BTreeMap<&str, &str>) -> bool {
    let Some(owner) = owners.get(&*claim.name) else { return false };
    let is_bound = !pod.str_at(&["spec", "nodeName"]).is_empty();
    is_bound && (!claim.is_ephemeral || !is_shut_down(pod) && *owner == pod.uid())
}

/// True if the kubelet is done with a pod, or it was deleted by force.
fn is_shut_down(pod: &Value) -> bool {
    pod.is_terminating() && pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0)
}

/// The uid of the owner that controls an object; empty without one.
fn controller_uid(object: &Value) -> &str {
    let owners = object.items_at(&["metadata", "ownerReferences"]);
    owners.iter().find(|owner| owner.bool_at(&["controller"])).map_or("", |owner| owner.str_at(&["uid"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default()).expect("JSON").value
    }

    #[test]
    fn pods_on_nodes_use_their_claims() {
        let check = |metadata: &str, spec: &str, expect: &[&str]| {
            let pod = json(&format!(
                r#"{{"metadata":{{"name":"p","uid":"u"{metadata}}},"spec":{{{spec},"volumes":[
                    {{"name":"a","persistentVolumeClaim":{{"claimName":"own"}}}},
                    {{"name":"b","persistentVolumeClaim":{{"claimName":"alive"}}}},
                    {{"name":"mine","ephemeral":{{}}}},{{"name":"foreign","ephemeral":{{}}}},{{"name":"c"}}]}}}}"#
            ));
            let owners = BTreeMap::from([("own", ""), ("p-mine", "u"), ("p-foreign", "v"), ("unused", "")]);
            let found: Vec<Str> =
                claims(&pod).filter(|claim| is_used(&pod, claim, &owners)).map(|claim| claim.name).collect();
            assert_eq!(found, expect);
        };
        let shut_down = r#","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0"#;
        check("", r#""nodeName":"n""#, &["own", "p-mine"]);
        check("", r#""nodeName":"""#, &[]);
        check(shut_down, r#""nodeName":"n""#, &["own"]);
        check(&shut_down.replace(":0", ":30"), r#""nodeName":"n""#, &["own", "p-mine"]);
    }
}
