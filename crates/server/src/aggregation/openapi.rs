//! Follows the OpenAPI documents of the API servers of APIServices (upstream: kube-aggregator's
//! `pkg/controllers/openapi` and `pkg/controllers/openapiv3`).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{ETAG, HeaderValue};
use pintle_auth::UserInfo;
use pintle_codec::json::{self, DecodeOptions};
use pintle_openapi::{Spec, v3_of_v2};
use pintle_outbound::CallLimits;
use pintle_value::{Str, Value};

use super::call::{Call, available_remote, call};
use super::follow::{ApiServer, Followed};
use crate::cluster::{ApiService, Cluster, RemoteApi, RemoteOpenApi, RemoteV2, RemoteV3};

/// The name of the background task that follows OpenAPI documents.
pub(crate) const REMOTE_OPENAPI_TASK: &str = "apiservice-openapi-controller";
/// The limits of a call. The document of kube-apiserver itself has about 4 MB.
const LIMITS: CallLimits = CallLimits { timeout: Duration::from_secs(60), max_body_bytes: 16 << 20 };

/// The documents of an API server.
#[derive(Clone, Debug, PartialEq)]
struct Documents {
    /// The document of v2; `None` if the API server has none.
    v2: Option<Downloaded>,
    v3: V3,
}

/// A document, and its ETag.
#[derive(Clone, Debug, PartialEq)]
struct Downloaded {
    text: Bytes,
    etag: Option<HeaderValue>,
}

/// The documents of v3.
#[derive(Clone, Debug, PartialEq)]
enum V3 {
    /// The URLs of the documents by path.
    Index(BTreeMap<String, String>),
    /// The API server has no v3. This is the document that was made from v2, if there is one.
    Converted(Option<Bytes>),
}

/// Follows the OpenAPI documents until the cluster is gone.
pub(crate) async fn run_openapi(cluster: Weak<Cluster>) {
    Followed { read, publish, document: PhantomData }.run(cluster).await;
}

fn publish(cluster: &Cluster, servers: &[&ApiServer<Documents>]) {
    let mut openapi = RemoteOpenApi::default();
    let mut servers: Vec<&&ApiServer<Documents>> = servers.iter().collect();
    servers.sort_by_key(|server| server.services.first().map(|service| service.name.clone()));
    for server in servers {
        // Documents stay while their API server cannot be asked.
        let Some(documents) = &server.document else { continue };
        // An API server that can be asked does not have the versions that are not available.
        let is_reachable = server.services.iter().any(|service| service.is_available);
        for service in server.services.iter().filter(|service| service.is_available || !is_reachable) {
            if let Some(Downloaded { text, .. }) = &documents.v2 {
                openapi.v2.push(RemoteV2 { service: service.clone(), document: text.clone() });
            }
            if let V3::Converted(Some(text)) = &documents.v3 {
                openapi.v3.insert(path_of(service), RemoteV3::Converted(text.clone()));
            }
        }
        let Some(first) = server.services.first() else { continue };
        if let V3::Index(paths) = &documents.v3 {
            for (path, url) in paths {
                let by_name = server.services.iter().find(|service| path_of(service) == *path);
                // A version that has an APIService is of that API server only.
                if by_name.is_none() && cluster.remote_api_service(&format!("/{path}")).is_some() {
                    continue;
                }
                let service = by_name.unwrap_or(first).name.clone();
                let document = RemoteV3::Served { service, url: url.clone() };
                openapi.v3.entry(path.clone()).or_insert(document);
            }
        }
    }
    sort_by_priority(&mut openapi.v2);
    cluster.set_remote_openapi(openapi);
}

/// The path of the v3 document of an APIService.
fn path_of(service: &ApiService) -> String {
    format!("apis/{}", service.version)
}

/// Brings the documents of v2 into the order in which they are merged (upstream: `sortByPriority`). The highest priority
/// of a group counts for all of its versions. As in upstream, the priorities of versions do not count.
fn sort_by_priority(documents: &mut [RemoteV2]) {
    let mut of_groups: HashMap<Str, i64> = HashMap::new();
    for RemoteV2 { service, .. } in documents.iter() {
        let highest = of_groups.entry(service.version.group.clone()).or_insert(service.group_priority);
        *highest = (*highest).max(service.group_priority);
    }
    documents.sort_by_cached_key(|RemoteV2 { service, .. }| {
        (Reverse(of_groups.get(&service.version.group).copied()), service.name.clone())
    });
}

async fn read(
    cluster: Arc<Cluster>,
    services: Vec<Arc<ApiService>>,
    before: Option<Documents>,
) -> Result<Documents, String> {
    let remote = available_remote(&services)?;
    let (before_v2, before_v3) = before.map_or((None, None), |before| (before.v2, Some(before.v3)));
    let v2 = read_v2(&cluster, remote, before_v2.clone()).await?;
    let index = match before_v3 {
        // An API server without v3 is not asked for it again.
        Some(V3::Converted(_)) => None,
        _ => read_v3_index(&cluster, remote).await?,
    };
    let v3 = match (index, before_v3) {
        (Some(index), _) => V3::Index(index),
        (None, Some(V3::Converted(text))) if before_v2 == v2 => V3::Converted(text),
        (None, _) => V3::Converted(match &v2 {
            Some(downloaded) => Some(convert(downloaded.text.clone()).await?),
            None => None,
        }),
    };
    Ok(Documents { v2, v3 })
}

/// Reads the document of v2; `None` if the API server has none.
async fn read_v2(
    cluster: &Cluster,
    remote: &RemoteApi,
    before: Option<Downloaded>,
) -> Result<Option<Downloaded>, String> {
    let etag = before.as_ref().and_then(|before| before.etag.as_ref());
    let request = Call { etag, ..Call::get("/openapi/v2", "application/json", user(), LIMITS) };
    let response = call(cluster, remote, request).await?;
    match response.status() {
        StatusCode::OK if response.body().truncated => Err("the OpenAPI document is too large".to_owned()),
        StatusCode::OK => {
            let etag = response.headers().get(ETAG).cloned();
            Ok(Some(Downloaded { text: response.into_body().bytes, etag }))
        }
        StatusCode::NOT_MODIFIED if before.is_some() => Ok(before),
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(format!("failed to retrieve openAPI spec, http error: status {}", status.as_u16())),
    }
}

/// Reads the index of v3; `None` if the API server has none.
async fn read_v3_index(cluster: &Cluster, remote: &RemoteApi) -> Result<Option<BTreeMap<String, String>>, String> {
    let request = Call::get("/openapi/v3", "application/json", user(), LIMITS);
    let response = call(cluster, remote, request).await?;
    match response.status() {
        StatusCode::OK if response.body().truncated => Err("the OpenAPI index is too large".to_owned()),
        StatusCode::OK => index_paths(&decode(&response.body().bytes)?).map(Some),
        StatusCode::NOT_FOUND => Ok(None),
        status => Err(format!("failed to retrieve openAPI v3 root, http error: status {}", status.as_u16())),
    }
}

/// The user that downloads OpenAPI documents.
fn user() -> UserInfo {
    UserInfo { name: "system:aggregator".into(), ..UserInfo::default() }
}

fn decode(text: &[u8]) -> Result<Value, String> {
    json::decode(text, DecodeOptions::default()).map(|decoded| decoded.value).map_err(|error| error.to_string())
}

/// The URLs in an index of v3 by path.
fn index_paths(index: &Value) -> Result<BTreeMap<String, String>, String> {
    let paths = index.get("paths").and_then(Value::as_object).ok_or("the OpenAPI index has no paths")?;
    let url = |(path, entry): (&str, &Value)| (path.to_owned(), entry.str_at(&["serverRelativeURL"]).to_owned());
    Ok(paths.iter().map(url).collect())
}

/// Converts a document of v2 to v3. It may be large, so this does not delay other tasks.
async fn convert(text: Bytes) -> Result<Bytes, String> {
    let convert = move || {
        let spec = Spec::decode(decode(&text)?).map_err(|error| error.to_string())?;
        Ok(Bytes::from(json::encode(&v3_of_v2(&spec))))
    };
    tokio::task::spawn_blocking(convert).await.map_err(|error| error.to_string())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_v3_has_urls_by_path() {
        let text = br#"{"paths":{"apis/a/v1":{"serverRelativeURL":"/openapi/v3/apis/a/v1?hash=1"}}}"#;
        let paths = index_paths(&decode(text).expect("JSON")).expect("an index");
        assert_eq!(paths["apis/a/v1"], "/openapi/v3/apis/a/v1?hash=1");
        assert!(index_paths(&decode(b"[]").expect("JSON")).is_err());
    }

    #[tokio::test]
    async fn garbage_is_not_converted() {
        assert!(convert(Bytes::from_static(b"no JSON")).await.is_err());
    }
}
