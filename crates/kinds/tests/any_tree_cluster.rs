//! No rule and no table of the cluster kinds panics, whatever tree it is given.

use pintle_kinds::{behaviour, table};
use pintle_registry::{Behaviour, Context};
use pintle_value::time::Time;
use pintle_value::{Object, Value};

/// One object of each kind with as many fields as its rules look at.
const SAMPLES: [(&str, &str, &str); 25] = [
    ("", "configmaps", r#"{"data":{"a":"b"},"binaryData":{"c":"MQ=="},"immutable":true}"#),
    (
        "",
        "secrets",
        r#"{"type":"kubernetes.io/tls","stringData":{"x":"y"},"data":{"tls.crt":"LS0tLS1CRUdJTiBYLS0tLS0KLS0tLS1FTkQgWC0tLS0tCg==","tls.key":""}}"#,
    ),
    ("", "secrets", r#"{"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"e30="}}"#),
    ("", "namespaces", r#"{"metadata":{"name":"n"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#),
    ("", "serviceaccounts", r#"{"secrets":[{"name":"a"}]}"#),
    (
        "",
        "nodes",
        r#"{"metadata":{"labels":{"node-role.kubernetes.io/a":""},"annotations":{"scheduler.alpha.kubernetes.io/taints":"[{}]"}},
        "spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24","fd00::/64"],"taints":[{"key":"a","effect":"NoSchedule"}],"providerID":"p"},
        "status":{"capacity":{"cpu":"1"},"addresses":[{"type":"InternalIP","address":"a"}],"declaredFeatures":["A","B"],
        "conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"architecture":"a","swap":{"capacity":1}}}}"#,
    ),
    (
        "",
        "persistentvolumes",
        r#"{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"claimRef":{"name":"c"},
        "csi":{"driver":"d","volumeHandle":"h","nodePublishSecretRef":{"name":"a","namespace":"b"}},"hostPath":{"path":"/"},"iscsi":{"targetPortal":"p",
        "iqn":"iqn.2015-02.example.com:test","initiatorName":"x","secretRef":{"name":"s"}},"flexVolume":{"driver":"d","options":{"a/b":"c"}},
        "nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"beta.kubernetes.io/os","operator":"In","values":["a"]}]}]}},
        "volumeAttributesClassName":"c","persistentVolumeReclaimPolicy":"Recycle"},"status":{"phase":"Bound"}}"#,
    ),
    (
        "",
        "persistentvolumeclaims",
        r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"a"}},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":
        {"storage":"1Gi"}},"selector":{"matchLabels":{"a":"b"}},"dataSource":{"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"namespace":"x",
        "kind":"PersistentVolumeClaim","name":"a"},"volumeName":"v"},"status":{"phase":"Bound","capacity":{"storage":"1Gi"},"allocatedResources":{"storage":"1"},
        "allocatedResourceStatuses":{"storage":"x"},"currentVolumeAttributesClassName":"c"}}"#,
    ),
    (
        "",
        "limitranges",
        r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"2"},"min":{"cpu":"1"},"default":{"cpu":"1"},"defaultRequest":{"cpu":"1"},
        "maxLimitRequestRatio":{"cpu":"2"}}]}}"#,
    ),
    (
        "",
        "resourcequotas",
        r#"{"spec":{"hard":{"pods":"1","cpu":"2","limits.cpu":"1"},"scopes":["BestEffort"],"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass",
        "operator":"In","values":["a"]}]}},"status":{"hard":{"pods":"1"},"used":{"pods":"1"}}}"#,
    ),
    (
        "",
        "pods",
        r#"{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i","restartPolicy":"Always"}],"readinessGates":[{"conditionType":"g"}]},
        "status":{"phase":"Running","initContainerStatuses":[{"name":"i","restartCount":1,"state":{"terminated":{"exitCode":1}}}],"containerStatuses":
        [{"restartCount":1,"state":{"running":{}},"ready":true,"lastState":{"terminated":{"finishedAt":"2024-01-01T00:00:00Z"}}}]}}"#,
    ),
    (
        "storage.k8s.io",
        "storageclasses",
        r#"{"provisioner":"p","parameters":{"a":"b"},"allowedTopologies":[{"matchLabelExpressions":[{"key":"a","values":["b"]}]}],"reclaimPolicy":"x"}"#,
    ),
    (
        "storage.k8s.io",
        "csidrivers",
        r#"{"spec":{"attachRequired":true,"tokenRequests":[{"audience":"a","expirationSeconds":1}],"volumeLifecycleModes":["Ephemeral"],"fsGroupPolicy":"x"}}"#,
    ),
    (
        "storage.k8s.io",
        "csinodes",
        r#"{"spec":{"drivers":[{"name":"d","nodeID":"n","topologyKeys":["a"],"allocatable":{"count":1}}]}}"#,
    ),
    (
        "storage.k8s.io",
        "csistoragecapacities",
        r#"{"nodeTopology":{"matchLabels":{"a":"b"}},"storageClassName":"c","capacity":"1"}"#,
    ),
    (
        "storage.k8s.io",
        "volumeattachments",
        r#"{"spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"v","inlineVolumeSpec":{"capacity":{"storage":"1"},"csi":{"driver":"d"}}}},
        "status":{"attachmentMetadata":{"a":"b"},"attachError":{"message":"m","errorCode":1}}}"#,
    ),
    ("storage.k8s.io", "volumeattributesclasses", r#"{"driverName":"d","parameters":{"a":"b"}}"#),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        r#"{"spec":{"request":"LS0tLS1CRUdJTg==","signerName":"a.b/c","usages":["any"],"expirationSeconds":600,"username":"u"},"status":{"certificate":"YQ==",
        "conditions":[{"type":"Approved","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z"},{"type":"Denied","status":"True"}]}}"#,
    ),
    (
        "node.k8s.io",
        "runtimeclasses",
        r#"{"handler":"h","overhead":{"podFixed":{"cpu":"1"}},"scheduling":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"a","operator":"Exists"}]}}"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        r#"{"spec":{"matchingPrecedence":1,"distinguisherMethod":{"type":"ByUser"},"priorityLevelConfiguration":{"name":"p"},"rules":[{"subjects":[{"kind":
        "ServiceAccount","serviceAccount":{"name":"a","namespace":"b"}}],"resourceRules":[{"verbs":["get"],"apiGroups":["*"],"resources":["*"],"namespaces":["n"]}],
        "nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["/a/*"]}]}]},"status":{"conditions":[{"type":"Dangling","status":"True"}]}}"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        r#"{"spec":{"type":"Limited","exempt":{},"limited":{"nominalConcurrencyShares":1,"lendablePercent":1,"borrowingLimitPercent":1,"limitResponse":{"type":"Queue",
        "queuing":{"queues":64,"handSize":8,"queueLengthLimit":50}}}}}"#,
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        r#"{"webhooks":[{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],"timeoutSeconds":1,"clientConfig":{"url":"https://u@h/p?q#f","service":
        {"name":"n","namespace":"s","path":"/a","port":1}},"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["v1"],"resources":["a/*"],"scope":"*"}],
        "matchConditions":[{"name":"n","expression":"e"}],"namespaceSelector":{"matchLabels":{"a":"b"}}}]}"#,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        r#"{"metadata":{"name":"n"},"spec":{"failurePolicy":"Fail","paramKind":{"apiVersion":"a/b","kind":"K"},"matchConstraints":{"resourceRules":[{"resourceNames":
        ["a"],"operations":["*"]}]},"variables":[{"name":"a","expression":"b"}],"validations":[{"expression":"e","message":"m","reason":"Invalid"}],
        "auditAnnotations":[{"key":"k","valueExpression":"v"}]},"status":{"typeChecking":{"expressionWarnings":[{}]},"conditions":[{}]}}"#,
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        r#"{"spec":{"policyName":"p","paramRef":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}},"matchResources":{},
        "validationActions":["Deny"]}}"#,
    ),
    (
        "apiregistration.k8s.io",
        "apiservices",
        r#"{"metadata":{"name":"v1.a"},"spec":{"group":"a","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"name":"n","namespace":"s","port":1},
        "caBundle":"YQ==","insecureSkipTLSVerify":true},"status":{"conditions":[{"type":"Available","status":"True"}]}}"#,
    ),
];

/// What takes the place of each part of a sample.
const ODDITIES: [&str; 9] = [
    "null",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "\"\"",
    "\"99999999999999999999E\"",
    "\"\\u0000é/-:[\"",
    "[]",
    "[null,{\"\":[1]},true]",
];

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the test's JSON is well formed")
}

/// Calls `see` with every tree that differs from `sample` in one part, which is an oddity or not there.
fn for_each_variant(sample: &Value, see: &mut dyn FnMut(Value)) {
    ODDITIES.iter().for_each(|oddity| see(json(oddity)));
    match sample {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                for_each_variant(item, &mut |odd| {
                    let mut items = items.clone();
                    items[i] = odd;
                    see(Value::Array(items));
                });
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter() {
                for_each_variant(field, &mut |odd| {
                    let mut fields: Object = fields.clone();
                    fields.insert(key, odd);
                    see(Value::Object(fields));
                });
                let mut without = fields.clone();
                without.remove(key);
                see(Value::Object(without));
            }
        }
        _ => {}
    }
}

fn exercise(rules: &dyn Behaviour, context: &Context, object: &Value, old: &Value) {
    let mut object = object.clone();
    rules.defaults(&mut object);
    let once = object.clone();
    rules.defaults(&mut object);
    assert_eq!(object, once, "defaults of what has them");

    let mut created = object.clone();
    rules.prepare_for_create(context, &mut created);
    let _ = rules.validate(context, &created);
    rules.canonicalize(&mut created);
    let _ = (rules.warnings(context, &created, None), rules.selectable_fields(&created));
    let mut updated = object.clone();
    rules.prepare_for_update(context, &mut updated, old);
    let _ = rules.validate_update(context, &updated, old);
    let _ = rules.warnings(context, &updated, Some(old));
    for name in ["status", "finalize", "approval"] {
        let Some(subresource) = rules.subresource(name) else { continue };
        let mut updated = object.clone();
        subresource.prepare_for_update(context, &mut updated, old);
        let _ = subresource.validate_update(context, &updated, old);
    }
}

#[test]
fn no_rule_and_no_table_panics() {
    let now = Time { seconds: 1_700_000_000, nanos: 0 };
    let context =
        Context { now, user: "u".into(), uid: "".into(), groups: Vec::new(), extra: Vec::new(), dry_run: false };
    for (group, plural, text) in SAMPLES {
        let rules = behaviour(group, "v1", plural);
        let table = table(group, plural);
        let sample = json(text);
        for_each_variant(&sample, &mut |odd| {
            assert_eq!(table.cells(&odd, now).len(), table.columns().len());
            if plural != "pods" {
                exercise(rules.as_ref(), &context, &odd, &sample);
                exercise(rules.as_ref(), &context, &sample, &odd);
            }
        });
    }
}
