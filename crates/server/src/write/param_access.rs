//! Checks that a user who writes an admission policy or its binding can read the parameters to which it refers.
//! Upstream:
//! `pkg/registry/admissionregistration/{validatingadmissionpolicy,validatingadmissionpolicybinding}/authz.go`.

use pintle_auth::rbac::escalation_allowed;
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_registry::{EscalationCheck, GroupResource, GroupVersion, GroupVersionKind, Resource};
use pintle_value::{Errors, FieldPath, Value};

use crate::context::RequestContext;

/// Checks a write after its validation. `old` is the object before an update.
pub(super) async fn check(
    request: &RequestContext,
    resource: &Resource,
    object: &Value,
    old: Option<&Value>,
) -> Errors {
    let mut errors = Errors::new();
    let Some(check) = resource.strategy.escalation_check() else { return errors };
    let spec = FieldPath::new("spec");
    match check {
        EscalationCheck::ParamKind => {
            if let Err(why) = check_kind(request, object, old).await {
                errors.forbidden(&spec.child("paramKind"), why);
            }
        }
        EscalationCheck::ParamRef { policies } => {
            let policies = GroupResource::new(resource.group.clone(), policies);
            if let Err(why) = check_reference(request, &policies, object).await {
                errors.forbidden(&spec.child("paramRef"), why);
            }
        }
        EscalationCheck::Role | EscalationCheck::Binding => {}
    }
    errors
}

/// Checks that the user can get all objects of a policy's `paramKind`, if the update changes the `paramKind`.
async fn check_kind(request: &RequestContext, policy: &Value, old: Option<&Value>) -> Result<(), String> {
    let path = ["spec", "paramKind"];
    let Some(kind) = policy.at(&path) else { return Ok(()) };
    if old.is_some_and(|old| old.at(&path) == Some(kind)) || escalation_allowed(&request.user) {
        return Ok(());
    }
    let target = ParamResource::of(request, kind);
    let attributes = AuthorizationAttributes { verb: "get", name: "*", namespace: "*", ..target.attributes() };
    if is_allowed(request, &attributes).await? {
        return Ok(());
    }
    let user = printed(&request.user);
    let [api_version, kind] = ["apiVersion", "kind"].map(|field| kind.str_at(&[field]));
    Err(format!(
        "user {user} must have \"get\" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={api_version})"
    ))
}

/// Checks that the user can read the objects that a binding's `paramRef` selects. Upstream compares the old and the new
/// reference by their pointers, so it checks every update.
async fn check_reference(request: &RequestContext, policies: &GroupResource, binding: &Value) -> Result<(), String> {
    let Some(reference) = binding.at(&["spec", "paramRef"]) else { return Ok(()) };
    if escalation_allowed(&request.user) {
        return Ok(());
    }
    let policy = request.cluster.read_object(policies, "", binding.str_at(&["spec", "policyName"]));
    let policy = policy.ok().flatten().and_then(|policy| policy.decode().ok());
    let kind = policy.as_ref().and_then(|policy| policy.at(&["spec", "paramKind"]));
    let target = kind.map_or_else(ParamResource::any, |kind| ParamResource::of(request, kind));
    let name = reference.str_at(&["name"]);
    let verb = if name.is_empty() { "list" } else { "get" };
    let namespace = reference.str_at(&["namespace"]);
    let attributes = AuthorizationAttributes { verb, name, namespace, ..target.attributes() };
    if is_allowed(request, &attributes).await? {
        return Ok(());
    }
    // Upstream's message confuses the verb and the user.
    let user = printed(&request.user);
    Err(format!("user {verb} does not have \"{user}\" permission on the object referenced by paramRef"))
}

/// The resource of a `paramKind`. Unknown parts are `*`.
struct ParamResource {
    version: GroupVersion,
    plural: String,
}

impl ParamResource {
    fn any() -> Self {
        Self { version: GroupVersion::new("*", "*"), plural: "*".to_owned() }
    }

    fn of(request: &RequestContext, kind: &Value) -> Self {
        let Some(version) = GroupVersion::parse(kind.str_at(&["apiVersion"])) else { return Self::any() };
        let kind = GroupVersionKind::new(version.group.clone(), version.version.clone(), kind.str_at(&["kind"]));
        let plural =
            request.cluster.registry().kind(&kind).map_or_else(|| "*".to_owned(), |found| found.plural.to_string());
        Self { version, plural }
    }

    fn attributes(&self) -> AuthorizationAttributes<'_> {
        AuthorizationAttributes {
            group: &self.version.group,
            version: &self.version.version,
            resource: &self.plural,
            ..AuthorizationAttributes::default()
        }
    }
}

async fn is_allowed(request: &RequestContext, attributes: &AuthorizationAttributes<'_>) -> Result<bool, String> {
    let authorization = request.access.authorizer.authorize(&request.user, attributes).await;
    match authorization.error {
        Some(error) if !authorization.is_allowed() => Err(error),
        _ => Ok(authorization.is_allowed()),
    }
}

/// A user as Go prints it with `%v`.
fn printed(user: &UserInfo) -> String {
    let mut extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    extra.sort();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
