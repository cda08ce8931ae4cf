//! A new cluster that is bootstrapped as by the binary.

use super::client::Kubectl;

#[test]
fn a_new_cluster_has_the_objects_that_users_expect() {
    let k = Kubectl::bootstrapped();
    k.prints("get all -A -o name", "service/kubernetes");
    k.prints(
        "get endpointslices -A -o 'jsonpath={range .items[*]}{.metadata.name} {.endpoints[*].addresses[*]}{end}'",
        "kubernetes 192.0.2.1",
    );
    k.prints("get sa,cm -o name", "serviceaccount/default\nconfigmap/kube-root-ca.crt");
    k.prints("delete service kubernetes", "service \"kubernetes\" deleted from default namespace");
    k.succeeds("wait --for=create service/kubernetes");
    k.prints("get service kubernetes -o jsonpath={.spec.clusterIP}", "10.0.0.1");
}

#[test]
fn a_new_namespace_is_usable_immediately() {
    let k = Kubectl::bootstrapped();
    k.prints("create namespace n", "namespace/n created");
    k.prints("run p --image=nginx -n n", "pod/p created");
    k.prints("get all -A -o name", "pod/p\nservice/kubernetes");
    k.succeeds("wait --for=create serviceaccount/default configmap/kube-root-ca.crt -n n");
    k.prints("get sa,cm -n n -o name", "serviceaccount/default\nconfigmap/kube-root-ca.crt");
    k.succeeds("delete namespace n");
    k.prints(
        "get cm -A --field-selector metadata.name=kube-root-ca.crt -o jsonpath={.items[*].metadata.namespace}",
        "default kube-node-lease kube-public kube-system",
    );
}

#[test]
fn a_new_cluster_has_the_roles_that_users_expect() {
    let k = Kubectl::bootstrapped();
    k.prints(
        "get clusterrolebinding cluster-admin -o 'jsonpath={.subjects[*].name} {.roleRef.name}'",
        "system:masters cluster-admin",
    );
    // The last rule of `admin` exists once all rules are aggregated.
    k.succeeds("wait --for=jsonpath={.rules[26].apiGroups[0]}=rbac.authorization.k8s.io clusterrole/admin");
    k.prints("get clusterrole admin -o jsonpath={.rules[26].resources}", r#"["rolebindings","roles"]"#);
    k.succeeds("create clusterrole widgets --verb=get --resource=pods");
    k.succeeds("label clusterrole widgets rbac.authorization.k8s.io/aggregate-to-admin=true");
    k.succeeds("wait --for=jsonpath={.rules[27].resources[0]}=pods clusterrole/admin");
    k.prints(
        "get roles,rolebindings -n kube-public -o name",
        "role.rbac.authorization.k8s.io/system:controller:bootstrap-signer\n\
         rolebinding.rbac.authorization.k8s.io/system:controller:bootstrap-signer",
    );
}
