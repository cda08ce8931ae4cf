//! Tests that no rule of services, networking, discovery or RBAC kinds panics on malformed objects.

use pintle_registry::Strategy;
use pintle_value::{Object, Value};

use crate::testing::{context, object};

/// One valid object of each kind, with as many of the validated fields as possible.
const SAMPLES: [(&str, &str, &str); 12] = [
    (
        "",
        "services",
        r#"{"metadata":{"name":"s","annotations":{"service.beta.kubernetes.io/load-balancer-source-ranges":"1.0.0.0/8",
        "service.kubernetes.io/topology-aware-hints":"a","service.kubernetes.io/topology-mode":"b"}},"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1",
        "clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","selector":{"a":"b"},
        "ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":"http","nodePort":30001,"appProtocol":"a.b/c"},{"name":"b","port":81}],
        "sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":5}},"externalIPs":["1.2.3.4"],"externalName":"a.b",
        "externalTrafficPolicy":"Local","healthCheckNodePort":30002,"internalTrafficPolicy":"Cluster","loadBalancerIP":"1.2.3.4",
        "loadBalancerSourceRanges":["10.0.0.0/8"],"loadBalancerClass":"a.b/c","allocateLoadBalancerNodePorts":true,"trafficDistribution":"PreferClose"},
        "status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4","ipMode":"VIP","hostname":"a.b"}]}}}"#,
    ),
    (
        "",
        "endpoints",
        r#"{"subsets":[{"addresses":[{"ip":"1.2.3.4","hostname":"a","nodeName":"n"}],"notReadyAddresses":[{"ip":"::1"}],
        "ports":[{"name":"a","port":1,"protocol":"TCP","appProtocol":"x"}]}]}"#,
    ),
    (
        "discovery.k8s.io",
        "endpointslices",
        r#"{"metadata":{"labels":{"a":"b"},"generation":1},"addressType":"IPv4","endpoints":[{"addresses":["1.2.3.4"],"hostname":"a","nodeName":"n",
        "deprecatedTopology":{"kubernetes.io/hostname":"n"},"hints":{"forZones":[{"name":"z"}],"forNodes":[{"name":"n"}]}}],
        "ports":[{"name":"a","port":1,"protocol":"TCP","appProtocol":"x"}]}"#,
    ),
    (
        "networking.k8s.io",
        "ingresses",
        r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"a"}},"spec":{"ingressClassName":"a","defaultBackend":{"resource":{"apiGroup":"a.b","kind":"K","name":"n"}},
        "rules":[{"host":"*.a.b","http":{"paths":[{"path":"/a","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80,"name":"x"}}}}]}}],
        "tls":[{"hosts":["a.b"],"secretName":"s"}]},"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4","hostname":"a.b"}]}}}"#,
    ),
    (
        "networking.k8s.io",
        "ingressclasses",
        r#"{"spec":{"controller":"a.b/c","parameters":{"apiGroup":"a.b","kind":"K","name":"n","scope":"Namespace","namespace":"x"}}}"#,
    ),
    (
        "networking.k8s.io",
        "networkpolicies",
        r#"{"spec":{"podSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]},
        "ingress":[{"ports":[{"port":80,"endPort":81,"protocol":"TCP"}],"from":[{"namespaceSelector":{}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]}],
        "egress":[{"ports":[{"port":"http"}],"to":[{"podSelector":{}}]}],"policyTypes":["Ingress"]}}"#,
    ),
    (
        "networking.k8s.io",
        "ipaddresses",
        r#"{"spec":{"parentRef":{"group":"a","resource":"services","namespace":"n","name":"s"}}}"#,
    ),
    (
        "networking.k8s.io",
        "servicecidrs",
        r#"{"metadata":{"labels":{"a":"b"}},"spec":{"cidrs":["10.0.0.0/24","fd00::/112"]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "roles",
        r#"{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["a"]}]}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "clusterroles",
        r#"{"rules":[{"verbs":["get"],"nonResourceURLs":["/a"]}],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "rolebindings",
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"s","namespace":"n"}]}"#,
    ),
    (
        "rbac.authorization.k8s.io",
        "clusterrolebindings",
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"}]}"#,
    ),
];

/// Replacements for each part of a sample.
const INVALID_VALUES: [&str; 14] = [
    "null",
    "true",
    "0",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "\"\"",
    "\"\\u0000é\"",
    "\"None\"",
    "\"::\"",
    "[]",
    "{}",
    "[null,[],{},1]",
    "{\"a\":null,\"b\":[1]}",
];

/// Returns all objects that differ from this one in one replaced part.
pub(crate) fn variants(value: &Value) -> Vec<Value> {
    let mut all: Vec<Value> = INVALID_VALUES.iter().map(|json| object(json)).collect();
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                all.extend(variants(item).into_iter().map(|malformed| {
                    let mut items = items.clone();
                    items[i] = malformed;
                    Value::Array(items)
                }));
            }
            // Duplicate all items.
            all.push(Value::Array([items.as_slice(), items.as_slice(), items.as_slice()].concat()));
        }
        Value::Object(fields) => {
            for (key, field) in fields.iter() {
                all.extend(variants(field).into_iter().map(|malformed| {
                    let mut fields = fields.clone();
                    fields.insert(key, malformed);
                    Value::Object(fields)
                }));
                all.push(Value::Object(
                    fields.iter().filter(|(k, _)| *k != key).map(|(k, v)| (k, v.clone())).collect::<Object>(),
                ));
            }
        }
        _ => {}
    }
    all
}

fn exercise(strategy: &dyn Strategy, object: &Value, old: &Value) {
    let context = context();
    let mut new = object.clone();
    strategy.defaults(&mut new);
    for object in [object, &new] {
        let mut created = object.clone();
        strategy.prepare_for_create(&context, &mut created);
        let mut updated = object.clone();
        strategy.prepare_for_update(&context, &mut updated, old);
        strategy.validate(&context, &created);
        strategy.validate_update(&context, &updated, old);
        strategy.warnings(&context, &updated, Some(old));
        strategy.warnings(&context, &created, None);
        strategy.selectable_fields(&updated);
        strategy.canonicalize(&mut updated);
        if let Some(status) = strategy.subresource("status") {
            let mut updated = object.clone();
            status.prepare_for_update(&context, &mut updated, old);
            status.validate_update(&context, object, old);
            status.warnings(&context, object, old);
        }
    }
}

#[test]
fn no_malformed_object_makes_a_strategy_panic() {
    for (group, plural, json) in SAMPLES {
        let strategy = crate::strategy(group, "v1", plural);
        let sample = object(json);
        for malformed in variants(&sample) {
            exercise(strategy.as_ref(), &malformed, &sample);
            exercise(strategy.as_ref(), &sample, &malformed);
            exercise(strategy.as_ref(), &malformed, &malformed);
        }
    }
}
