//! Measures the codecs with a typical pod: `cargo run --release -p pintle-codec --example throughput`. An argument
//! selects the measurements whose name contains it.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use pintle_codec::{cbor, json, protobuf, yaml};
use pintle_schema::{Problems, normalise};

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-7d4b9c6f5d-x2x8k","generateName":"web-7d4b9c6f5d-","namespace":"default","uid":"5c1f3a1e-8c53-4f0e-9c1a-0a6a3a5d1f11","resourceVersion":"182734","generation":1,"creationTimestamp":"2026-11-20T21:36:27Z","labels":{"app":"web","pod-template-hash":"7d4b9c6f5d"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5d","uid":"1b1f3a1e-8c53-4f0e-9c1a-0a6a3a5d1f12","controller":true,"blockOwnerDeletion":true}]},"spec":{"volumes":[{"name":"kube-api-access-p6t8w","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"registry.example.com/team/web:1.27.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-p6t8w","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"initialDelaySeconds":3,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-1","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-20T21:36:27Z"}],"qosClass":"Burstable"}}"#;

fn main() {
    let catalog = pintle_catalog::shared();
    let types = catalog.types();
    let Some(pod) = catalog.kind_type("", "v1", "Pod") else { return };
    let Ok(read) = json::decode_typed(POD.as_bytes(), types, pod) else { return };
    let mut message = Vec::new();
    protobuf::encode_object(&read.value, types, pod, &mut message);
    let text = yaml::encode(&read.value);
    let mut out = Vec::with_capacity(8192);

    report("JSON to tree", POD.len(), || {
        let _ = black_box(json::decode(POD.as_bytes(), json::DecodeOptions::default()));
    });
    report("normalise (and clone)", POD.len(), || {
        let mut value = read.value.clone();
        normalise(types, pod, &mut value, &mut Problems::default());
        black_box(value);
    });
    report("clone", POD.len(), || {
        black_box(read.value.clone());
    });
    report("tree to JSON, typed", POD.len(), || {
        out.clear();
        json::encode_typed(&read.value, types, pod, &mut out);
        black_box(&out);
    });
    report("tree to JSON, untyped", POD.len(), || {
        out.clear();
        json::encode_into(&read.value, &mut out);
        black_box(&out);
    });
    report("Protobuf to tree", message.len(), || {
        let _ = black_box(protobuf::open_envelope(&message).and_then(|e| protobuf::decode_object(&e, types, pod)));
    });
    report("tree to Protobuf", message.len(), || {
        out.clear();
        protobuf::encode_object(&read.value, types, pod, &mut out);
        black_box(&out);
    });
    let mut item = cbor::SELF_DESCRIBED.to_vec();
    cbor::encode_typed(&read.value, types, pod, &mut item);
    report("CBOR to tree", item.len(), || {
        let _ = black_box(cbor::decode_typed(&item, types, pod, cbor::Limits::default()));
    });
    report("CBOR to tree, untyped", item.len(), || {
        let _ = black_box(cbor::decode(&item, cbor::Limits::default()));
    });
    report("tree to CBOR", item.len(), || {
        out.clear();
        cbor::encode_typed(&read.value, types, pod, &mut out);
        black_box(&out);
    });
    let mut stored = Vec::new();
    json::encode_typed(&read.value, types, pod, &mut stored);
    let mut tape = json::Tape::default();
    report("JSON indexed", stored.len(), || {
        black_box(tape.index(&stored).is_some());
    });
    report("JSON to Protobuf", stored.len(), || {
        out.clear();
        black_box(protobuf::encode_json(&stored, &mut tape, types, pod, &mut out));
    });
    report("YAML to tree", text.len(), || {
        let _ = black_box(yaml::decode(&text));
    });
    report("tree to YAML", text.len(), || {
        black_box(yaml::encode(&read.value));
    });
}

/// Prints the fastest of many short rounds, in microseconds, to reduce the influence of other load.
fn report(what: &str, bytes: usize, mut work: impl FnMut()) {
    const TIMES: u32 = 20;
    if std::env::args().nth(1).is_some_and(|only| !what.contains(&only)) {
        return;
    }
    let mut best = f64::INFINITY;
    for _ in 0..1_500 {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(TIMES) * 1e6);
    }
    let _ = writeln!(std::io::stdout(), "{what:<24} {bytes:>6} bytes {best:>8.2} µs");
}
