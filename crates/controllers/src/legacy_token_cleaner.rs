//! Marks legacy tokens that nobody has used for a year as invalid, and deletes them a year later (upstream:
//! `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go`). Only tokens that were once generated for
//! their service account are cleaned up. Tokens that were created by hand or that a pod mounts stay.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use memchr::memmem;
use pintle_auth::node::pod_secret_names;
use pintle_auth::service_account::{INVALID_SINCE_LABEL, LAST_USED_LABEL};
use pintle_cache::{KeyRange, Object};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource};
use pintle_value::Value;
use pintle_value::time::Time;

use crate::controller_manager::{self, CONTROLLER_MANAGER};
use crate::legacy_token_tracking::{DATE_LENGTH, tracking_ref};
use crate::objects::{find, tree, watch_cache_of};
use crate::token_secrets::{ServiceAccountRef, TOKEN_TYPE};
use crate::{ClusterClient, DeleteRequest, ObjectRef};

/// The name of the controller.
pub(crate) const LEGACY_TOKEN_CLEANER: &str = "legacy-serviceaccount-token-cleaner-controller";
/// How often secrets are examined.
const SYNC_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a token has to be unused, and then invalid (`--legacy-service-account-token-clean-up-period`), in seconds.
const CLEAN_UP_PERIOD: i64 = 365 * 24 * 60 * 60;
const DAY: i64 = 24 * 60 * 60;

/// The decision about a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleanUp {
    Keep,
    MarkInvalid,
    Delete,
}

/// The text of a time's date.
fn date(time: Time) -> String {
    let mut text = time.rfc3339();
    text.truncate(DATE_LENGTH);
    text
}

fn is_date(text: &str) -> bool {
    Time::parse_date(text).is_ok()
}

/// Decides about a secret that its service account lists and no pod mounts. Dates are compared as texts, as in
/// upstream.
fn clean_up(secret: &Value, now: Time) -> CleanUp {
    let preserved_since = Time { seconds: now.seconds - CLEAN_UP_PERIOD, ..now };
    let preserved_date = date(preserved_since);
    let created = secret.time_at(&["metadata", "creationTimestamp"]).unwrap_or(now);
    if created >= preserved_since || secret.is_terminating() {
        return CleanUp::Keep;
    }
    let label = |key: &str| secret.at(&["metadata", "labels", key]).and_then(Value::as_str);
    // A token without the label has not been used since the tracking of uses began. A label that is no date says
    // nothing.
    if label(LAST_USED_LABEL).is_some_and(|used| !is_date(used) || *used >= *preserved_date) {
        return CleanUp::Keep;
    }
    match label(INVALID_SINCE_LABEL).filter(|since| is_date(since)) {
        None => CleanUp::MarkInvalid,
        Some(since) if *since >= *preserved_date => CleanUp::Keep,
        Some(_) => CleanUp::Delete,
    }
}

/// True if uses have been tracked long enough.
fn is_tracked_long_enough(client: &Arc<dyn ClusterClient>, now: Time) -> bool {
    let since = find(client, &tracking_ref()).and_then(|map| Time::parse_date(map.str_at(&["data", "since"])).ok());
    // Tracking began at some time of that day.
    since.is_some_and(|since| now.seconds >= since.seconds + DAY + CLEAN_UP_PERIOD)
}

/// Runs the controller until the cluster is gone.
pub(crate) async fn run(client: Weak<dyn ClusterClient>) {
    while let Some(strong) = client.upgrade() {
        // The next round is due a day after this one begins, however long it takes.
        let pause = strong.sleep(SYNC_INTERVAL);
        clean_up_all(&strong).await;
        drop(strong);
        pause.await;
    }
}

async fn clean_up_all(client: &Arc<dyn ClusterClient>) {
    let now = client.now();
    if controller_manager::is_active(client) || !is_tracked_long_enough(client, now) {
        return;
    }
    let Some(secrets) = watch_cache_of(client, &GroupResource::new("", "secrets")) else { return };
    let is_token = memmem::Finder::new(TOKEN_TYPE);
    let mut mounted = HashMap::new();
    for stored in secrets.objects(KeyRange::All).filter(|secret| is_token.find(&secret.json).is_some()) {
        let Some(secret) = tree(&stored) else { continue };
        let action = clean_up(&secret, now);
        if action == CleanUp::Keep || !is_listed_by_its_account(client, &stored, secret.name()) {
            continue;
        }
        let namespace = secret.namespace().to_owned();
        let mounted = mounted.entry(namespace).or_insert_with_key(|namespace| mounted_secrets(client, namespace));
        if mounted.as_ref().is_none_or(|mounted| mounted.contains(secret.name())) {
            continue;
        }
        match carry_out(client, action, &stored, &secret, now).await {
            Ok(()) | Err(ApiError::NotFound { .. } | ApiError::Conflict { .. }) => {}
            Err(error) => {
                let (namespace, name) = (secret.namespace(), secret.name());
                tracing::warn!(%error, namespace, name, "Failed to clean up a legacy service account token, will retry");
            }
        }
    }
}

/// True if the service account of a secret exists and lists the secret.
fn is_listed_by_its_account(client: &Arc<dyn ClusterClient>, secret: &Object, name: &str) -> bool {
    let account = ServiceAccountRef::of(secret).and_then(|account| account.find(client).ok().flatten());
    account.is_some_and(|account| {
        account.items_at(&["secrets"]).iter().any(|reference| reference.str_at(&["name"]) == name)
    })
}

/// The names of the secrets that the pods of a namespace refer to; `None` if a pod is corrupt, because it may mount any
/// secret.
fn mounted_secrets(client: &Arc<dyn ClusterClient>, namespace: &str) -> Option<BTreeSet<String>> {
    let pods = watch_cache_of(client, &GroupResource::new("", "pods"))?;
    let range = KeyRange::Namespace(namespace.into());
    if !pods.corrupt(&range, None).is_empty() {
        tracing::warn!(namespace, "A pod is corrupt, so legacy service account tokens are not cleaned up");
        return None;
    }
    let mut names = BTreeSet::new();
    for pod in pods.objects(range) {
        names.extend(pod_secret_names(&tree(&pod)?));
    }
    Some(names)
}

async fn carry_out(
    client: &Arc<dyn ClusterClient>,
    action: CleanUp,
    stored: &Object,
    secret: &Value,
    now: Time,
) -> Result<(), ApiError> {
    let (namespace, name) = (secret.namespace().to_owned(), secret.name().to_owned());
    let target = ObjectRef { resource: GroupResource::new("", "secrets"), namespace, name };
    match action {
        CleanUp::Keep => Ok(()),
        CleanUp::MarkInvalid => {
            let (uid, since) = (secret.uid().to_owned(), date(now));
            tracing::info!(
                namespace = target.namespace,
                name = target.name,
                "Mark the auto-generated service account token as invalid"
            );
            let mark = move |secret: &Value| {
                let mut secret = secret.clone();
                if secret.uid() == uid {
                    secret.set_at(&["metadata", "labels", INVALID_SINCE_LABEL], since.as_str());
                }
                secret
            };
            client.clone().update_as(target, "", CONTROLLER_MANAGER, Arc::new(mark)).await.map(drop)
        }
        CleanUp::Delete => {
            tracing::info!(
                namespace = target.namespace,
                name = target.name,
                "Delete auto-generated service account token"
            );
            let request = DeleteRequest {
                uid: secret.uid().into(),
                revision: stored.revision,
                propagation: DeletionPropagation::Background,
            };
            client.clone().delete(target, request).await
        }
    }
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    #[test]
    fn unused_tokens_are_marked_and_deleted_a_year_later() {
        let now = Time::parse_rfc3339("2026-06-15T12:00:00Z").expect("a time");
        let check = |created: &str, used: Option<&str>, invalid: Option<&str>, expect: CleanUp| {
            let mut secret = object! { "metadata": object! { "creationTimestamp": created } };
            for (key, value) in [(LAST_USED_LABEL, used), (INVALID_SINCE_LABEL, invalid)] {
                if let Some(value) = value {
                    secret.set_at(&["metadata", "labels", key], value);
                }
            }
            assert_eq!(clean_up(&secret, now), expect, "{created} {used:?} {invalid:?}");
            secret.set_at(&["metadata", "deletionTimestamp"], created);
            assert_eq!(clean_up(&secret, now), CleanUp::Keep);
        };
        let old = "2025-06-15T11:59:59Z";
        check("2025-06-15T12:00:00Z", None, None, CleanUp::Keep);
        check(old, None, None, CleanUp::MarkInvalid);
        check(old, Some("2025-06-14"), None, CleanUp::MarkInvalid);
        check(old, Some("2025-06-15"), None, CleanUp::Keep);
        check(old, Some("yesterday"), None, CleanUp::Keep);
        check(old, None, Some("yesterday"), CleanUp::MarkInvalid);
        check(old, None, Some("2025-06-15"), CleanUp::Keep);
        check(old, None, Some("2025-06-14"), CleanUp::Delete);
        check(old, Some("2025-06-15"), Some("2025-06-14"), CleanUp::Keep);
    }
}
