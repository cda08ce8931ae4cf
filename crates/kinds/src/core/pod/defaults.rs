//! Defaults of pod templates, shared by all kinds that contain one. They include the effects of the conversion through
//! the internal version. (Upstream: `SetDefaults_PodSpec`, `_Container`, `_Volume`, `_Probe`, ...) Defaults that are
//! plain data, such as a port's protocol, come from the schema instead.

use pintle_value::{Quantity, Value};

use super::image::default_pull_policy;

/// The default mode of files in projected volumes: 0644.
const FILE_MODE: i64 = 0o644;

/// Annotations of Kubernetes before 1.8. Every conversion drops them.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

/// Sets the defaults of a `PodTemplateSpec`.
pub(crate) fn set_template_defaults(template: &mut Value) {
    drop_init_container_annotations(template);
    if let Some(spec) = template.get_mut("spec") {
        set_pod_spec_defaults(spec);
    }
}

/// Sets the defaults of a `PodSpec` that apply to pods and templates alike.
pub(crate) fn set_pod_spec_defaults(spec: &mut Value) {
    spec.set_default("dnsPolicy", "ClusterFirst");
    spec.set_default("restartPolicy", "Always");
    spec.set_default("securityContext", Value::object());
    spec.set_default("terminationGracePeriodSeconds", 30);
    spec.set_default("schedulerName", "default-scheduler");
    for_each_item(spec, &["volumes"], set_volume_defaults);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for_each_item(spec, &[list], set_container_defaults);
    }
    round_resource_list(spec, &["overhead"]);
    round_resource_list(spec, &["resources", "limits"]);
    round_resource_list(spec, &["resources", "requests"]);

    // `serviceAccount` is the deprecated alias of `serviceAccountName`, which takes precedence.
    if spec.str_at(&["serviceAccountName"]).is_empty() {
        if let Some(old) = spec.get("serviceAccount").cloned() {
            spec.set("serviceAccountName", old);
        }
    } else if let Some(new) = spec.get("serviceAccountName").cloned() {
        spec.set("serviceAccount", new);
    }
}

/// Removes the init container annotations that conversions drop.
pub(crate) fn drop_init_container_annotations(object: &mut Value) {
    let annotations = &["metadata", "annotations"];
    let is_dropped = |key: &str| INIT_CONTAINER_ANNOTATIONS.contains(&key);
    if !object.entries_at(annotations).any(|(key, _)| is_dropped(key)) {
        return;
    }
    let Some(annotations) = object.at_mut(annotations).and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !is_dropped(key));
    if annotations.is_empty() {
        object.remove_at(&["metadata", "annotations"]);
    }
}

fn set_container_defaults(container: &mut Value) {
    let policy = default_pull_policy(container.str_at(&["image"]));
    container.set_default("imagePullPolicy", policy);
    container.set_default("terminationMessagePath", "/dev/termination-log");
    container.set_default("terminationMessagePolicy", "File");
    for_each_item(container, &["env"], |variable| {
        variable.change_at(&["valueFrom", "fieldRef"], &mut |field| _ = field.set_default("apiVersion", "v1"));
    });
    round_resource_list(container, &["resources", "limits"]);
    round_resource_list(container, &["resources", "requests"]);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.change_at(&[name], &mut |probe| {
            probe.set_default("timeoutSeconds", 1);
            probe.set_default("periodSeconds", 10);
            probe.set_default("successThreshold", 1);
            probe.set_default("failureThreshold", 3);
            set_http_get_defaults(probe);
        });
    }
    for name in ["postStart", "preStop"] {
        container.change_at(&["lifecycle", name], &mut set_http_get_defaults);
    }
}

fn set_http_get_defaults(handler: &mut Value) {
    handler.change_at(&["httpGet"], &mut |get| {
        get.set_default("path", "/");
        get.set_default("scheme", "HTTP");
    });
}

fn set_volume_defaults(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|v| v.iter().any(|(k, v)| k != "name" && !v.is_null()));
    if !has_source {
        volume.set("emptyDir", Value::object());
    }
    volume.change_at(&["image"], &mut |image| {
        let policy = default_pull_policy(image.str_at(&["reference"]));
        image.set_default("pullPolicy", policy);
    });
    volume.change_at(&["hostPath"], &mut |path| _ = path.set_default("type", ""));
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        volume.change_at(&[source], &mut |source| _ = source.set_default("defaultMode", FILE_MODE));
    }
    let downward_file = |file: &mut Value| {
        file.change_at(&["fieldRef"], &mut |field| _ = field.set_default("apiVersion", "v1"));
    };
    for_each_item(volume, &["downwardAPI", "items"], downward_file);
    for_each_item(volume, &["projected", "sources"], |source| {
        for_each_item(source, &["downwardAPI", "items"], downward_file);
        source.change_at(&["serviceAccountToken"], &mut |token| _ = token.set_default("expirationSeconds", 3600));
    });
    volume.change_at(&["ephemeral", "volumeClaimTemplate", "spec"], &mut |claim| {
        claim.set_default("volumeMode", "Filesystem");
        round_resource_list(claim, &["resources", "limits"]);
        round_resource_list(claim, &["resources", "requests"]);
    });
}

/// Rounds the quantities of a resource list up to thousandths, the precision that upstream stores.
pub(crate) fn round_resource_list(object: &mut Value, path: &[&str]) {
    const MILLI: i32 = -3;
    let rounded = |value: &Value| {
        let mut quantity = Quantity::from_value(value).ok()?;
        (!quantity.round_up(MILLI)).then(|| Value::from(&quantity))
    };
    object.change_at(path, &mut |list| {
        let changes: Vec<(String, Value)> =
            list.entries_at(&[]).filter_map(|(name, value)| Some((name.to_owned(), rounded(value)?))).collect();
        for (name, value) in changes {
            list.set(&name, value);
        }
    });
}

/// Calls `change` for each item of the list at a path.
pub(crate) fn for_each_item(object: &mut Value, path: &[&str], mut change: impl FnMut(&mut Value)) {
    object.change_at(path, &mut |list| {
        if let Some(items) = list.as_array_mut() {
            items.iter_mut().for_each(&mut change);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    fn check(template: &str, expect: &str) {
        let mut got = object(template);
        set_template_defaults(&mut got);
        assert_eq!(got, object(expect), "{template}");
        let once = got.clone();
        set_template_defaults(&mut got);
        assert_eq!(got, once, "defaults of what has them: {template}");
    }

    #[test]
    fn template_defaults_match_upstream() {
        check(
            r#"{"metadata":{"annotations":{"pod.beta.kubernetes.io/init-containers":"[]"}},
                "spec":{"serviceAccount":"s","containers":[{"name":"c","image":"nginx","resources":{}}]}}"#,
            r#"{"metadata":{},"spec":{"serviceAccount":"s","serviceAccountName":"s","dnsPolicy":"ClusterFirst",
                "restartPolicy":"Always","securityContext":{},"terminationGracePeriodSeconds":30,
                "schedulerName":"default-scheduler","containers":[{"name":"c","image":"nginx","resources":{},
                "imagePullPolicy":"Always","terminationMessagePath":"/dev/termination-log",
                "terminationMessagePolicy":"File"}]}}"#,
        );
    }

    fn spec_check(field: &str, given: &str, expect: &str) {
        let mut spec = object(&format!(r#"{{"{field}":[{given}]}}"#));
        set_pod_spec_defaults(&mut spec);
        let got = &spec[field][0];
        for (key, value) in object(expect).entries_at(&[]) {
            assert_eq!(&got[key], value, "{key} of {given}");
        }
    }

    #[test]
    fn probes_and_handlers() {
        spec_check(
            "containers",
            r#"{"livenessProbe":{"httpGet":{"port":1}},"lifecycle":{"preStop":{"httpGet":{"path":"/x","port":"p"}}}}"#,
            r#"{"livenessProbe":{"httpGet":{"port":1,"path":"/","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,
                "successThreshold":1,"failureThreshold":3},
                "lifecycle":{"preStop":{"httpGet":{"path":"/x","port":"p","scheme":"HTTP"}}}}"#,
        );
        spec_check(
            "initContainers",
            r#"{"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
                "resources":{"limits":{"cpu":"1500u","memory":"1Gi"}}}"#,
            r#"{"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name","apiVersion":"v1"}}}],
                "resources":{"limits":{"cpu":"2m","memory":"1Gi"}}}"#,
        );
    }

    #[test]
    fn volumes() {
        let check = |given: &str, expect: &str| spec_check("volumes", given, expect);
        check(r#"{"name":"v"}"#, r#"{"name":"v","emptyDir":{}}"#);
        check(r#"{"secret":{}}"#, r#"{"secret":{"defaultMode":420}}"#);
        check(r#"{"configMap":{"defaultMode":0}}"#, r#"{"configMap":{"defaultMode":0}}"#);
        check(r#"{"hostPath":{"path":"/"}}"#, r#"{"hostPath":{"path":"/","type":""}}"#);
        check(
            r#"{"projected":{"sources":[{"serviceAccountToken":{"path":"t"}},
                {"downwardAPI":{"items":[{"path":"n","fieldRef":{"fieldPath":"metadata.name"}}]}}]}}"#,
            r#"{"projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":3600}},
                {"downwardAPI":{"items":[{"path":"n","fieldRef":{"fieldPath":"metadata.name","apiVersion":"v1"}}]}}]}}"#,
        );
        check(
            r#"{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{}}}}}"#,
            r#"{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{},"volumeMode":"Filesystem"}}}}"#,
        );
        check(r#"{"image":{"reference":"a:1"}}"#, r#"{"image":{"reference":"a:1","pullPolicy":"IfNotPresent"}}"#);
    }
}
