//! The requests of this server's controllers to the API servers of APIServices.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use pintle_auth::UserInfo;
use pintle_codec::json::{self, DecodeOptions};
use pintle_controllers::{RemoteEvent, RemoteOperation, RemoteResource, RemoteResources};
use pintle_outbound::{BoundedBody, CallLimits};
use pintle_registry::{ApiError, DeletionPropagation, GroupResource, GroupVersion, GroupVersionKind};
use pintle_value::{Str, Value, object};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::call::{Call, call, stream, version_path};
use crate::cluster::{Cluster, RemoteApi, RemoteVersion};
use crate::http::random_share;

/// The limits of a request.
const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(5), max_body_bytes: 16 << 20 };
/// The time limit of the deletion of many objects, and of a list with all of its chunks.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of objects in a list.
const MAX_OBJECTS: usize = 500_000;
/// The fields of the metadata that controllers need. There may be many objects.
const FIELDS: [&str; 6] = ["name", "namespace", "uid", "ownerReferences", "deletionTimestamp", "finalizers"];
/// Maximum length of the message of an error, in bytes. It becomes a part of conditions and logs.
const MAX_MESSAGE: usize = 1024;
/// The time after which a watch ends, as client-go has it, in seconds. Twice that is the maximum.
const MIN_WATCH_SECONDS: f64 = 300.0;
/// A watch that ends earlier has failed.
const SHORT_WATCH: Duration = Duration::from_secs(5);
/// A watch that lasts longer ends the back-off.
const LONG_WATCH: Duration = Duration::from_secs(60);
/// The form of objects: with their metadata alone, if the API server supports that.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The form of lists.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const JSON: &str = "application/json";
/// Maximum size of an event of a watch, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// The delay before objects are listed again after a failure. It doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// How many objects are in a chunk of a list.
const CHUNK: u32 = 500;

/// The resources of other API servers, as controllers see them now. A version whose API server was not asked yet is
/// unknown.
pub(crate) fn remote_resources(cluster: &Cluster) -> Arc<RemoteResources> {
    // The garbage collector asks for each new owner, and most clusters have no other API server.
    static NONE: LazyLock<Arc<RemoteResources>> = LazyLock::new(Arc::default);
    let Some(index) = cluster.api_services().filter(|index| index.has_remote()) else { return NONE.clone() };
    let discovery = cluster.remote_discovery();
    let mut versions = index.remote();
    versions.retain(|service| !discovery.versions.contains_key(&service.version));
    if versions.is_empty() {
        return discovery.resources.clone();
    }
    let mut resources = RemoteResources::clone(&discovery.resources);
    for service in versions {
        resources.versions.insert(service.version.clone());
        resources.unknown.push(service.version.clone());
    }
    Arc::new(resources)
}

/// The resources in discovery documents. The preferred version of a resource is its version with the highest priority.
pub(super) fn resources_of(versions: &BTreeMap<GroupVersion, RemoteVersion>) -> RemoteResources {
    let mut found = RemoteResources::default();
    let mut preferred: BTreeMap<(Str, Str), (i64, Arc<RemoteResource>)> = BTreeMap::new();
    for (version, RemoteVersion { resources, is_current, version_priority, .. }) in versions {
        found.versions.insert(version.clone());
        if !is_current {
            found.unknown.push(version.clone());
        }
        for resource in resources.as_array().into_iter().flatten() {
            let plural = Str::from(resource.str_at(&["resource"]));
            let verbs = resource.items_at(&["verbs"]).iter().filter_map(Value::as_str).map(Str::from);
            let resource = Arc::new(RemoteResource {
                version: version.clone(),
                plural: plural.clone(),
                kind: resource.str_at(&["responseKind", "kind"]).into(),
                is_namespaced: resource.str_at(&["scope"]) == "Namespaced",
                verbs: verbs.collect(),
            });
            let kind = GroupVersionKind::new(version.group.clone(), version.version.clone(), resource.kind.clone());
            found.by_kind.insert(kind, resource.clone());
            let key = (version.group.clone(), plural);
            if preferred.get(&key).is_none_or(|(priority, _)| priority < version_priority) {
                preferred.insert(key, (*version_priority, resource));
            }
        }
    }
    found.preferred = preferred.into_values().map(|(_, resource)| resource).collect();
    found
}

/// Sends a request of a controller. Returns the objects of the response.
///
/// # Errors
/// The API server cannot be reached, or refuses the request.
pub(crate) async fn request_remote(
    cluster: &Cluster,
    resource: &RemoteResource,
    namespace: &str,
    operation: RemoteOperation,
) -> Result<Vec<Value>, ApiError> {
    let mut limits = LIMITS;
    let path = collection_path(resource, namespace);
    let object_path = |name: &str| format!("{path}/{}", escape(name));
    let (method, path, accept, content_type, body) = match operation {
        RemoteOperation::List => return list(cluster, resource, &path).await.map(|(objects, _)| objects),
        RemoteOperation::Get { name } => (Method::GET, object_path(&name), METADATA, "", None),
        RemoteOperation::Patch { name, patch } => {
            (Method::PATCH, object_path(&name), METADATA, "application/merge-patch+json", Some(patch))
        }
        RemoteOperation::DeleteAll => {
            let options = delete_options(DeletionPropagation::Background);
            limits.timeout = LONG_TIMEOUT;
            (Method::DELETE, path, METADATA_LIST, JSON, Some(options))
        }
        RemoteOperation::Delete { name, uid, resource_version, propagation } => {
            let mut options = delete_options(propagation);
            for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
                if !value.is_empty() {
                    options.set_at(&["preconditions", field], value);
                }
            }
            (Method::DELETE, object_path(&name), JSON, JSON, Some(options))
        }
    };
    let body = body.map(|body| Bytes::from(json::encode(&body))).unwrap_or_default();
    let call = Call { method, body, content_type, ..Call::get(&path, accept, own_user(cluster), limits) };
    Ok(vec![send(cluster, resource, call).await?])
}

/// The path of the objects of a namespace, or of all objects.
fn collection_path(resource: &RemoteResource, namespace: &str) -> String {
    let (version, plural) = (version_path(&resource.version), &resource.plural);
    match namespace {
        "" => format!("{version}/{plural}"),
        namespace => format!("{version}/namespaces/{}/{plural}", escape(namespace)),
    }
}

fn escape(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).collect()
}

fn delete_options(propagation: DeletionPropagation) -> Value {
    object! { "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": propagation.name() }
}

/// The user of the server's own requests.
fn own_user(cluster: &Cluster) -> UserInfo {
    let context = cluster.own_context();
    UserInfo { name: context.user, groups: context.groups, ..UserInfo::default() }
}

/// Lists objects with a part of their metadata. Also returns the resourceVersion of the list.
async fn list(cluster: &Cluster, resource: &RemoteResource, path: &str) -> Result<(Vec<Value>, Str), ApiError> {
    let listed = tokio::time::timeout(LONG_TIMEOUT, list_chunks(cluster, resource, path));
    listed.await.unwrap_or_else(|_| Err(unavailable(resource, "the list takes too long".to_owned())))
}

async fn list_chunks(cluster: &Cluster, resource: &RemoteResource, path: &str) -> Result<(Vec<Value>, Str), ApiError> {
    let mut objects: Vec<Value> = Vec::new();
    let (mut chunk, mut token) = (format!("{path}?limit={CHUNK}"), Str::default());
    loop {
        let list = send(cluster, resource, Call::get(&chunk, METADATA_LIST, own_user(cluster), LIMITS)).await?;
        objects.extend(items_of(&list).map_err(|why| unavailable(resource, why))?.iter().map(metadata_of));
        if objects.len() > MAX_OBJECTS {
            return Err(unavailable(resource, format!("there are more than {MAX_OBJECTS} objects")));
        }
        let next = Str::from(list.str_at(&["metadata", "continue"]));
        if next.is_empty() {
            return Ok((objects, list.str_at(&["metadata", "resourceVersion"]).into()));
        }
        if next == token {
            return Err(unavailable(resource, "the list does not go on".to_owned()));
        }
        chunk = format!("{path}?limit={CHUNK}&continue={}", escape(&next));
        token = next;
    }
}

/// The items of a list. An empty list may have none or `null` (Go: a slice that is nil).
fn items_of(list: &Value) -> Result<&[Value], String> {
    let items = list.get("items").filter(|items| !items.is_null());
    match items.map(Value::as_array) {
        _ if !list.str_at(&["kind"]).ends_with("List") => Err("the response is no list".to_owned()),
        None => Ok(&[]),
        Some(items) => items.map(|items| &items[..]).ok_or_else(|| "the items are no list".to_owned()),
    }
}

/// The part of an object that controllers need.
fn metadata_of(object: &Value) -> Value {
    let mut metadata = Value::object();
    for field in FIELDS {
        if let Some(value) = object.at(&["metadata", field]) {
            metadata.set(field, value.clone());
        }
    }
    object! { "metadata": metadata }
}

/// The API server of a resource, if it is available.
fn server_of(cluster: &Cluster, resource: &RemoteResource) -> Result<Arc<RemoteApi>, ApiError> {
    let version = &resource.version;
    let index = cluster.api_services().ok_or(ApiError::NoSuchPath)?;
    let service = index.get(&version.group, &version.version).ok_or(ApiError::NoSuchPath)?;
    let remote = service.remote.clone().ok_or(ApiError::NoSuchPath)?;
    match service.is_available {
        true => Ok(remote),
        false => Err(unavailable(resource, "service unavailable".to_owned())),
    }
}

fn unavailable(resource: &RemoteResource, why: String) -> ApiError {
    ApiError::Unavailable(format!("{}: {}", resource.version, shortened(why)))
}

/// The beginning of a text of another server.
fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}

async fn send(cluster: &Cluster, resource: &RemoteResource, request: Call<'_>) -> Result<Value, ApiError> {
    let remote = server_of(cluster, resource)?;
    let response = call(cluster, &remote, request).await.map_err(|why| unavailable(resource, why))?;
    answer_of(resource, &response)
}

/// Follows the objects of a resource as long as the receiver exists. When the watch breaks off, it goes on from the last
/// event or lists again.
pub(crate) async fn follow_remote(
    cluster: Weak<Cluster>,
    resource: Arc<RemoteResource>,
    events: mpsc::Sender<(Str, RemoteEvent)>,
) {
    let mut delay = FIRST_RETRY;
    loop {
        let result = list_and_watch(&cluster, &resource, &events, &mut delay).await;
        if events.is_closed() || cluster.strong_count() == 0 {
            return;
        }
        if let Err(error) = result {
            tracing::debug!(%error, resource = resource.name(), "Failed to follow the objects of an API server, will retry");
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RETRY);
    }
}

/// Lists objects, then reports their changes until the watch ends. Returns after an error.
async fn list_and_watch(
    cluster: &Weak<Cluster>,
    resource: &RemoteResource,
    events: &mpsc::Sender<(Str, RemoteEvent)>,
    delay: &mut Duration,
) -> Result<(), ApiError> {
    let path = collection_path(resource, "");
    let prefix = resource.prefix();
    let (objects, mut revision) = list(&*strong(cluster)?, resource, &path).await?;
    let report = async |event| events.send((prefix.clone(), event)).await.map_err(|_| ApiError::NoSuchPath);
    report(RemoteEvent::Listed(objects)).await?;
    loop {
        let started = Instant::now();
        let seconds = (MIN_WATCH_SECONDS * (1.0 + random_share())).round();
        let path = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            escape(&revision)
        );
        let mut watch = {
            let cluster = strong(cluster)?;
            let remote = server_of(&cluster, resource)?;
            let request = Call::get(&path, METADATA, own_user(&cluster), LIMITS);
            // An API server that is silent for longer is gone.
            let silence = Duration::from_secs_f64(seconds) + LONG_TIMEOUT;
            stream(&cluster, &remote, request, silence).await.map_err(|why| unavailable(resource, why))?
        };
        while let Some(line) = watch.next_line(MAX_EVENT_BYTES).await.map_err(|why| unavailable(resource, why))? {
            let event = json::decode(&line, DecodeOptions::default());
            let event = event.map_err(|error| unavailable(resource, error.to_string()))?.value;
            let object = &event["object"];
            match event.str_at(&["type"]) {
                "ADDED" | "MODIFIED" => report(RemoteEvent::Changed(metadata_of(object))).await?,
                "DELETED" => report(RemoteEvent::Deleted(metadata_of(object))).await?,
                "BOOKMARK" => {}
                _ => return Err(unavailable(resource, object.str_at(&["message"]).to_owned())),
            }
            revision = object.resource_version().into();
        }
        match started.elapsed() {
            lasted if lasted < SHORT_WATCH => {
                return Err(unavailable(resource, "the watch has ended at once".to_owned()));
            }
            lasted if lasted > LONG_WATCH => *delay = FIRST_RETRY,
            _ => {}
        }
    }
}

fn strong(cluster: &Weak<Cluster>) -> Result<Arc<Cluster>, ApiError> {
    cluster.upgrade().ok_or_else(|| ApiError::Unavailable("the server is shutting down".to_owned()))
}

/// The object of a response.
fn answer_of(resource: &RemoteResource, response: &http::Response<BoundedBody>) -> Result<Value, ApiError> {
    let body = response.body();
    let decoded = json::decode(&body.bytes, DecodeOptions::default()).map(|decoded| decoded.value);
    if response.status().is_success() {
        return match decoded {
            _ if body.truncated => Err(unavailable(resource, "the response is too large".to_owned())),
            Ok(object) => Ok(object),
            Err(error) => Err(unavailable(resource, error.to_string())),
        };
    }
    let status = decoded.unwrap_or_default();
    let (reason, name) = (status.str_at(&["reason"]), Str::from(status.str_at(&["details", "name"])));
    match response.status() {
        // Another 404 may be of a server that does not have its paths yet.
        StatusCode::NOT_FOUND if reason == "NotFound" && !name.is_empty() => {
            let resource = GroupResource::new(resource.version.group.clone(), resource.plural.clone());
            Err(ApiError::NotFound { resource, name })
        }
        StatusCode::METHOD_NOT_ALLOWED => Err(ApiError::MethodNotAllowed),
        code => {
            let message = shortened(status.str_at(&["message"]).to_owned());
            let message = if message.is_empty() { format!("status {}", code.as_u16()) } else { message };
            Err(unavailable(resource, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> RemoteResource {
        RemoteResource {
            version: GroupVersion::new("a", "v1"),
            plural: "things".into(),
            kind: "Thing".into(),
            is_namespaced: true,
            verbs: vec!["delete".into()],
        }
    }

    fn answer(code: u16, body: &str) -> Result<Value, String> {
        let body = BoundedBody { bytes: Bytes::copy_from_slice(body.as_bytes()), truncated: false };
        let response = http::Response::builder().status(code).body(body).expect("a response");
        answer_of(&resource(), &response).map_err(|error| error.to_string())
    }

    #[test]
    fn an_object_is_gone_only_if_the_api_server_says_so() {
        let gone = r#"{"reason":"NotFound","details":{"name":"x"}}"#;
        assert_eq!(answer(404, gone), Err("things.a \"x\" not found".to_owned()));
        assert_eq!(answer(404, "404 page not found"), Err("a/v1: status 404".to_owned()));
        assert_eq!(answer(404, r#"{"reason":"NotFound"}"#), Err("a/v1: status 404".to_owned()));
        assert_eq!(answer(200, "{}"), Ok(Value::object()));
        assert!(answer(200, "<html>").is_err());
    }

    #[test]
    fn a_list_is_empty_only_if_it_is_a_list() {
        let items = |text: &str| {
            let list = json::decode(text.as_bytes(), DecodeOptions::default()).expect("JSON").value;
            items_of(&list).map(<[Value]>::len)
        };
        assert_eq!(items(r#"{"kind":"ThingList","items":null}"#), Ok(0));
        assert_eq!(items(r#"{"kind":"ThingList"}"#), Ok(0));
        assert_eq!(items(r#"{"kind":"ThingList","items":[{}]}"#), Ok(1));
        for no_list in ["{}", r#"{"kind":"Status","items":[]}"#, r#"{"kind":"ThingList","items":{}}"#] {
            assert!(items(no_list).is_err(), "{no_list}");
        }
    }

    #[test]
    fn only_the_metadata_of_owners_and_deletion_is_kept() {
        let metadata = object! { "name": "a", "uid": "u", "resourceVersion": "1", "labels": object! { "a": "b" } };
        let object = object! { "metadata": metadata, "spec": object! { "size": 1 } };
        assert_eq!(metadata_of(&object), object! { "metadata": object! { "name": "a", "uid": "u" } });
    }

    #[test]
    fn messages_of_api_servers_are_shortened() {
        let long = format!(r#"{{"message":"{}"}}"#, "x".repeat(1 << 20));
        let error = answer(500, &long).expect_err("an error");
        assert_eq!(error.len(), MAX_MESSAGE + "a/v1: ".len());
    }

    #[test]
    fn paths_are_of_the_core_group_or_another() {
        assert_eq!(collection_path(&resource(), "n"), "/apis/a/v1/namespaces/n/things");
        let core = RemoteResource { version: GroupVersion::new("", "v1"), ..resource() };
        assert_eq!(collection_path(&core, ""), "/api/v1/things");
    }

    #[test]
    fn the_version_with_the_highest_priority_is_preferred() {
        let version = |priority: i64, is_current: bool| RemoteVersion {
            resources: Value::from(vec![object! {
                "resource": "things", "responseKind": object! { "kind": "Thing" }, "scope": "Namespaced",
                "verbs": vec!["get"],
            }]),
            is_current,
            group_priority: 1,
            version_priority: priority,
        };
        let (first, second) = (GroupVersion::new("a", "v1"), GroupVersion::new("a", "v2"));
        let versions = [(first.clone(), version(10, true)), (second.clone(), version(20, false))].into();
        let found = resources_of(&versions);
        assert_eq!(found.preferred.iter().map(|it| &it.version).collect::<Vec<_>>(), [&second]);
        assert_eq!(found.unknown, [second]);
        let kind = |version: &str| GroupVersionKind::new("a", version, "Thing");
        assert_eq!(found.by_kind[&kind("v1")].version, first);
        assert!(found.serves(&kind("v2")) && !found.serves(&kind("v3")));
    }
}
