//! The messages of Pod Security that people know from kubectl.

use super::client::Kubectl;

#[test]
fn pods_are_refused_and_workloads_and_namespaces_warned_of() {
    let k = Kubectl::start();
    k.prints("create namespace team", "namespace/team created");
    k.prints("run early --image=busybox -n team", "pod/early created");
    let labelled = k.succeeds("label namespace team pod-security.kubernetes.io/enforce=restricted");
    assert_eq!(
        labelled.stderr,
        "Warning: existing pods in namespace \"team\" violate the new PodSecurity enforce level \"restricted:latest\"\n\
         Warning: early: allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, \
         seccompProfile\n",
    );
    labelled.prints("namespace/team labeled");
    let violations = |container: &str| {
        format!(
            "allowPrivilegeEscalation != false (container \"{container}\" must set \
             securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"{container}\" must \
             set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"{container}\" \
             must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"{container}\" must set \
             securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        )
    };
    k.fails(
        "run late --image=busybox -n team",
        &format!(
            "Error from server (Forbidden): pods \"late\" is forbidden: violates PodSecurity \"restricted:latest\": {}",
            violations("late"),
        ),
    );
    let created = k.succeeds("create deployment web --image=nginx -n team --dry-run=server");
    let warning = format!("Warning: would violate PodSecurity \"restricted:latest\": {}\n", violations("nginx"));
    assert_eq!(created.stderr, warning);
    created.prints("deployment.apps/web created (server dry run)");
    k.fails(
        "label namespace team --overwrite pod-security.kubernetes.io/enforce=strict",
        "The Namespace \"team\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \
         \"strict\": must be one of privileged, baseline, restricted",
    );
}
