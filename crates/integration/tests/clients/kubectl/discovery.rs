//! Discovery in kubectl: `api-resources`, `api-versions`, `explain`, `version` and health checks.

use super::client::Kubectl;

#[test]
fn api_resources_are_listed_with_their_short_names() {
    let k = Kubectl::start();
    k.run("api-resources").has_lines(
        "
        NAME                        SHORTNAMES  APIVERSION          NAMESPACED  KIND
        componentstatuses           cs          v1                  false       ComponentStatus
        configmaps                  cm          v1                  true        ConfigMap
        namespaces                  ns          v1                  false       Namespace
        nodes                       no          v1                  false       Node
        pods                        po          v1                  true        Pod
        services                    svc         v1                  true        Service
        customresourcedefinitions   crd,crds    apiextensions.k8s.io/v1  false  CustomResourceDefinition
        deployments                 deploy      apps/v1             true        Deployment
        horizontalpodautoscalers    hpa         autoscaling/v2      true        HorizontalPodAutoscaler
        cronjobs                    cj          batch/v1            true        CronJob
        leases                                  coordination.k8s.io/v1  true    Lease
        ingresses                   ing         networking.k8s.io/v1  true      Ingress
        poddisruptionbudgets        pdb         policy/v1           true        PodDisruptionBudget
        clusterroles                            rbac.authorization.k8s.io/v1  false  ClusterRole
        priorityclasses             pc          scheduling.k8s.io/v1  false     PriorityClass
        storageclasses              sc          storage.k8s.io/v1   false       StorageClass
        ",
    );
    k.prints(
        "api-resources --api-group=apps -o wide",
        "
        NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND                 VERBS                                                        CATEGORIES
        controllerrevisions                apps/v1      true         ControllerRevision   create,delete,deletecollection,get,list,patch,update,watch
        daemonsets            ds           apps/v1      true         DaemonSet            create,delete,deletecollection,get,list,patch,update,watch   all
        deployments           deploy       apps/v1      true         Deployment           create,delete,deletecollection,get,list,patch,update,watch   all
        replicasets           rs           apps/v1      true         ReplicaSet           create,delete,deletecollection,get,list,patch,update,watch   all
        statefulsets          sts          apps/v1      true         StatefulSet          create,delete,deletecollection,get,list,patch,update,watch   all
        ",
    );
    k.prints(
        "api-resources --api-group=rbac.authorization.k8s.io --namespaced=false -o name",
        "
        clusterrolebindings.rbac.authorization.k8s.io
        clusterroles.rbac.authorization.k8s.io
        ",
    );
}

#[test]
fn all_stable_group_versions_are_listed() {
    Kubectl::start().run("api-versions").has_lines(
        "
        admissionregistration.k8s.io/v1
        apiextensions.k8s.io/v1
        apiregistration.k8s.io/v1
        apps/v1
        autoscaling/v1
        autoscaling/v2
        batch/v1
        certificates.k8s.io/v1
        coordination.k8s.io/v1
        discovery.k8s.io/v1
        events.k8s.io/v1
        flowcontrol.apiserver.k8s.io/v1
        networking.k8s.io/v1
        node.k8s.io/v1
        policy/v1
        rbac.authorization.k8s.io/v1
        resource.k8s.io/v1
        scheduling.k8s.io/v1
        storage.k8s.io/v1
        v1
        ",
    );
}

#[test]
fn explain_shows_fields_with_their_descriptions() {
    let k = Kubectl::start();
    let fields = k.succeeds("explain pod.spec.containers --recursive");
    let all = fields.stdout.lines().skip_while(|line| *line != "FIELDS:").count();
    assert!(all > 150, "only {all} lines of fields:\n{}", fields.stdout);
    fields.has_lines(
        "
        KIND:       Pod
        VERSION:    v1
        FIELD: containers <[]Container>
        DESCRIPTION:
            A single application container that you want to run within a pod.
        FIELDS:
          args\t<[]string>
          env\t<[]EnvVar>
            name\t<string> -required-
            valueFrom\t<EnvVarSource>
              configMapKeyRef\t<ConfigMapKeySelector>
          image\t<string>
          livenessProbe\t<Probe>
          ports\t<[]ContainerPort>
            containerPort\t<integer> -required-
          resources\t<ResourceRequirements>
            limits\t<map[string]Quantity>
          volumeMounts\t<[]VolumeMount>
        ",
    );
    k.run("explain deployments.spec.replicas").has_lines(
        "
        GROUP:      apps
        KIND:       Deployment
        VERSION:    v1
        FIELD: replicas <integer>
        ",
    );
    k.run("explain hpa.spec --api-version=autoscaling/v1").has_lines("  targetCPUUtilizationPercentage\t<integer>");
    k.run("explain cronjob --output=plaintext-openapiv2").has_lines("KIND:     CronJob");
    k.fails("explain pod.spec.nosuch", "error: field \"nosuch\" does not exist");
    k.fails("explain nosuch", "the server doesn't have a resource type \"nosuch\"");
}

#[test]
fn version_and_health_are_available() {
    let k = Kubectl::start();
    let version = k.succeeds("version");
    assert!(version.stdout.contains("Client Version: v1.36."), "{}", version.stdout);
    assert!(version.stdout.contains("Server Version: v1.36."), "{}", version.stdout);
    assert_eq!(version.stderr, "", "kubectl warns of versions that are far apart");
    k.prints("get --raw /readyz", "ok");
    k.run("get --raw /livez?verbose").has_lines("[+]ping ok\nlivez check passed");
    assert!(k.succeeds("cluster-info").stdout.starts_with("Kubernetes control plane is running at https://127.0.0.1:"));
}
