//! Tests that the documents of the built-in API are consistent and describe the whole registry.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use pintle_catalog::complete;
use pintle_registry::{GroupVersion, Registry, Scope, Verb};
use pintle_value::{Value, object};

fn registry() -> Registry {
    common::registry(false)
}

fn document(path: &str) -> Value {
    let bytes = pintle_openapi::v3_document(&registry(), complete(), path).expect(path);
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Returns the value at a JSON pointer with "|" as separator, as JSON.
fn json_at(document: &Value, pointer: &str) -> String {
    let found = pointer.split('|').fold(document, |value, part| match part.parse::<usize>() {
        Ok(i) if value.as_array().is_some() => &value[i],
        _ => value.get(part).unwrap_or(&Value::Null),
    });
    serde_json::to_string(found).expect("JSON")
}

/// Returns all operations as (path, method, operation).
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let items = document.entries_at(&["paths"]);
    items
        .flat_map(|(path, item)| {
            let methods = item.entries_at(&[]).filter(|(method, _)| *method != "parameters");
            methods.map(move |(method, operation)| (path, method, operation))
        })
        .collect()
}

fn collect_references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter() {
                match value.as_str() {
                    Some(target) if key == "$ref" => drop(found.insert(target)),
                    _ => collect_references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

/// Checks that all references resolve and that every definition is referenced.
fn check_references(document: &Value, name: &str, places: &[(&str, &[&str])]) {
    let mut found = BTreeSet::new();
    collect_references(document, &mut found);
    let mut known = BTreeSet::new();
    for (prefix, place) in places {
        known.extend(document.entries_at(place).map(|(key, _)| format!("{prefix}{key}")));
    }
    let found: BTreeSet<String> = found.into_iter().map(str::to_owned).collect();
    assert_eq!(found.symmetric_difference(&known).collect::<Vec<_>>(), Vec::<&String>::new(), "{name}");
}

fn check_ids(document: &Value, name: &str) {
    let mut seen = BTreeMap::new();
    for (path, method, operation) in operations(document) {
        let id = operation.str_at(&["operationId"]);
        assert!(!id.is_empty(), "{name}: {method} {path}");
        assert_eq!(seen.insert(id, path), None, "{name}: {id} is there twice");
    }
}

#[test]
fn every_v3_document_is_consistent() {
    let registry = registry();
    let paths = pintle_openapi::v3_paths(&registry);
    assert!(paths.is_sorted());
    for path in &paths {
        let found = document(path);
        check_references(&found, path, &[("#/components/schemas/", &["components", "schemas"])]);
        check_ids(&found, path);
    }
    assert_eq!(pintle_openapi::v3_document(&registry, complete(), "apis/nothing.example.com/v1"), None);
}

#[test]
fn the_v2_document_is_consistent() {
    for all in [false, true] {
        let registry = common::registry(all);
        let found: Value = serde_json::from_slice(&pintle_openapi::v2(&registry, complete())).expect("JSON");
        let places: [(&str, &[&str]); 2] = [("#/definitions/", &["definitions"]), ("#/parameters/", &["parameters"])];
        check_references(&found, "v2", &places);
        check_ids(&found, "v2");
        // The v2 document has the operations of all v3 documents.
        let new: usize = pintle_openapi::v3_paths(&registry)
            .iter()
            .filter_map(|path| pintle_openapi::v3_document(&registry, complete(), path))
            .map(|bytes| operations(&serde_json::from_slice(&bytes).expect("JSON")).len())
            .sum();
        assert_eq!(operations(&found).len(), new);
        assert!(!serde_json::to_string(&found["definitions"]).expect("JSON").contains(r#""default":{}"#));
    }
}

/// Clients cache documents by their hash.
#[test]
fn the_v2_document_is_in_the_normal_form_of_merged_documents() {
    let document = pintle_openapi::v2_document(&registry(), complete());
    let spec = pintle_openapi::Spec::decode(document.clone()).expect("a valid document");
    assert!(*spec.document() == document);
}

#[test]
fn documents_are_deterministic() {
    let (one, other) = (registry(), registry());
    assert_eq!(
        pintle_openapi::v3(&one, complete(), &GroupVersion::new("apps", "v1")),
        pintle_openapi::v3(&other, complete(), &GroupVersion::new("apps", "v1"))
    );
    assert_eq!(pintle_openapi::v2(&one, complete()), pintle_openapi::v2(&other, complete()));
    assert_eq!(pintle_openapi::v2_protobuf(&one, complete()), pintle_openapi::v2_protobuf(&other, complete()));
}

#[test]
fn connections_and_logs_have_operations() {
    let registry = common::registry(true);
    let bytes = pintle_openapi::v3_document(&registry, complete(), "api/v1").expect("core");
    let core: Value = serde_json::from_slice(&bytes).expect("JSON");
    let check = |path: &str, method: &str, expect: &str| {
        assert_eq!(
            describe_operation(&core, &format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{path}"), method),
            expect
        );
    };
    check(
        "exec",
        "post",
        "connectCoreV1PostNamespacedPodExec connect PodExecOptions [] \
         [command,container,name,namespace,stderr,stdin,stdout,tty] [] 200,401",
    );
    check(
        "proxy/{path}",
        "head",
        "connectCoreV1HeadNamespacedPodProxyWithPath connect PodProxyOptions [] [name,namespace,path,path] [] 200,401",
    );
    check(
        "log",
        "get",
        "readCoreV1NamespacedPodLog get Pod [] [container,follow,insecureSkipTLSVerifyBackend,limitBytes,name,namespace,\
         pretty,previous,sinceSeconds,stream,tailLines,timestamps] [] 200,401",
    );
    check(
        "eviction",
        "post",
        "createCoreV1NamespacedPodEviction post Eviction [] \
         [dryRun,fieldManager,fieldValidation,name,namespace,pretty] [*/*] 200,201,202,401",
    );
}

/// Returns true if the operation for a verb exists at the expected path with the expected action.
fn has_operation(document: &Value, path: &str, verb: Verb) -> bool {
    let (method, action, path) = match verb {
        Verb::Create => ("post", "post", path.to_owned()),
        Verb::List => ("get", "list", path.to_owned()),
        Verb::DeleteCollection => ("delete", "deletecollection", path.to_owned()),
        Verb::Watch => ("get", "watch", path.to_owned()),
        Verb::Get => ("get", "get", path.to_owned()),
        Verb::Update => ("put", "put", path.to_owned()),
        Verb::Patch => ("patch", "patch", path.to_owned()),
        Verb::Delete => ("delete", "delete", path.to_owned()),
    };
    document.at(&["paths", &path, method, "x-kubernetes-action"]).and_then(Value::as_str) == Some(action)
}

/// Returns true if the document has the operation of a verb on a connect subresource.
fn has_connection(document: &Value, path: &str, verb: Verb) -> bool {
    let method = match verb {
        Verb::Create => "post",
        Verb::Update => "put",
        Verb::Patch => "patch",
        Verb::Delete => "delete",
        _ => "get",
    };
    document.at(&["paths", path, method, "x-kubernetes-action"]).and_then(Value::as_str) == Some("connect")
}

#[test]
fn every_verb_of_the_registry_has_an_operation() {
    let registry = registry();
    let mut checked = 0;
    for version in registry.versions() {
        let root = if version.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") };
        let found = document(&root[1..]);
        for resource in registry.resources_of(version) {
            let place = if resource.scope == Scope::Namespaced { "/namespaces/{namespace}" } else { "" };
            let collection = format!("{root}{place}/{}", resource.plural);
            for verb in resource.verbs.iter() {
                let path = match verb {
                    Verb::Create | Verb::List | Verb::DeleteCollection => collection.clone(),
                    Verb::Watch => format!("{root}/watch{place}/{}/{{name}}", resource.plural),
                    _ => format!("{collection}/{{name}}"),
                };
                assert!(has_operation(&found, &path, verb), "{verb} {path}");
                checked += 1;
            }
            for subresource in &resource.subresources {
                for verb in subresource.verbs.iter() {
                    let path = format!("{collection}/{{name}}/{}", subresource.name);
                    let is_connection = subresource.kind.kind.ends_with("Options");
                    assert!(
                        has_operation(&found, &path, verb) || is_connection && has_connection(&found, &path, verb),
                        "{verb} {path}"
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

#[test]
fn schemas() {
    let core = document("api/v1");
    let apps = document("apis/apps/v1");
    let check = |document: &Value, pointer: &str, expect: &str| {
        assert_eq!(json_at(document, &format!("components|schemas|{pointer}")), expect, "{pointer}");
    };
    let own = "io.k8s.api.core.v1.";
    check(
        &core,
        &format!("{own}Pod|properties|spec|allOf"),
        r##"[{"$ref":"#/components/schemas/io.k8s.api.core.v1.PodSpec"}]"##,
    );
    check(&core, &format!("{own}Pod|properties|spec|default"), "{}");
    check(&core, &format!("{own}Pod|x-kubernetes-group-version-kind"), r#"[{"group":"","kind":"Pod","version":"v1"}]"#);
    check(&core, &format!("{own}PodSpec|required"), r#"["containers"]"#);
    check(&core, &format!("{own}PodSpec|properties|volumes|x-kubernetes-patch-strategy"), r#""merge,retainKeys""#);
    check(&core, &format!("{own}PodSpec|properties|volumes|x-kubernetes-patch-merge-key"), r#""name""#);
    check(&core, &format!("{own}PodSpec|properties|nodeSelector|x-kubernetes-map-type"), r#""atomic""#);
    check(
        &core,
        &format!("{own}PodSpec|properties|nodeSelector|additionalProperties"),
        r#"{"default":"","type":"string"}"#,
    );
    check(
        &core,
        &format!("{own}PodSpec|properties|dnsPolicy|enum"),
        "[\"ClusterFirst\",\"ClusterFirstWithHostNet\",\"Default\",\"None\"]",
    );
    check(&core, &format!("{own}ServicePort|properties|protocol|default"), r#""TCP""#);
    check(&core, &format!("{own}ServicePort|properties|port|default"), "0");
    check(&core, &format!("{own}ServicePort|properties|port|format"), r#""int32""#);
    check(&core, &format!("{own}ServicePort|properties|targetPort|default"), "null");
    check(&core, &format!("{own}ServiceSpec|properties|ports|x-kubernetes-list-map-keys"), r#"["port","protocol"]"#);
    check(&core, &format!("{own}ObjectReference|x-kubernetes-map-type"), r#""atomic""#);
    check(&core, &format!("{own}PersistentVolumeSpec|properties|claimRef|x-kubernetes-map-type"), r#""granular""#);
    check(
        &core,
        &format!("{own}SeccompProfile|x-kubernetes-unions"),
        r#"[{"discriminator":"type","fields-to-discriminateBy":{"localhostProfile":"LocalhostProfile"}}]"#,
    );
    check(
        &core,
        &format!("{own}ResourceRequirements|properties|limits|additionalProperties"),
        r##"{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}"##,
    );
    check(&core, "io.k8s.apimachinery.pkg.api.resource.Quantity|oneOf", r#"[{"type":"string"},{"type":"number"}]"#);
    check(&core, "io.k8s.apimachinery.pkg.util.intstr.IntOrString|format", r#""int-or-string""#);
    check(&core, "io.k8s.apimachinery.pkg.apis.meta.v1.Time|format", r#""date-time""#);
    check(
        &apps,
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions|x-kubernetes-group-version-kind",
        r#"[{"group":"","kind":"DeleteOptions","version":"v1"},{"group":"apps","kind":"DeleteOptions","version":"v1"}]"#,
    );
    let text = json_at(&core, &format!("components|schemas|{own}PodSpec|properties|dnsPolicy|description"));
    assert!(text.ends_with(r#"\n\nPossible enum values:\n - `\"ClusterFirst\"`\n - `\"ClusterFirstWithHostNet\"`\n - `\"Default\"`\n - `\"None\"`""#), "{text}");
}

/// Formats an operation in one line: id, action, kind, its own parameters, the parameters of its path, body and
/// responses.
fn describe_operation(document: &Value, path: &str, method: &str) -> String {
    let item = document.at(&["paths", path]).expect(path);
    let operation = item.get(method).expect(method);
    let names = |of: &Value| {
        let names: Vec<&str> = of.items_at(&["parameters"]).iter().map(|p| p.str_at(&["name"])).collect();
        names.join(",")
    };
    let keys = |of: &Value, place: &[&str]| of.entries_at(place).map(|(key, _)| key).collect::<Vec<_>>().join(",");
    format!(
        "{} {} {} [{}] [{}] [{}] {}",
        operation.str_at(&["operationId"]),
        operation.str_at(&["x-kubernetes-action"]),
        operation.str_at(&["x-kubernetes-group-version-kind", "kind"]),
        names(operation),
        names(item),
        keys(operation, &["requestBody", "content"]),
        keys(operation, &["responses"]),
    )
}

#[test]
fn operations_match_upstream() {
    let core = document("api/v1");
    let apps = document("apis/apps/v1");
    let check = |document: &Value, path: &str, method: &str, expect: &str| {
        assert_eq!(describe_operation(document, path, method), expect, "{method} {path}");
    };
    let pods = "/api/v1/namespaces/{namespace}/pods";
    check(
        &core,
        pods,
        "post",
        "createCoreV1NamespacedPod post Pod [dryRun,fieldManager,fieldValidation] [namespace,pretty] [*/*] 200,201,202,401",
    );
    check(
        &core,
        pods,
        "get",
        "listCoreV1NamespacedPod list Pod [allowWatchBookmarks,continue,fieldSelector,labelSelector,limit,\
         resourceVersion,resourceVersionMatch,sendInitialEvents,shardSelector,timeoutSeconds,watch] [namespace,pretty] \
         [] 200,401",
    );
    check(
        &core,
        pods,
        "delete",
        "deleteCoreV1CollectionNamespacedPod deletecollection Pod [continue,dryRun,fieldSelector,gracePeriodSeconds,\
         ignoreStoreReadErrorWithClusterBreakingPotential,labelSelector,limit,orphanDependents,propagationPolicy,\
         resourceVersion,resourceVersionMatch,sendInitialEvents,shardSelector,timeoutSeconds] [namespace,pretty] [*/*] \
         200,401",
    );
    check(
        &core,
        "/api/v1/namespaces/{namespace}/pods/{name}",
        "patch",
        "patchCoreV1NamespacedPod patch Pod [dryRun,fieldManager,fieldValidation,force] [name,namespace,pretty] \
         [application/apply-patch+yaml,application/json-patch+json,application/merge-patch+json,\
         application/strategic-merge-patch+json] 200,201,401",
    );
    check(
        &core,
        "/api/v1/namespaces/{name}/finalize",
        "put",
        "replaceCoreV1NamespaceFinalize put Namespace [] [dryRun,fieldManager,fieldValidation,name,pretty] [*/*] \
         200,201,401",
    );
    check(
        &core,
        "/api/v1/watch/namespaces/{namespace}/pods/{name}",
        "get",
        "watchCoreV1NamespacedPod watch Pod [] [allowWatchBookmarks,continue,fieldSelector,labelSelector,limit,name,\
         namespace,pretty,resourceVersion,resourceVersionMatch,sendInitialEvents,shardSelector,timeoutSeconds,watch] [] \
         200,401",
    );
    check(&core, "/api/v1/", "get", "getCoreV1APIResources   [] [] [] 200,401");
    check(
        &apps,
        "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        "put",
        "replaceAppsV1NamespacedDeploymentScale put Scale [dryRun,fieldManager,fieldValidation] [name,namespace,pretty] \
         [*/*] 200,201,401",
    );
    assert!(
        describe_operation(&apps, "/apis/apps/v1/watch/deployments", "get")
            .starts_with("watchAppsV1DeploymentListForAllNamespaces ")
    );
    assert!(
        describe_operation(&apps, "/apis/apps/v1/deployments", "get")
            .starts_with("listAppsV1DeploymentForAllNamespaces ")
    );
}

#[test]
fn custom_resources_are_described_from_their_crd() {
    let sizes = object! { "type": "array", "items": object! { "type": "string" }, "x-kubernetes-list-type": "set" };
    let spec = object! { "type": "object", "required": vec!["sizes"], "properties": object! { "sizes": sizes } };
    let schema = object! { "type": "object", "required": vec!["spec"], "properties": object! { "spec": spec } };
    let registry = common::registry_with_widgets(schema);
    let paths = pintle_openapi::v3_paths(&registry);
    let of_group: Vec<&String> = paths.iter().filter(|path| path.contains("bench")).collect();
    assert_eq!(of_group, ["apis/bench.example.com/v1"]);
    let bytes = pintle_openapi::v3_document(&registry, complete(), "apis/bench.example.com/v1").expect("served");
    let found: Value = serde_json::from_slice(&bytes).expect("JSON");
    check_references(&found, "widgets", &[("#/components/schemas/", &["components", "schemas"])]);
    let widgets = "/apis/bench.example.com/v1/namespaces/{namespace}/widgets";
    let all: Vec<&str> = found.entries_at(&["paths"]).map(|(path, _)| path).collect();
    assert_eq!(
        all,
        [
            widgets,
            &format!("{widgets}/{{name}}"),
            &format!("{widgets}/{{name}}/scale"),
            &format!("{widgets}/{{name}}/status"),
            "/apis/bench.example.com/v1/widgets",
        ]
    );
    assert_eq!(
        describe_operation(&found, &format!("{widgets}/{{name}}/scale"), "patch"),
        "patchBenchExampleComV1NamespacedWidgetScale patch Widget [dryRun,fieldManager,fieldValidation,force] \
         [name,namespace,pretty] \
         [application/apply-patch+yaml,application/json-patch+json,application/merge-patch+json] 200,401"
    );
    let widget = "components|schemas|com.example.bench.v1.Widget";
    assert_eq!(
        json_at(&found, &format!("{widget}|properties|spec")),
        r#"{"properties":{"sizes":{"items":{"type":"string"},"type":"array","x-kubernetes-list-type":"set"}},"required":["sizes"],"type":"object"}"#
    );
    assert_eq!(json_at(&found, &format!("{widget}|required")), r#"["spec"]"#);
    assert_eq!(
        json_at(&found, "components|schemas|com.example.bench.v1.WidgetList|properties|items|items"),
        r##"{"$ref":"#/components/schemas/com.example.bench.v1.Widget"}"##
    );
}

#[test]
fn an_unserved_version_has_no_paths() {
    let bytes = pintle_openapi::v3(&registry(), complete(), &GroupVersion::new("nothing.example.com", "v1"));
    let found: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert!(operations(&found).is_empty());
}

#[test]
fn documents_of_the_issuer_are_described() {
    let found: Value = serde_json::from_slice(&pintle_openapi::v2(&registry(), complete())).expect("JSON");
    let keys = object! {
        "description":
            "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "produces": vec!["application/jwk-set+json"],
        "schemes": vec!["https"],
        "tags": vec!["openid"],
        "operationId": "getServiceAccountIssuerOpenIDKeyset",
        "responses": object! {
            "200": object! { "description": "OK", "schema": object! { "type": "string" } },
            "401": object! { "description": "Unauthorized" },
        },
    };
    assert_eq!(found["paths"]["/openid/v1/jwks/"]["get"], keys);
    let found = document(".well-known/openid-configuration");
    let operation = &found["paths"]["/.well-known/openid-configuration/"]["get"];
    assert_eq!(operation["operationId"].as_str(), Some("getServiceAccountIssuerOpenIDConfiguration"));
    assert_eq!(operation["tags"], vec!["WellKnown"].into());
    let content = object! { "application/json": object! { "schema": object! { "type": "string" } } };
    assert_eq!(operation["responses"]["200"]["content"], content);
}

#[test]
fn schemas_list_no_enumerations_without_their_feature() {
    let catalog = pintle_catalog::Catalog::clone(complete()).without_published_enums();
    let bytes = pintle_openapi::v3_document(&registry(), &catalog, "api/v1").expect("core");
    let found: Value = serde_json::from_slice(&bytes).expect("JSON");
    let policy = "components|schemas|io.k8s.api.core.v1.PodSpec|properties|dnsPolicy";
    assert_eq!(json_at(&found, &format!("{policy}|enum")), "null");
    assert!(!String::from_utf8_lossy(&bytes).contains("Possible enum values"));
    assert_ne!(json_at(&found, &format!("{policy}|description")), "null");
}
