//! Scenarios by upstream's cases. Each has the user, the write, the stored objects, and the text of the refusal.

use std::sync::Arc;

use pintle_auth::{AlwaysAllow, AlwaysDeny, UserInfo};
use pintle_value::Value;

use super::*;
use crate::testing::{Scenario, json};

fn plugin() -> NodeRestriction {
    NodeRestriction::new(&Gates::default())
}

/// The objects that are stored: the node `n`, its pod `here`, the pod `there` of another node, and volumes.
fn stored() -> Vec<Value> {
    [
        r#"{"kind":"Node","metadata":{"name":"n","uid":"n-uid"}}"#,
        r#"{"kind":"Pod","metadata":{"name":"here","namespace":"ns","uid":"here-uid"},"spec":{"nodeName":"n",
            "serviceAccountName":"sa","volumes":[
                {"name":"t","projected":{"sources":[{"serviceAccountToken":{"path":"p"}},
                    {"serviceAccountToken":{"audience":"vault","path":"q"}}]}},
                {"name":"inline","csi":{"driver":"inline.csi"}},
                {"name":"claim","persistentVolumeClaim":{"claimName":"claim"}},
                {"name":"scratch","ephemeral":{"volumeClaimTemplate":{}}},
                {"name":"lost","persistentVolumeClaim":{"claimName":"lost"}}]}}"#,
        r#"{"kind":"Pod","metadata":{"name":"there","namespace":"ns","uid":"there-uid"},"spec":{"nodeName":"other"}}"#,
        r#"{"kind":"Pod","metadata":{"name":"mirror","namespace":"ns","uid":"mirror-uid",
            "annotations":{"kubernetes.io/config.mirror":""}},"spec":{"nodeName":"n"}}"#,
        r#"{"kind":"CSIDriver","metadata":{"name":"inline.csi"},"spec":{"tokenRequests":[{"audience":"inline"}]}}"#,
        r#"{"kind":"CSIDriver","metadata":{"name":"claimed.csi"},"spec":{"tokenRequests":[{"audience":"claimed"}]}}"#,
        r#"{"kind":"CSIDriver","metadata":{"name":"ebs.csi.aws.com"},"spec":{"tokenRequests":[{"audience":"ebs"}]}}"#,
        r#"{"kind":"PersistentVolumeClaim","metadata":{"name":"claim","namespace":"ns"},"spec":{"volumeName":"v"}}"#,
        r#"{"kind":"PersistentVolumeClaim","metadata":{"name":"here-scratch","namespace":"ns"},"spec":{"volumeName":"e"}}"#,
        r#"{"kind":"PersistentVolume","metadata":{"name":"v"},"spec":{"csi":{"driver":"claimed.csi"}}}"#,
        r#"{"kind":"PersistentVolume","metadata":{"name":"e"},"spec":{"awsElasticBlockStore":{"volumeID":"x"}}}"#,
    ]
    .map(json)
    .into()
}

fn user(name: &str, group: &str) -> UserInfo {
    UserInfo { name: name.into(), groups: vec![group.into()], ..UserInfo::default() }
}

fn by_node(scenario: Scenario) -> Scenario {
    Scenario {
        user: user("system:node:n", "system:nodes"),
        stored: stored(),
        authorizer: Arc::new(AlwaysDeny),
        ..scenario
    }
}

/// Checks a write; the expected text follows the introduction of the error. It is empty if the write is allowed.
#[track_caller]
fn check(scenario: &Scenario, object: &str, expect: &str) {
    check_plugin(&plugin(), scenario, object, expect);
}

#[track_caller]
fn check_plugin(plugin: &NodeRestriction, scenario: &Scenario, object: &str, expect: &str) {
    let mut object = if object.is_empty() { Value::Null } else { json(object) };
    let given = object.clone();
    let found = scenario.mutate(plugin, &mut object).map_err(|error| error.to_string());
    let found = found.err().unwrap_or_default();
    let why = found.split_once(" is forbidden: ").map_or(&*found, |(_, why)| why);
    assert_eq!((why, &object), (expect, &given), "{given:?}");
}

#[test]
fn only_nodes_are_restricted() {
    let pod = r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{}}"#;
    let create = by_node(Scenario::create("", "pods"));
    let as_user = |name: &str, group: &str| Scenario { user: user(name, group), ..create.clone() };
    check(&as_user("jane", "system:nodes"), pod, "");
    check(&as_user("system:node:n", "dev"), pod, "");
    let unknown = r#"could not determine node from user "system:node:""#;
    check(&as_user("system:node:", "system:nodes"), pod, unknown);
    check(&by_node(Scenario::create("", "configmaps")), r#"{"metadata":{"name":"c","namespace":"ns"}}"#, "");
}

#[test]
fn nodes_create_mirror_pods_of_their_own_only() {
    let create = by_node(Scenario::create("", "pods"));
    let owner = r#"{"apiVersion":"v1","kind":"Node","name":"n","uid":"n-uid","controller":true}"#;
    let mirror = |owners: &str, spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","namespace":"ns","annotations":{{"kubernetes.io/config.mirror":""}},
                "ownerReferences":[{owners}]}},"spec":{{"nodeName":"n"{spec}}}}}"#
        )
    };
    check(&create, &mirror(owner, ""), "");
    check(
        &create,
        r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{"nodeName":"n"}}"#,
        r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods"#,
    );
    check(
        &create,
        &mirror(owner, "").replace(r#""nodeName":"n""#, r#""nodeName":"m""#),
        r#"node "n" can only create pods with spec.nodeName set to itself"#,
    );
    let owner_must_be_node = r#"node "n" can only create pods with an owner reference set to itself"#;
    for (owners, why) in [
        (String::new(), owner_must_be_node),
        (format!("{owner},{owner}"), r#"node "n" can only create pods with a single owner reference set to itself"#),
        (owner.replace(r#""name":"n""#, r#""name":"m""#), owner_must_be_node),
        (owner.replace("Node", "Pod"), owner_must_be_node),
        (owner.replace(r#""v1""#, r#""apps/v1""#), owner_must_be_node),
        (
            owner.replace("true", "false"),
            r#"node "n" can only create pods with a controller owner reference set to itself"#,
        ),
        (
            owner.replace("true", r#"true,"blockOwnerDeletion":true"#),
            r#"node "n" must not set blockOwnerDeletion on an owner reference"#,
        ),
        (owner.replace("n-uid", "old"), "node n UID mismatch: expected old got n-uid"),
    ] {
        check(&create, &mirror(&owners, ""), why);
    }
    let without_node = Scenario { stored: Vec::new(), ..create.clone() };
    check(&without_node, &mirror(owner, ""), r#"node "n" not found"#);
    let container = |fields: &str| format!(r#","containers":[{{"name":"c",{fields}}}]"#);
    let volume = |source: &str| format!(r#","volumes":[{{"name":"v",{source}}}]"#);
    let projected = |source: &str| volume(&format!(r#""projected":{{"sources":[{source}]}}"#));
    for (spec, reference) in [
        (r#","serviceAccountName":"sa""#.to_owned(), "serviceaccounts"),
        (r#","imagePullSecrets":[{"name":"s"}]"#.to_owned(), "secrets"),
        (container(r#""envFrom":[{"secretRef":{"name":"s"}}]"#), "secrets"),
        (container(r#""env":[{"name":"E","valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}}]"#), "configmaps"),
        (r#","resourceClaims":[{"name":"r","resourceClaimName":"rc"}]"#.to_owned(), "resourceclaims"),
        (volume(r#""secret":{"secretName":"s"}"#), "secrets"),
        (volume(r#""secret":{}"#), "secrets (via secret volumes)"),
        (volume(r#""configMap":{"name":"c"}"#), "configmaps"),
        (volume(r#""csi":{"driver":"d"}"#), "csidrivers (via CSI volumes)"),
        (volume(r#""persistentVolumeClaim":{"claimName":"c"}"#), "persistentvolumeclaims"),
        (volume(r#""ephemeral":{}"#), "persistentvolumeclaims (via ephemeral volumes)"),
        (projected(r#"{"serviceAccountToken":{"path":"p"}}"#), "serviceaccounts (via projected volumes)"),
        (projected(r#"{"clusterTrustBundle":{"path":"p"}}"#), "clustertrustbundles"),
        (projected(r#"{"podCertificate":{"signerName":"s"}}"#), "podcertificates"),
    ] {
        check(&create, &mirror(owner, &spec), &format!(r#"node "n" can not create pods that reference {reference}"#));
    }
    check(&create, &mirror(owner, &volume(r#""hostPath":{"path":"/"}"#)), "");
    check(&create, &mirror(owner, &projected(r#"{"downwardAPI":{}}"#)), "");
    check(&create, &mirror(owner, &volume(r#""new":{}"#)), r#"unknown volume type for volume  "v""#);
    check(&create, &mirror(owner, &projected(r#"{"new":{}}"#)), r#"unknown source for projected volume "v""#);
}

#[test]
fn nodes_change_their_own_pods_only() {
    let pod = |name: &str| json(&format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}}}}"#));
    let delete = |name: &str| Scenario { target: Some(pod(name)), ..by_node(Scenario::delete("", "pods")) };
    check(&delete("here"), "", "");
    check(&delete("there"), "", r#"node "n" can only delete pods with spec.nodeName set to itself"#);
    check(&delete("gone"), "", r#"pod "gone" not found"#);

    let here = stored()[1].clone();
    let update = |subresource, old: &Value| Scenario {
        subresource,
        old: Some(old.clone()),
        ..by_node(Scenario::update("", "pods"))
    };
    let text = pintle_value::print::json(&here);
    check(
        &update("", &here),
        &text,
        r#"unexpected operation "UPDATE", node "n" can only create and delete mirror pods"#,
    );
    check(&update("status", &here), &text, "");
    let resize = r#"unexpected pod subresource "resize", only 'status' and 'eviction' are allowed"#;
    check(&update("resize", &here), &text, resize);
    let there = r#"node "n" can only update pod status for pods with spec.nodeName set to itself"#;
    check(&update("status", &stored()[2]), &text, there);
    let labelled = text.replace(r#""uid":"here-uid""#, r#""uid":"here-uid","labels":{"a":"b"}"#);
    check(&update("status", &here), &labelled, r#"node "n" cannot update labels through pod status"#);
    for (status, why) in [
        (r#""resourceClaimStatuses":[{"name":"r"}]"#, r#"node "n" cannot update resource claim statues"#),
        (
            r#""extendedResourceClaimStatus":{"resourceClaimName":"r"}"#,
            r#"node "n" cannot update extended resource claim status"#,
        ),
        (r#""phase":"Running""#, ""),
    ] {
        let changed = format!(r#"{},"status":{{{status}}}}}"#, text.strip_suffix('}').expect("an object"));
        check(&update("status", &here), &changed, why);
    }

    let evict = Scenario { subresource: "eviction", ..by_node(Scenario::create("", "pods")) };
    let eviction = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}}}}"#);
    check(&evict, &eviction("here"), "");
    check(&evict, &eviction("there"), "node n can only evict pods with spec.nodeName set to itself");
    check(&evict, &eviction("gone"), r#"pod "gone" not found"#);
    check(&evict, r#"{"metadata":{"namespace":"ns"}}"#, "could not determine pod from request data");
}

#[test]
fn nodes_change_only_themselves_and_not_what_selects_them() {
    let create = by_node(Scenario::create("", "nodes"));
    let node = |fields: &str| format!(r#"{{"metadata":{{"name":"n"{fields}}}}}"#);
    check(&create, &node(""), "");
    check(&create, r#"{"metadata":{"name":"m"}}"#, r#"node "n" is not allowed to modify node "m""#);
    let config = r#"{"metadata":{"name":"n"},"spec":{"configSource":{"configMap":{"name":"c"}}}}"#;
    check(&create, config, r#"node "n" is not allowed to create pods with a non-nil configSource"#);
    let labels = |keys: &[&str]| {
        let pairs: Vec<_> = keys.iter().map(|key| format!(r#""{key}":"v""#)).collect();
        node(&format!(r#","labels":{{{}}}"#, pairs.join(",")))
    };
    let allowed = [
        "custom",
        "example.com/x",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/arch",
        "kubelet.kubernetes.io/x",
        "a.node.kubernetes.io/x",
    ];
    check(&create, &labels(&allowed), "");
    let forbidden = [
        "node-restriction.kubernetes.io/x",
        "a.node-restriction.kubernetes.io/y",
        "k8s.io/z",
        "node-role.kubernetes.io/worker",
    ];
    let text = "a.node-restriction.kubernetes.io/y, k8s.io/z, node-restriction.kubernetes.io/x, node-role.kubernetes.io/worker";
    check(&create, &labels(&forbidden), &format!(r#"node "n" is not allowed to set the following labels: {text}"#));

    let update = |old: &str| Scenario { old: Some(json(old)), ..by_node(Scenario::update("", "nodes")) };
    check(&update(&labels(&forbidden)), &labels(&forbidden), "");
    check(&update(&labels(&forbidden)), &node(""), &format!("is not allowed to modify labels: {text}"));
    check(&update(&node("")), &labels(&allowed), "");
    let tainted = r#"{"metadata":{"name":"n"},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}"#;
    check(&update(tainted), &node(""), r#"node "n" is not allowed to modify taints"#);
    check(
        &update(&node("")),
        config,
        r#"node "n" is not allowed to update configSource to a new non-nil configSource"#,
    );
    check(&update(config), config, "");
    check(&update(config), &node(""), "");
    let owned = node(r#","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]"#);
    check(&update(&node("")), &owned, r#"node "n" is not allowed to modify ownerReferences"#);
}

#[test]
fn nodes_report_the_status_of_claims() {
    let claim =
        |rest: &str| format!(r#"{{"metadata":{{"name":"c","namespace":"ns"}},"spec":{{"volumeName":"v"}}{rest}}}"#);
    let update = |subresource, old: &str| Scenario {
        subresource,
        old: Some(json(old)),
        ..by_node(Scenario::update("", "persistentvolumeclaims"))
    };
    let reported =
        claim(r#","status":{"capacity":{"storage":"1Gi"},"conditions":[],"allocatedResources":{"storage":"2Gi"}}"#);
    check(&update("status", &claim(r#","status":{}"#)), &reported, "");
    let changed = claim(r#","status":{"phase":"Bound"}"#);
    let other = r#"node "n" is not allowed to update fields other than status.quantity and status.conditions"#;
    check(&update("status", &claim("")), &changed, other);
    check(&update("", &claim("")), &claim(""), "may only update PVC status");
    check(&by_node(Scenario::create("", "persistentvolumeclaims")), &claim(""), "may only update PVC status");
}

#[test]
fn nodes_request_tokens_for_their_pods_and_their_audiences() {
    let create = Scenario { subresource: "token", ..by_node(Scenario::create("", "serviceaccounts")) };
    let request = |reference: &str, audiences: &str| {
        let reference =
            if reference.is_empty() { String::new() } else { format!(r#","boundObjectRef":{{{reference}}}"#) };
        format!(r#"{{"metadata":{{"name":"sa","namespace":"ns"}},"spec":{{"audiences":[{audiences}]{reference}}}}}"#)
    };
    let pod = |name: &str, uid: &str| format!(r#""apiVersion":"v1","kind":"Pod","name":"{name}","uid":"{uid}""#);
    let unbound = "node requested token not bound to a pod";
    check(&create, &request("", ""), unbound);
    check(&create, &request(r#""apiVersion":"v1","kind":"Node","name":"n""#, ""), unbound);
    check(&create, &request(&pod("here", ""), ""), "node requested token with a pod binding without a uid");
    check(&create, &request(&pod("gone", "u"), ""), r#"pod "gone" not found"#);
    check(
        &create,
        &request(&pod("here", "old"), ""),
        "the UID in the bound object reference (old) does not match the UID in record. The object might have been deleted and then recreated",
    );
    check(
        &create,
        &request(&pod("there", "there-uid"), ""),
        "node requested token bound to a pod scheduled on a different node",
    );
    let here = pod("here", "here-uid");
    check(&create, &request(&here, r#""a","b""#), "node may only request 0 or 1 audiences");
    for audience in ["", r#""""#, r#""vault""#, r#""inline""#, r#""claimed""#, r#""ebs""#] {
        check(&create, &request(&here, audience), "");
    }
    let lost = r#"error validating audience "x": persistentvolumeclaim "lost" not found"#;
    check(&create, &request(&here, r#""x""#), lost);
    check(&Scenario { authorizer: Arc::new(AlwaysAllow), ..create.clone() }, &request(&here, r#""x""#), "");
    let mirror = pod("mirror", "mirror-uid");
    let unknown = r#"audience "x" not found in pod spec volume, system:node:n is not authorized to request tokens for this audience"#;
    check(&create, &request(&mirror, r#""x""#), unknown);
    check(&by_node(Scenario::create("", "serviceaccounts")), r#"{"metadata":{"name":"sa","namespace":"ns"}}"#, "");
}

#[test]
fn nodes_have_objects_of_their_own_name() {
    let lease =
        |namespace: &str, name: &str| format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#);
    let leases = by_node(Scenario::create("coordination.k8s.io", "leases"));
    check(&leases, &lease("kube-node-lease", "n"), "");
    let namespace = r#"can only access leases in the "kube-node-lease" system namespace"#;
    check(&leases, &lease("kube-system", "n"), namespace);
    let other = "can only access node lease with the same name as the requesting node";
    check(&leases, &lease("kube-node-lease", "m"), other);

    let nodes = by_node(Scenario::create("storage.k8s.io", "csinodes"));
    check(&nodes, r#"{"metadata":{"name":"n"}}"#, "");
    let other = "can only access CSINode with the same name as the requesting node";
    check(&nodes, r#"{"metadata":{"name":"m"}}"#, other);

    let slice = |node: &str| format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"nodeName":"{node}"}}}}"#);
    let slices = by_node(Scenario::create("resource.k8s.io", "resourceslices"));
    check(&slices, &slice("n"), "");
    let other = "can only create ResourceSlice with the same NodeName as the requesting node";
    check(&slices, &slice("m"), other);
    let delete = |node: &str| Scenario {
        old: Some(json(&slice(node))),
        ..by_node(Scenario::delete("resource.k8s.io", "resourceslices"))
    };
    check(&delete("n"), "", "");
    check(&delete("m"), "", "can only delete ResourceSlice with the same NodeName as the requesting node");
}

#[test]
fn nodes_request_certificates_for_themselves() {
    let create = by_node(Scenario::create("certificates.k8s.io", "certificatesigningrequests"));
    let request = |signer: &str, text: &str| {
        let text = pintle_schema::base64::encode(text.as_bytes());
        format!(r#"{{"metadata":{{"name":"r"}},"spec":{{"signerName":"{signer}","request":"{text}"}}}}"#)
    };
    let of = |name: &str| {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "system:nodes");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().expect("a key");
        parameters.serialize_request(&key).expect("a request").pem().expect("PEM")
    };
    let (own, other) = (of("system:node:n"), of("system:node:m"));
    for signer in ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"] {
        check(&create, &request(signer, &own), "");
        check(&create, &request(signer, &other), "can only create a node CSR with CN=system:node:n");
        let unreadable = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
        check(&create, &request(signer, "x"), unreadable);
    }
    check(&create, &request("example.com/other", &other), "");
}

#[test]
fn nodes_request_certificates_for_the_pods_that_run_on_them() {
    let request = |field: &str, value: &str| {
        let mut request = json(
            r#"{"metadata":{"name":"r","namespace":"ns"},"spec":{"nodeName":"n","nodeUID":"n-uid","podName":"here",
                "podUID":"here-uid","serviceAccountName":"sa","serviceAccountUID":"sa-uid"}}"#,
        );
        request.set_at(&["spec", field], value);
        String::from_utf8(pintle_codec::json::encode(&request)).expect("JSON")
    };
    let create = by_node(Scenario::create("certificates.k8s.io", "podcertificaterequests"));
    let check_with = |scenario: &Scenario, object: &str, expect: &str| {
        let plugin = NodeRestriction::new(&crate::testing::gates(&["PodCertificateRequest"]));
        check_plugin(&plugin, scenario, object, expect);
    };
    check(&create, &request("podName", "here"), "PodCertificateRequest feature gate is disabled");

    let update = Scenario { operation: AdmissionOperation::Update, old: Some(Value::object()), ..create.clone() };
    check_with(&update, &request("podName", "here"), "unexpected operation UPDATE");
    let status = Scenario { subresource: "status", ..create.clone() };
    check_with(&status, &request("podName", "here"), "unexpected subresource status");

    let account = r#"{"kind":"ServiceAccount","metadata":{"name":"sa","namespace":"ns","uid":"sa-uid"}}"#;
    let mut complete = create.clone();
    complete.stored.push(json(account));
    check_with(&complete, &request("podName", "here"), "");
    for (field, value, why) in [
        ("nodeName", "m", r#"PodCertificateRequest.Spec.NodeName="m", which is not the requesting node "n""#),
        (
            "nodeUID",
            "old",
            r#"PodCertificateRequest for pod "ns/here" names node UID "old", inconsistent with the running node ("n-uid")"#,
        ),
        (
            "podName",
            "lost",
            r#"while retrieving pod "ns/lost" named in the PodCertificateRequest: pod "lost" not found"#,
        ),
        (
            "podUID",
            "old",
            r#"PodCertificateRequest for pod "ns/here" contains pod UID ("old") which differs from running pod "here-uid""#,
        ),
        (
            "serviceAccountName",
            "other",
            r#"PodCertificateRequest for pod "ns/here" contains serviceAccountName ("other") that differs from running pod ("sa")"#,
        ),
        (
            "serviceAccountUID",
            "old",
            r#"PodCertificateRequest for pod "ns/here" names service account UID "old", which differs from the running service account ("sa-uid")"#,
        ),
    ] {
        check_with(&complete, &request(field, value), why);
    }
    check_with(
        &create,
        &request("podName", "here"),
        r#"while retrieving service account "ns/sa" named in the PodCertificateRequest: serviceaccount "sa" not found"#,
    );
    let without_node = Scenario { stored: Vec::new(), ..create.clone() };
    let lost = r#"while retrieving node "n" named in the PodCertificateRequest: node "n" not found"#;
    check_with(&without_node, &request("podName", "here"), lost);
    let of = |pod: &str| request("podName", pod).replace("here-uid", &format!("{pod}-uid"));
    let elsewhere = r#"pod "ns/there" is not running on node "n" named in the PodCertificateRequest"#;
    check_with(&complete, &of("there"), elsewhere);
    check_with(&complete, &of("mirror"), r#"pod "ns/mirror" is a mirror pod"#);
}

#[test]
fn the_signers_of_certificates_are_those_of_the_pod() {
    let request = |pod: &str, signer: &str| {
        format!(
            r#"{{"metadata":{{"name":"r","namespace":"ns"}},"spec":{{"nodeName":"n","nodeUID":"n-uid","podName":"{pod}",
                "podUID":"{pod}-uid","serviceAccountName":"sa","serviceAccountUID":"sa-uid","signerName":"{signer}"}}}}"#
        )
    };
    let mut create = by_node(Scenario::create("certificates.k8s.io", "podcertificaterequests"));
    create.stored.push(json(r#"{"kind":"ServiceAccount","metadata":{"name":"sa","namespace":"ns","uid":"sa-uid"}}"#));
    create.stored.push(json(
        r#"{"kind":"Pod","metadata":{"name":"signed","namespace":"ns","uid":"signed-uid"},"spec":{"nodeName":"n",
            "serviceAccountName":"sa","volumes":[{"name":"v","emptyDir":{}},{"name":"c","projected":{"sources":[
                {"serviceAccountToken":{"path":"t"}},{"podCertificate":{"signerName":"a.b/own"}}]}}]}}"#,
    ));
    let refused = |signer: &str| {
        format!(
            r#"signer name "{signer}" not found in pod spec volume, system:node:n is not authorized to request certificates from this signer"#
        )
    };
    let since = NodeRestriction::new(&crate::testing::gates_of(37, &[]));
    check_plugin(&since, &create, &request("signed", "a.b/own"), "");
    check_plugin(&since, &create, &request("signed", "a.b/other"), &refused("a.b/other"));
    check_plugin(&since, &create, &request("here", "a.b/own"), &refused("a.b/own"));
    let allowed = Scenario { authorizer: Arc::new(AlwaysAllow), ..create.clone() };
    check_plugin(&since, &allowed, &request("signed", "a.b/other"), "");
    let before = NodeRestriction::new(&crate::testing::gates(&["PodCertificateRequest"]));
    check_plugin(&before, &create, &request("signed", "a.b/other"), "");
}
