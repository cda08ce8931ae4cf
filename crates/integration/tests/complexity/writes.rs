//! Every kind of write, through the whole server.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_integration::Cluster;
use serde_json::{Value, json};

use crate::growth::{self, FACTOR, Growth};
use crate::subjects::{BUILT_IN, CRD, CRDS, CUSTOM, CUSTOM_RESOURCES, GROWN_SCHEMAS, Kind, Subject};
use crate::subjects::{crd, grown_schema};

/// The name of the CRD.
const CRD_NAME: &str = "growns.example.com";
/// The maximum number of measurements of a row whose work grows too fast.
const ATTEMPTS: usize = 3;

/// The CPU time of each write.
type Times = BTreeMap<&'static str, Duration>;

/// Writes one object repeatedly.
struct Writer<'c> {
    cluster: &'c Cluster,
    kind: &'static Kind,
    name: String,
    times: Times,
}

impl Writer<'_> {
    fn path(&self) -> String {
        format!("{}/{}", self.kind.collection, self.name)
    }

    /// The object with its kind and name.
    fn named(&self, mut object: Value) -> Value {
        object["apiVersion"] = self.kind.api_version.into();
        object["kind"] = self.kind.kind.into();
        object["metadata"]["name"] = self.name.as_str().into();
        object
    }

    async fn send(&mut self, what: &'static str, method: &str, path: &str, media_type: &str, body: &Value) -> u16 {
        let text = body.to_string();
        let start = growth::process_time();
        let response = self.cluster.request(method, path).body(media_type, text).send().await;
        self.times.insert(what, growth::process_time() - start);
        let status = response.status.as_u16();
        let is_expected = match status {
            200 | 201 => true,
            409 => method == "PUT",
            422 => self.kind.is_immutable,
            _ => false,
        };
        let body = response.body;
        let shown = String::from_utf8_lossy(&body[..body.len().min(500)]);
        assert!(is_expected, "{what} of a {}: {status} {shown}", self.kind.kind);
        status
    }

    /// Updates the object. The server itself updates CRDs, so there may be conflicts.
    async fn put(&mut self, what: &'static str, object: Value) {
        let path = self.path();
        let mut object = self.named(object);
        loop {
            // A parser of the test would not read deep objects.
            let stored = self.cluster.get(&path).await.expect(200).text();
            let revision = stored.split("\"resourceVersion\":\"").nth(1).and_then(|rest| rest.split('"').next());
            object["metadata"]["resourceVersion"] = revision.expect("a revision").into();
            if self.send(what, "PUT", &path, "application/json", &object).await != 409 {
                return;
            }
        }
    }

    async fn patch(&mut self, what: &'static str, media_type: &str, body: &Value) {
        let path = self.path();
        self.send(what, "PATCH", &path, media_type, body).await;
    }

    async fn apply(&mut self, what: &'static str, manager: &str, object: Value) {
        let path = format!("{}?fieldManager={manager}&force=true", self.path());
        let object = self.named(object);
        self.send(what, "PATCH", &path, "application/apply-patch+yaml", &object).await;
    }
}

/// Waits until the kind of custom resources is served.
async fn wait_until_served(cluster: &Cluster) {
    cluster.get_until_status(CUSTOM.collection, 200).await;
}

/// The operations of a JSON patch that sets all fields and all metadata of an object.
fn operations(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata");
    let fields = fields.map(|(key, value)| (format!("/{key}"), value));
    let metadata = object["metadata"].as_object().into_iter().flatten();
    let metadata = metadata.map(|(key, value)| (format!("/metadata/{key}"), value));
    fields.chain(metadata).map(|(path, value)| json!({"op": "add", "path": path, "value": value})).collect()
}

impl Subject {
    /// The name of an object. A CRD has the name of its kind.
    fn name(&self, what: &str) -> String {
        if self.kind.kind == CRD.kind { CRD_NAME.to_owned() } else { what.to_owned() }
    }

    /// Checks each write. If its time grows too fast, it is measured again, and the best result counts.
    async fn check(&self, cluster: &Cluster, problems: &mut Vec<String>) {
        let mut fast: Option<BTreeMap<&str, Growth>> = None;
        for _ in 0..ATTEMPTS {
            let small = self.measure(cluster, self.entries).await;
            let large = self.measure(cluster, FACTOR * self.entries).await;
            let mut growths: BTreeMap<&str, Growth> =
                small.into_iter().map(|(what, small)| (what, Growth::of(small, large[what]))).collect();
            growths.retain(|what, growth| {
                !growth.is_near_linear() && fast.as_ref().is_none_or(|fast| fast.contains_key(what))
            });
            if growths.is_empty() {
                return;
            }
            fast = Some(growths);
        }
        let name = |what| format!("{what} of a {} with many {}", self.kind.kind, self.what);
        problems.extend(fast.into_iter().flatten().map(|(what, growth)| growth.problem(&name(what))));
    }

    /// The CPU time of each write of an object with this number of entries.
    async fn measure(&self, cluster: &Cluster, entries: usize) -> Times {
        let numbers: Vec<usize> = (0..entries).collect();
        let reversed: Vec<usize> = (0..entries).rev().collect();
        let changed: Vec<usize> = (entries..2 * entries).collect();
        if let Some(schema) = self.schema {
            create_crd(cluster, schema(&numbers)).await;
        }
        let object = |numbers: &[usize]| (self.object)(numbers);
        let applied = |numbers: &[usize]| (self.applied)(numbers);
        let name = self.name("written");
        let mut writer = Writer { cluster, kind: self.kind, name, times: Times::new() };
        let body = writer.named(object(&numbers));
        writer.send("create", "POST", self.kind.collection, "application/json", &body).await;
        writer.put("update without a change", object(&numbers)).await;
        writer.put("update in reverse order", object(&reversed)).await;
        if self.can_change {
            writer.put("update of everything", object(&changed)).await;
        }
        writer.patch("merge patch", "application/merge-patch+json", &object(&numbers)).await;
        writer.patch("JSON patch", "application/json-patch+json", &operations(&object(&reversed))).await;
        if self.kind.is_built_in {
            let media_type = "application/strategic-merge-patch+json";
            writer.patch("strategic merge patch", media_type, &object(&numbers)).await;
        }
        writer.apply("apply of a stored object", "one", applied(&numbers)).await;
        remove(cluster, &writer.path()).await;
        writer.name = self.name("applied");
        writer.apply("apply", "one", applied(&numbers)).await;
        writer.apply("apply without a change", "one", applied(&numbers)).await;
        writer.apply("apply in reverse order", "one", applied(&reversed)).await;
        writer.apply("apply by another manager", "two", applied(&numbers)).await;
        remove(cluster, &writer.path()).await;
        if self.schema.is_some() {
            remove(cluster, &format!("{}/{CRD_NAME}", CRD.collection)).await;
        }
        writer.times
    }
}

/// Creates the CRD with this schema, and waits until they are served.
async fn create_crd(cluster: &Cluster, schema: Value) {
    let mut writer = Writer { cluster, kind: &CRD, name: CRD_NAME.to_owned(), times: Times::new() };
    let body = writer.named(crd(schema));
    writer.send("create", "POST", CRD.collection, "application/json", &body).await;
    wait_until_served(cluster).await;
}

/// Deletes an object, and waits until it is deleted.
async fn remove(cluster: &Cluster, path: &str) {
    let nothing = json!({"metadata": {"finalizers": null}}).to_string();
    let _ = cluster.request("PATCH", path).body("application/merge-patch+json", nothing).send().await;
    let _ = cluster.request("DELETE", &format!("{path}?gracePeriodSeconds=0")).send().await;
    cluster.get_until(path, |found| found.status != 200).await;
}

/// Checks all rows in one cluster. Custom resources have this schema.
fn check_all(subjects: &'static [Subject], schema: Option<Value>) {
    let _alone = growth::alone();
    pintle_integration::run(async move {
        let cluster = Cluster::start().await;
        if let Some(schema) = schema {
            create_crd(&cluster, schema).await;
        }
        let mut problems = Vec::new();
        for subject in subjects {
            subject.check(&cluster, &mut problems).await;
        }
        cluster.stop().await;
        growth::report(&problems);
    });
}

#[test]
fn writes_of_built_in_kinds_cost_no_more_than_n_log_n() {
    check_all(BUILT_IN, None);
}

#[test]
fn writes_of_crds_cost_no_more_than_n_log_n() {
    check_all(CRDS, None);
}

#[test]
fn writes_of_custom_resources_cost_no_more_than_n_log_n() {
    check_all(CUSTOM_RESOURCES, Some(grown_schema()));
}

#[test]
fn writes_of_custom_resources_with_large_schemas_cost_no_more_than_n_log_n() {
    check_all(GROWN_SCHEMAS, None);
}
