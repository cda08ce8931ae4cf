//! The certificates of pods: kubelets request them for the pods on their nodes, and signers answer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pintle_admission::AdmissionConfiguration;
use pintle_gates::Gates;
use pintle_integration::{AccessOptions, Cluster, Options, Response, RuntimeConfig, bootstrapped, run};
use pintle_value::time::Time;
use pintle_versions::{EffectiveVersion, Minor};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests";
const SIGNER: &str = "example.com/pods";

/// The users. The token of each user is the user name.
const TOKENS: &str =
    "n0,system:node:n0,1,system:nodes\nn1,system:node:n1,2,system:nodes\nsigner,signer,3\nstranger,stranger,4\n";

fn options() -> Options {
    let (gates, _) = Gates::with_overrides(&[("PodCertificateRequest".to_owned(), true)].into()).expect("a feature");
    let admission =
        AdmissionConfiguration { enabled: vec!["NodeRestriction".to_owned()], ..AdmissionConfiguration::default() };
    let runtime_config =
        RuntimeConfig::from_flags(Default::default(), &["certificates.k8s.io/v1beta1=true"]).expect("a valid value");
    let base = bootstrapped();
    let access = AccessOptions { tokens: Some(TOKENS.to_owned()), ..base.access };
    Options { gates, admission, runtime_config, access, ..base }
}

async fn send(cluster: &Cluster, user: &str, method: &str, path: &str, body: &Value) -> Response {
    let request = cluster.request(method, path).anonymous().header("Authorization", &format!("Bearer {user}"));
    let request = if body.is_null() { request } else { request.json(body.to_string()) };
    request.send().await
}

/// Creates an object as the administrator, and returns its UID.
async fn create(cluster: &Cluster, path: &str, object: Value) -> String {
    let created = cluster.post(path, object.to_string()).await.expect(201).json();
    created["metadata"]["uid"].as_str().expect("a UID").to_owned()
}

/// Creates a node with a pod. Returns the kubelet's request for a certificate of the pod.
async fn request_of_node(cluster: &Cluster, node: &str, key: &KeyPair) -> Value {
    let node_uid = create(cluster, "/api/v1/nodes", json!({"metadata": {"name": node}})).await;
    let account = cluster.get("/api/v1/namespaces/default/serviceaccounts/default").await.expect(200).json();
    let pod = json!({
        "metadata": {"name": format!("{node}-pod")},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    let pod_uid = create(cluster, "/api/v1/namespaces/default/pods", pod).await;
    let stub = CertificateParams::default().serialize_request(key).expect("a request");
    json!({
        "metadata": {"name": node},
        "spec": {
            "signerName": SIGNER,
            "podName": format!("{node}-pod"), "podUID": pod_uid,
            "serviceAccountName": "default", "serviceAccountUID": account["metadata"]["uid"],
            "nodeName": node, "nodeUID": node_uid,
            "stubPKCS10Request": STANDARD.encode(stub.der()),
        },
    })
}

/// The status with a certificate for a key. A new signer has signed it, and it is valid for a day from now.
fn issued(key: &KeyPair) -> Value {
    const DAY: u64 = 86_400;
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = Issuer::new(authority, KeyPair::generate().expect("a key"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let mut leaf = CertificateParams::default();
    leaf.not_before = (UNIX_EPOCH + Duration::from_secs(now)).into();
    leaf.not_after = (UNIX_EPOCH + Duration::from_secs(now + DAY)).into();
    let chain = leaf.signed_by(key, &authority).expect("a certificate").pem();
    let time = |seconds: u64| Time::from_seconds(i64::try_from(seconds).expect("a time")).rfc3339();
    json!({
        "conditions": [{
            "type": "Issued", "status": "True", "reason": "Signed", "message": "", "lastTransitionTime": time(now),
        }],
        "certificateChain": chain,
        "notBefore": time(now), "beginRefreshAt": time(now + DAY / 2), "notAfter": time(now + DAY),
    })
}

/// Creates a role and gives it to a user of the same name.
async fn allow(cluster: &Cluster, user: &str, rules: Value) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": user}, "rules": rules});
    let _ = create(cluster, &format!("{rbac}/clusterroles"), role).await;
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    let _ = create(cluster, &format!("{rbac}/clusterrolebindings"), binding).await;
}

#[test]
fn kubelets_request_certificates_for_their_pods_only() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let key = KeyPair::generate().expect("a key");
        let (of_n0, of_n1) = (request_of_node(&cluster, "n0", &key).await, request_of_node(&cluster, "n1", &key).await);
        let created = send(&cluster, "n0", "POST", REQUESTS, &of_n0).await.expect(201).json();
        assert_eq!(created["spec"]["maxExpirationSeconds"], 86400, "{created}");
        let _ = send(&cluster, "n1", "POST", REQUESTS, &of_n1).await.expect(201);

        let other = send(&cluster, "n0", "POST", REQUESTS, &of_n1).await;
        let why = r#"podcertificaterequests.certificates.k8s.io "n1" is forbidden: PodCertificateRequest.Spec.NodeName="n1", which is not the requesting node "n0""#;
        other.expect_error(403, "Forbidden", why);
        let mut stale = of_n0.clone();
        stale["metadata"]["name"] = json!("stale");
        stale["spec"]["podUID"] = json!("old");
        let refused = send(&cluster, "n0", "POST", REQUESTS, &stale).await.json();
        let why = refused["message"].as_str().unwrap_or_default();
        let expect = r#"PodCertificateRequest for pod "default/n0-pod" contains pod UID ("old") which differs from running pod "#;
        assert!(why.starts_with(expect), "{refused}");
        // A user with permission to create pods and requests must still have the key.
        let mut foreign = of_n0.clone();
        foreign["metadata"]["name"] = json!("foreign");
        let stub = STANDARD.decode(of_n0["spec"]["stubPKCS10Request"].as_str().expect("text")).expect("base64");
        let (last, rest) = stub.split_last().expect("bytes");
        foreign["spec"]["stubPKCS10Request"] = json!(STANDARD.encode([rest, &[last ^ 1]].concat()));
        let refused = send(&cluster, "n0", "POST", REQUESTS, &foreign).await.expect(422).json();
        assert_eq!(refused["details"]["causes"][0]["field"], "spec.stubPKCS10Request", "{refused}");

        let list = async |user: &str, query: &str| {
            let response = send(&cluster, user, "GET", &format!("{REQUESTS}{query}"), &Value::Null).await;
            (response.status.as_u16(), response.json()["items"].as_array().map_or(0, Vec::len))
        };
        assert_eq!(list("n0", "?fieldSelector=spec.nodeName%3Dn0").await, (200, 1));
        assert_eq!(list("n0", "?fieldSelector=spec.nodeName%3Dn1").await, (403, 0));
        assert_eq!(list("n0", "").await, (403, 0));
        assert_eq!(list("n0", "/n0").await, (200, 0));
        assert_eq!(list("n0", "/n1").await, (403, 0));
        let selected = cluster.get(&format!("{REQUESTS}?fieldSelector=spec.podName%3Dn1-pod")).await.expect(200).json();
        assert_eq!(selected["items"].as_array().map(Vec::len), Some(1), "{selected}");
        let deleted = send(&cluster, "n0", "DELETE", &format!("{REQUESTS}/n0"), &Value::Null).await;
        let _ = deleted.expect(403);
    });
}

#[test]
fn signers_answer_with_their_permission() {
    run(async {
        let cluster = Cluster::with_options(options()).await;
        let key = KeyPair::generate().expect("a key");
        let request = request_of_node(&cluster, "n0", &key).await;
        let mut request = send(&cluster, "n0", "POST", REQUESTS, &request).await.expect(201).json();
        let writes = json!({
            "apiGroups": ["certificates.k8s.io"],
            "resources": ["podcertificaterequests", "podcertificaterequests/status"],
            "verbs": ["get", "update"],
        });
        let signs = json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"],
            "verbs": ["sign"],
        });
        allow(&cluster, "stranger", json!([writes])).await;
        allow(&cluster, "signer", json!([writes, signs])).await;

        let status = format!("{REQUESTS}/n0/status");
        request["status"] = issued(&key);
        let refused = send(&cluster, "stranger", "PUT", &status, &request).await;
        let why = r#"PodCertificateRequest.certificates.k8s.io "n0" is invalid: spec.signerName: Forbidden: User "stranger" is not permitted to "sign" for signer "example.com/pods""#;
        refused.expect_error(422, "Invalid", why);
        // Nodes cannot sign their own requests.
        let _ = send(&cluster, "n0", "PUT", &status, &request).await.expect(403);

        let mut of_other_key = request.clone();
        of_other_key["status"] = issued(&KeyPair::generate().expect("a key"));
        let refused = send(&cluster, "signer", "PUT", &status, &of_other_key).await.expect(422).json();
        let why = refused["message"].as_str().unwrap_or_default();
        assert!(why.ends_with(": leaf certificate was not issued to the requested public key"), "{refused}");
        let answered = send(&cluster, "signer", "PUT", &status, &request).await.expect(200).json();
        assert_eq!(answered["status"], request["status"]);
        assert_eq!(answered["spec"], request["spec"]);
        let again = send(&cluster, "stranger", "PUT", &status, &answered).await.expect(200).json();
        assert_eq!(again, answered);

        let mut changed = answered.clone();
        changed["status"]["conditions"][0]["type"] = json!("Failed");
        let refused = send(&cluster, "signer", "PUT", &status, &changed).await;
        let why = r#"PodCertificateRequest.certificates.k8s.io "n0" is invalid: status: Invalid value: immutable after PodCertificateRequest is issued, denied, or failed"#;
        refused.expect_error(422, "Invalid", why);
        let read = send(&cluster, "n0", "GET", &format!("{REQUESTS}/n0"), &Value::Null).await.expect(200).json();
        assert_eq!(read, answered);
    });
}

/// Version v1 is served by default since 1.37. It shows the fields of v1beta1 as annotations.
#[test]
fn requests_of_1_37_have_two_versions() {
    const V1: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
    const KEY: &str = "certificates.k8s.io/initial-pkix-public-key";
    run(async {
        let base = options();
        let cluster =
            Cluster::with_options(Options { gates: Gates::of(EffectiveVersion::of(Minor::new(37))), ..base }).await;
        let key = KeyPair::generate().expect("a key");
        let request = request_of_node(&cluster, "n0", &key).await;
        // A kubelet needs a permission for a signer that no volume of the pod names.
        let refused = send(&cluster, "n0", "POST", V1, &request).await.expect(403).json();
        let why = "signer name \"example.com/pods\" not found in pod spec volume, system:node:n0 is not authorized to \
                   request certificates from this signer";
        assert!(refused["message"].as_str().unwrap_or_default().ends_with(why), "{refused}");
        let requests = json!({
            "apiGroups": ["certificates.k8s.io"], "resources": [SIGNER], "verbs": ["request-podcertificate-signer"],
        });
        allow(&cluster, "system:node:n0", json!([requests])).await;
        let mut request = send(&cluster, "n0", "POST", V1, &request).await.expect(201).json();
        assert_eq!(request["apiVersion"], "certificates.k8s.io/v1", "{request}");
        let writes = json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["podcertificaterequests/status"], "verbs": ["update"],
        });
        let signs = json!({
            "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"],
            "verbs": ["sign"],
        });
        allow(&cluster, "signer", json!([writes, signs])).await;
        request["status"] = issued(&key);
        let answered = send(&cluster, "signer", "PUT", &format!("{V1}/n0/status"), &request).await.expect(200).json();
        assert_eq!(answered["status"], request["status"]);

        let older = cluster.get(&format!("{REQUESTS}/n0")).await.expect(200).json();
        assert_eq!(older["spec"]["stubPKCS10Request"], request["spec"]["stubPKCS10Request"]);
        assert!(older["spec"]["pkixPublicKey"].is_null() && request["spec"].get("pkixPublicKey").is_none());
        // An annotation of v1 is a field of v1beta1.
        let mut annotated = request.clone();
        annotated["metadata"] = json!({"name": "both", "annotations": {KEY: "YQ=="}});
        let refused = cluster.post(V1, annotated.to_string()).await.expect(422).json();
        let why = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
        assert!(refused["message"].as_str().unwrap_or_default().ends_with(why), "{refused}");
    });
}

#[test]
fn kubelets_of_1_37_request_the_signers_of_volumes() {
    const V1: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
    run(async {
        let gates = Gates::of(EffectiveVersion::of(Minor::new(37)));
        let cluster = Cluster::with_options(Options { gates, ..options() }).await;
        let key = KeyPair::generate().expect("a key");
        let mut request = request_of_node(&cluster, "n0", &key).await;
        let source =
            json!({"podCertificate": {"signerName": SIGNER, "keyType": "ED25519", "credentialBundlePath": "b"}});
        let pod = json!({
            "metadata": {"name": "signed"},
            "spec": {
                "nodeName": "n0", "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "v", "projected": {"sources": [source]}}],
            },
        });
        let uid = create(&cluster, "/api/v1/namespaces/default/pods", pod).await;
        request["spec"]["podName"] = json!("signed");
        request["spec"]["podUID"] = json!(uid);
        let _ = send(&cluster, "n0", "POST", V1, &request).await.expect(201);
    });
}
