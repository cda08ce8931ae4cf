//! The plugin `ServiceAccount` (upstream: `plugin/pkg/admission/serviceaccount`). Every pod runs as a service account
//! that exists. The pod gets the account's image pull secrets and a volume with the account's token.
//!
//! - `token_volume`: the volume with the token, and its mounts.
//! - `secrets`: the secrets of a pod that its account allows.

mod secrets;
mod token_volume;

use std::sync::LazyLock;
use std::time::Duration;

use memchr::memmem::Finder;
use pintle_auth::node::{is_mirror_pod, pod_secret_names};
use pintle_codec::json::Projection;
use pintle_registry::{ApiError, BoxFuture, GroupResource};
use pintle_value::{Value, parse_bool};

use crate::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};

/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";
/// How often the account `default` is looked up. A controller creates it in every namespace.
const DEFAULT_ACCOUNT_ATTEMPTS: u32 = 10;
/// The pause between two attempts. Upstream waits for a random time from 100 to 200 ms.
const RETRY_INTERVAL: Duration = Duration::from_millis(150);
/// The annotation of accounts whose pods may use only the secrets that the account has.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// The fields of an account that the plugin reads.
static FIELDS: LazyLock<Projection> = LazyLock::new(|| {
    Projection::of([
        "automountServiceAccountToken",
        "imagePullSecrets",
        "metadata.annotations",
        "metadata.name",
        "secrets",
    ])
});

/// The texts in an account that matter for its pods. Most accounts contain none of them.
static FINDERS: LazyLock<[Finder<'_>; 3]> =
    LazyLock::new(|| [ENFORCE_MOUNTABLE_SECRETS, "automountServiceAccountToken", "imagePullSecrets"].map(Finder::new));

/// The admission plugin `ServiceAccount`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceAccount;

fn is_update_of_ephemeral_containers(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation == AdmissionOperation::Update
        && attributes.resource.is("", "pods")
        && attributes.subresource == "ephemeralcontainers"
}

fn account_name(pod: &Value) -> &str {
    pod.str_at(&["spec", "serviceAccountName"])
}

/// Gets the fields of a pod's service account that matter. Waits a while for the account `default`.
async fn account_of(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<Value, ApiError> {
    let (namespace, name) = (attributes.namespace, account_name(pod));
    let failed = |error: ApiError| {
        attributes.forbidden(pod, format!("error looking up service account {namespace}/{name}: {error}"))
    };
    let accounts = GroupResource::new("", "serviceaccounts");
    let attempts = if name == DEFAULT_ACCOUNT { DEFAULT_ACCOUNT_ATTEMPTS } else { 1 };
    for attempt in 0..attempts {
        if attempt > 0 {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        let mut found = attributes.client.read(&accounts, namespace, name).map_err(failed)?;
        if found.is_none() && attempt + 1 == attempts {
            // Another server may have created it just now.
            attributes.client.refresh().await.map_err(failed)?;
            found = attributes.client.read(&accounts, namespace, name).map_err(failed)?;
        }
        if let Some(account) = found {
            if !FINDERS.iter().any(|text| account.may_contain(text)) {
                return Ok(Value::object());
            }
            return account.decode_fields(&FIELDS).map_err(failed);
        }
    }
    // Upstream names the resource in the singular here.
    Err(failed(ApiError::NotFound { resource: GroupResource::new("", "serviceaccount"), name: name.into() }))
}

fn enforces_mountable_secrets(account: &Value) -> bool {
    account.annotation(ENFORCE_MOUNTABLE_SECRETS).is_some_and(|text| parse_bool(text).unwrap_or_default())
}

/// Sets the fields that a new pod takes from its account.
async fn complete(attributes: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
    if account_name(pod).is_empty()
        && let Some(spec) = pod.get_mut("spec")
    {
        spec.set("serviceAccountName", DEFAULT_ACCOUNT);
        // The deprecated alias of the field.
        spec.set("serviceAccount", DEFAULT_ACCOUNT);
    }
    let account = account_of(attributes, pod).await?;
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    let automount = |object: &Value| object.get("automountServiceAccountToken").and_then(Value::as_bool);
    // The pod's setting takes precedence over the account's.
    if automount(spec).or_else(|| automount(&account)).unwrap_or(true) {
        token_volume::mount(spec);
    }
    if spec.items_at(&["imagePullSecrets"]).is_empty() {
        let secrets = account.items_at(&["imagePullSecrets"]);
        if !secrets.is_empty() {
            spec.set("imagePullSecrets", secrets.to_vec());
        }
    }
    check_new_pod_of(attributes, pod, &account)
}

/// Checks a new pod.
async fn check_new_pod(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let account = account_of_named(attributes, pod).await?;
    check_new_pod_of(attributes, pod, &account)
}

fn check_new_pod_of(attributes: &AdmissionAttributes<'_>, pod: &Value, account: &Value) -> Result<(), ApiError> {
    if enforces_mountable_secrets(account) {
        secrets::check_pod(account, pod).map_err(|why| attributes.forbidden(pod, why))?;
    }
    Ok(())
}

/// Checks the ephemeral containers of a pod.
async fn check_ephemeral_containers(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let account = account_of_named(attributes, pod).await?;
    if enforces_mountable_secrets(&account) {
        // Upstream returns this error without a status.
        secrets::check_ephemeral_containers(&account, pod).map_err(ApiError::Unclassified)?;
    }
    Ok(())
}

/// Gets the service account that a pod must name.
async fn account_of_named(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<Value, ApiError> {
    if account_name(pod).is_empty() {
        let why = format!("no service account specified for pod {}/{}", attributes.namespace, pod.name());
        return Err(attributes.forbidden(pod, why));
    }
    account_of(attributes, pod).await
}

/// Checks that a mirror pod refers to no object of the API server. The kubelet would delete the pod if the plugin
/// changed it.
fn check_mirror_pod(attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
    let why = if !account_name(pod).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if !pod_secret_names(pod).is_empty() {
        "a mirror pod may not reference secrets"
    } else if token_volume::has_projected_token(pod) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(attributes.forbidden(pod, why))
}

impl AdmissionPlugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates("", "pods") || is_update_of_ephemeral_containers(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            match is_mirror_pod(object) {
                _ if is_update_of_ephemeral_containers(attributes) => Ok(()),
                true => check_mirror_pod(attributes, object),
                false => complete(attributes, object).await,
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(async move {
            match is_mirror_pod(object) {
                _ if is_update_of_ephemeral_containers(attributes) => {
                    check_ephemeral_containers(attributes, object).await
                }
                true => check_mirror_pod(attributes, object),
                false => check_new_pod(attributes, object).await,
            }
        })
    }
}

#[cfg(test)]
mod tests;
