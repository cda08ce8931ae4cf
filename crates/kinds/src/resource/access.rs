//! The requirements of a write of a claim on its cluster (upstream: `pkg/registry/resource/utils.go`). The namespace of
//! the claim must allow admin access to devices. A change of a part of the status needs a permission.

use std::collections::{BTreeMap, BTreeSet};

use pintle_gates::Feature;
use pintle_registry::{
    ApiError, BoxFuture, ClusterValidation, GroupResource, RequiredAccess, StrategyContext, ValidatedWrite,
};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::claim_status::{DeviceId, allocation_results, device_statuses};
use crate::generic::same_at;

/// The label of namespaces whose claims may have admin access to devices.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
/// The extra field of the users of service accounts with the node of their pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Requires a namespace with the label for admin access, if a new claim or template asks for that.
pub(super) struct AdminAccess {
    /// The path of the requests.
    pub(super) requests: &'static [&'static str],
}

impl ClusterValidation for AdminAccess {
    fn validate<'a>(&'a self, write: ValidatedWrite<'a>) -> BoxFuture<'a, Errors> {
        Box::pin(async move {
            // The spec of an old object cannot change.
            let requests = if write.old.is_none() { write.object.items_at(self.requests) } else { &[] };
            let Some(i) = requests.iter().position(|request| request.bool_at(&["exactly", "adminAccess"])) else {
                return Errors::new();
            };
            // The path is the path of v1beta1, for templates too.
            let path = FieldPath::new("spec.devices.requests");
            require_admin_namespace(write, &path.index(i).child("adminAccess")).await
        })
    }
}

/// Validates the permissions for an update of a status.
pub(super) struct ClaimStatusAccess;

impl ClusterValidation for ClaimStatusAccess {
    fn validate<'a>(&'a self, write: ValidatedWrite<'a>) -> BoxFuture<'a, Errors> {
        Box::pin(async move {
            let mut errors = Errors::new();
            let Some(old) = write.old else { return errors };
            let has_access = |result: &Value| result.bool_at(&["adminAccess"]);
            let granted = allocation_results(old).iter().any(has_access);
            let requested = allocation_results(write.object).iter().position(has_access);
            if let Some(i) = requested.filter(|_| !granted) {
                let path = FieldPath::new("status.allocation.devices.results");
                errors.append(require_admin_namespace(write, &path.index(i).child("adminAccess")).await);
            }
            if write.context.gates.is_enabled(Feature::DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION) {
                authorize_binding(&mut errors, write, old).await;
                authorize_device_status(&mut errors, write, old).await;
            }
            errors
        })
    }
}

/// Requires that the namespace of an object has the label for admin access.
async fn require_admin_namespace(write: ValidatedWrite<'_>, path: &FieldPath<'_>) -> Errors {
    match has_admin_label(write).await {
        Ok(true) => Errors::new(),
        Ok(false) => {
            let detail =
                format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace");
            FieldError::forbidden(path, detail).into()
        }
        Err(error) => {
            let detail = format!("could not retrieve namespace to verify admin access: {error}");
            FieldError::internal(path, detail).into()
        }
    }
}

/// True if the namespace of an object has the label for admin access. Another server may just have written the label.
async fn has_admin_label(write: ValidatedWrite<'_>) -> Result<bool, ApiError> {
    let namespaces = GroupResource::new("", "namespaces");
    let name = write.object.namespace();
    let read = || {
        let namespace = write.client.read(&namespaces, "", name)?;
        Ok::<_, ApiError>(namespace.map(|namespace| namespace.labels().any(|label| label == (ADMIN_LABEL, "true"))))
    };
    if read()? == Some(true) {
        return Ok(true);
    }
    write.client.refresh().await?;
    read()?.ok_or_else(|| ApiError::NotFound { resource: namespaces.clone(), name: name.into() })
}

/// Requires the permission to change allocations and reservations.
async fn authorize_binding(errors: &mut Errors, write: ValidatedWrite<'_>, old: &Value) {
    let is_unchanged = |field| same_at(write.object, old, &["status", field]);
    if is_unchanged("allocation") && is_unchanged("reservedFor") {
        return;
    }
    let verb = write.access.verb();
    let access = RequiredAccess { verb, subresource: "binding", namespace: "", name: "" };
    if let Err(why) = write.access.check(access).await {
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {why}"
        );
        errors.forbidden(&FieldPath::new("status"), detail);
    }
}

/// Requires the permission to change the status of the devices of each driver. A user who runs on the node of the
/// allocated devices needs it for that node only.
async fn authorize_device_status(errors: &mut Errors, write: ValidatedWrite<'_>, old: &Value) {
    let drivers = changed_drivers(write.object, old);
    if drivers.is_empty() {
        return;
    }
    let verb = write.access.verb();
    let mut verbs = vec![format!("arbitrary-node:{verb}")];
    if allocated_node(write.object).is_some_and(|node| runs_on_node(write.context, node)) {
        verbs.insert(0, format!("associated-node:{verb}"));
    }
    let namespace = write.object.namespace();
    for driver in drivers {
        let mut first_error = None;
        let mut is_allowed = false;
        for verb in &verbs {
            let access = RequiredAccess { verb, subresource: "driver", namespace, name: driver };
            match write.access.check(access).await {
                Ok(()) => {
                    is_allowed = true;
                    break;
                }
                Err(why) => drop(first_error.get_or_insert(why)),
            }
        }
        if let Some(why) = first_error.filter(|_| !is_allowed) {
            let detail = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                verbs.join(" ")
            );
            errors.forbidden(&FieldPath::new("status.devices"), detail);
        }
    }
}

/// The drivers of the devices whose status was added, changed or removed.
fn changed_drivers<'v>(claim: &'v Value, old: &'v Value) -> BTreeSet<&'v str> {
    let by_id = |claim: &'v Value| -> BTreeMap<DeviceId<'v>, &'v Value> {
        device_statuses(claim).iter().map(|device| (DeviceId::of(device), device)).collect()
    };
    let (new, old) = (by_id(claim), by_id(old));
    let changed =
        new.iter().filter(|(id, device)| old.get(id).is_none_or(|old| !crate::generic::same(Some(device), Some(old))));
    let removed = old.iter().filter(|(id, _)| !new.contains_key(id));
    changed.chain(removed).map(|(id, _)| id.driver()).collect()
}

/// The node of an allocation, if its selector names one in the way of the scheduler.
fn allocated_node(claim: &Value) -> Option<&str> {
    let [term] = claim.items_at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"]) else { return None };
    let ([], [field]) = (term.items_at(&["matchExpressions"]), term.items_at(&["matchFields"])) else { return None };
    let [value] = field.items_at(&["values"]) else { return None };
    let names_node = field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In";
    value.as_str().filter(|_| names_node)
}

/// True if the user is a service account with a token for a pod on this node.
fn runs_on_node(context: &StrategyContext, node: &str) -> bool {
    let account = context.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    let is_account = account.is_some_and(|(namespace, name)| {
        names::namespace_name(namespace, false).is_empty() && names::service_account_name(name, false).is_empty()
    });
    let nodes = context.extra.iter().find(|(key, _)| key == NODE_NAME).map(|(_, nodes)| &nodes[..]);
    let Some([own]) = nodes else { return false };
    is_account && names::dns1123_subdomain_name(own, false).is_empty() && own == node
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use pintle_registry::{
        GroupVersionKind, ObjectClient, Resource, StoredObject, StoredObjects, Strategy, VirtualAccess, WriteAccess,
    };

    use super::*;
    use crate::resource::claim::{ResourceClaimStrategy, ResourceClaimTemplateStrategy};
    use crate::resource::claim_status::ClaimStatusStrategy;
    use crate::resource::v1beta1::ApiVersion;
    use crate::testing::{context, gated_context, messages, object, run};

    /// The namespaces `labelled`, `other` and, after a refresh, `late`.
    #[derive(Default)]
    struct Namespaces(Mutex<bool>);

    impl ObjectClient for Namespaces {
        fn read(
            &self,
            resource: &GroupResource,
            _: &str,
            name: &str,
        ) -> Result<Option<Box<dyn StoredObject>>, ApiError> {
            assert_eq!(resource.to_string(), "namespaces");
            let labels = match name {
                "labelled" => r#"{"resource.kubernetes.io/admin-access":"true"}"#,
                "late" if *self.0.lock().unwrap() => r#"{"resource.kubernetes.io/admin-access":"true"}"#,
                "other" => r#"{"resource.kubernetes.io/admin-access":"yes"}"#,
                _ => return Ok(None),
            };
            Ok(Some(Box::new(object(&format!(r#"{{"metadata":{{"labels":{labels}}}}}"#)))))
        }

        fn refresh(&self) -> BoxFuture<'_, Result<(), ApiError>> {
            *self.0.lock().unwrap() = true;
            Box::pin(async { Ok(()) })
        }

        fn read_all(&self, _: &GroupResource, _: &str) -> Result<StoredObjects, ApiError> {
            Ok(Box::new(std::iter::empty()))
        }

        fn last_change(&self, _: &GroupResource) -> Result<u64, ApiError> {
            Ok(0)
        }

        fn is_crd_terminating(&self, _: &Resource) -> Result<bool, ApiError> {
            Ok(false)
        }

        fn resource_of_kind(&self, _: &GroupVersionKind) -> Option<std::sync::Arc<Resource>> {
            None
        }

        fn serves(&self, _: &str, _: &str) -> bool {
            false
        }

        fn create<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
            Box::pin(async { Err(ApiError::NoSuchPath) })
        }

        fn update<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
            Box::pin(async { Err(ApiError::NoSuchPath) })
        }

        fn update_status<'a>(&'a self, _: &'a GroupResource, _: Value) -> BoxFuture<'a, Result<Value, ApiError>> {
            Box::pin(async { Err(ApiError::NoSuchPath) })
        }

        fn delete<'a>(&'a self, _: &'a GroupResource, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
            Box::pin(async { Err(ApiError::NoSuchPath) })
        }
    }

    /// Allows some accesses, and records all checked accesses.
    struct Access {
        verb: &'static str,
        allowed: &'static [&'static str],
        checked: Mutex<Vec<String>>,
    }

    impl WriteAccess for Access {
        fn verb(&self) -> &str {
            self.verb
        }

        fn check<'a>(&'a self, access: RequiredAccess<'a>) -> BoxFuture<'a, Result<(), String>> {
            let RequiredAccess { verb, subresource, namespace, name } = access;
            let access = format!("{verb} {subresource} {namespace}/{name}");
            let result = if self.allowed.contains(&&*access) { Ok(()) } else { Err(format!("no {access}")) };
            self.checked.lock().unwrap().push(access);
            Box::pin(async { result })
        }

        fn allows_virtual<'a>(&'a self, _: VirtualAccess<'a>) -> BoxFuture<'a, bool> {
            Box::pin(async { false })
        }
    }

    #[test]
    fn admin_access_requires_a_label_of_the_namespace() {
        let check = |rules: &dyn Strategy, json: &str, old: Option<&str>, expect: &[&str]| {
            let (object, old) = (object(json), old.map(object));
            let access = Access { verb: "create", allowed: &[], checked: Mutex::default() };
            let write = ValidatedWrite {
                context: &context(),
                object: &object,
                old: old.as_ref(),
                client: &Namespaces::default(),
                access: &access,
            };
            let errors = run(rules.cluster_validation().expect("rules").validate(write));
            assert_eq!(messages(&errors), expect, "{json}");
        };
        let claim = |namespace: &str, access: &str| {
            format!(
                r#"{{"metadata":{{"namespace":"{namespace}"}},"spec":{{"devices":{{"requests":[{{}},{{"exactly":{{"adminAccess":{access}}}}}]}}}}}}"#
            )
        };
        let template = |namespace: &str| {
            format!(
                r#"{{"metadata":{{"namespace":"{namespace}"}},"spec":{{"spec":{{"devices":{{"requests":[{{}},{{"exactly":{{"adminAccess":true}}}}]}}}}}}}}"#
            )
        };
        let forbidden = "spec.devices.requests[1].adminAccess: Forbidden: admin access to devices requires the \
                         `resource.kubernetes.io/admin-access: true` label on the containing namespace";
        let missing = "spec.devices.requests[1].adminAccess: Internal error: could not retrieve namespace to verify admin \
                       access: namespaces \"none\" not found";
        for namespace in ["labelled", "late"] {
            check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim(namespace, "true"), None, &[]);
            check(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, &template(namespace), None, &[]);
        }
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim("other", "false"), None, &[]);
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim("other", "true"), None, &[forbidden]);
        check(&ResourceClaimTemplateStrategy { version: ApiVersion::V1 }, &template("other"), None, &[forbidden]);
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim("none", "true"), None, &[missing]);
        check(&ResourceClaimStrategy { version: ApiVersion::V1 }, &claim("other", "true"), Some("{}"), &[]);
    }

    /// A claim in the namespace `other` with this status.
    fn claim(status: &str) -> Value {
        object(&format!(r#"{{"metadata":{{"namespace":"other"}},"status":{status}}}"#))
    }

    /// Validates an update of a status. Returns the errors and the accesses that were checked.
    fn validate(
        context: &StrategyContext,
        allowed: &'static [&'static str],
        verb: &'static str,
        (status, old): (&str, &str),
    ) -> (Vec<String>, Vec<String>) {
        use pintle_registry::SubresourceStrategy;
        let access = Access { verb, allowed, checked: Mutex::default() };
        let (object, old) = (claim(status), claim(old));
        let client = Namespaces::default();
        let write = ValidatedWrite { context, object: &object, old: Some(&old), client: &client, access: &access };
        let errors = run(ClaimStatusStrategy.cluster_validation().expect("rules").validate(write));
        (messages(&errors), access.checked.into_inner().unwrap())
    }

    const WITHOUT_AUTHORIZATION: [(&str, bool); 1] = [("DRAResourceClaimGranularStatusAuthorization", false)];

    #[test]
    fn allocations_with_admin_access_require_the_label_too() {
        let check = |status: &str, old: &str, expect: &[&str]| {
            let (errors, checked) = validate(&gated_context(&WITHOUT_AUTHORIZATION), &[], "update", (status, old));
            assert_eq!(errors, expect);
            assert_eq!(checked, Vec::<String>::new());
        };
        let allocated = |access: &str| format!(r#"{{"allocation":{{"devices":{{"results":[{{}},{{{access}}}]}}}}}}"#);
        let with = allocated(r#""adminAccess":true"#);
        check(&allocated(""), "{}", &[]);
        check(
            &with,
            "{}",
            &["status.allocation.devices.results[1].adminAccess: Forbidden: admin access to devices requires the \
               `resource.kubernetes.io/admin-access: true` label on the containing namespace"],
        );
        check(&with, &with, &[]);
    }

    #[test]
    fn changes_of_the_status_require_permissions() {
        const BINDING: &str = "update binding /";
        let check = |(status, old): (&str, &str), allowed, expect: &[&str], checked: &[&str]| {
            let found = validate(&context(), allowed, "update", (status, old));
            assert_eq!((&found.0[..], &found.1[..]), (&expect.map_owned()[..], &checked.map_owned()[..]), "{status}");
        };
        let binding = "status: Forbidden: changing status.allocation or status.reservedFor requires \
                       resource=\"resourceclaims/binding\", verb=\"update\" permission: no update binding /";
        let allocation = r#"{"allocation":{"devices":{}}}"#;
        let reservation = r#"{"reservedFor":[{"uid":"1"}]}"#;
        check((allocation, "{}"), &[BINDING], &[], &[BINDING]);
        check((allocation, "{}"), &[], &[binding], &[BINDING]);
        check(("{}", allocation), &[], &[binding], &[BINDING]);
        check((reservation, "{}"), &[], &[binding], &[BINDING]);
        check((allocation, allocation), &[], &[], &[]);

        let device = |driver: &str, data: &str| {
            format!(r#"{{"driver":"{driver}","pool":"p","device":"d","data":{{"a":{data}}}}}"#)
        };
        let devices = |items: &[&str]| format!(r#"{{"devices":[{}]}}"#, items.join(","));
        let driver = |name: &str| {
            format!(
                "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                 verb=\"[arbitrary-node:update]\" permission: no arbitrary-node:update driver other/{name}"
            )
        };
        let (a, b, c) = (device("a", "1"), device("b", "1"), device("c", "1"));
        const A: &str = "arbitrary-node:update driver other/a";
        const B: &str = "arbitrary-node:update driver other/b";
        const C: &str = "arbitrary-node:update driver other/c";
        check((&devices(&[&a]), "{}"), &[], &[&driver("a")], &[A]);
        check((&devices(&[&a]), "{}"), &[A], &[], &[A]);
        check(("{}", &devices(&[&a])), &[A], &[], &[A]);
        let old = devices(&[&a, &b, &c]);
        check((&old, &old), &[], &[], &[]);
        // One is changed, one is removed, one stays.
        check((&devices(&[&c, &device("a", "2")]), &old), &[A], &[&driver("b")], &[A, B]);
        check((&devices(&[&a]), &old), &[B], &[&driver("c")], &[B, C]);
    }

    #[test]
    fn drivers_on_the_node_of_the_allocation_need_less() {
        const ACCOUNT: &str = "system:serviceaccount:kube-system:driver";
        let check = |user: &str, nodes: &[&str], selector: &str, allowed, expect: (usize, &[&str])| {
            let extra = vec![(NODE_NAME.into(), nodes.iter().map(|node| (*node).into()).collect())];
            let context = StrategyContext { user: user.into(), extra, ..context() };
            let allocation = format!(r#""allocation":{{"nodeSelector":{{"nodeSelectorTerms":{selector}}}}}"#);
            let status = format!(r#"{{{allocation},"devices":[{{"driver":"a"}}]}}"#);
            let (errors, checked) = validate(&context, allowed, "patch", (&status, &format!("{{{allocation}}}")));
            assert_eq!(
                (errors.len(), &checked[..]),
                (expect.0, &expect.1.map_owned()[..]),
                "{user} {nodes:?} {selector}"
            );
            if errors.len() == 1 && checked.len() == 2 {
                assert_eq!(
                    errors[0],
                    "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                     verb=\"[associated-node:patch arbitrary-node:patch]\" permission: no associated-node:patch driver other/a"
                );
            }
        };
        const HERE: &str = r#"[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]"#;
        const ASSOCIATED: &str = "associated-node:patch driver other/a";
        const ARBITRARY: &str = "arbitrary-node:patch driver other/a";
        check(ACCOUNT, &["n"], HERE, &[ASSOCIATED], (0, &[ASSOCIATED]));
        check(ACCOUNT, &["n"], HERE, &[ARBITRARY], (0, &[ASSOCIATED, ARBITRARY]));
        check(ACCOUNT, &["n"], HERE, &[], (1, &[ASSOCIATED, ARBITRARY]));
        let elsewhere = (1, &[ARBITRARY][..]);
        check(ACCOUNT, &["m"], HERE, &[ASSOCIATED], elsewhere);
        check(ACCOUNT, &["n", "n"], HERE, &[ASSOCIATED], elsewhere);
        check(ACCOUNT, &[], HERE, &[ASSOCIATED], elsewhere);
        check("system:node:n", &["n"], HERE, &[ASSOCIATED], elsewhere);
        check("system:serviceaccount:a:b:c", &["n"], HERE, &[ASSOCIATED], elsewhere);
        for selector in [
            "[]",
            "[{},{}]",
            r#"[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n","m"]}]}]"#,
            r#"[{"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n"]}]}]"#,
            r#"[{"matchFields":[{"key":"name","operator":"In","values":["n"]}]}]"#,
            r#"[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}],"matchExpressions":[{}]}]"#,
        ] {
            check(ACCOUNT, &["n"], selector, &[ASSOCIATED], elsewhere);
        }
    }

    /// The texts of a list as strings.
    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for [&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|text| (*text).to_owned()).collect()
        }
    }
}
