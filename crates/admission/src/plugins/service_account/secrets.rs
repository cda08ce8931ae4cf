//! The secrets of a pod that its service account allows.

use std::collections::HashSet;

use pintle_value::Value;

/// The secrets from which a container takes variables, each with the variable. There is no variable if all entries of
/// the secret become variables.
fn variables(container: &Value) -> impl Iterator<Item = (Option<&str>, &str)> {
    let single = container.items_at(&["env"]).iter().filter_map(|variable| {
        let secret = variable.at(&["valueFrom", "secretKeyRef"])?;
        Some((Some(variable.str_at(&["name"])), secret.str_at(&["name"])))
    });
    let all = container.items_at(&["envFrom"]).iter().filter_map(|source| {
        let secret = source.get("secretRef")?;
        Some((None, secret.str_at(&["name"])))
    });
    single.chain(all)
}

fn names<'a>(account: &'a Value, list: &str) -> HashSet<&'a str> {
    account.items_at(&[list]).iter().map(|secret| secret.str_at(&["name"])).collect()
}

/// Checks that a pod uses only secrets of its service account.
///
/// # Errors
/// The first secret that it may not use, in upstream's words.
pub(super) fn check_pod(account: &Value, pod: &Value) -> Result<(), String> {
    let mountable = names(account, "secrets");
    for volume in pod.items_at(&["spec", "volumes"]) {
        let Some(source) = volume.get("secret") else { continue };
        let secret = source.str_at(&["secretName"]);
        if !mountable.contains(secret) {
            return Err(format!("volume with secret.secretName=\"{secret}\" {}", not_allowed(account, "secret")));
        }
    }
    for (list, what) in [("initContainers", "init container"), ("containers", "container")] {
        check_containers(account, &mountable, pod.items_at(&["spec", list]), what)?;
    }
    let pullable = names(account, "imagePullSecrets");
    for (i, secret) in pod.items_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]);
        if !pullable.contains(secret) {
            let why = not_allowed(account, "imagePullSecret");
            return Err(format!("imagePullSecrets[{i}].name=\"{secret}\" {why}"));
        }
    }
    Ok(())
}

/// Checks that the ephemeral containers of a pod use only secrets of its service account.
///
/// # Errors
/// The first secret that they may not use, in upstream's words.
pub(super) fn check_ephemeral_containers(account: &Value, pod: &Value) -> Result<(), String> {
    let containers = pod.items_at(&["spec", "ephemeralContainers"]);
    check_containers(account, &names(account, "secrets"), containers, "ephemeral container")
}

fn check_containers(
    account: &Value,
    mountable: &HashSet<&str>,
    containers: &[Value],
    what: &str,
) -> Result<(), String> {
    for container in containers {
        if let Some((variable, secret)) = variables(container).find(|(_, secret)| !mountable.contains(secret)) {
            let source = variable.map_or_else(|| "envFrom".to_owned(), |variable| format!("envVar {variable}"));
            return Err(format!(
                "{what} {} with {source} referencing secret.secretName=\"{secret}\" {}",
                container.str_at(&["name"]),
                not_allowed(account, "secret")
            ));
        }
    }
    Ok(())
}

fn not_allowed(account: &Value, what: &str) -> String {
    format!("is not allowed because service account {} does not reference that {what}", account.name())
}
