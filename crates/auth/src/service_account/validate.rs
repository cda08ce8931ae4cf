//! Validates the claims of bound tokens: their times, and the existence of the objects to which they are bound
//! (upstream: `claims.go`).

use pintle_value::time::Time;

use super::claims::{ADMISSION_REVIEW_GROUPS, BoundClaims, ObjectClaim, TokenOwner};
use super::lookup::{ObjectIdentity, ServiceAccountLookup, TokenUse};
use crate::AuditAnnotation;
use crate::jwt::{ClaimsTimeError, RegisteredClaims};

/// The time for which an object that is being deleted still counts, in seconds.
const DELETION_LEEWAY_SECONDS: i64 = 60;

/// True if an object's deletion was requested longer ago than the leeway.
fn is_deleted(object: &ObjectIdentity, now: Time) -> bool {
    object.deleted_at.is_some_and(|at| (at.seconds + DELETION_LEEWAY_SECONDS, at.nanos) < (now.seconds, now.nanos))
}

/// Checks that an object to which a token is bound exists. `kind` begins the error for another uid.
fn check_bound(found: Option<ObjectIdentity>, claim: &ObjectClaim, kind: &str, now: Time) -> Result<(), String> {
    match found {
        Some(object) if !is_deleted(&object, now) => {
            if object.uid == claim.uid {
                return Ok(());
            }
            let reference = kind.to_lowercase();
            Err(format!(
                "{kind} UID ({}) does not match service account {reference} ref claim ({})",
                object.uid, claim.uid
            ))
        }
        _ => Err("service account token has been invalidated".to_owned()),
    }
}

/// Validates claims whose signature, issuer and audiences are valid. Returns the owner of the token and the annotations
/// of the audit event.
pub(super) fn validate_bound(
    lookup: &dyn ServiceAccountLookup,
    registered: &RegisteredClaims,
    claims: BoundClaims,
) -> Result<(TokenOwner, Vec<AuditAnnotation>), String> {
    let now = lookup.now();
    registered.validate_times(now).map_err(|error| match error {
        ClaimsTimeError::Expired => "service account token has expired",
        ClaimsTimeError::NotValidYet => "service account token is not valid yet",
        ClaimsTimeError::IssuedInTheFuture => "service account token is issued in the future",
    })?;
    let mut claim = claims.kubernetes;
    let review_groups = claim.attestations.remove(ADMISSION_REVIEW_GROUPS).unwrap_or_default();
    let (namespace, name) = (&*claim.namespace, &*claim.service_account.name);
    let account = lookup.service_account(namespace, name)?;
    if is_deleted(&account, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    if account.uid != claim.service_account.uid {
        let claimed = &claim.service_account.uid;
        return Err(format!("service account UID ({}) does not match claim ({claimed})", account.uid));
    }
    if let Some(secret) = &claim.secret {
        check_bound(lookup.secret(namespace, &secret.name), secret, "secret", now)?;
    }
    if let Some(pod) = &claim.pod {
        check_bound(lookup.pod(namespace, &pod.name), pod, "pod", now)?;
    }
    // The node of a pod is not checked; the claim is only informative.
    if let (Some(node), None) = (&claim.node, &claim.pod) {
        check_bound(lookup.node(&node.name), node, "node", now)?;
    }
    for (kind, configuration) in claim.webhook_configurations() {
        check_bound(lookup.webhook_configuration(kind, &configuration.name), configuration, kind.name(), now)?;
    }
    let mut annotations = Vec::new();
    if let Some(after) = claim.warn_after.filter(|after| after.0 != 0) {
        let is_stale = (now.seconds, now.nanos) > (after.0, 0);
        lookup.record_use(if is_stale { TokenUse::Stale } else { TokenUse::Valid });
        if is_stale {
            let (subject, seconds) = (&registered.subject, now.seconds - after.0);
            let text = format!("subject: {subject}, seconds after warning threshold: {seconds}");
            annotations.push(("authentication.k8s.io/stale-token", text));
        }
    }
    let owner = TokenOwner {
        namespace: namespace.into(),
        name: name.into(),
        uid: claim.service_account.uid.into(),
        pod: claim.pod,
        node: claim.node,
        validating: claim.validating,
        mutating: claim.mutating,
        admission_review_groups: review_groups,
        token_id: registered.id.clone(),
    };
    Ok((owner, annotations))
}
