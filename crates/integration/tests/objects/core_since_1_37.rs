//! Changes of 1.37 in pods, nodes, volumes and stateful sets: fields of new features, a new subresource, defaults.

use pintle::Options;
use pintle_gates::Gates;
use pintle_integration::{Cluster, run};
use pintle_versions::{EffectiveVersion, Minor};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// The features whose fields a pod has in these tests.
const POD_FEATURES: [&str; 6] = [
    "AtomicWriteVolumeUserFields",
    "EmptyDirVolumeMode",
    "EvictionRequestAPI",
    "GRPCContainerProbeTLS",
    "H2CContainerProbe",
    "VolumeBindMountOptions",
];

/// A cluster of a version with more features.
async fn cluster(minor: u8, features: &[&str]) -> Cluster {
    let overrides = features.iter().map(|name| ((*name).to_owned(), true)).collect();
    let gates = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    let (gates, _) = gates.overridden(&overrides).expect("settable feature gates");
    Cluster::with_options(Options { gates, ..Options::default() }).await
}

/// The spec of a pod with fields of [`POD_FEATURES`].
fn spec_with_features() -> Value {
    json!({
        "evictionResponders": [{"name": "example.com/a", "priority": 1000}],
        "volumes": [{"name": "v", "emptyDir": {"mode": 504}}, {"name": "w", "secret": {"secretName": "s", "defaultUser": 7}}],
        "containers": [{"name": "c", "image": "i",
            "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}],
            "livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}},
            "readinessProbe": {"grpc": {"port": 81, "mode": "TLS"}}}],
    })
}

/// The values of the fields of [`spec_with_features`] in a stored spec.
fn features_of(spec: &Value) -> Vec<Value> {
    let container = &spec["containers"][0];
    let fields = [
        &spec["evictionResponders"][0]["name"],
        &spec["volumes"][0]["emptyDir"]["mode"],
        &spec["volumes"][1]["secret"]["defaultUser"],
        &container["volumeMounts"][0]["bindMountOptions"][0],
        &container["livenessProbe"]["httpGet"]["protocol"],
        &container["readinessProbe"]["grpc"]["mode"],
    ];
    fields.into_iter().filter(|value| !value.is_null()).cloned().collect()
}

#[test]
fn pods_and_templates_have_the_fields_of_features_that_are_on() {
    run(async {
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec_with_features()}}});
        let pod = json!({"metadata": {"name": "p"}, "spec": spec_with_features()});
        let all = ["example.com/a".into(), json!(504), json!(7), "noexec".into(), "HTTP2".into(), "TLS".into()];
        for (minor, features, expect) in [(36, &[][..], &[][..]), (37, &[], &[]), (37, &POD_FEATURES, &all)] {
            let cluster = cluster(minor, features).await;
            let stored = cluster.post(PODS, pod.to_string()).await.expect(201).json();
            assert_eq!(features_of(&stored["spec"]), expect, "{minor} {features:?}");
            let stored = cluster.post(DEPLOYMENTS, deployment.to_string()).await.expect(201).json();
            assert_eq!(features_of(&stored["spec"]["template"]["spec"]), expect, "{minor} {features:?}");
        }
    });
}

#[test]
fn the_fields_of_features_are_validated() {
    run(async {
        let cluster = cluster(37, &POD_FEATURES).await;
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "evictionResponders": [{"name": "node.kubernetes.io/a", "priority": 5}],
            "volumes": [{"name": "v", "emptyDir": {"mode": 1024}}],
            "containers": [{"name": "c", "image": "i", "livenessProbe": {"grpc": {"port": 81, "mode": "tls"}}}]}});
        let response = cluster.post(PODS, pod.to_string()).await.expect(422).json();
        let causes = response["details"]["causes"].as_array().expect("causes");
        let fields: Vec<&str> = causes.iter().filter_map(|cause| cause["field"].as_str()).collect();
        let expect = [
            "spec.volumes[0].emptyDir.mode",
            "spec.containers[0].livenessProbe.grpc.mode",
            "spec.evictionResponders[0].name",
            "spec.evictionResponders[0].priority",
        ];
        assert_eq!(fields, expect, "{response}");
    });
}

#[test]
fn csi_nodes_have_a_status() {
    run(async {
        let node = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}});
        let health = json!({"status": {"storageHealth": [{"name": "d.example.com",
            "healthConditions": [{"status": "StorageDegraded", "reason": "Slow"}]}]}});
        let (object, status) = (format!("{CSI_NODES}/n"), format!("{CSI_NODES}/n/status"));

        let older = cluster(36, &[]).await;
        assert_eq!(older.post(CSI_NODES, node.to_string()).await.expect(201).json()["status"], Value::Null);
        let _ = older.patch(&status, "merge", health.to_string()).await.expect(404);

        let off = cluster(37, &[]).await;
        assert_eq!(off.post(CSI_NODES, node.to_string()).await.expect(201).json()["status"], json!({}));
        assert_eq!(off.patch(&status, "merge", health.to_string()).await.expect(200).json()["status"], json!({}));

        let on = cluster(37, &["CSIVolumeHealth"]).await;
        let _ = on.post(CSI_NODES, node.to_string()).await.expect(201);
        let changed = on.patch(&object, "merge", health.to_string()).await.expect(200).json();
        assert_eq!(changed["status"], json!({}), "only the subresource writes the status");
        let changed = on.patch(&status, "merge", health.to_string()).await.expect(200).json();
        assert_eq!(changed["status"]["storageHealth"][0]["healthConditions"][0]["reason"], "Slow");
        assert_eq!(changed["spec"]["drivers"][0]["nodeID"], "n");
        let bad = json!({"status": {"storageHealth": [{"name": "d", "healthConditions": [{"status": "Bad"}]}]}});
        let _ = on.patch(&status, "merge", bad.to_string()).await.expect(422);
    });
}

#[test]
fn stateful_sets_have_a_default_of_max_unavailable() {
    run(async {
        let set = json!({"metadata": {"name": "s"}, "spec": {"serviceName": "s", "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let mut recreated = set.clone();
        recreated["metadata"]["name"] = "r".into();
        recreated["spec"]["updateStrategy"] = json!({"type": "Recreate"});
        for (minor, features, default, code) in [
            (36, &[][..], Value::Null, 422),
            (37, &[], json!(1), 422),
            (37, &["StatefulSetRecreateStrategy"], json!(1), 201),
        ] {
            let cluster = cluster(minor, features).await;
            let stored = cluster.post(STATEFUL_SETS, set.to_string()).await.expect(201).json();
            assert_eq!(stored["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], default, "{minor}");
            let _ = cluster.post(STATEFUL_SETS, recreated.to_string()).await.expect(code);
        }
    });
}

#[test]
fn pods_get_limits_as_a_whole() {
    run(async {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"resources": {"requests": {"cpu": "1"}},
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}});
        for (minor, expect) in [
            (36, json!({"requests": {"cpu": "1"}})),
            (37, json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}})),
        ] {
            let cluster = cluster(minor, &[]).await;
            let stored = cluster.post(PODS, pod.to_string()).await.expect(201).json();
            assert_eq!(stored["spec"]["resources"], expect, "{minor}");
            // An update with the resources that were sent first changes nothing.
            let mut again = stored.clone();
            again["spec"]["resources"] = pod["spec"]["resources"].clone();
            let replaced = cluster.put(&format!("{PODS}/p"), again.to_string()).await.expect(200).json();
            assert_eq!(replaced["spec"], stored["spec"], "{minor}");
        }
    });
}

#[test]
fn volumes_in_memory_are_resized_with_their_feature() {
    run(async {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}});
        let resize = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "2Mi"}}]}});
        for (features, expect) in [(&[][..], "1Mi"), (&["InPlacePodVerticalScalingMemoryBackedVolumes"], "2Mi")] {
            let cluster = cluster(37, features).await;
            let _ = cluster.post(PODS, pod.to_string()).await.expect(201);
            let path = format!("{PODS}/p/resize");
            let resized = cluster.patch(&path, "strategic-merge", resize.to_string()).await.expect(200).json();
            assert_eq!(resized["spec"]["volumes"][0]["emptyDir"]["sizeLimit"], expect, "{features:?}");
        }
    });
}

#[test]
fn nodes_have_a_preemption_policy_with_its_feature() {
    run(async {
        let policy = json!({"disableResizePreemption": ["example.com/a"]});
        let node = json!({"metadata": {"name": "n"}, "spec": {"podPreemptionPolicy": policy}});
        for (features, expect) in
            [(&[][..], &Value::Null), (&["InPlacePodVerticalScalingSchedulerPreemption"], &policy)]
        {
            let cluster = cluster(37, features).await;
            let stored = cluster.post(NODES, node.to_string()).await.expect(201).json();
            assert_eq!(stored["spec"]["podPreemptionPolicy"], *expect, "{features:?}");
            let change = json!({"spec": {"podPreemptionPolicy": policy}});
            let changed = cluster.patch(&format!("{NODES}/n"), "merge", change.to_string()).await.expect(200).json();
            assert_eq!(changed["spec"]["podPreemptionPolicy"], *expect, "{features:?}");
        }
    });
}
