//! Pods that take about 2 KiB in the store, and the requests that a scheduler and a kubelet send for them.

use std::fmt::Write as _;

use bytes::Bytes;

use super::Xorshift;

/// The collection path of a namespace's Pods.
pub(crate) fn pods_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// A Pod assigned to `node`, or unassigned if `node` is empty.
pub(crate) fn pod(name: &str, node: &str, seed: u64) -> Bytes {
    let mut noise = Xorshift::new(seed);
    let (hash, revision) = (noise.next() as u32, noise.next());
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web-{}","pod-template-hash":"{hash:08x}","tier":"front"}},"annotations":{{"checksum/config":"{revision:016x}","example.com/scrape":"true"}}}},"spec":{}}}"#,
        seed % 100,
        spec(node, seed, &mut noise)
    )
    .into()
}

/// The pod spec in a workload's template.
pub(crate) fn pod_template(node: &str, seed: u64) -> String {
    spec(node, seed, &mut Xorshift::new(seed))
}

fn spec(node: &str, seed: u64, noise: &mut Xorshift) -> String {
    let mut variables = String::new();
    for number in 0..5 {
        let _ = write!(variables, r#"{{"name":"SETTING_{number}","value":"{:016x}"}},"#, noise.next());
    }
    let node = if node.is_empty() { String::new() } else { format!(r#""nodeName":"{node}","#) };
    format!(
        r#"{{{node}"automountServiceAccountToken":false,"containers":[{{"name":"app","image":"registry.example.com/shop/app:v1.{}","args":["--listen=:8080","--config=/etc/app/config.yaml"],"ports":[{{"name":"http","containerPort":8080}}],"env":[{variables}{{"name":"POD","valueFrom":{{"fieldRef":{{"fieldPath":"metadata.name"}}}}}}],"resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}},"limits":{{"memory":"256Mi"}}}},"livenessProbe":{{"httpGet":{{"path":"/healthz","port":"http"}},"periodSeconds":10}},"readinessProbe":{{"httpGet":{{"path":"/readyz","port":"http"}},"initialDelaySeconds":2}},"securityContext":{{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"runAsNonRoot":true}},"volumeMounts":[{{"name":"config","mountPath":"/etc/app"}}]}}],"volumes":[{{"name":"config","configMap":{{"name":"app"}}}}],"tolerations":[{{"key":"example.com/dedicated","operator":"Equal","value":"web","effect":"NoSchedule"}}]}}"#,
        seed % 10
    )
}

/// The Binding that a scheduler posts to assign a pod to a node.
pub(crate) fn binding(name: &str, node: &str) -> Bytes {
    format!(
        r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{name}"}},"target":{{"apiVersion":"v1","kind":"Node","name":"{node}"}}}}"#
    )
    .into()
}

/// The status patch by which a kubelet reports that a pod is running.
pub(crate) fn running_status_patch(seed: u64) -> Bytes {
    format!(
        r#"{{"status":{{"phase":"Running","podIP":"10.{}.{}.{}","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"2030-01-01T00:00:00Z"}}]}}}}"#,
        seed >> 16 & 0xff,
        seed >> 8 & 0xff,
        seed & 0xff
    )
    .into()
}

/// The status patch of a kubelet whose pod alternates between ready and unready, in the form of upstream's
/// `PatchPodStatus`.
pub(crate) fn kubelet_status_patch(seed: u64) -> Bytes {
    let (ready, minute, second) = (seed.is_multiple_of(2), seed / 60 % 60, seed % 60);
    let (status, reason) = match ready {
        true => ("True", ""),
        false => ("False", r#","reason":"ContainersNotReady","message":"containers with unready status: [app]""#),
    };
    let at = format!("2030-01-01T00:{minute:02}:{second:02}Z");
    format!(
        r#"{{"status":{{"$setElementOrder/conditions":[{{"type":"PodReadyToStartContainers"}},{{"type":"Initialized"}},{{"type":"Ready"}},{{"type":"ContainersReady"}},{{"type":"PodScheduled"}}],"conditions":[{{"lastTransitionTime":"{at}","status":"{status}","type":"Ready"{reason}}},{{"lastTransitionTime":"{at}","status":"{status}","type":"ContainersReady"{reason}}}],"containerStatuses":[{{"containerID":"containerd://0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0","image":"registry.example.com/shop/app:v1.7","imageID":"registry.example.com/shop/app@sha256:0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0","lastState":{{}},"name":"app","ready":{ready},"restartCount":0,"started":true,"state":{{"running":{{"startedAt":"2030-01-01T00:00:00Z"}}}}}}],"hostIP":"192.0.2.7","hostIPs":[{{"ip":"192.0.2.7"}}],"phase":"Running","podIP":"10.1.2.3","podIPs":[{{"ip":"10.1.2.3"}}],"startTime":"2030-01-01T00:00:00Z"}}}}"#
    )
    .into()
}
