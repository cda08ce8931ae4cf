//! Tests of the pod rules together: with a pod that uses most features, and with random parts of it replaced by invalid
//! values.

use pintle_registry::Strategy;
use pintle_value::Value;

use super::strategy::PodStrategy;
use crate::testing::{context, messages, object};

/// A valid pod that uses most features.
const RICH: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"rich","namespace":"default",
"labels":{"app":"rich","pod-template-hash":"x"},"annotations":{"controller.kubernetes.io/pod-deletion-cost":"-5",
"container.apparmor.security.beta.kubernetes.io/main":"runtime/default",
"scheduler.alpha.kubernetes.io/tolerations":"[{\"key\":\"a\",\"operator\":\"Exists\"}]"}},
"spec":{"serviceAccountName":"robot","hostname":"h","subdomain":"s","setHostnameAsFQDN":true,"runtimeClassName":"gvisor",
"priorityClassName":"system-node-critical","priority":2000001000,"preemptionPolicy":"PreemptLowerPriority",
"nodeSelector":{"kubernetes.io/os":"linux"},"os":{"name":"linux"},"shareProcessNamespace":true,
"activeDeadlineSeconds":3600,"terminationGracePeriodSeconds":60,"restartPolicy":"Always","automountServiceAccountToken":false,
"imagePullSecrets":[{"name":"registry"}],"overhead":{"cpu":"10m","memory":"20Mi"},
"readinessGates":[{"conditionType":"example.com/ready"}],"schedulingGates":[{"name":"example.com/gate"}],
"hostAliases":[{"ip":"127.0.0.1","hostnames":["a.local","b.local"]}],"dnsPolicy":"None",
"dnsConfig":{"nameservers":["10.0.0.10","fd00::10"],"searches":["svc.cluster.local"],"options":[{"name":"ndots","value":"2"},{"name":"edns0"}]},
"resourceClaims":[{"name":"gpu","resourceClaimTemplateName":"gpu-template"}],
"resources":{"limits":{"cpu":"4","memory":"8Gi"}},
"securityContext":{"runAsUser":1000,"runAsGroup":1000,"runAsNonRoot":true,"fsGroup":2000,"fsGroupChangePolicy":"OnRootMismatch",
"supplementalGroups":[1,2],"supplementalGroupsPolicy":"Strict","sysctls":[{"name":"net.core.somaxconn","value":"1024"}],
"seLinuxOptions":{"level":"s0:c1,c2"},"seLinuxChangePolicy":"Recursive","seccompProfile":{"type":"RuntimeDefault"},
"appArmorProfile":{"type":"RuntimeDefault"}},
"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
{"matchExpressions":[{"key":"zone","operator":"In","values":["a","b"]},{"key":"cores","operator":"Gt","values":["4"]}],
"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["node-1"]}]}]},
"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"ssd","operator":"Exists"}]}}]},
"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"cache"}},
"topologyKey":"kubernetes.io/hostname","namespaces":["default"],"matchLabelKeys":["pod-template-hash"]}]},
"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":100,"podAffinityTerm":{"labelSelector":
{"matchExpressions":[{"key":"app","operator":"In","values":["rich"]}]},"namespaceSelector":{},"topologyKey":"zone"}}]}},
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
{"key":"dedicated","value":"x","effect":"NoSchedule"},{"operator":"Exists"}],
"topologySpreadConstraints":[{"maxSkew":1,"minDomains":2,"topologyKey":"topology.kubernetes.io/zone",
"whenUnsatisfiable":"DoNotSchedule","nodeAffinityPolicy":"Honor","nodeTaintsPolicy":"Ignore",
"labelSelector":{"matchLabels":{"app":"rich"}},"matchLabelKeys":["pod-template-hash"]}],
"volumes":[{"name":"scratch","emptyDir":{"medium":"Memory","sizeLimit":"1Gi"}},{"name":"host","hostPath":{"path":"/var/log","type":"Directory"}},
{"name":"secret","secret":{"secretName":"s","items":[{"key":"k","path":"p","mode":256}],"optional":true}},
{"name":"config","configMap":{"name":"c","items":[{"key":"k","path":"d/p"}]}},
{"name":"info","downwardAPI":{"items":[{"path":"labels","fieldRef":{"fieldPath":"metadata.labels"}},
{"path":"cpu","resourceFieldRef":{"containerName":"main","resource":"limits.cpu","divisor":"1m"}}]}},
{"name":"all","projected":{"sources":[{"serviceAccountToken":{"path":"token","audience":"vault","expirationSeconds":7200}},
{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace",
"fieldRef":{"fieldPath":"metadata.namespace"}}]}}]}},
{"name":"data","persistentVolumeClaim":{"claimName":"data"}},{"name":"block","persistentVolumeClaim":{"claimName":"raw"}},
{"name":"eph","ephemeral":{"volumeClaimTemplate":{"metadata":{"labels":{"a":"b"}},"spec":{"accessModes":["ReadWriteOnce"],
"storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}}}}},
{"name":"nfs","nfs":{"server":"nfs.example.com","path":"/exports"}},{"name":"csi","csi":{"driver":"secrets-store.csi.k8s.io",
"readOnly":true,"volumeAttributes":{"a":"b"}}},{"name":"img","image":{"reference":"quay.io/x/y:v1","pullPolicy":"Never"}},
{"name":"default"}],
"initContainers":[{"name":"setup","image":"busybox","command":["sh","-c","true"],"env":[{"name":"A","value":"1"}],
"resources":{"limits":{"cpu":"100m"}}},
{"name":"sidecar","image":"proxy:1.0","restartPolicy":"Always","ports":[{"name":"proxy","containerPort":15001}],
"startupProbe":{"httpGet":{"path":"/ready","port":"proxy","httpHeaders":[{"name":"X-Probe","value":"1"}]},"failureThreshold":30},
"lifecycle":{"preStop":{"sleep":{"seconds":5}}}}],
"containers":[{"name":"main","image":"registry.example.com:5000/team/app@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
"command":["/app"],"args":["--x=$(A)"],"workingDir":"/srv","stdin":true,"tty":true,
"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"dns","containerPort":53,"protocol":"UDP","hostPort":53,"hostIP":"10.0.0.1"}],
"envFrom":[{"prefix":"P_","configMapRef":{"name":"c","optional":true}},{"secretRef":{"name":"s"}}],
"env":[{"name":"A","value":"v"},{"name":"NODE","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},
{"name":"LABEL","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['app']"}}},
{"name":"CPU","valueFrom":{"resourceFieldRef":{"resource":"requests.memory","divisor":"1Mi"}}},
{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}},{"name":"MAP","valueFrom":{"configMapKeyRef":{"name":"c","key":"k.x"}}},
{"name":"FILE","valueFrom":{"fileKeyRef":{"volumeName":"scratch","path":"env","key":"K"}}}],
"resources":{"limits":{"cpu":"2","memory":"4Gi","nvidia.com/gpu":"1","ephemeral-storage":"1Gi"},"requests":{"cpu":"1","memory":"2Gi"},
"claims":[{"name":"gpu","request":"one"}]},"resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},
{"resourceName":"memory","restartPolicy":"RestartContainer"}],"restartPolicy":"OnFailure","restartPolicyRules":[{"action":"Restart",
"exitCodes":{"operator":"In","values":[42]}}],
"volumeMounts":[{"name":"scratch","mountPath":"/tmp"},{"name":"config","mountPath":"/etc/app/config.yaml","subPath":"d/p","readOnly":true},
{"name":"host","mountPath":"/logs","readOnly":true,"recursiveReadOnly":"IfPossible","mountPropagation":"None"},
{"name":"data","mountPath":"/data","subPathExpr":"$(A)"},{"name":"img","mountPath":"/img"}],
"volumeDevices":[{"name":"block","devicePath":"/dev/xvda"}],
"livenessProbe":{"tcpSocket":{"port":8080},"terminationGracePeriodSeconds":5},"readinessProbe":{"grpc":{"port":9000,"service":"health"},"successThreshold":3},
"startupProbe":{"exec":{"command":["true"]}},"lifecycle":{"postStart":{"exec":{"command":["true"]}},"preStop":{"httpGet":{"port":"http","scheme":"HTTPS"}}},
"securityContext":{"allowPrivilegeEscalation":false,"privileged":false,"readOnlyRootFilesystem":true,"capabilities":{"add":["NET_BIND_SERVICE"],
"drop":["ALL"]},"procMount":"Default","seccompProfile":{"type":"Localhost","localhostProfile":"p.json"}}}]}}"#;

fn rich() -> Value {
    let schema = pintle_catalog::shared().kind_schema("", "v1", "Pod").unwrap();
    let mut pod = object(RICH);
    let mut problems = pintle_schema::Problems::default();
    pintle_schema::normalise(&schema.types, schema.root, &mut pod, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    pintle_schema::static_defaults(&schema.types, schema.root, &mut pod);
    pod
}

/// Runs all rules for a pod and for an update from `old` to it, also through a subresource.
fn run_all(mut pod: Value, old: &Value, subresource: &str) {
    let context = context();
    PodStrategy::default().defaults(&mut pod);
    let mut created = pod.clone();
    PodStrategy::default().prepare_for_create(&context, &mut created);
    let _ = (
        PodStrategy::default().validate(&context, &created),
        PodStrategy::default().warnings(&context, &created, None),
    );
    let _ = (
        PodStrategy::default().selectable_fields(&pod),
        pintle_registry::GracefulDeletion::grace_period(&PodStrategy::default(), &pod, None),
    );
    let mut updated = pod.clone();
    PodStrategy::default().prepare_for_update(&context, &mut updated, old);
    let _ = (
        PodStrategy::default().validate_update(&context, &updated, old),
        PodStrategy::default().validate_update(&context, old, &updated),
    );
    let pods = PodStrategy::default();
    let rules = pods.subresource(subresource).unwrap();
    for (new, old) in [(&pod, old), (old, &pod)] {
        let mut updated = new.clone();
        rules.prepare_for_update(&context, &mut updated, old);
        let _ = rules.validate_update(&context, &updated, old);
    }
    let _ = super::bind(&context.gates, &mut pod, old, context.now);
}

#[test]
fn a_valid_pod_is_accepted() {
    let mut pod = rich();
    PodStrategy::default().defaults(&mut pod);
    PodStrategy::default().prepare_for_create(&context(), &mut pod);
    assert_eq!(messages(&PodStrategy::default().validate(&context(), &pod)), [""; 0]);
    assert_eq!(messages(&PodStrategy::default().validate_update(&context(), &pod, &pod)), [""; 0]);
    let once = pod.clone();
    PodStrategy::default().defaults(&mut pod);
    assert_eq!(pod, once);
    // Normalization is idempotent.
    let schema = pintle_catalog::shared().kind_schema("", "v1", "Pod").unwrap();
    let mut problems = pintle_schema::Problems::default();
    pintle_schema::normalise(&schema.types, schema.root, &mut pod, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(pod, once);
}

/// Collects the paths of all values below a value.
fn paths(value: &Value, here: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    let children: Vec<&Value> = match value {
        Value::Object(object) => object.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => Vec::new(),
    };
    for (i, child) in children.into_iter().enumerate() {
        here.push(i);
        all.push(here.clone());
        paths(child, here, all);
        here.pop();
    }
}

fn replace(value: &mut Value, path: &[usize], with: &Value) {
    match path.split_first() {
        None => *value = with.clone(),
        Some((first, rest)) => {
            let child = match value {
                Value::Object(object) => object.iter_mut().nth(*first).map(|(_, child)| child),
                Value::Array(items) => items.get_mut(*first),
                _ => None,
            };
            if let Some(child) = child {
                replace(child, rest, with);
            }
        }
    }
}

#[test]
fn no_malformed_pod_makes_the_strategy_panic() {
    let pod = rich();
    let mut stored = pod.clone();
    PodStrategy::default().defaults(&mut stored);
    PodStrategy::default().prepare_for_create(&context(), &mut stored);
    let mut all = Vec::new();
    paths(&pod, &mut Vec::new(), &mut all);
    let nonsense: Vec<Value> = [
        "null",
        "-9223372036854775808",
        "9223372036854775807",
        r#""""#,
        r#""é\u0000..//:@[''](""#,
        "[]",
        "[null,1,[],{}]",
        r#"{"":{}}"#,
    ]
    .iter()
    .map(|json| object(json))
    .collect();
    for (i, path) in all.iter().enumerate().step_by(2) {
        // Cycle through the replacements and subresources, so that the test stays fast.
        let mut broken = pod.clone();
        replace(&mut broken, path, &nonsense[i / 2 % nonsense.len()]);
        run_all(broken, &stored, ["status", "resize", "ephemeralcontainers"][i / 2 % 3]);
    }
}

#[test]
fn large_repetitive_pods_have_bounded_errors() {
    let many = |item: &dyn Fn(usize) -> String| (0..10_000).map(item).collect::<Vec<_>>().join(",");
    let same = |item: &str| many(&|_| item.to_owned());
    let env = many(&|i| {
        format!(r#"{{"name":"A{i}","valueFrom":{{"fileKeyRef":{{"volumeName":"v{i}","path":"p","key":"k"}}}}}}"#)
    });
    let specs = [
        format!(r#""containers":[{{"name":"c","image":"i","ports":[{}]}}]"#, same(r#"{"containerPort":1}"#)),
        format!(
            r#""containers":[{{"name":"c","image":"i","resources":{{"claims":[{}]}}}}],"resourceClaims":[{}]"#,
            many(&|i| format!(r#"{{"name":"x{i}"}}"#)),
            many(&|i| format!(r#"{{"name":"a{i}","resourceClaimName":"r"}}"#))
        ),
        format!(
            r#""containers":[{{"name":"c","image":"i","securityContext":{{"allowPrivilegeEscalation":false,
            "capabilities":{{"add":[{}]}}}}}}]"#,
            same(r#""CAP_SYS_ADMIN""#)
        ),
        format!(
            r#""containers":[{{"name":"c","image":"i","env":[{env}]}}],"volumes":[{}]"#,
            many(&|i| format!(r#"{{"name":"v{i}","hostPath":{{"path":"/"}}}}"#))
        ),
        format!(
            r#""volumes":[{{"name":"v","configMap":{{"name":"c","items":[{}]}}}}]"#,
            same(r#"{"key":"k","path":"p"}"#)
        ),
        format!(
            r#""volumes":[{{"name":"v","configMap":{{"name":"c","items":[{}]}}}}]"#,
            many(&|i| format!(r#"{{"key":"k","path":"p{i}"}}"#))
        ),
        format!(r#""topologySpreadConstraints":[{}]"#, many(&|i| format!(r#"{{"topologyKey":"{i}"}}"#))),
        format!(r#""tolerations":[{}]"#, many(&|i| format!(r#"{{"key":"a{i}","operator":"Exists"}}"#))),
        format!(r#""containers":[{}]"#, many(&|i| format!(r#"{{"name":"c{i}","image":"i"}}"#))),
    ];
    for spec in specs {
        let mut pod = object(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{spec}}}}}"#));
        PodStrategy::default().defaults(&mut pod);
        PodStrategy::default().prepare_for_create(&context(), &mut pod);
        let errors = PodStrategy::default().validate(&context(), &pod);
        let text: usize = messages(&errors).iter().map(String::len).sum();
        assert!(text < 20_000_000, "{text} bytes of errors");
        assert!(PodStrategy::default().warnings(&context(), &pod, None).len() < 25_000);
        let mut other = pod.clone();
        other.set_at(&["spec", "hostname"], "h");
        let _ = PodStrategy::default().validate_update(&context(), &other, &pod);
    }
}
