//! The tokens of service accounts that a node requests for its pods (KEP-4412 for their audiences).

use std::borrow::Cow;

use pintle_auth::AuthorizationAttributes;
use pintle_registry::{ApiError, GroupResource};
use pintle_value::Value;
use pintle_value::print::quote;

use super::NodeWrite;

/// The verb that allows a node to request audiences that its pods do not have.
const AUDIENCE_VERB: &str = "request-serviceaccounts-token-audience";

/// Sources of volumes inside the tree, and the CSI drivers that replaced them.
const MIGRATED: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

/// Checks a request for a token: it is bound to a pod on the node, for an audience of the pod.
pub(super) async fn check(write: &NodeWrite<'_>, restricts_audiences: bool) -> Result<(), ApiError> {
    let reference = write.object.at(&["spec", "boundObjectRef"]).unwrap_or(&Value::Null);
    let name = reference.str_at(&["name"]);
    if reference.api_version() != "v1" || reference.kind() != "Pod" || name.is_empty() {
        return Err(write.refused("node requested token not bound to a pod"));
    }
    let uid = reference.str_at(&["uid"]);
    if uid.is_empty() {
        return Err(write.refused("node requested token with a pod binding without a uid"));
    }
    let pod = write.stored_pod(name)?;
    if uid != pod.uid() {
        return Err(write.refused(format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        )));
    }
    if !write.is_bound_here(&pod) {
        return Err(write.refused("node requested token bound to a pod scheduled on a different node"));
    }
    if !restricts_audiences {
        return Ok(());
    }
    let audience = match write.object.items_at(&["spec", "audiences"]) {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return Err(write.refused("node may only request 0 or 1 audiences")),
    };
    check_audience(write, &pod, audience).await
}

/// Checks an audience: it is one of the pod's volumes, or the node has the permission to ask for it.
async fn check_audience(write: &NodeWrite<'_>, pod: &Value, audience: &str) -> Result<(), ApiError> {
    let unknown = match has_audience(write, pod, audience) {
        (true, _) => return Ok(()),
        (false, errors) => errors,
    };
    let attributes = write.attributes;
    let wanted = AuthorizationAttributes {
        verb: AUDIENCE_VERB,
        version: "v1",
        resource: audience,
        namespace: attributes.namespace,
        name: attributes.name,
        ..AuthorizationAttributes::default()
    };
    let decision = attributes.authorizer.authorize(attributes.user, &wanted).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let (quoted, user) = (quote(audience), &attributes.user.name);
    Err(write.refused(match (unknown.as_slice(), &decision.error) {
        ([], Some(error)) => format!(
            "audience {quoted} not found in pod spec volume, error authorizing {user} to request tokens for this audience: {error}"
        ),
        ([], None) => format!(
            "audience {quoted} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ),
        ([error], _) => format!("error validating audience {quoted}: {error}"),
        (errors, _) => format!("error validating audience {quoted}: [{}]", errors.join(", ")),
    }))
}

/// Whether a volume of a pod has an audience, and the errors of objects that could not be read to decide this.
fn has_audience(write: &NodeWrite<'_>, pod: &Value, audience: &str) -> (bool, Vec<String>) {
    let mut errors = Vec::new();
    for volume in pod.items_at(&["spec", "volumes"]) {
        let is_of = |token: &Value| token.str_at(&["audience"]) == audience;
        let tokens = volume.items_at(&["projected", "sources"]).iter().filter_map(|s| s.get("serviceAccountToken"));
        if tokens.into_iter().any(is_of) {
            return (true, Vec::new());
        }
        let found = driver(write, pod, volume).and_then(|driver| match &*driver {
            "" => Ok(false),
            driver => {
                let stored = stored(write, "storage.k8s.io", "csidrivers", "csidriver", "", driver)?;
                Ok(stored.items_at(&["spec", "tokenRequests"]).iter().any(is_of))
            }
        });
        match found {
            Ok(true) => return (true, Vec::new()),
            Ok(false) => {}
            Err(error) if errors.contains(&error) => {}
            Err(error) => errors.push(error),
        }
    }
    (false, errors)
}

/// The CSI driver of a volume, or an empty name.
fn driver<'p>(write: &NodeWrite<'_>, pod: &'p Value, volume: &'p Value) -> Result<Cow<'p, str>, String> {
    let claim = if volume.get("ephemeral").is_some() {
        format!("{}-{}", pod.name(), volume.str_at(&["name"]))
    } else {
        volume.str_at(&["persistentVolumeClaim", "claimName"]).to_owned()
    };
    if claim.is_empty() {
        return Ok(driver_of_source(volume).into());
    }
    let claim = stored(write, "", "persistentvolumeclaims", "persistentvolumeclaim", pod.namespace(), &claim)?;
    let name = claim.str_at(&["spec", "volumeName"]);
    if name.is_empty() {
        return Ok("".into());
    }
    let stored = stored(write, "", "persistentvolumes", "persistentvolume", "", name)?;
    Ok(stored.get("spec").map(driver_of_source).unwrap_or_default().to_owned().into())
}

/// The CSI driver of the source of a volume, or an empty name.
fn driver_of_source(source: &Value) -> &str {
    let migrated = MIGRATED.into_iter().find(|(field, _)| source.get(field).is_some());
    migrated.map_or_else(|| source.str_at(&["csi", "driver"]), |(_, driver)| driver)
}

/// A stored object, or the text of upstream's listers.
fn stored(
    write: &NodeWrite<'_>,
    group: &str,
    plural: &str,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Value, String> {
    let found = write.attributes.client.get(&GroupResource::new(group, plural), namespace, name);
    let resource = GroupResource::new(group, kind);
    found.map_err(|error| error.to_string())?.ok_or_else(|| format!("{resource} {} not found", quote(name)))
}
