//! Commands that read objects: `get` with all output formats, selectors, sorting and watches, `describe` and `wait`.

use super::client::Kubectl;

/// Starts a cluster with two pods and a deployment.
fn start_with_pods() -> Kubectl {
    let k = Kubectl::start();
    k.succeeds("run one --image=nginx:1.27 --labels=app=one,tier=front --port=80");
    k.succeeds("run two --image=busybox:1.36 --labels=app=two,tier=back --restart=Never");
    k.succeeds("create deployment web --image=nginx:1.27 --replicas=2");
    k
}

#[test]
fn get_prints_tables() {
    let k = start_with_pods();
    k.prints(
        "get pods",
        "
        NAME  READY  STATUS   RESTARTS  AGE
        one   0/1    Pending  0         AGE
        two   0/1    Pending  0         AGE
        ",
    );
    k.prints(
        "get pods -o wide",
        "
        NAME  READY  STATUS   RESTARTS  AGE  IP      NODE    NOMINATED NODE  READINESS GATES
        one   0/1    Pending  0         AGE  <none>  <none>  <none>          <none>
        two   0/1    Pending  0         AGE  <none>  <none>  <none>          <none>
        ",
    );
    k.prints(
        "get deploy -o wide",
        "
        NAME  READY  UP-TO-DATE  AVAILABLE  AGE  CONTAINERS  IMAGES      SELECTOR
        web   0/2    0           0          AGE  nginx       nginx:1.27  app=web
        ",
    );
    k.prints(
        "get pods --show-labels -L tier --no-headers",
        "
        one  0/1  Pending  0  AGE  front  app=one,tier=front
        two  0/1  Pending  0  AGE  back  app=two,tier=back
        ",
    );
    k.prints(
        "get deploy/web pod/one",
        "
        NAME                 READY  UP-TO-DATE  AVAILABLE  AGE
        deployment.apps/web  0/2    0           0          AGE

        NAME     READY  STATUS   RESTARTS  AGE
        pod/one  0/1    Pending  0         AGE
        ",
    );
    k.prints(
        "get pods -A",
        "
        NAMESPACE  NAME  READY  STATUS   RESTARTS  AGE
        default    one   0/1    Pending  0         AGE
        default    two   0/1    Pending  0         AGE
        ",
    );
    k.prints(
        "get ns",
        "
        NAME             STATUS  AGE
        default          Active  AGE
        kube-node-lease  Active  AGE
        kube-public      Active  AGE
        kube-system      Active  AGE
        ",
    );
    // A chunked list prints the same table.
    k.prints("get pods --chunk-size=1 --no-headers -o custom-columns=N:.metadata.name", "one\ntwo");
    assert_eq!(k.succeeds("get cm").stderr, "No resources found in default namespace.\n");
}

#[test]
fn get_prints_component_statuses() {
    let k = Kubectl::start();
    let output = k.succeeds("get cs etcd-0");
    assert_eq!(output.stderr, "Warning: v1 ComponentStatus is deprecated in v1.19+\n");
    output.prints(
        "
        NAME    STATUS   MESSAGE  ERROR
        etcd-0  Healthy  ok
        ",
    );
    k.run("get componentstatuses -o name").prints(
        "
        componentstatus/controller-manager
        componentstatus/etcd-0
        componentstatus/scheduler
        ",
    );
    k.run("describe cs etcd-0").has_lines("Name:  etcd-0\nConditions:\nMessage:  ok\nStatus:  True\nType:  Healthy");
}

#[test]
fn get_all_lists_the_category() {
    let k = start_with_pods();
    k.succeeds("create service clusterip plain --tcp=80");
    k.succeeds("create configmap quiet");
    k.run("get all -o name").has_lines(
        "
        pod/one
        pod/two
        service/plain
        deployment.apps/web
        ",
    );
}

#[test]
fn get_supports_all_output_formats() {
    let k = start_with_pods();
    k.prints(
        "get pod one -o yaml",
        "
        apiVersion: v1
        kind: Pod
        metadata:
          creationTimestamp: TIME
          generation: 1
          labels:
            app: one
            tier: front
          name: one
          namespace: default
          resourceVersion: NUMBER
          uid: UID
        spec:
          containers:
          - image: nginx:1.27
            imagePullPolicy: IfNotPresent
            name: one
            ports:
            - containerPort: 80
              protocol: TCP
            resources: {}
            terminationMessagePath: /dev/termination-log
            terminationMessagePolicy: File
          dnsPolicy: ClusterFirst
          enableServiceLinks: true
          preemptionPolicy: PreemptLowerPriority
          priority: 0
          restartPolicy: Always
          schedulerName: default-scheduler
          securityContext: {}
          terminationGracePeriodSeconds: 30
          tolerations:
          - effect: NoExecute
            key: node.kubernetes.io/not-ready
            operator: Exists
            tolerationSeconds: 300
          - effect: NoExecute
            key: node.kubernetes.io/unreachable
            operator: Exists
            tolerationSeconds: 300
        status:
          phase: Pending
          qosClass: BestEffort
        ",
    );
    let object: serde_json::Value =
        serde_json::from_str(&k.succeeds("get deploy web -o json").stdout).expect("an object of JSON");
    assert_eq!(object["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["resources"], serde_json::json!({}));
    let list: serde_json::Value = serde_json::from_str(&k.succeeds("get pods,deploy -o json").stdout).expect("a list");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
    k.prints("get pod one -o jsonpath={.spec.containers[*].image}", "nginx:1.27");
    k.prints(
        "get pods -o 'jsonpath={range .items[*]}{.metadata.name}={.status.phase};{end}'",
        "one=Pending;two=Pending;",
    );
    k.prints("get pods -o 'go-template={{range .items}}{{.metadata.name}},{{end}}'", "one,two,");
    k.prints(
        "get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image",
        "
        NAME  IMAGE
        one   nginx:1.27
        two   busybox:1.36
        ",
    );
    k.prints("get pods -o name", "pod/one\npod/two");
}

#[test]
fn lists_are_selected_and_sorted() {
    let k = start_with_pods();
    k.prints("get pods -l app=one -o name", "pod/one");
    k.prints("get pods -l 'tier in (back,side),app!=one' -o name", "pod/two");
    k.prints("get pods -l '!tier' -o name", "");
    k.prints("get pods --field-selector metadata.name=two -o name", "pod/two");
    k.prints("get pods --field-selector status.phase!=Running,spec.restartPolicy=Always -o name", "pod/one");
    k.prints("get pods -A --field-selector metadata.namespace=kube-system -o name", "");
    k.prints("get pods --sort-by={.spec.containers[0].image} -o name", "pod/two\npod/one");
    k.prints("get pods --sort-by=.metadata.name --no-headers", "one  0/1  Pending  0  AGE\ntwo  0/1  Pending  0  AGE");
    k.fails(
        "get pods --field-selector spec.bogus=1",
        r#"Error from server (BadRequest): Unable to find "/v1, Resource=pods" that match label selector "", field selector "spec.bogus=1": field label not supported: spec.bogus"#,
    );
    k.fails("get pod nosuch", r#"Error from server (NotFound): pods "nosuch" not found"#);
    k.fails("get nosuch", r#"error: the server doesn't have a resource type "nosuch""#);
}

#[test]
fn watches_print_changes() {
    let k = start_with_pods();
    let pods = k.spawn("get pods -w --output-watch-events");
    pods.prints("EVENT  NAME  READY  STATUS   RESTARTS  AGE");
    pods.prints("ADDED  one   0/1    Pending  0         AGE");
    pods.prints("ADDED  two   0/1    Pending  0         AGE");
    let running = r#"{"status": {"phase": "Running"}}"#;
    k.succeeds(&format!("patch pod one --subresource=status --type=merge -p '{running}'"));
    pods.prints("MODIFIED  one   0/1    Running  0         AGE");
    k.succeeds("run three --image=nginx");
    pods.prints("ADDED  three  0/1    Pending  0         AGE");
    k.succeeds("delete pod two --wait=false --now");
    // A pod without a node is deleted immediately after it is marked as terminating.
    pods.prints("MODIFIED  two   0/1    Terminating  0  AGE");
    pods.prints("DELETED  two   0/1    Terminating  0  AGE");

    let names = k.spawn("get pods -l app=one -w -o name");
    names.prints("pod/one");
    k.succeeds("label pod three app=one --overwrite");
    names.prints("pod/three");
    let objects = k.spawn("get pod one -w -o jsonpath={.status.phase}{\"\\n\"}");
    objects.prints("Running");
}

#[test]
fn a_watch_ends_with_its_server() {
    let k = Kubectl::durable();
    for kill in [false, true] {
        let name = format!("killed-{kill}");
        k.succeeds(&format!("create configmap {name}"));
        let maps = k.spawn(&format!("get configmap {name} -w -o name"));
        maps.prints(&format!("configmap/{name}"));
        // The first line is printed for the list, the second one for an event of the watch.
        k.succeeds(&format!("label configmap {name} seen=yes"));
        maps.prints(&format!("configmap/{name}"));
        k.restart(kill);
        // kubectl exits when the watch ends. It does not reconnect.
        maps.exits();
        k.prints(&format!("get configmap {name} -o name"), &format!("configmap/{name}"));
    }
}

#[test]
fn describe_shows_an_object_with_its_events() {
    let k = start_with_pods();
    k.prints(
        "describe pod one",
        "
        Name:         one
        Namespace:    default
        Priority:     0
        Node:         <none>
        Labels:       app=one
                      tier=front
        Annotations:  <none>
        Status:       Pending
        IP:
        IPs:          <none>
        Containers:
          one:
            Image:        nginx:1.27
            Port:         80/TCP
            Host Port:    0/TCP
            Environment:  <none>
            Mounts:       <none>
        Volumes:          <none>
        QoS Class:        BestEffort
        Node-Selectors:   <none>
        Tolerations:      node.kubernetes.io/not-ready:NoExecute op=Exists for 300s
                          node.kubernetes.io/unreachable:NoExecute op=Exists for 300s
        Events:           <none>
        ",
    );
    k.run("describe deployment web").has_lines(
        "
        Selector:               app=web
        Replicas:               2 desired | 0 updated | 0 total | 0 available | 0 unavailable
        RollingUpdateStrategy:  25% max unavailable, 25% max surge
           nginx:
            Image:         nginx:1.27
        Events:            <none>
        ",
    );
    k.run("describe ns default").has_lines("Status:  Active\nNo resource quota.\nNo LimitRange resource.");
    let event = r#"{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one.1", "namespace": "default"}, "type": "Warning",
        "reason": "BackOff", "message": "again and again", "source": {"component": "kubelet"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "one", "uid": "@"}}"#;
    let uid = k.succeeds("get pod one -o jsonpath={.metadata.uid}").stdout;
    k.run_with_stdin("create -f -", &event.replace('@', &uid)).succeeds();
    // Events are selected by the fields of `involvedObject`.
    k.run("describe pod one").has_lines("  Warning  BackOff  <unknown>  kubelet  again and again");
    k.run("events --for pod/one").has_lines("<unknown>  Warning  BackOff  Pod/one  again and again");
    k.run("get events").has_lines("<unknown>  Warning  BackOff  pod/one  again and again");
}

#[test]
fn wait_returns_when_the_condition_is_met() {
    let k = start_with_pods();
    let ready = r#"{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}"#;
    k.fails(
        "wait pod/one --for=condition=Ready --timeout=3s",
        "error: timed out waiting for the condition on pods/one",
    );
    let met = k.spawn("wait pod/one --for=condition=Ready --timeout=60s");
    k.succeeds(&format!("patch pod one --subresource=status --type=merge -p '{ready}'"));
    met.prints("pod/one condition met");
    k.prints("wait pod/one --for=jsonpath={.status.phase}=Running --timeout=60s", "pod/one condition met");
    let made = k.spawn("wait pod/late --for=create --timeout=60s");
    k.succeeds("run late --image=nginx");
    made.prints("pod/late condition met");
    let gone = k.spawn("wait pod/late --for=delete --timeout=60s");
    k.succeeds("delete pod late --now");
    // The command prints a line only if the pod still existed at its start.
    gone.exits();
}
