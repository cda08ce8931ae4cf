//! Tests the tables against rows that kube-apiserver 1.36 sends.

use pintle_codec::json::{self, Projection};
use pintle_registry::TableConvertor;
use pintle_value::Value;
use pintle_value::time::Time;
use pintle_versions::Minor;

use crate::testing::object;

/// The current time of all tests. Objects with `META` are five minutes old.
const NOW: &str = "2024-05-01T12:00:00Z";
const META: &str = r#""metadata":{"name":"x","namespace":"ns","creationTimestamp":"2024-05-01T11:55:00Z"}"#;

pub(super) fn check(group: &str, plural: &str, rest: &str, expect: &str) {
    let object = object(&format!("{{{META}{}{rest}}}", if rest.is_empty() { "" } else { "," }));
    check_object(group, plural, &object, expect);
}

fn check_object(group: &str, plural: &str, object: &Value, expect: &str) {
    check_in(Minor::DEFAULT, group, plural, object, expect);
}

fn check_in(minor: Minor, group: &str, plural: &str, object: &Value, expect: &str) {
    let table = super::table_in(group, plural, minor);
    let cells = table.cells(object, Time::parse_rfc3339(NOW).expect("a time"));
    let text = serde_json::to_string(&Value::Array(cells)).expect("JSON");
    assert_eq!(text, expect, "{group}/{plural}");
    assert_sources_suffice(&*table, object);
}

/// Checks that the fields that a table names as its sources give the same row as the whole object.
fn assert_sources_suffice(table: &dyn TableConvertor, object: &Value) {
    let sources = table.sources();
    let selected = Projection::of(sources.iter().copied()).read(&json::encode(object)).expect("stored JSON");
    let now = Time::parse_rfc3339(NOW).expect("a time");
    let row = |object: &Value| (table.cells(object, now), table.conditions(object));
    assert_eq!(row(&selected), row(object), "{sources:?} of {object:?}");
}

#[test]
fn all_lines_are_columns() {
    for line in super::TABLES.lines().filter(|line| line.starts_with("  ")) {
        assert!(line.trim_start().starts_with(super::READS) || super::parse_column(line).is_some(), "{line}");
    }
    let resources = crate::all_resources(pintle_catalog::complete());
    for name in super::tables(Minor::DEFAULT).keys() {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        assert!(resources.iter().any(|resource| resource.is(group, plural)), "{name}");
    }
}

#[test]
fn every_row_has_a_cell_per_column() {
    let kinds = [
        ("", "pods configmaps secrets namespaces serviceaccounts nodes persistentvolumes persistentvolumeclaims"),
        (
            "",
            "resourcequotas componentstatuses events podtemplates replicationcontrollers services endpoints limitranges",
        ),
        ("apps", "deployments replicasets statefulsets daemonsets controllerrevisions"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("batch", "jobs cronjobs"),
        ("networking.k8s.io", "ingresses ingressclasses networkpolicies servicecidrs"),
        ("rbac.authorization.k8s.io", "roles clusterroles rolebindings clusterrolebindings"),
        ("resource.k8s.io", "deviceclasses resourceclaims resourceclaimtemplates resourceslices"),
        ("resource.k8s.io", "devicetaintrules resourcepoolstatusrequests"),
        ("storage.k8s.io", "storageclasses volumeattachments csinodes csidrivers csistoragecapacities"),
        ("storage.k8s.io", "volumeattributesclasses"),
        ("flowcontrol.apiserver.k8s.io", "flowschemas prioritylevelconfigurations"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies mutatingadmissionpolicybindings"),
        ("apiregistration.k8s.io", "apiservices"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("certificates.k8s.io", "certificatesigningrequests clustertrustbundles podcertificaterequests"),
        ("coordination.k8s.io", "leases"),
        ("discovery.k8s.io", "endpointslices"),
        ("events.k8s.io", "events"),
        ("node.k8s.io", "runtimeclasses"),
        ("policy", "poddisruptionbudgets"),
        ("scheduling.k8s.io", "podgroups priorityclasses workloads"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    ];
    let malformed =
        object(r#"{"metadata":[1],"spec":{"containers":{"a":1},"ports":[null,3]},"status":{"conditions":[7]}}"#);
    for (group, plurals) in kinds {
        for plural in plurals.split(' ') {
            let table = crate::table(group, plural);
            for object in [&Value::Null, &Value::object(), &malformed] {
                let cells = table.cells(object, Time::ZERO);
                assert_eq!(cells.len(), table.columns().len(), "{group}/{plural}");
            }
        }
    }
}

#[test]
fn pods() {
    let check_pod = |spec: &str, status: &str, expect: &str| {
        check("", "pods", &format!(r#""spec":{{{spec}}},"status":{{{status}}}"#), expect);
    };
    let two = r#""containers":[{"name":"a"},{"name":"b"}]"#;
    check_pod(two, r#""phase":"Pending""#, r#"["x","0/2","Pending","0","5m","<none>","<none>","<none>","<none>"]"#);
    check_pod(
        &format!(r#"{two},"nodeName":"n1","readinessGates":[{{"conditionType":"g"}},{{"conditionType":"h"}}]"#),
        r#""phase":"Running","podIPs":[{"ip":"10.1.0.4"},{"ip":"fd00::4"}],"nominatedNodeName":"n2",
           "conditions":[{"type":"g","status":"True"}],
           "containerStatuses":[{"name":"a","ready":true,"restartCount":2,"state":{"running":{}},
             "lastState":{"terminated":{"finishedAt":"2024-05-01T11:58:00Z"}}},
             {"name":"b","restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}},
             "lastState":{"terminated":{"finishedAt":"2024-05-01T11:50:00Z"}}}]"#,
        r#"["x","1/2","CrashLoopBackOff","3 (2m ago)","5m","10.1.0.4","n1","n2","1/2"]"#,
    );
    let tail = r#","<none>","<none>","<none>","<none>"]"#;
    let short = |spec: &str, status: &str, expect: &str| check_pod(spec, status, &format!("{expect}{tail}"));
    // Init containers.
    let init = r#""containers":[{"name":"a"}],"initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}]"#;
    short(
        init,
        r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"running":{}}}]"#,
        r#"["x","0/2","Init:0/2","0","5m""#,
    );
    short(
        init,
        r#""phase":"Pending","initContainerStatuses":[{"name":"i","restartCount":4,"state":{"waiting":{"reason":"ErrImagePull"}}}]"#,
        r#"["x","0/2","Init:ErrImagePull","4","5m""#,
    );
    short(
        init,
        r#""phase":"Pending","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":1,"signal":9}}}]"#,
        r#"["x","0/2","Init:Signal:9","0","5m""#,
    );
    short(
        init,
        r#""phase":"Running","initContainerStatuses":[{"name":"i","restartCount":3,"state":{"terminated":{"exitCode":0}}},
           {"name":"s","started":true,"ready":true,"restartCount":1,"state":{"running":{}}}],
           "containerStatuses":[{"name":"a","ready":true,"state":{"running":{}}}]"#,
        r#"["x","2/2","Running","1","5m""#,
    );
    // Terminated pods.
    short(two, r#""phase":"Failed","reason":"Evicted""#, r#"["x","0/2","Evicted","0","5m""#);
    short(
        two,
        r#""phase":"Running","containerStatuses":[{"state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"ready":true,"state":{"running":{}}}]"#,
        r#"["x","1/2","NotReady","0","5m""#,
    );
    short(
        two,
        r#""phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"state":{"terminated":{"exitCode":0,"reason":"Completed"}}},{"ready":true,"state":{"running":{}}}]"#,
        r#"["x","1/2","Running","0","5m""#,
    );
    short(
        two,
        r#""phase":"Failed","containerStatuses":[{"state":{"terminated":{"reason":"Completed"}}},{"state":{"terminated":{"exitCode":3}}}]"#,
        r#"["x","0/2","ExitCode:3","0","5m""#,
    );
    short(
        two,
        r#""phase":"Pending","conditions":[{"type":"PodScheduled","reason":"SchedulingGated"}]"#,
        r#"["x","0/2","SchedulingGated","0","5m""#,
    );
    let gone = object(
        r#"{"metadata":{"name":"x","deletionTimestamp":"2024-05-01T11:55:00Z"},"spec":{},"status":{"phase":"Running"}}"#,
    );
    check_object("", "pods", &gone, &format!(r#"["x","0/0","Terminating","0","<unknown>"{tail}"#));
    let done = crate::table("", "pods").conditions(&object(r#"{"status":{"phase":"Succeeded"}}"#));
    assert_eq!(done[0].str_at(&["reason"]), "Succeeded");
}

#[test]
fn definitions_have_columns_since_1_37() {
    let definition = object(
        r#"{"metadata":{"name":"d","creationTimestamp":"2024-05-01T11:55:00Z"},
        "spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"Foo","shortNames":["f","fo"]},
        "versions":[{"name":"v2","served":true,"storage":true},{"name":"v3"},{"name":"v1","served":true}]},
        "status":{"conditions":[{"type":"Established","status":"True"}]}}"#,
    );
    let check = |minor: u8, object: &Value, expect: &str| {
        check_in(Minor::new(minor), "apiextensions.k8s.io", "customresourcedefinitions", object, expect);
    };
    check(36, &definition, r#"["d","2024-05-01T11:55:00Z"]"#);
    let cells = r#"["d","Namespaced","v1,v2(storage)","2024-05-01T11:55:00Z","example.com","Foo","f,fo",true]"#;
    check(37, &definition, cells);
    let bare = object(r#"{"metadata":{"name":"d"}}"#);
    check(37, &bare, r#"["d","","","0001-01-01T00:00:00Z","","","",false]"#);
}

#[test]
fn core_kinds() {
    check("", "configmaps", r#""data":{"a":"1"},"binaryData":{"b":"YQ==","c":""}"#, r#"["x",3,"5m"]"#);
    check("", "secrets", r#""type":"Opaque","data":{"a":"YQ=="}"#, r#"["x","Opaque",1,"5m"]"#);
    check("", "namespaces", r#""status":{"phase":"Active"}"#, r#"["x","Active","5m"]"#);
    check("", "serviceaccounts", "", r#"["x","5m"]"#);
    check("", "limitranges", "", r#"["x","2024-05-01T11:55:00Z"]"#);
    check("apiextensions.k8s.io", "customresourcedefinitions", "", r#"["x","2024-05-01T11:55:00Z"]"#);
    check("", "nodes", "", r#"["x","Unknown","<none>","5m","","<none>","<none>","<unknown>","<unknown>","<unknown>"]"#);
    let node = object(
        r#"{"metadata":{"name":"n","labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/":"","kubernetes.io/role":"edge"}},
        "spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"True"}],
        "addresses":[{"type":"InternalIP","address":"192.0.2.1"},{"type":"ExternalIP","address":"203.0.113.1"}],
        "nodeInfo":{"kubeletVersion":"v1.36.0","osImage":"Linux","kernelVersion":"6.1","architecture":"arm64","containerRuntimeVersion":"containerd://2"}}}"#,
    );
    check_object(
        "",
        "nodes",
        &node,
        r#"["n","Ready,SchedulingDisabled","edge,worker","<unknown>","v1.36.0","192.0.2.1","203.0.113.1","Linux","6.1 (arm64)","containerd://2"]"#,
    );
    check(
        "",
        "persistentvolumes",
        r#""spec":{"capacity":{"storage":"5Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"ns","name":"c"},"storageClassName":"fast","volumeMode":"Filesystem"},"status":{"phase":"Bound"}"#,
        r#"["x","5Gi","RWO,RWX","Retain","Bound","ns/c","fast","<unset>","","5m","Filesystem"]"#,
    );
    check(
        "",
        "persistentvolumeclaims",
        r#""spec":{"storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Pending"}"#,
        r#"["x","Pending","","","","fast","<unset>","5m","<unset>"]"#,
    );
    check(
        "",
        "persistentvolumeclaims",
        r#""spec":{"volumeName":"v","volumeMode":"Block","volumeAttributesClassName":"gold"},"status":{"phase":"Bound","accessModes":["ReadWriteOncePod"],"capacity":{"storage":"1Gi"}}"#,
        r#"["x","Bound","v","1Gi","RWOP","","gold","5m","Block"]"#,
    );
    check(
        "",
        "resourcequotas",
        r#""status":{"hard":{"limits.cpu":"2","pods":"4","requests.cpu":"1"},"used":{"pods":"1","limits.cpu":"500m"}}"#,
        r#"["x","pods: 1/4, requests.cpu: 0/1","limits.cpu: 500m/2","5m"]"#,
    );
    check(
        "",
        "componentstatuses",
        r#""conditions":[{"type":"Healthy","status":"True","message":"ok"}]"#,
        r#"["x","Healthy","ok",""]"#,
    );
    check(
        "",
        "podtemplates",
        r#""template":{"metadata":{"labels":{"b":"2","a":"1"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        r#"["x","c","i","a=1,b=2"]"#,
    );
    check(
        "",
        "replicationcontrollers",
        r#""spec":{"replicas":3,"selector":{"a":"b"},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":2}"#,
        r#"["x",3,2,0,"5m","c","i","a=b"]"#,
    );
}

#[test]
fn events() {
    check(
        "",
        "events",
        r#""type":"Normal","reason":"Pulled","message":" done\n","count":3,"firstTimestamp":"2024-05-01T11:00:00Z","lastTimestamp":"2024-05-01T11:59:50Z",
        "involvedObject":{"kind":"Pod","name":"p","fieldPath":"spec.containers{c}"},"source":{"component":"kubelet","host":"n1"}"#,
        r#"["10s","Normal","Pulled","pod/p","spec.containers{c}","kubelet, n1","done","60m",3,"x"]"#,
    );
    check(
        "events.k8s.io",
        "events",
        r#""type":"Warning","eventTime":"2024-05-01T11:59:00.000000Z","reportingComponent":"c","involvedObject":{"kind":"Node"},
        "series":{"count":7,"lastObservedTime":"2024-05-01T11:59:58.500000Z"}"#,
        r#"["1s","Warning","","node","","c","","60s",7,"x"]"#,
    );
    check("", "events", r#""involvedObject":{}"#, r#"["<unknown>","","","","","","","<unknown>",1,"x"]"#);
}

#[test]
fn services_and_endpoints() {
    let check_service = |spec: &str, status: &str, expect: &str| {
        check("", "services", &format!(r#""spec":{{{spec}}},"status":{{{status}}}"#), expect);
    };
    check_service(
        r#""type":"ClusterIP","clusterIPs":["10.0.0.7"],"ports":[{"port":80,"protocol":"TCP"},{"port":53,"nodePort":30053,"protocol":"UDP"}],"selector":{"app":"a"}"#,
        "",
        r#"["x","ClusterIP","10.0.0.7","<none>","80/TCP,53:30053/UDP","5m","app=a"]"#,
    );
    check_service(
        r#""type":"LoadBalancer""#,
        "",
        r#"["x","LoadBalancer","<none>","<pending>","<none>","5m","<none>"]"#,
    );
    check_service(
        r#""type":"LoadBalancer","externalIPs":["192.0.2.9"]"#,
        r#""loadBalancer":{"ingress":[{"hostname":"b.example"},{"ip":"192.0.2.1","hostname":"c"},{"ip":"192.0.2.1"}]}"#,
        r#"["x","LoadBalancer","<none>","192.0.2.1,b.example,192.0.2.9","<none>","5m","<none>"]"#,
    );
    check_service(
        r#""type":"ExternalName","externalName":"db.example""#,
        "",
        r#"["x","ExternalName","<none>","db.example","<none>","5m","<none>"]"#,
    );
    check("", "endpoints", "", r#"["x","<none>","5m"]"#);
    check("", "endpoints", r#""subsets":[{"notReadyAddresses":[{"ip":"192.0.2.1"}]}]"#, r#"["x","","5m"]"#);
    check(
        "",
        "endpoints",
        r#""subsets":[{"addresses":[{"ip":"192.0.2.1"},{"ip":"fd00::1"}],"ports":[{"port":80},{"port":443}]},{"addresses":[{"ip":"192.0.2.9"}]}]"#,
        r#"["x","192.0.2.1:80,[fd00::1]:80,192.0.2.1:443 + 2 more...","5m"]"#,
    );
    check(
        "discovery.k8s.io",
        "endpointslices",
        r#""addressType":"IPv4","ports":[{"port":80},{"name":"n"},{}],"endpoints":[{"addresses":["192.0.2.1","192.0.2.2"]},{"addresses":["192.0.2.3"]},{"addresses":["192.0.2.4"]}]"#,
        r#"["x","IPv4","80,n,*","192.0.2.1,192.0.2.2,192.0.2.3 + 1 more...","5m"]"#,
    );
    check("discovery.k8s.io", "endpointslices", r#""addressType":"IPv6""#, r#"["x","IPv6","<unset>","<unset>","5m"]"#);
}

#[test]
fn workloads() {
    let template = r#""template":{"spec":{"nodeSelector":{"d":"ssd"},"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}"#;
    let selector = r#""selector":{"matchLabels":{"b":"1"},"matchExpressions":[{"key":"a","operator":"In","values":["y","x"]},{"key":"c","operator":"DoesNotExist"}]}"#;
    check(
        "apps",
        "deployments",
        &format!(
            r#""spec":{{"replicas":3,{selector},{template}}},"status":{{"readyReplicas":1,"updatedReplicas":2,"availableReplicas":1}}"#
        ),
        r#"["x","1/3",2,1,"5m","c,d","i,j","a in (x,y),b=1,!c"]"#,
    );
    let invalid = r#""selector":{"matchExpressions":[{"key":"a","operator":"In"}]}"#;
    check("apps", "deployments", &format!(r#""spec":{{{invalid}}}"#), r#"["x","0/0",0,0,"5m","","","<invalid>"]"#);
    check("apps", "deployments", "", r#"["x","0/0",0,0,"5m","","",""]"#);
    check("apps", "replicasets", &format!(r#""spec":{{{invalid}}}"#), r#"["x",0,0,0,"5m","","","<error>"]"#);
    check("apps", "replicasets", r#""spec":{"replicas":2}"#, r#"["x",2,0,0,"5m","","","<none>"]"#);
    check("apps", "statefulsets", &format!(r#""spec":{{"replicas":2,{template}}}"#), r#"["x","0/2","5m","c,d","i,j"]"#);
    check(
        "apps",
        "daemonsets",
        &format!(
            r#""spec":{{{template},"selector":{{"matchLabels":{{"a":"b"}}}}}},"status":{{"desiredNumberScheduled":1,"currentNumberScheduled":2,"numberReady":3,"updatedNumberScheduled":4,"numberAvailable":5}}"#
        ),
        r#"["x",1,2,3,4,5,"d=ssd","5m","c,d","i,j","a=b"]"#,
    );
    let revision = object(
        r#"{"metadata":{"name":"r","ownerReferences":[{"kind":"A","name":"a"},{"apiVersion":"apps/v1","kind":"DaemonSet","name":"d","controller":true}]},"revision":4}"#,
    );
    check_object("apps", "controllerrevisions", &revision, r#"["r","daemonset.apps/d",4,"<unknown>"]"#);
    check("apps", "controllerrevisions", "", r#"["x","<none>",0,"5m"]"#);
}

#[test]
fn jobs() {
    let check_job = |spec: &str, status: &str, expect: &str| {
        check(
            "batch",
            "jobs",
            &format!(r#""spec":{{{spec}}},"status":{{{status}}}"#),
            &format!(r#"["x",{expect},"5m","","","<none>"]"#),
        );
    };
    check_job(r#""completions":3"#, "", r#""Running","0/3","""#);
    check_job(
        r#""parallelism":4"#,
        r#""succeeded":1,"startTime":"2024-05-01T11:59:00Z""#,
        r#""Running","1/1 of 4","60s""#,
    );
    check_job(
        "",
        r#""succeeded":1,"startTime":"2024-05-01T11:00:00Z","completionTime":"2024-05-01T11:00:30Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]"#,
        r#""Complete","1/1","30s""#,
    );
    check_job("", r#""conditions":[{"type":"Suspended","status":"True"}]"#, r#""Suspended","0/1","""#);
    check_job(
        "",
        r#""conditions":[{"type":"FailureTarget","status":"True"},{"type":"Suspended","status":"False"}]"#,
        r#""FailureTarget","0/1","""#,
    );
    check(
        "batch",
        "cronjobs",
        r#""spec":{"schedule":"0 * * * *","suspend":false,"timeZone":"Etc/UTC","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}},"status":{"active":[{}],"lastScheduleTime":"2024-05-01T11:00:00Z"}"#,
        r#"["x","0 * * * *","Etc/UTC","False",1,"60m","5m","c","i","<none>"]"#,
    );
    check(
        "batch",
        "cronjobs",
        r#""spec":{"schedule":"@daily"}"#,
        r#"["x","@daily","<none>","<unset>",0,"<none>","5m","","","<none>"]"#,
    );
}

#[test]
fn autoscalers() {
    let check_metrics = |metrics: &str, current: &str, expect: &str| {
        check(
            "autoscaling",
            "horizontalpodautoscalers",
            &format!(
                r#""spec":{{"scaleTargetRef":{{"kind":"Deployment","name":"d"}},"minReplicas":2,"maxReplicas":9,"metrics":[{metrics}]}},"status":{{"currentReplicas":3,"currentMetrics":[{current}]}}"#
            ),
            &format!(r#"["x","Deployment/d","{expect}","2",9,3,"5m"]"#),
        );
    };
    let cpu =
        r#"{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}"#;
    check_metrics("", "", "<none>");
    check_metrics(cpu, "", "cpu: <unknown>/80%");
    check_metrics(
        cpu,
        r#"{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":41,"averageValue":"200m"}}}"#,
        "cpu: 41%/80%",
    );
    check_metrics(
        r#"{"type":"Pods","pods":{"metric":{"name":"qps"},"target":{"averageValue":"1k"}}},{"type":"External","external":{"target":{"value":"30"}}}"#,
        r#"{"type":"Pods","pods":{"current":{"averageValue":"500"}}},{"type":"External","external":{"current":{}}}"#,
        "500/1k, <nil>/30",
    );
    check_metrics(
        &format!(
            r#"{{"type":"Object","object":{{"target":{{"averageValue":"5"}}}}}},{{"type":"ContainerResource","containerResource":{{"name":"memory","target":{{"averageValue":"1Gi"}}}}}},{cpu}"#
        ),
        "",
        "<unknown>/5 (avg), memory: <unknown>/1Gi + 1 more...",
    );
}

#[test]
fn networking() {
    check("networking.k8s.io", "ingresses", "", r#"["x","<none>","*","","80","5m"]"#);
    check(
        "networking.k8s.io",
        "ingresses",
        r#""spec":{"ingressClassName":"nginx","tls":[{}],"rules":[{"host":"a"},{"host":"b"},{},{"host":"c"},{"host":"d"}]},"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"},{"hostname":"a-long-name.example.com"}]}}"#,
        r#"["x","nginx","a,b,c + 2 more...","192.0.2.1,a-long-name.example.com","80, 443","5m"]"#,
    );
    let class = object(
        r#"{"metadata":{"name":"c","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}},"spec":{"controller":"example.com/c","parameters":{"apiGroup":"k.example.com","kind":"P","name":"p"}}}"#,
    );
    check_object(
        "networking.k8s.io",
        "ingressclasses",
        &class,
        r#"["c (default)","example.com/c","P.k.example.com/p","<unknown>"]"#,
    );
    check("networking.k8s.io", "networkpolicies", r#""spec":{"podSelector":{}}"#, r#"["x","<none>","5m"]"#);
    check(
        "networking.k8s.io",
        "servicecidrs",
        r#""spec":{"cidrs":["10.0.0.0/24","fd00::/112"]}"#,
        r#"["x","10.0.0.0/24,fd00::/112","5m"]"#,
    );
    check(
        "networking.k8s.io",
        "ipaddresses",
        r#""spec":{"parentRef":{"resource":"services","namespace":"default","name":"kubernetes"}}"#,
        r#"["x","services/default/kubernetes","5m"]"#,
    );
}

#[test]
fn rbac_kinds() {
    check(
        "rbac.authorization.k8s.io",
        "rolebindings",
        r#""roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"a"},{"kind":"User","name":"b"},{"kind":"Group","name":"g"},{"kind":"ServiceAccount","namespace":"n","name":"s"}]"#,
        r#"["x","Role/r","5m","a, b","g","n/s"]"#,
    );
    check("rbac.authorization.k8s.io", "clusterroles", "", r#"["x","2024-05-01T11:55:00Z"]"#);
    check(
        "certificates.k8s.io",
        "certificatesigningrequests",
        r#""spec":{"signerName":"example.com/s","username":"u","expirationSeconds":86400},"status":{"certificate":"YQ==","conditions":[{"type":"Approved"}]}"#,
        r#"["x","5m","example.com/s","u","24h","Approved,Issued"]"#,
    );
    check("certificates.k8s.io", "certificatesigningrequests", "", r#"["x","5m","<none>","","<none>","Pending"]"#);
    let spec = r#""spec":{"podName":"p","serviceAccountName":"a","nodeName":"n","signerName":"s.io/t"}"#;
    let failed = format!(r#"{spec},"status":{{"conditions":[{{"type":"Failed","status":"True"}}]}}"#);
    for (rest, state) in [(spec, "Pending"), (&*failed, "Failed")] {
        let expect = format!(r#"["x","p","a","n","s.io/t","{state}"]"#);
        check("certificates.k8s.io", "podcertificaterequests", rest, &expect);
    }
    check(
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        r#""spec":{"priorityLevelConfiguration":{"name":"p"},"matchingPrecedence":9,"distinguisherMethod":{"type":"ByUser"}},"status":{"conditions":[{"type":"Dangling","status":"False"}]}"#,
        r#"["x","p",9,"ByUser","5m","False"]"#,
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":30,"limitResponse":{"type":"Queue","queuing":{"queues":64,"handSize":8,"queueLengthLimit":50}}}}"#,
        r#"["x","Limited",30,64,8,50,"5m"]"#,
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        r#""spec":{"type":"Exempt"}"#,
        r#"["x","Exempt","<none>","<none>","<none>","<none>","5m"]"#,
    );
}

#[test]
fn storage() {
    let class = object(
        r#"{"metadata":{"name":"c","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p","allowVolumeExpansion":true}"#,
    );
    check_object(
        "storage.k8s.io",
        "storageclasses",
        &class,
        r#"["c (default)","p","Delete","Immediate",true,"<unknown>"]"#,
    );
    check(
        "storage.k8s.io",
        "volumeattachments",
        r#""spec":{"attacher":"a","nodeName":"n","source":{"persistentVolumeName":"v"}},"status":{"attached":true}"#,
        r#"["x","a","v","n",true,"5m"]"#,
    );
    check("storage.k8s.io", "csinodes", r#""spec":{"drivers":[{},{}]}"#, r#"["x",2,"5m"]"#);
    check(
        "storage.k8s.io",
        "csidrivers",
        r#""spec":{"attachRequired":false,"tokenRequests":[{"audience":"a"},{"audience":"b"}],"volumeLifecycleModes":["Persistent"]}"#,
        r#"["x",false,false,false,"a,b",false,"Persistent","5m"]"#,
    );
    check("storage.k8s.io", "csidrivers", "", r#"["x",true,false,false,"<unset>",false,"<none>","5m"]"#);
    check("storage.k8s.io", "volumeattributesclasses", r#""driverName":"d""#, r#"["x","d","5m"]"#);
    check("resource.k8s.io", "resourceclaims", "", r#"["x","pending","5m"]"#);
    check(
        "resource.k8s.io",
        "resourceclaims",
        r#""status":{"allocation":{},"reservedFor":[{}]}"#,
        r#"["x","allocated,reserved","5m"]"#,
    );
    check(
        "resource.k8s.io",
        "resourceslices",
        r#""spec":{"driver":"d","pool":{"name":"p"},"nodeName":"n"}"#,
        r#"["x","n","d","p","5m"]"#,
    );
}

#[test]
fn small_groups() {
    check("admissionregistration.k8s.io", "mutatingwebhookconfigurations", r#""webhooks":[{},{}]"#, r#"["x",2,"5m"]"#);
    check(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        r#""spec":{"validations":[{}],"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}}"#,
        r#"["x",1,"v1/ConfigMap","5m"]"#,
    );
    check(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        r#""spec":{"policyName":"p","paramRef":{"name":"n"}}"#,
        r#"["x","p","*/n","5m"]"#,
    );
    check(
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        r#""spec":{"policyName":"p","paramRef":{"selector":{"matchLabels":{"a":"b"}}}}"#,
        r#"["x","p","&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}","5m"]"#,
    );
    check("apiregistration.k8s.io", "apiservices", "", r#"["x","Local","Unknown","5m"]"#);
    check(
        "apiregistration.k8s.io",
        "apiservices",
        r#""spec":{"service":{"namespace":"n","name":"s"}},"status":{"conditions":[{"type":"Available","status":"False","reason":"MissingEndpoints"}]}"#,
        r#"["x","n/s","False (MissingEndpoints)","5m"]"#,
    );
    check("coordination.k8s.io", "leases", r#""spec":{"holderIdentity":"h"}"#, r#"["x","h","5m"]"#);
    check("node.k8s.io", "runtimeclasses", r#""handler":"runsc""#, r#"["x","runsc","5m"]"#);
    check(
        "policy",
        "poddisruptionbudgets",
        r#""spec":{"minAvailable":"50%"},"status":{"disruptionsAllowed":1}"#,
        r#"["x","50%","N/A",1,"5m"]"#,
    );
    check(
        "scheduling.k8s.io",
        "priorityclasses",
        r#""value":100,"globalDefault":true,"preemptionPolicy":"Never""#,
        r#"["x",100,true,"5m","Never"]"#,
    );
}
