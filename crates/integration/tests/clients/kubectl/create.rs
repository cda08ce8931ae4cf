//! `kubectl create` and other commands that create objects from flags.

use super::client::Kubectl;

#[test]
fn every_generator_creates_its_object() {
    let k = Kubectl::start();
    let check = |line: &str, object: &str| k.prints(&format!("create {line}"), &format!("{object} created"));
    check("namespace team", "namespace/team");
    check("serviceaccount bot -n team", "serviceaccount/bot");
    check("deployment web --image=nginx:1.27 --replicas=2 --port=80", "deployment.apps/web");
    check("service clusterip plain --tcp=80:8080", "service/plain");
    check("service clusterip headless --clusterip=None", "service/headless");
    check("service nodeport edge --tcp=80 --node-port=30007", "service/edge");
    check("service loadbalancer public --tcp=443:8443", "service/public");
    check("service externalname out --external-name=example.com", "service/out");
    check("configmap settings --from-literal=a=1 --from-literal=b=2", "configmap/settings");
    check("secret generic login --from-literal=user=anna", "secret/login");
    check("secret docker-registry pull --docker-server=r --docker-username=u --docker-password=p", "secret/pull");
    check("job once --image=busybox -- date -u", "job.batch/once");
    check("cronjob nightly --image=busybox --schedule='0 3 * * *' -- date", "cronjob.batch/nightly");
    check("job now --from=cronjob/nightly", "job.batch/now");
    check("ingress front --class=nginx --rule=example.com/api*=web:80,tls=cert", "ingress.networking.k8s.io/front");
    check("role reader --verb=get,list --resource=pods,deployments.apps", "role.rbac.authorization.k8s.io/reader");
    check("rolebinding readers --role=reader --user=anna", "rolebinding.rbac.authorization.k8s.io/readers");
    check("clusterrole nodes --verb=get --resource=nodes/status", "clusterrole.rbac.authorization.k8s.io/nodes");
    check(
        "clusterrole metrics --verb=get --non-resource-url=/metrics",
        "clusterrole.rbac.authorization.k8s.io/metrics",
    );
    check(
        "clusterrolebinding ops --clusterrole=nodes --group=ops --serviceaccount=team:bot",
        "clusterrolebinding.rbac.authorization.k8s.io/ops",
    );
    check("quota small --hard=pods=5,requests.cpu=2", "resourcequota/small");
    check("poddisruptionbudget web --selector=app=web --min-available=50%", "poddisruptionbudget.policy/web");
    check("priorityclass high --value=1000 --description=urgent", "priorityclass.scheduling.k8s.io/high");

    k.prints(
        "get deploy,sts,ds,job,cj,ing,pdb,quota,rolebinding,secret,cm -o name",
        "
        deployment.apps/web
        job.batch/now
        job.batch/once
        cronjob.batch/nightly
        ingress.networking.k8s.io/front
        poddisruptionbudget.policy/web
        resourcequota/small
        rolebinding.rbac.authorization.k8s.io/readers
        secret/login
        secret/pull
        configmap/settings
        ",
    );
    k.prints("get secret login -o jsonpath={.data.user}", "YW5uYQ==");
    k.prints("get svc edge -o jsonpath={.spec.ports[0].nodePort}", "30007");
    k.prints("get job now -o jsonpath={.metadata.ownerReferences[0].name}", "nightly");
    k.prints(
        "get ing front -o jsonpath={.spec.tls[0].hosts[0]}/{.spec.rules[0].http.paths[0].pathType}",
        "example.com/Prefix",
    );
}

#[test]
fn an_existing_name_is_an_error() {
    let k = Kubectl::start();
    k.succeeds("create configmap a");
    k.fails("create configmap a", "error: failed to create configmap: configmaps \"a\" already exists");
    k.fails("create configmap a -n nosuch", "error: failed to create configmap: namespaces \"nosuch\" not found");
    let again = "Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"a\" already exists";
    k.run_with_stdin("create -f -", r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#)
        .fails(again);
}

#[test]
fn a_dry_run_persists_nothing() {
    let k = Kubectl::start();
    k.prints("create deployment web --image=nginx --dry-run=server", "deployment.apps/web created (server dry run)");
    k.prints(
        "create service nodeport a --tcp=80 --node-port=30001 --dry-run=server",
        "service/a created (server dry run)",
    );
    k.prints("get deploy,svc -o name -l app", "");
    // The dry run did not allocate the node port.
    k.prints("create service nodeport a --tcp=80 --node-port=30001", "service/a created");
}

#[test]
fn names_are_generated() {
    let k = Kubectl::start();
    let object = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}"#;
    let name = k.run_with_stdin("create -f - -o name", object).succeeds().stdout;
    assert!(name.starts_with("configmap/a-") && name.trim_end().len() == "configmap/a-xxxxx".len(), "{name}");
    k.prints("get cm -o name", &name);
}

#[test]
fn workloads_are_exposed_scaled_and_run() {
    let k = Kubectl::start();
    k.succeeds("create deployment web --image=nginx:1.27 --port=8080");
    k.prints("expose deployment web --port=80 --target-port=8080", "service/web exposed");
    k.prints("expose deployment web --name=edge --type=NodePort", "service/edge exposed");
    k.prints("get svc web -o jsonpath={.spec.selector}{.spec.ports[0].targetPort}", r#"{"app":"web"}8080"#);
    k.prints(
        "autoscale deployment web --min=2 --max=5 --cpu=80%",
        "horizontalpodautoscaler.autoscaling/web autoscaled",
    );
    k.prints(
        "get hpa",
        "
        NAME  REFERENCE       TARGETS              MINPODS  MAXPODS  REPLICAS  AGE
        web   Deployment/web  cpu: <unknown>/80%   2        5        0         AGE
        ",
    );
    k.prints(
        "get horizontalpodautoscalers.v1.autoscaling web -o jsonpath={.spec.targetCPUUtilizationPercentage}",
        "80",
    );
    k.prints("run one --image=nginx --labels=app=one,tier=test --port=80 --env=A=b", "pod/one created");
    k.prints("run two --image=busybox --restart=Never -- sleep 1", "pod/two created");
    k.prints("get pod two -o jsonpath={.spec.containers[0].args}{.spec.restartPolicy}", r#"["sleep","1"]Never"#);
}
