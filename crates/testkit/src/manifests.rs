//! Applies manifests and CRDs to a cluster.

use std::collections::HashMap;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::api::{DynamicObject, Patch, PatchParams, TypeMeta};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::error::Error;

/// The field manager of objects that the kit applies.
const FIELD_MANAGER: &str = "pintle-testkit";
/// The maximum time until the resource of a CRD is served.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between checks whether it is served.
const INTERVAL: Duration = Duration::from_millis(2);
const CRD: &str = "CustomResourceDefinition";

/// Applies all objects of a YAML text, in order, and waits until the resources of CRDs are served.
pub(crate) async fn apply(client: &Client, yaml: &str) -> Result<Vec<DynamicObject>, Error> {
    let mut resources = HashMap::new();
    let mut applied = Vec::new();
    for object in parse(yaml)? {
        applied.push(apply_object(client, object, &mut resources).await?);
    }
    Ok(applied)
}

/// The objects of a YAML text. The items of lists are objects of their own.
fn parse(yaml: &str) -> Result<Vec<Value>, Error> {
    let mut objects = Vec::new();
    for (number, document) in (1..).zip(documents(yaml)) {
        let malformed = |why: &str| Error::Manifest(format!("document {number} of the manifest: {why}"));
        let tree = pintle_codec::yaml::decode(document.as_bytes()).map_err(|error| malformed(&error.to_string()))?;
        let json = pintle_codec::json::encode(&tree.value);
        let object: Value = serde_json::from_slice(&json).map_err(|error| malformed(&error.to_string()))?;
        match &object {
            Value::Null => {}
            Value::Object(fields) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                let items = fields.get("items").and_then(Value::as_array);
                objects.extend(items.ok_or_else(|| malformed("a list without items"))?.iter().cloned());
            }
            Value::Object(_) => objects.push(object),
            _ => return Err(malformed("not an object")),
        }
    }
    Ok(objects)
}

/// The documents of a YAML text. A line that begins with three dashes cannot be part of a document.
fn documents(yaml: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in yaml.lines() {
        match line.strip_prefix("---") {
            Some(rest) if rest.is_empty() || rest.starts_with(char::is_whitespace) => {
                documents.push(format!("{rest}\n"));
            }
            _ => {
                if let Some(document) = documents.last_mut() {
                    document.push_str(line);
                    document.push('\n');
                }
            }
        }
    }
    documents
}

type Resources = HashMap<GroupVersionKind, (ApiResource, ApiCapabilities)>;

async fn apply_object(client: &Client, object: Value, resources: &mut Resources) -> Result<DynamicObject, Error> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let described = format!("{api_version} {kind} {name:?}");
    if api_version.is_empty() || kind.is_empty() || name.is_empty() {
        return Err(Error::Manifest(format!("{described}: an object needs an apiVersion, a kind and a name")));
    }
    let types = TypeMeta { api_version, kind };
    let kind = GroupVersionKind::try_from(&types).map_err(|error| Error::Manifest(format!("{described}: {error}")))?;
    if !resources.contains_key(&kind) {
        resources.insert(kind.clone(), pinned_kind(client, &kind).await?);
    }
    let (resource, capabilities) = &resources[&kind];
    let api: Api<DynamicObject> = match (&capabilities.scope, text("/metadata/namespace")) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), resource),
        (Scope::Namespaced, namespace) if namespace.is_empty() => {
            Api::default_namespaced_with(client.clone(), resource)
        }
        (Scope::Namespaced, namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
    };
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &parameters, &Patch::Apply(&object)).await?;
    if kind.kind == CRD {
        wait_until_served(client, &object).await?;
    }
    Ok(applied)
}

/// Applies a CRD, and waits until its resource is served.
pub(crate) async fn apply_crd(client: &Client, crd: &impl serde::Serialize) -> Result<(), Error> {
    let unreadable = |error: serde_json::Error| Error::Manifest(error.to_string());
    let mut crd = serde_json::to_value(crd).map_err(unreadable)?;
    let (api_version, kind) = ("apiextensions.k8s.io/v1", CRD);
    crd["apiVersion"] = json!(api_version);
    crd["kind"] = json!(kind);
    let name = crd["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("/apis/{api_version}/customresourcedefinitions/{name}");
    let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
    let request = http_request("PATCH", &path, Some(("application/apply-patch+yaml", &crd)))?;
    let _: Value = client.request(request).await?;
    wait_until_served(client, &crd).await
}

/// Waits until a CRD is established, and all its served versions answer.
async fn wait_until_served(client: &Client, crd: &Value) -> Result<(), Error> {
    let text = |path: &str| crd.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (name, group, plural) = (text("/metadata/name"), text("/spec/group"), text("/spec/names/plural"));
    let versions = crd["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] == json!(true));
    let paths: Vec<String> = served
        .filter_map(|version| Some(format!("/apis/{group}/{}/{plural}?limit=1", version["name"].as_str()?)))
        .collect();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let mut last = String::new();
    let wait = async {
        loop {
            let found: Value = get(client, &path).await?;
            let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
            last = serde_json::to_string(&conditions).unwrap_or_default();
            let established = json!("Established");
            if conditions.iter().any(|condition| condition["type"] == established && condition["status"] == "True") {
                break;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        for path in &paths {
            while let Err(error) = get::<Value>(client, path).await {
                last = error.to_string();
                tokio::time::sleep(INTERVAL).await;
            }
        }
        Ok(())
    };
    let waited = tokio::time::timeout(TIMEOUT, wait).await;
    waited.unwrap_or_else(|_| Err(Error::Timeout(format!("the definition {name} is not served: {last}"))))
}

async fn get<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Result<T, kube::Error> {
    client.request(http_request("GET", path, None)?).await
}

/// Sends a POST with a JSON body.
pub(crate) async fn post(client: &Client, path: &str, body: &Value) -> Result<Value, Error> {
    Ok(client.request(http_request("POST", path, Some(("application/json", body)))?).await?)
}

fn http_request(method: &str, path: &str, body: Option<(&str, &Value)>) -> Result<Request<Vec<u8>>, kube::Error> {
    let mut request = Request::builder().method(method).uri(path);
    let mut bytes = Vec::new();
    if let Some((media_type, body)) = body {
        request = request.header(CONTENT_TYPE, media_type);
        bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    }
    request.body(bytes).map_err(kube::Error::HttpError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_items_of_lists_are_objects() {
        let text = "# a comment\n--- # first\nkind: A\ntext: |\n  a\n  ---\n  b\n---\n\n---\nkind: AList\nitems:\n- kind: B\n- kind: C\n---\n{kind: D}";
        let kinds: Vec<Value> = parse(text).expect("objects").iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B", "C", "D"]);
        let error = |text: &str| parse(text).expect_err("an error").to_string();
        assert_eq!(error("a: 1\n---\n- a"), "document 2 of the manifest: not an object");
        assert!(error("{").starts_with("document 1 of the manifest: "), "{}", error("{"));
    }
}
