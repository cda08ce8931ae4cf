//! The documents of the API server behind both servers.

use pintle_integration::SentResponse;
use serde_json::{Value, json};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "Content-Type: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The path of the only v3 document.
const V3: &str = "/openapi/v3/apis/modern.example.com/v1";

/// The discovery document of a version.
pub(super) fn of_version(group: &str) -> SentResponse {
    let things = json!({
        "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "shortNames": ["th"],
        "categories": ["all"], "verbs": ["get", "list", "watch"], "storageVersionHash": "x",
    });
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}.example.com/v1"),
        "resources": [
            things,
            {"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"]},
            {"name": "things/scale", "singularName": "", "namespaced": true, "kind": "Scale", "group": "autoscaling",
             "version": "v1", "verbs": ["get", "update"]},
            {"name": "orphans/log", "singularName": "", "namespaced": false, "kind": "Orphan", "verbs": ["get"]},
            {"name": "globals", "singularName": "global", "namespaced": false, "kind": "Global", "group": "else.example.com",
             "version": "v3", "verbs": []},
        ],
    });
    SentResponse::json(200, list.to_string())
}

/// The document of a path that is not below a version. The API server over HTTP/2 has aggregated discovery and v3; the
/// other one has neither.
pub(super) fn find(path: &str, is_http2: bool) -> Option<SentResponse> {
    Some(match (path, is_http2) {
        ("/apis", true) => SentResponse::new(200, discovery().to_string()).header(AGGREGATED),
        ("/openapi/v2", true) => SentResponse::json(200, swagger("modern", "number").to_string()),
        ("/openapi/v2", false) => SentResponse::json(200, swagger("echo", "string").to_string()),
        ("/openapi/v3", true) => {
            let paths = json!({&V3["/openapi/v3/".len()..]: {"serverRelativeURL": format!("{V3}?hash=ABC")}});
            SentResponse::json(200, json!({"paths": paths}).to_string())
        }
        (V3, true) => SentResponse::json(200, r#"{"openapi":"3.0.0","info":{"title":"Modern"},"paths":{}}"#)
            .header("Etag: \"ABC\""),
        (path, _) if path.starts_with("/openapi/") || path == "/apis" => SentResponse::new(404, "404 page not found\n"),
        _ => return None,
    })
}

fn discovery() -> Value {
    let version = |version: &str, resources: Value| json!({"version": version, "resources": resources});
    let things = json!([
        {"resource": "things", "responseKind": {"group": "modern.example.com", "version": "v1", "kind": "Thing"},
         "scope": "Namespaced", "singularResource": "thing", "verbs": ["get", "list"], "shortNames": ["mth"],
         "subresources": [{"subresource": "status", "verbs": ["get"]}]},
        {"resource": "bare", "scope": "Cluster", "singularResource": "", "verbs": ["create"]},
    ]);
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [
            {"metadata": {"name": "modern.example.com"}, "versions": [version("v1", things), version("v2", json!([]))]},
            {"metadata": {"name": "stolen.example.com"}, "versions": [version("v1", json!([]))]},
        ],
    })
}

/// A v2 document with a path of the group and a path of another group. All such documents have one definition of the
/// same name, each with another type.
fn swagger(group: &str, kind: &str) -> Value {
    let thing = format!("com.example.{group}.v1.Thing");
    let read = |definition: &str| {
        let schema = json!({"$ref": format!("#/definitions/{definition}")});
        json!({"get": {"description": "read", "operationId": "read", "responses": {"200": {"description": "OK", "schema": schema}}}})
    };
    json!({
        "swagger": "2.0", "info": {"title": group, "version": "1"},
        "paths": {
            format!("/apis/{group}.example.com/v1/things/{{name}}"): read(&thing),
            "/apis/stolen.example.com/v1/things": read("com.example.Stolen"),
            "/version/": read("com.example.Version"),
        },
        "definitions": {
            &thing: {
                "type": "object", "description": "A thing.",
                "properties": {"shared": {"$ref": "#/definitions/com.example.Shared"}},
                "x-kubernetes-group-version-kind": [{"group": format!("{group}.example.com"), "version": "v1", "kind": "Thing"}],
            },
            "com.example.Shared": {"type": kind},
            "com.example.Stolen": {"type": "object"},
            "com.example.Unused": {"type": "object"},
            "com.example.Version": {"type": "object"},
        },
    })
}
