//! Decisions of the node authorizer, with the content of upstream's tables (`node_authorizer_test.go`).

use pintle_auth::node::{NodeAuthorizer, NodeFeatures, NodeObject};
use pintle_auth::{Authorization, AuthorizationAttributes, Authorizer, Decision, UserInfo};
use pintle_codec::json;
use pintle_value::Value;

fn tree(text: &str) -> Value {
    json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value
}

/// A user of a node.
fn node(name: &str) -> UserInfo {
    UserInfo { name: format!("system:node:{name}").into(), groups: vec!["system:nodes".into()], ..UserInfo::default() }
}

/// `VERB [GROUP:]RESOURCE[/SUBRESOURCE] [NAMESPACE/]NAME [FIELD SELECTOR]`; `-` stands for the empty name.
fn attributes(text: &str) -> AuthorizationAttributes<'_> {
    let mut words = text.split(' ');
    let verb = words.next().unwrap_or_default();
    let target = words.next().unwrap_or_default();
    let object = words.next().unwrap_or("-");
    let (group, resource) = target.split_once(':').unwrap_or(("", target));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (namespace, name) = object.split_once('/').unwrap_or(("", object));
    AuthorizationAttributes {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name: if name == "-" { "" } else { name },
        field_selector: words.next().unwrap_or_default(),
        ..AuthorizationAttributes::default()
    }
}

/// The decision of the authorizer for a user: `yes`, or the reason to have no opinion.
fn decide(authorizer: &NodeAuthorizer, user: &UserInfo, request: &str) -> String {
    let Authorization { decision, reason, error } = authorizer.decide(user, &attributes(request));
    assert_eq!(error, None);
    match decision {
        Decision::Allow => {
            assert_eq!(reason, "");
            "yes".to_owned()
        }
        Decision::NoOpinion => reason.into_owned(),
        Decision::Deny => panic!("{request} is denied"),
    }
}

#[track_caller]
fn check(authorizer: &NodeAuthorizer, rows: &[(&str, &str)]) {
    for (request, expect) in rows {
        assert_eq!(decide(authorizer, &node("n0"), request), *expect, "{request}");
    }
}

const UNRELATED: &str = "no relationship found between node 'n0' and this object";

/// A pod with one reference of every kind, named after the pod.
fn full_pod(name: &str, node: &str) -> Value {
    let text = r#"{
        "metadata": {"namespace": "ns", "name": "POD"},
        "spec": {
            "nodeName": "NODE",
            "serviceAccountName": "account-POD",
            "imagePullSecrets": [{"name": "pull-POD"}, {}],
            "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "init-env-POD"}}}]}],
            "containers": [
                {"envFrom": [{"secretRef": {"name": "env-POD"}}, {"configMapRef": {"name": "env-POD"}}]},
                {"env": [{"valueFrom": {"configMapKeyRef": {"name": "key-POD"}}}, {"value": "x"}]}
            ],
            "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug-POD"}}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume-POD"}},
                {"name": "b", "configMap": {"name": "volume-POD"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "projected-POD"}},
                    {"configMap": {"name": "projected-POD"}}, {"serviceAccountToken": {"path": "token"}}]}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "claim-POD"}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "f", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "csi-POD"}}},
                {"name": "g", "azureFile": {"secretName": "azure-POD"}},
                {"name": "h", "iscsi": {"secretRef": {"name": "iscsi-POD"}}},
                {"name": "i", "emptyDir": {}}
            ],
            "resourceClaims": [
                {"name": "own", "resourceClaimName": "resource-POD"},
                {"name": "made", "resourceClaimTemplateName": "template-POD"},
                {"name": "unmade", "resourceClaimTemplateName": "template-POD"},
                {"name": "unneeded", "resourceClaimTemplateName": "template-POD"}
            ]
        },
        "status": {
            "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "made-POD"}, {"name": "unneeded"}],
            "extendedResourceClaimStatus": {"requestMappings": [], "resourceClaimName": "extended-POD"}
        }
    }"#;
    tree(&text.replace("POD", name).replace("NODE", node))
}

fn with_pods(pods: &[(&str, &str)]) -> NodeAuthorizer {
    let authorizer = NodeAuthorizer::default();
    for (name, node) in pods {
        authorizer.set(NodeObject::Pod, "ns", name, &full_pod(name, node));
    }
    authorizer
}

#[test]
fn a_node_reads_what_its_pods_refer_to() {
    let authorizer = with_pods(&[("p0", "n0"), ("p1", "n1")]);
    for (resource, names) in [
        ("get secrets", "pull init-env env debug volume projected csi azure iscsi"),
        ("list secrets", "volume"),
        ("watch secrets", "volume"),
        ("get configmaps", "env key volume projected"),
        ("get persistentvolumeclaims", "claim"),
        ("update persistentvolumeclaims/status", "claim"),
        ("patch persistentvolumeclaims/status", "claim"),
        ("get resource.k8s.io:resourceclaims", "resource made extended"),
        ("get serviceaccounts", "account"),
        ("create serviceaccounts/token", "account"),
    ] {
        for name in names.split(' ') {
            assert_eq!(
                decide(&authorizer, &node("n0"), &format!("{resource} ns/{name}-p0")),
                "yes",
                "{resource} {name}"
            );
            for other in ["ns/{}-p1", "ns/{}-p2", "other/{}-p0", "/{}-p0"] {
                let request = format!("{resource} {}", other.replace("{}", name));
                assert_ne!(decide(&authorizer, &node("n0"), &request), "yes", "{request}");
            }
        }
    }
    check(
        &authorizer,
        &[
            ("get pods ns/p0", "yes"),
            ("get pods ns/p1", UNRELATED),
            ("get pods ns/p2", UNRELATED),
            ("get persistentvolumeclaims ns/p0-e", "yes"),
            ("get persistentvolumeclaims ns/p0-d", UNRELATED),
            ("get resource.k8s.io:resourceclaims ns/template-p0", UNRELATED),
            ("get secrets ns/p0", UNRELATED),
            ("get secrets ns/volume-p1", UNRELATED),
            ("get secrets ns/-", "No Object name found"),
            ("get secrets volume-p0", "can only read namespaced object of this type"),
            ("delete secrets ns/volume-p0", "can only read resources of this type"),
            ("create secrets ns/-", "can only read resources of this type"),
            ("get secrets/status ns/volume-p0", "cannot read subresource"),
            ("list configmaps ns/-", "No Object name found"),
            ("list persistentvolumeclaims ns/-", "can only get individual resources of this type"),
            ("get persistentvolumeclaims/x ns/claim-p0", "cannot get subresource"),
            ("get persistentvolumeclaims/status ns/claim-p0", "can only get/update/patch this type"),
            ("update persistentvolumeclaims ns/claim-p0", "can only get individual resources of this type"),
            ("create serviceaccounts ns/account-p0", "can only create token subresource of serviceaccount"),
            ("create serviceaccounts/token ns/-", "can only create tokens for individual service accounts"),
            ("update serviceaccounts/token ns/account-p0", "can only create tokens for individual service accounts"),
            ("list serviceaccounts ns/-", "can only create tokens for individual service accounts"),
            ("create serviceaccounts/token ns/account-p1", UNRELATED),
        ],
    );
}

#[test]
fn the_fields_of_a_pod_are_all_that_is_read() {
    let full = with_pods(&[("p0", "n0")]);
    let (projected, pod) = (NodeAuthorizer::default(), full_pod("p0", "n0"));
    let fields = json::Projection::of(NodeObject::Pod.fields().iter().copied());
    let pod = fields.read(&json::encode(&pod)).expect("a pod");
    assert!(pod.at(&["spec", "containers"]).is_some());
    projected.set(NodeObject::Pod, "ns", "p0", &pod);
    for kind in ["secrets", "configmaps", "persistentvolumeclaims", "resource.k8s.io:resourceclaims", "serviceaccounts"]
    {
        for name in [
            "pull",
            "init-env",
            "env",
            "key",
            "debug",
            "volume",
            "projected",
            "csi",
            "azure",
            "iscsi",
            "claim",
            "resource",
            "made",
            "extended",
            "account",
        ] {
            let request = format!("get {kind} ns/{name}-p0");
            assert_eq!(decide(&projected, &node("n0"), &request), decide(&full, &node("n0"), &request), "{request}");
        }
    }
}

#[test]
fn a_node_reads_pods_by_name_and_by_node_and_writes_status() {
    let authorizer = with_pods(&[("p0", "n0")]);
    let unselected = "can only list/watch pods with spec.nodeName field selector";
    check(
        &authorizer,
        &[
            ("list pods ns/- spec.nodeName=n0", "yes"),
            ("watch pods - spec.nodeName==n0,status.phase!=Failed", "yes"),
            ("list pods - spec.nodeName=n1", unselected),
            ("list pods - spec.nodeName!=n0", unselected),
            ("list pods - metadata.namespace=n0", unselected),
            ("list pods - spec.nodeName=n0,broken", unselected),
            ("list pods -", unselected),
            ("list pods ns/p0", "yes"),
            ("watch pods ns/p1", UNRELATED),
            ("deletecollection pods ns/- spec.nodeName=n0", ""),
            ("create pods ns/-", "yes"),
            ("delete pods ns/other", "yes"),
            ("update pods ns/p0", ""),
            ("patch pods ns/p0", ""),
            ("get pods/status ns/p0", ""),
            ("update pods/status ns/p0", "yes"),
            ("patch pods/status ns/p0", "yes"),
            ("create pods/eviction ns/p0", "yes"),
            ("update pods/eviction ns/p0", ""),
            ("get pods/log ns/p0", ""),
            ("create pods/exec ns/p0", ""),
            ("create pods/binding ns/p0", ""),
        ],
    );
}

#[test]
fn a_node_reads_the_volumes_of_its_claims_and_their_secrets() {
    let authorizer = with_pods(&[("p0", "n0"), ("p1", "n1")]);
    let volume = |name: &str, claim: &str, source: &str| {
        let claim = format!(r#""claimRef": {{"namespace": "ns", "name": "{claim}"}}"#);
        let spec = if source.is_empty() { claim } else { format!("{claim}, {source}") };
        authorizer.set(NodeObject::PersistentVolume, "", name, &tree(&format!(r#"{{"spec": {{{spec}}}}}"#)));
    };
    let csi = r#""csi": {"controllerPublishSecretRef": {"namespace": "ns", "name": "controller"},
        "controllerExpandSecretRef": {"namespace": "ns", "name": "controller"},
        "nodePublishSecretRef": {"namespace": "ns", "name": "publish"},
        "nodeStageSecretRef": {"namespace": "csi", "name": "stage"},
        "nodeExpandSecretRef": {"namespace": "csi", "name": "expand"}}"#;
    let reference = |source: &str, namespace: &str| {
        let namespace = if namespace.is_empty() { String::new() } else { format!(r#""namespace": "{namespace}", "#) };
        format!(r#""{source}": {{"secretRef": {{{namespace}"name": "{source}"}}}}"#)
    };
    volume("csi", "claim-p0", csi);
    volume("foreign", "claim-p1", &csi.replace("publish\"", "foreign\""));
    volume("ephemeral", "p0-e", &reference("rbd", ""));
    for (name, source) in [
        ("azure", r#""azureFile": {"secretName": "azure"}"#.to_owned()),
        ("azure-ns", r#""azureFile": {"secretName": "azure", "secretNamespace": "far"}"#.to_owned()),
        ("cephfs", reference("cephfs", "")),
        ("cinder", reference("cinder", "")),
        ("flex", reference("flexVolume", "far")),
        ("iscsi", reference("iscsi", "")),
        ("scale", reference("scaleIO", "far")),
        ("storageos", reference("storageos", "far")),
        ("no-secret", r#""hostPath": {}"#.to_owned()),
        ("no-reference", r#""rbd": {}"#.to_owned()),
    ] {
        volume(name, "claim-p0", &source);
    }
    check(
        &authorizer,
        &[
            ("get persistentvolumes csi", "yes"),
            ("get persistentvolumes no-secret", "yes"),
            ("get persistentvolumes no-reference", "yes"),
            ("get persistentvolumes ephemeral", "yes"),
            ("get persistentvolumes foreign", UNRELATED),
            ("get persistentvolumes ns/csi", UNRELATED),
            ("list persistentvolumes -", "can only get individual resources of this type"),
            ("get secrets ns/publish", "yes"),
            ("get secrets csi/stage", "yes"),
            ("get secrets csi/expand", "yes"),
            ("get secrets ns/controller", UNRELATED),
            ("get secrets ns/foreign", UNRELATED),
            ("get secrets ns/rbd", "yes"),
            ("get secrets ns/azure", "yes"),
            ("get secrets far/azure", "yes"),
            ("get secrets ns/cephfs", "yes"),
            ("get secrets ns/cinder", UNRELATED),
            ("get secrets far/flexVolume", "yes"),
            ("get secrets ns/flexVolume", UNRELATED),
            ("get secrets ns/iscsi", "yes"),
            ("get secrets far/scaleIO", "yes"),
            ("get secrets far/storageos", "yes"),
        ],
    );
    // The secret of two volumes is readable as long as one of them leads to the node.
    authorizer.remove(NodeObject::PersistentVolume, "", "csi");
    check(&authorizer, &[("get secrets ns/publish", UNRELATED), ("get secrets csi/stage", UNRELATED)]);
    assert_eq!(decide(&authorizer, &node("n1"), "get secrets csi/stage"), "yes");
    authorizer.set(NodeObject::PersistentVolume, "", "ephemeral", &tree(r#"{"spec": {"rbd": {}}}"#));
    check(&authorizer, &[("get persistentvolumes ephemeral", UNRELATED), ("get secrets ns/rbd", UNRELATED)]);
}

#[test]
fn a_change_of_a_pod_changes_what_its_node_reads() {
    let authorizer = with_pods(&[("p0", "n0"), ("p1", "n0")]);
    let shared =
        tree(r#"{"spec": {"nodeName": "n0", "imagePullSecrets": [{"name": "pull-p0"}, {"name": "pull-p0"}]}}"#);
    authorizer.set(NodeObject::Pod, "ns", "p1", &shared);
    check(&authorizer, &[("get secrets ns/pull-p0", "yes"), ("get secrets ns/pull-p1", UNRELATED)]);
    // Setting an object again changes nothing.
    authorizer.set(NodeObject::Pod, "ns", "p0", &full_pod("p0", "n0"));
    authorizer.remove(NodeObject::Pod, "ns", "p0");
    authorizer.remove(NodeObject::Pod, "ns", "p0");
    check(&authorizer, &[("get secrets ns/pull-p0", "yes"), ("get secrets ns/volume-p0", UNRELATED)]);
    // A pod with the same name runs on another node.
    authorizer.set(NodeObject::Pod, "ns", "p1", &full_pod("p1", "n1"));
    check(&authorizer, &[("get secrets ns/pull-p0", UNRELATED), ("get pods ns/p1", UNRELATED)]);
    assert_eq!(decide(&authorizer, &node("n1"), "get secrets ns/pull-p1"), "yes");
    // A claim is made from its template, and a container is added to a running pod.
    let mut later = full_pod("p1", "n1");
    later.set_at(&["status", "resourceClaimStatuses"], tree(r#"[{"name": "unmade", "resourceClaimName": "new"}]"#));
    let container = r#"[{"env": [{"valueFrom": {"secretKeyRef": {"name": "added"}}}]}]"#;
    later.set_at(&["spec", "ephemeralContainers"], tree(container));
    authorizer.set(NodeObject::Pod, "ns", "p1", &later);
    for (request, expect) in [
        ("get resource.k8s.io:resourceclaims ns/new", "yes"),
        ("get secrets ns/added", "yes"),
        ("get resource.k8s.io:resourceclaims ns/made-p1", "no relationship found between node 'n1' and this object"),
    ] {
        assert_eq!(decide(&authorizer, &node("n1"), request), expect);
    }
}

#[test]
fn the_names_of_objects_are_those_that_lead_to_nodes() {
    let authorizer = with_pods(&[("p0", "n0"), ("p1", ""), ("p2", "n1")]);
    let volume = tree(r#"{"spec": {"claimRef": {"namespace": "ns", "name": "claim-p0"}}}"#);
    authorizer.set(NodeObject::PersistentVolume, "", "v", &volume);
    authorizer.set(NodeObject::PersistentVolume, "", "unbound", &tree(r#"{"spec": {}}"#));
    authorizer.remove(NodeObject::Pod, "ns", "p2");
    assert_eq!(authorizer.names(NodeObject::Pod), [("ns".into(), "p0".into())]);
    assert_eq!(authorizer.names(NodeObject::PersistentVolume), [("".into(), "v".into())]);
    assert_eq!(authorizer.names(NodeObject::VolumeAttachment), []);
}

#[test]
fn pods_without_a_node_and_mirror_pods_grant_nothing() {
    let authorizer = with_pods(&[("p0", "")]);
    let mut mirror = full_pod("mirror", "n0");
    mirror.set_at(&["metadata", "annotations"], tree(r#"{"kubernetes.io/config.mirror": ""}"#));
    authorizer.set(NodeObject::Pod, "ns", "mirror", &mirror);
    for text in ["null", "[]", r#"{"spec": {"nodeName": 7}}"#, r#"{"spec": {"nodeName": "n0", "volumes": {"a": 1}}}"#] {
        authorizer.set(NodeObject::Pod, "ns", "unreadable", &tree(text));
    }
    check(
        &authorizer,
        &[
            ("get pods ns/p0", UNRELATED),
            ("get secrets ns/volume-p0", UNRELATED),
            ("get pods ns/mirror", "yes"),
            ("get secrets ns/volume-mirror", UNRELATED),
            ("create serviceaccounts/token ns/account-mirror", UNRELATED),
            ("get pods ns/unreadable", "yes"),
        ],
    );
}

#[test]
fn a_node_handles_its_own_node_lease_csi_node_attachments_and_slices() {
    let authorizer = NodeAuthorizer::default();
    for (kind, name) in [(NodeObject::VolumeAttachment, "attachment"), (NodeObject::ResourceSlice, "slice")] {
        for node in ["n0", "n1"] {
            let object = tree(&format!(r#"{{"spec": {{"nodeName": "{node}"}}}}"#));
            authorizer.set(kind, "ignored", &format!("{name}-{node}"), &object);
        }
    }
    authorizer.set(NodeObject::ResourceSlice, "", "all", &tree(r#"{"spec": {"allNodes": true}}"#));
    let verbs = "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection";
    let slices = "can only list/watch/deletecollection resourceslices with nodeName field selector";
    let other_lease = "can only access node lease with the same name as the requesting node";
    let other_csi_node = "can only access CSINode with the same name as the requesting node";
    check(
        &authorizer,
        &[
            ("get nodes n0", "yes"),
            ("watch nodes n0", "yes"),
            ("get nodes n1", "node 'n0' cannot read 'n1', only its own Node object"),
            ("list nodes -", "node 'n0' cannot read all nodes, only its own Node object"),
            ("create nodes -", "yes"),
            ("update nodes n1", "yes"),
            ("patch nodes/status n1", "yes"),
            ("get nodes/status n0", ""),
            ("delete nodes n0", ""),
            ("get nodes/proxy n0", ""),
            ("get coordination.k8s.io:leases kube-node-lease/n0", "yes"),
            ("create coordination.k8s.io:leases kube-node-lease/-", "yes"),
            ("delete coordination.k8s.io:leases kube-node-lease/n0", "yes"),
            ("update coordination.k8s.io:leases kube-node-lease/n1", other_lease),
            (
                "get coordination.k8s.io:leases ns/n0",
                "can only access leases in the \"kube-node-lease\" system namespace",
            ),
            (
                "list coordination.k8s.io:leases kube-node-lease/-",
                "can only get, create, update, patch, or delete a node lease",
            ),
            ("get leases kube-node-lease/n0", ""),
            ("get storage.k8s.io:csinodes n0", "yes"),
            ("create storage.k8s.io:csinodes -", "yes"),
            ("patch storage.k8s.io:csinodes n1", other_csi_node),
            ("get storage.k8s.io:csinodes/x n0", "cannot authorize CSINode subresources"),
            ("list storage.k8s.io:csinodes -", "can only get, create, update, patch, or delete a CSINode"),
            ("get storage.k8s.io:volumeattachments attachment-n0", "yes"),
            ("get storage.k8s.io:volumeattachments attachment-n1", UNRELATED),
            ("list storage.k8s.io:volumeattachments -", "can only get individual resources of this type"),
            ("get resource.k8s.io:resourceslices slice-n0", "yes"),
            ("delete resource.k8s.io:resourceslices slice-n1", UNRELATED),
            ("get resource.k8s.io:resourceslices all", UNRELATED),
            ("create resource.k8s.io:resourceslices -", "yes"),
            ("list resource.k8s.io:resourceslices - spec.nodeName=n0", "yes"),
            ("deletecollection resource.k8s.io:resourceslices - spec.nodeName=n0", "yes"),
            ("watch resource.k8s.io:resourceslices - spec.nodeName=n1", slices),
            ("list resource.k8s.io:resourceslices -", slices),
            ("list resource.k8s.io:resourceslices - nodeName=n0", slices),
            ("get resource.k8s.io:resourceslices/x slice-n0", "cannot authorize ResourceSlice subresources"),
            ("bind resource.k8s.io:resourceslices slice-n0", verbs),
        ],
    );
}

#[test]
fn other_resources_follow_the_rules_of_all_nodes() {
    check(
        &NodeAuthorizer::default(),
        &[
            ("create authentication.k8s.io:tokenreviews", "yes"),
            ("create authorization.k8s.io:subjectaccessreviews", "yes"),
            ("create authorization.k8s.io:localsubjectaccessreviews ns/-", "yes"),
            ("create authorization.k8s.io:selfsubjectaccessreviews", ""),
            ("list services -", "yes"),
            ("update services ns/a", ""),
            ("create events ns/-", "yes"),
            ("patch events.k8s.io:events ns/a", "yes"),
            ("delete events ns/a", ""),
            ("get endpoints ns/a", "yes"),
            ("list endpoints ns/-", ""),
            ("create certificates.k8s.io:certificatesigningrequests", "yes"),
            ("update certificates.k8s.io:certificatesigningrequests/approval a", ""),
            ("list storage.k8s.io:csidrivers", "yes"),
            ("get node.k8s.io:runtimeclasses a", "yes"),
            ("get certificates.k8s.io:clustertrustbundles a", ""),
            ("create certificates.k8s.io:podcertificaterequests ns/-", ""),
            ("get namespaces ns", ""),
            ("get services/proxy ns/a", ""),
        ],
    );
    let path = AuthorizationAttributes { verb: "get", path: "/healthz", ..AuthorizationAttributes::default() };
    assert_eq!(NodeAuthorizer::default().decide(&node("n0"), &path).decision, Decision::NoOpinion);
}

#[test]
fn feature_gates_change_what_nodes_may_do() {
    let off = NodeFeatures {
        credential_provider_tokens: false,
        pod_certificate_requests: false,
        cluster_trust_bundles: false,
        storage_health: false,
    };
    let authorizer = NodeAuthorizer::new(off);
    authorizer.set(NodeObject::Pod, "ns", "p0", &full_pod("p0", "n0"));
    check(
        &authorizer,
        &[
            ("get serviceaccounts ns/account-p0", "not allowed to get service accounts"),
            ("create serviceaccounts/token ns/account-p0", "yes"),
        ],
    );
    let authorizer =
        NodeAuthorizer::new(NodeFeatures { pod_certificate_requests: true, cluster_trust_bundles: true, ..off });
    let request = tree(r#"{"spec": {"nodeName": "n0"}}"#);
    authorizer.set(NodeObject::PodCertificateRequest, "ns", "a", &request);
    authorizer.set(NodeObject::Pod, "ns", "p0", &full_pod("p0", "n0"));
    let unselected = "can only list/watch podcertificaterequests with nodeName field selector";
    let status = "nodes may not access the status subresource of PodCertificateRequests";
    check(
        &authorizer,
        &[
            ("get serviceaccounts ns/account-p0", "yes"),
            ("watch certificates.k8s.io:clustertrustbundles", "yes"),
            ("create certificates.k8s.io:podcertificaterequests ns/-", "yes"),
            ("get certificates.k8s.io:podcertificaterequests ns/a", "yes"),
            ("get certificates.k8s.io:podcertificaterequests ns/b", UNRELATED),
            ("list certificates.k8s.io:podcertificaterequests ns/- spec.nodeName=n0", "yes"),
            ("list certificates.k8s.io:podcertificaterequests ns/-", unselected),
            ("update certificates.k8s.io:podcertificaterequests/status ns/a", status),
            ("delete certificates.k8s.io:podcertificaterequests ns/a", "nodes may not delete podcertificaterequests"),
            ("update storage.k8s.io:csinodes/status n0", "cannot authorize CSINode subresources"),
        ],
    );
    let other = "can only access CSINode with the same name as the requesting node";
    check(
        &NodeAuthorizer::new(NodeFeatures { storage_health: true, ..off }),
        &[
            ("get storage.k8s.io:csinodes/status n0", "yes"),
            ("update storage.k8s.io:csinodes/status n0", "yes"),
            ("patch storage.k8s.io:csinodes/status n0", "yes"),
            ("update storage.k8s.io:csinodes/status n1", other),
            ("create storage.k8s.io:csinodes/status -", "can only get, update, or patch the status of a CSINode"),
            ("get storage.k8s.io:csinodes/x n0", "cannot authorize CSINode subresources"),
        ],
    );
}

#[tokio::test]
async fn only_users_of_the_group_of_nodes_are_nodes() {
    let authorizer = with_pods(&[("p0", "n0")]);
    let request = "get secrets ns/volume-p0";
    let mut user = node("n0");
    assert_eq!(decide(&authorizer, &user, request), "yes");
    let review = authorizer.rules(&user, "ns").await;
    assert_eq!((review.incomplete, review.resource_rules.len()), (true, 0));
    assert_eq!(review.error.as_deref(), Some("node authorizer does not support user rule resolution"));
    user.groups = vec!["system:authenticated".into()];
    assert_eq!(decide(&authorizer, &user, request), "");
    assert_eq!(authorizer.rules(&user, "ns").await, Default::default());
    user.groups.push("system:nodes".into());
    user.name = "system:node:".into();
    assert_eq!(decide(&authorizer, &user, request), r#"unknown node for user "system:node:""#);
    user.name = "n0".into();
    assert_eq!(decide(&authorizer, &user, request), "");
    assert_eq!(
        decide(&authorizer, &node("unknown"), request),
        "no relationship found between node 'unknown' and this object"
    );
}

#[test]
fn a_decision_that_allows_allocates_nothing() {
    let authorizer = with_pods(&[("pod-with-a-name-of-more-than-24-bytes", "n0-with-a-name-of-more-than-24-bytes")]);
    let user = node("n0-with-a-name-of-more-than-24-bytes");
    for request in [
        "get secrets ns/volume-pod-with-a-name-of-more-than-24-bytes",
        "list pods - status.phase!=Failed,spec.nodeName=n0-with-a-name-of-more-than-24-bytes",
        "create events ns/-",
    ] {
        let attributes = attributes(request);
        let allocated = allocation_counter::measure(|| assert!(authorizer.decide(&user, &attributes).is_allowed()));
        assert_eq!(allocated.count_total, 0, "{request}");
    }
}
