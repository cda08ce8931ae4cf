//! The plugin `OwnerReferencesPermissionEnforcement` (upstream: `plugin/pkg/admission/gc`). A user who changes the
//! owners of an object must be allowed to delete the object. A user who lets the object block the deletion of an owner
//! must be allowed to set the owner's finalizers.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_auth::AuthorizationAttributes;
use pintle_registry::{ApiError, BoxFuture, GroupVersion, GroupVersionKind, Resource, Scope};
use pintle_value::print::quote;
use pintle_value::{Value, same};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, Phase};

/// The admission plugin `OwnerReferencesPermissionEnforcement`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnerReferencesPermissionEnforcement;

fn owners(object: &Value) -> &[Value] {
    object.items_at(&["metadata", "ownerReferences"])
}

fn is_blocking(owner: &Value) -> bool {
    owner.bool_at(&["blockOwnerDeletion"])
}

/// The owners whose deletion a write begins to block.
fn new_blocking_owners<'o>(object: &'o Value, old: &[Value]) -> Vec<&'o Value> {
    // Of several owners with the same uid, the last one counts.
    let known: HashMap<&str, bool> = old.iter().map(|known| (known.str_at(&["uid"]), is_blocking(known))).collect();
    let was_blocking = |owner: &Value| known.get(owner.str_at(&["uid"])).copied().unwrap_or_default();
    owners(object).iter().filter(|owner| is_blocking(owner) && !was_blocking(owner)).collect()
}

/// Asks the authorizer. Returns the reason and the error of a refusal as Go prints them.
async fn ask(attributes: &AdmissionAttributes<'_>, asked: &AuthorizationAttributes<'_>) -> Result<(), String> {
    let answer = attributes.authorizer.authorize(attributes.user, asked).await;
    if answer.is_allowed() {
        return Ok(());
    }
    Err(format!("{}, {}", answer.reason, answer.error.as_deref().unwrap_or("<nil>")))
}

/// Finds the resource of an owner.
fn resource_of(attributes: &AdmissionAttributes<'_>, owner: &Value) -> Result<Arc<Resource>, String> {
    let (version, kind) = (owner.str_at(&["apiVersion"]), owner.str_at(&["kind"]));
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    let (group, name) = version.split_once('/').unwrap_or(("", version));
    let known = attributes.client.resource_of_kind(&GroupVersionKind::new(group, name, kind));
    let version = GroupVersion::new(group, name);
    known.ok_or_else(|| format!("no matches for kind {} in version {}", quote(kind), quote(&version.to_string())))
}

impl OwnerReferencesPermissionEnforcement {
    async fn check(attributes: &AdmissionAttributes<'_>, object: &Value) -> Result<(), ApiError> {
        let old = attributes.old.map_or(&[][..], owners);
        let new = owners(object);
        if new.len() == old.len() && new.iter().zip(old).all(|(new, old)| same(Some(new), Some(old))) {
            return Ok(());
        }
        let AdmissionAttributes { operation, resource, subresource, namespace, name, .. } = attributes;
        if *operation != AdmissionOperation::Create {
            let delete = AuthorizationAttributes {
                verb: "delete",
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                subresource,
                namespace,
                name,
                ..AuthorizationAttributes::default()
            };
            ask(attributes, &delete).await.map_err(|why| {
                let why = format!("cannot set an ownerRef on a resource you can't delete: {why}");
                attributes.forbidden(object, why)
            })?;
        }
        let blocked = new_blocking_owners(object, old);
        let update = AuthorizationAttributes {
            verb: "update",
            group: "*",
            version: "*",
            resource: "*",
            subresource: "finalizers",
            name: "*",
            ..AuthorizationAttributes::default()
        };
        // A user who may set all finalizers needs no further checks.
        if blocked.is_empty() || ask(attributes, &update).await.is_ok() {
            return Ok(());
        }
        for owner in blocked {
            Self::check_owner(attributes, owner).await.map_err(|why| attributes.forbidden(object, why))?;
        }
        Ok(())
    }

    /// Checks that the user may set the finalizers of an owner.
    async fn check_owner(attributes: &AdmissionAttributes<'_>, owner: &Value) -> Result<(), String> {
        let resource = resource_of(attributes, owner).map_err(|why| {
            let [version, kind] = ["apiVersion", "kind"].map(|field| owner.str_at(&[field]));
            format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {version} Kind \
                 {kind}: {why}"
            )
        })?;
        let update = AuthorizationAttributes {
            verb: "update",
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource: "finalizers",
            // A namespaced owner is in the namespace of its dependents.
            namespace: if resource.scope == Scope::Namespaced { attributes.namespace } else { "" },
            name: owner.str_at(&["name"]),
            ..AuthorizationAttributes::default()
        };
        ask(attributes, &update).await.map_err(|why| {
            format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {why}"
            )
        })
    }
}

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn phases(&self) -> &[Phase] {
        &[Phase::Validating]
    }

    /// Upstream ignores the status of pods, because old kubelets send broken owners in it, and its strategy keeps the
    /// owners.
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let is_status_of_pod = attributes.subresource == "status" && attributes.resource.is("", "pods");
        attributes.is_create_or_update() && !is_status_of_pod
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(Self::check(attributes, object))
    }
}

#[cfg(test)]
mod tests {
    use pintle_auth::{AlwaysAllow, AlwaysDeny, Authorizer};

    use super::*;
    use crate::testing::{Scenario, json};

    fn map(owners: &str) -> Value {
        json(&format!(r#"{{"metadata":{{"name":"m","namespace":"n","ownerReferences":[{owners}]}}}}"#))
    }

    fn owner(uid: &str, blocking: &str) -> String {
        format!(r#"{{"apiVersion":"apps/v1","kind":"Deployment","name":"d","uid":"{uid}"{blocking}}}"#)
    }

    const BLOCKING: &str = r#","blockOwnerDeletion":true"#;
    const NO_DELETE: &str = "configmaps \"m\" is forbidden: cannot set an ownerRef on a resource you can't delete: Everything is forbidden., \
         <nil>";
    const NO_FINALIZERS: &str = "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
         set finalizers on: Everything is forbidden., <nil>";

    fn check(old: Option<&str>, owners: &str, is_authorized: bool, expect: Result<(), &str>) {
        let scenario = match old {
            None => Scenario::create("", "configmaps"),
            Some(old) => Scenario { old: Some(map(old)), ..Scenario::update("", "configmaps") },
        };
        let authorizer: Arc<dyn Authorizer> = if is_authorized { Arc::new(AlwaysAllow) } else { Arc::new(AlwaysDeny) };
        let scenario = Scenario { authorizer, ..scenario };
        scenario.check_validate(&OwnerReferencesPermissionEnforcement, &map(owners), expect);
    }

    #[test]
    fn who_may_do_everything_may_set_owners() {
        check(None, &owner("1", BLOCKING), true, Ok(()));
        check(Some(""), &owner("1", BLOCKING), true, Ok(()));
    }

    #[test]
    fn changing_owners_needs_the_permission_to_delete() {
        check(None, &owner("1", ""), false, Ok(()));
        check(Some(&owner("1", "")), &owner("1", ""), false, Ok(()));
        check(Some(""), &owner("1", ""), false, Err(NO_DELETE));
        check(Some(&owner("1", "")), "", false, Err(NO_DELETE));
    }

    #[test]
    fn blocking_owners_needs_the_permission_to_set_their_finalizers() {
        check(None, &owner("1", BLOCKING), false, Err(NO_FINALIZERS));
        check(None, &format!("{},{}", owner("1", ""), owner("2", BLOCKING)), false, Err(NO_FINALIZERS));
        let why = "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find \
                   RESTMapping for APIVersion a/v1 Kind B: no matches for kind \"B\" in version \"a/v1\"";
        let unknown = r#"{"apiVersion":"a/v1","kind":"B","name":"b","uid":"1","blockOwnerDeletion":true}"#;
        check(None, unknown, false, Err(why));
        let why = "configmaps \"m\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find \
                   RESTMapping for APIVersion a/b/c Kind B: unexpected GroupVersion string: a/b/c";
        check(None, &unknown.replace("a/v1", "a/b/c"), false, Err(why));
    }

    #[test]
    fn only_owners_that_were_not_blocked_before_are_new() {
        let (old, new) =
            (map(&owner("1", BLOCKING)), map(&format!("{},{}", owner("1", BLOCKING), owner("2", BLOCKING))));
        let found = new_blocking_owners(&new, owners(&old));
        assert_eq!(found.iter().map(|owner| owner.str_at(&["uid"])).collect::<Vec<_>>(), ["2"]);
        let found = new_blocking_owners(&old, owners(&map(&owner("1", ""))));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn the_status_of_pods_is_ignored() {
        let pod = map(&owner("1", BLOCKING));
        let scenario = Scenario {
            old: Some(map("")),
            subresource: "status",
            authorizer: Arc::new(AlwaysDeny),
            ..Scenario::update("", "pods")
        };
        scenario.check_validate(&OwnerReferencesPermissionEnforcement, &pod, Ok(()));
    }
}
