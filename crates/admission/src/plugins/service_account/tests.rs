use pintle_value::Value;

use super::*;
use crate::testing::{Scenario, json};

fn account(name: &str, fields: &str) -> Value {
    json(&format!(r#"{{"kind":"ServiceAccount","metadata":{{"name":"{name}","namespace":"n"{fields}}}"#))
}

/// The create of a pod in a namespace with several accounts.
fn create() -> Scenario {
    let stored = vec![
        account("default", r#"},"imagePullSecrets":[{"name":"pull"}]"#),
        account("silent", r#"},"automountServiceAccountToken":false"#),
        account(
            "strict",
            r#","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},"secrets":[{"name":"mine"}],
                "imagePullSecrets":[{"name":"pull"}],"automountServiceAccountToken":false"#,
        ),
    ];
    Scenario { stored, ..Scenario::create("", "pods") }
}

fn pod(spec: &str) -> Value {
    json(&format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{spec}}}"#))
}

fn mirror_pod(spec: &str) -> Value {
    let mut pod = pod(spec);
    pod.annotate(pintle_auth::node::MIRROR_POD, "");
    pod
}

/// Replaces the random part of the volume's name, and checks its form.
fn settle_name(pod: &mut Value) {
    fn walk(value: &mut Value, name: &str) {
        match value {
            Value::String(text) if text == name => *text = "kube-api-access-XXXXX".into(),
            Value::Array(items) => items.iter_mut().for_each(|item| walk(item, name)),
            Value::Object(object) => object.iter_mut().for_each(|(_, item)| walk(item, name)),
            _ => {}
        }
    }
    let mut volumes = pod.items_at(&["spec", "volumes"]).iter().map(|volume| volume.str_at(&["name"]).to_owned());
    let Some(name) = volumes.next_back().filter(|name| name.starts_with("kube-api-access-")) else { return };
    let suffix = &name["kube-api-access-".len()..];
    assert!(suffix.len() == 5 && suffix.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)), "{name}");
    walk(pod, &name);
}

fn check(pod_spec: &str, expect: &str) {
    let mut found = pod(pod_spec);
    create().mutate(&ServiceAccount, &mut found).expect("admitted");
    settle_name(&mut found);
    assert_eq!(found, pod(expect));
}

const MOUNT: &str = r#"{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-XXXXX",
    "readOnly":true}"#;
const VOLUME: &str = r#"{"name":"kube-api-access-XXXXX","projected":{"defaultMode":420,"sources":[
    {"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
    {"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},
    {"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}"#;

#[test]
fn a_pod_runs_as_the_default_account() {
    check(
        r#"{"initContainers":[{"name":"i"}],"containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"}]}],
            "volumes":[{"name":"v","emptyDir":{}}]}"#,
        &format!(
            r#"{{"initContainers":[{{"name":"i","volumeMounts":[{MOUNT}]}}],
                "containers":[{{"name":"c","volumeMounts":[{{"name":"v","mountPath":"/v"}},{MOUNT}]}}],
                "volumes":[{{"name":"v","emptyDir":{{}}}},{VOLUME}],"serviceAccountName":"default",
                "serviceAccount":"default","imagePullSecrets":[{{"name":"pull"}}]}}"#
        ),
    );
}

#[test]
fn tokens_are_mounted_unless_the_pod_or_else_the_account_says_no() {
    let account = r#""serviceAccountName":"silent","serviceAccount":"silent""#;
    let unchanged = format!(r#"{{{account},"containers":[{{"name":"c"}}]}}"#);
    check(&unchanged, &unchanged);
    let pod = format!(r#"{account},"automountServiceAccountToken":true"#);
    check(
        &format!(r#"{{{pod},"containers":[{{"name":"c"}}]}}"#),
        &format!(r#"{{{pod},"containers":[{{"name":"c","volumeMounts":[{MOUNT}]}}],"volumes":[{VOLUME}]}}"#),
    );
    let account = r#""serviceAccountName":"default","serviceAccount":"default","imagePullSecrets":[{"name":"own"}]"#;
    let unchanged = format!(r#"{{{account},"automountServiceAccountToken":false,"containers":[{{"name":"c"}}]}}"#);
    check(&unchanged, &unchanged);
}

#[test]
fn what_is_mounted_at_the_path_stays() {
    let account = r#""serviceAccountName":"default","serviceAccount":"default","imagePullSecrets":[{"name":"own"}]"#;
    let own = r#"{"name":"v","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}"#;
    let unchanged = format!(
        r#"{{{account},"containers":[{{"name":"c","volumeMounts":[{own}]}}],"volumes":[{{"name":"v","emptyDir":{{}}}}]}}"#
    );
    check(&unchanged, &unchanged);
    // A volume with such a name is taken for the volume with the token.
    let volumes = r#""volumes":[{"name":"kube-api-access-bcdfg","emptyDir":{}}]"#;
    let mount = MOUNT.replace("XXXXX", "bcdfg");
    let mut found = pod(&format!(r#"{{{account},"containers":[{{"name":"c"}}],{volumes}}}"#));
    create().mutate(&ServiceAccount, &mut found).expect("admitted");
    let expect = format!(r#"{{{account},"containers":[{{"name":"c","volumeMounts":[{mount}]}}],{volumes}}}"#);
    assert_eq!(found, pod(&expect));
}

#[test]
fn the_account_must_exist() {
    let spec = r#"{"serviceAccountName":"gone","containers":[]}"#;
    let refused = "pods \"p\" is forbidden: error looking up service account n/gone: serviceaccount \"gone\" not found";
    create().check_mutate(&ServiceAccount, pod(spec), Err(refused));
    create().check_validate(&ServiceAccount, &pod(spec), Err(refused));
    let empty = Scenario { stored: Vec::new(), ..create() };
    let refused =
        "pods \"p\" is forbidden: error looking up service account n/default: serviceaccount \"default\" not found";
    empty.check_mutate(&ServiceAccount, pod(r#"{"containers":[]}"#), Err(refused));
    let refused = "pods \"p\" is forbidden: no service account specified for pod n/p";
    create().check_validate(&ServiceAccount, &pod(r#"{"containers":[]}"#), Err(refused));
    let generated = json(r#"{"metadata":{"generateName":"g-","namespace":"n"},"spec":{"serviceAccountName":"gone"}}"#);
    let refused =
        "pods \"g-\" is forbidden: error looking up service account n/gone: serviceaccount \"gone\" not found";
    create().check_mutate(&ServiceAccount, generated, Err(refused));
}

/// Checks a pod of an account that allows the secret `mine` and the image pull secret `pull`.
fn check_strict(spec: &str, expect: Result<(), &str>) {
    let spec = format!(r#"{{"serviceAccountName":"strict",{spec}}}"#);
    let expect = expect.map_err(|why| format!("pods \"p\" is forbidden: {why}"));
    create().check_validate(&ServiceAccount, &pod(&spec), expect.as_ref().copied().map_err(String::as_str));
}

#[test]
fn an_account_may_limit_the_secrets_of_its_pods() {
    const NOT_ALLOWED: &str = "is not allowed because service account strict does not reference that";
    let volume = |name: &str| format!(r#""volumes":[{{"name":"v","secret":{{"secretName":"{name}"}}}}]"#);
    check_strict(&volume("mine"), Ok(()));
    check_strict(&volume("s"), Err(&format!("volume with secret.secretName=\"s\" {NOT_ALLOWED} secret")));
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let container = |fields: &str| format!(r#""{list}":[{{"name":"c",{fields}}}]"#);
        let variable = r#""env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s"}}}]"#;
        let why = format!("{what} c with envVar B referencing secret.secretName=\"s\" {NOT_ALLOWED} secret");
        check_strict(&container(variable), Err(&why));
        check_strict(&container(&variable.replace("\"s\"", "\"mine\"")), Ok(()));
        let all = r#""envFrom":[{"configMapRef":{"name":"m"}},{"secretRef":{"name":"s"}}]"#;
        let why = format!("{what} c with envFrom referencing secret.secretName=\"s\" {NOT_ALLOWED} secret");
        check_strict(&container(all), Err(&why));
    }
    check_strict(r#""imagePullSecrets":[{"name":"pull"}]"#, Ok(()));
    let why = format!("imagePullSecrets[1].name=\"s\" {NOT_ALLOWED} imagePullSecret");
    check_strict(r#""imagePullSecrets":[{"name":"pull"},{"name":"s"}]"#, Err(&why));
    // Another account limits nothing.
    let free = format!(r#"{{"serviceAccountName":"default",{}}}"#, volume("s"));
    create().check_validate(&ServiceAccount, &pod(&free), Ok(()));
}

#[test]
fn ephemeral_containers_are_limited_too() {
    let check = |account: &str, container: &str, expect: Result<(), &str>| {
        let pod =
            pod(&format!(r#"{{"serviceAccountName":"{account}","ephemeralContainers":[{{"name":"e",{container}}}]}}"#));
        let scenario = Scenario {
            operation: AdmissionOperation::Update,
            subresource: "ephemeralcontainers",
            old: Some(json("{}")),
            ..create()
        };
        scenario.check_validate(&ServiceAccount, &pod, expect);
    };
    let all = r#""envFrom":[{"secretRef":{"name":"s"}}]"#;
    check(
        "strict",
        all,
        Err("ephemeral container e with envFrom referencing secret.secretName=\"s\" is not allowed because service \
             account strict does not reference that secret"),
    );
    check("default", all, Ok(()));
    let refused = "pods \"p\" is forbidden: error looking up service account n/gone: serviceaccount \"gone\" not found";
    check("gone", all, Err(refused));
}

#[test]
fn mirror_pods_refer_to_nothing() {
    let check = |spec: &str, expect: Result<(), &str>| {
        let pod = mirror_pod(spec);
        let expect = expect.map_err(|why| format!("pods \"p\" is forbidden: {why}"));
        let expect = expect.as_ref().copied().map_err(String::as_str);
        create().check_validate(&ServiceAccount, &pod, expect);
        create().check_mutate(&ServiceAccount, pod.clone(), expect.map(|()| &pod));
    };
    check(r#"{"containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"m"}}]}]}"#, Ok(()));
    check(r#"{"serviceAccountName":"default"}"#, Err("a mirror pod may not reference service accounts"));
    let secrets = [
        r#"{"imagePullSecrets":[{"name":"s"}]}"#,
        r#"{"containers":[{"name":"c","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}"#,
        r#"{"initContainers":[{"name":"c","envFrom":[{"secretRef":{"name":"s"}}]}]}"#,
        r#"{"volumes":[{"name":"v","secret":{"secretName":"s"}}]}"#,
        r#"{"volumes":[{"name":"v","rbd":{"secretRef":{"name":"s"}}}]}"#,
        r#"{"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s"}}]}}]}"#,
    ];
    for spec in secrets {
        check(spec, Err("a mirror pod may not reference secrets"));
    }
    check(
        r#"{"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]}"#,
        Err("a mirror pod may not use ServiceAccountToken volume projections"),
    );
}

#[test]
fn updates_and_other_subresources_are_ignored() {
    let bare = pod(r#"{"containers":[]}"#);
    let update = Scenario { old: Some(bare.clone()), ..Scenario::update("", "pods") };
    update.check_mutate(&ServiceAccount, bare.clone(), Ok(&bare));
    update.check_validate(&ServiceAccount, &bare, Ok(()));
    let status = Scenario { subresource: "status", ..update };
    status.check_validate(&ServiceAccount, &bare, Ok(()));
}
