//! Representations of objects and lists: YAML, Protobuf, tables and partial metadata, each compared with JSON.

use std::sync::Arc;

use pintle_codec::{json, protobuf, yaml};
use pintle_integration::Cluster;
use pintle_value::Value as PintleValue;
use serde_json::{Value, json};

use super::served_kind::{SELECTOR, ServedKind, name, resource_version};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn accept(transform: &str) -> String {
    format!("application/json;as={transform};v=v1;g=meta.k8s.io")
}

/// Checks that a path has the same content in YAML and Protobuf as in JSON.
async fn check_equal_in_other_encodings(cluster: &Cluster, kind: &ServedKind, path: &str, of: &str) {
    let text = cluster.get(path).await.expect(200);
    assert_eq!(text.header("content-type"), "application/json");
    let plain = json::decode(&text.body, json::DecodeOptions::default()).expect("JSON").value;

    let other = cluster.request("GET", path).header("accept", "application/yaml").send().await.expect(200);
    assert_eq!(other.header("content-type"), "application/yaml");
    assert_eq!(yaml::decode(&other.body).expect("YAML").value, plain, "YAML of {path}");

    let other = cluster.request("GET", path).header("accept", PROTOBUF).send().await.expect(200);
    assert_eq!(other.header("content-type"), PROTOBUF);
    let (types, id) = kind.type_of(of);
    let typed = json::decode_typed(&text.body, types, id).expect("JSON");
    assert!(typed.strict_errors.is_empty(), "JSON of {path}: {:?}", typed.strict_errors);
    let envelope = protobuf::open_envelope(&other.body).expect("an envelope");
    assert_eq!((envelope.kind.as_str(), envelope.api_version.as_str()), (of, kind.api_version().as_str()));
    let mut read = protobuf::decode_object(&envelope, types, id).expect("a valid message");
    let mut typed = typed.value;
    // Protobuf messages have no kind and apiVersion. The envelope has the kind and apiVersion of the object, and nested
    // objects have none.
    read.set("kind", of);
    read.set("apiVersion", kind.api_version());
    remove_types_of_claims(&mut typed);
    assert_eq!(read, typed, "Protobuf of {path}");
}

/// Removes kind and apiVersion from the volume claim templates of stateful sets.
fn remove_types_of_claims(tree: &mut PintleValue) {
    match tree {
        PintleValue::Array(items) => items.iter_mut().for_each(remove_types_of_claims),
        PintleValue::Object(members) => {
            for (key, value) in members.iter_mut() {
                remove_types_of_claims(value);
                if let (true, PintleValue::Array(claims)) = (key == "volumeClaimTemplates", value) {
                    for claim in claims {
                        claim.remove_at(&["kind"]);
                        claim.remove_at(&["apiVersion"]);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Checks that a table has rows for these objects.
fn check_table(table: &Value, names: &[&str]) {
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")), "{table}");
    let columns = table["columnDefinitions"].as_array().expect("columns");
    assert!(!columns.is_empty());
    for column in columns {
        let has = |key: &str| column[key].as_str().is_some_and(|t| !t.is_empty());
        assert!(has("name") && has("type") && column["priority"].is_i64(), "{column}");
    }
    let rows = table["rows"].as_array().expect("rows");
    let found: Vec<&str> = rows.iter().map(|row| name(&row["object"])).collect();
    assert_eq!(found, names, "{table}");
    for row in rows {
        assert_eq!(row["object"]["kind"], "PartialObjectMetadata", "{row}");
        let cells = row["cells"].as_array().expect("cells");
        // Upstream's IPAddress rows have one more cell than columns.
        assert!(cells.len() >= columns.len(), "{row} under {columns:?}");
        for (cell, column) in cells.iter().zip(columns) {
            let has_type = match column["type"].as_str() {
                Some("integer") => cell.is_i64() || cell == "<none>" || cell.is_null() || cell == "<unset>",
                Some("boolean") => cell.is_boolean() || cell.is_string(),
                _ => cell.is_string() || cell.is_null() || cell.is_number() || cell.is_boolean(),
            };
            assert!(has_type, "{cell} under {column}");
        }
        if let Some(i) = columns.iter().position(|c| c["format"] == "name") {
            assert_eq!(cells[i], name(&row["object"]), "{row}");
        }
    }
}

/// Checks every representation of an object.
pub(crate) async fn check_object(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.is_stored() {
        return;
    }
    let sample = kind.sample();
    let path = kind.path(&sample.object);
    let created = kind.create(&cluster, &sample.object).await;
    let got = cluster.get(&path).await.expect(200);
    assert_eq!(created.text(), got.text(), "create must return the stored object");
    let object = got.json();
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!(kind.kind), &json!(kind.api_version())));
    assert_eq!(object["metadata"]["labels"]["sweep"], "yes");
    assert!(!resource_version(&object).is_empty() && object["metadata"]["uid"].is_string(), "{object}");
    let again = cluster.post(&kind.collection(), sample.object.to_string()).await;
    let message = format!("{} \"{}\" already exists", kind.group_resource(), name(&object));
    again.expect_error(409, "AlreadyExists", &message);

    check_equal_in_other_encodings(&cluster, &kind, &path, &kind.kind).await;

    let table = cluster.request("GET", &path).header("accept", TABLE).send().await.expect(200).json();
    check_table(&table, &[name(&object)]);
    let partial = accept("PartialObjectMetadata");
    let partial = cluster.request("GET", &path).header("accept", &partial).send().await.expect(200).json();
    let expect =
        json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] });
    assert_eq!(partial, expect);
    kind.remove(&cluster, &sample.object).await;
}

/// Checks every representation of a list.
pub(crate) async fn check_list(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if !kind.is_stored() {
        return;
    }
    let sample = kind.sample();
    let mut objects = Vec::new();
    for object in [&sample.object, &sample.second] {
        let _ = kind.create(&cluster, object).await;
        objects.push(cluster.get(&kind.path(object)).await.expect(200).json());
    }
    objects.sort_by(|a, b| name(a).cmp(name(b)));
    let names: Vec<&str> = objects.iter().map(name).collect();
    let list_kind = &kind.facts().list_kind;
    let path = format!("{}?{SELECTOR}", kind.collection());

    let listed = cluster.get(&path).await.expect(200).json();
    assert_eq!((&listed["kind"], &listed["apiVersion"]), (&json!(list_kind), &json!(kind.api_version())));
    assert!(!resource_version(&listed).is_empty(), "{listed}");
    let bare: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut object = object.clone();
            let members = object.as_object_mut().expect("an object");
            members.remove("kind");
            members.remove("apiVersion");
            object
        })
        .collect();
    assert_eq!(listed["items"], json!(bare));

    check_equal_in_other_encodings(&cluster, &kind, &path, list_kind).await;
    let table = cluster.request("GET", &path).header("accept", TABLE).send().await.expect(200).json();
    check_table(&table, &names);
    let partial = accept("PartialObjectMetadataList");
    let partial = cluster.request("GET", &path).header("accept", &partial).send().await.expect(200).json();
    assert_eq!(partial["kind"], "PartialObjectMetadataList", "{partial}");
    let found: Vec<&str> = partial["items"].as_array().expect("items").iter().map(name).collect();
    assert_eq!(found, names);

    check_chunks(&cluster, &path, &names).await;
    check_selectors(&cluster, &kind, &objects[0]).await;
    for object in [&sample.object, &sample.second] {
        kind.remove(&cluster, object).await;
    }
}

/// Checks every representation of an object that the server computes for each request, and of its list.
pub(crate) async fn check_computed(cluster: Arc<Cluster>, kind: Arc<ServedKind>) {
    if kind.is_stored() || !kind.has_verb("get") {
        return;
    }
    assert_eq!(kind.verbs, ["get", "list"]);
    let path = kind.path(&kind.sample().object);
    let object = cluster.get(&path).await.expect(200).json();
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!(kind.kind), &json!(kind.api_version())));
    assert_eq!(resource_version(&object), "");
    check_equal_in_other_encodings(&cluster, &kind, &path, &kind.kind).await;
    let table = cluster.request("GET", &path).header("accept", TABLE).send().await.expect(200).json();
    check_table(&table, &[name(&object)]);

    let collection = kind.collection();
    let listed = cluster.get(&collection).await.expect(200).json();
    assert_eq!((&listed["kind"], &listed["metadata"]), (&json!(kind.facts().list_kind), &json!({})));
    let names: Vec<&str> = listed["items"].as_array().expect("items").iter().map(name).collect();
    assert!(names.contains(&name(&object)), "{listed}");
    check_equal_in_other_encodings(&cluster, &kind, &collection, &kind.facts().list_kind).await;
    let table = cluster.request("GET", &collection).header("accept", TABLE).send().await.expect(200).json();
    check_table(&table, &names);
    let partial = accept("PartialObjectMetadataList");
    let partial = cluster.request("GET", &collection).header("accept", &partial).send().await.expect(200).json();
    let found: Vec<&str> = partial["items"].as_array().expect("items").iter().map(name).collect();
    assert_eq!(found, names);
}

/// Checks the same list in chunks of one object.
async fn check_chunks(cluster: &Cluster, path: &str, names: &[&str]) {
    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let chunk = cluster.get(&format!("{path}&limit=1&continue={token}")).await.expect(200).json();
        let items = chunk["items"].as_array().expect("items");
        // The last chunk may be empty if no remaining object matches the selector.
        let at_most = found.len() < names.len();
        assert_eq!(items.len(), usize::from(at_most), "{chunk}");
        found.extend(items.iter().map(|item| name(item).to_owned()));
        match chunk["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => break,
        }
    }
    assert_eq!(found, names, "chunk by chunk");
}

/// Checks label and field selectors.
async fn check_selectors(cluster: &Cluster, kind: &ServedKind, object: &Value) {
    let collection = kind.collection();
    for (selector, count) in [
        (format!("{SELECTOR},sweep%21%3Dno,sweep&fieldSelector=metadata.name%3D{}", name(object)), 1),
        ("labelSelector=sweep%20in%20(no,never)".to_owned(), 0),
        (format!("labelSelector=%21sweep&fieldSelector=metadata.name%3D{}", name(object)), 0),
    ] {
        let found = cluster.get(&format!("{collection}?{selector}")).await.expect(200).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(count), "{selector}: {found}");
    }
    if kind.namespaced {
        let everywhere = collection.replace("/namespaces/sweep", "");
        let found = cluster.get(&format!("{everywhere}?{SELECTOR}")).await.expect(200).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "over all namespaces: {found}");
        let elsewhere = collection.replace("/namespaces/sweep", "/namespaces/default");
        let found = cluster.get(&format!("{elsewhere}?{SELECTOR}")).await.expect(200).json();
        assert_eq!(found["items"].as_array().map(Vec::len), Some(0), "in another namespace: {found}");
    }
}
