//! CEL validation rules of custom resources (`x-kubernetes-validations`).

use pintle_integration::Cluster;
use serde_json::{Value, json};

use super::{CRDS, WIDGETS, wait_for_condition, widget, widget_crd};

const PATH: &str = "/apis/example.com/v1/namespaces/default/widgets/a";

/// The CRD of widgets with validation rules.
fn crd_with_rules() -> Value {
    let mut crd = widget_crd();
    for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
        let name = version["name"].as_str().expect("a name").to_owned();
        let schema = &mut version["schema"]["openAPIV3Schema"];
        let spec = &mut schema["properties"]["spec"];
        spec["x-kubernetes-validations"] = json!([
            {"rule": "self.colour != 'green' || self.replicas < 5", "message": "green widgets are few"},
            {
                "rule": "!has(oldSelf.colour) || self.colour == oldSelf.colour", "reason": "FieldValueForbidden",
                "fieldPath": ".colour", "messageExpression": "'was ' + oldSelf.colour",
            },
        ]);
        if name == "v1beta1" {
            spec["x-kubernetes-validations"] =
                json!([{"rule": "self.replicas > 1", "message": "old widgets are many"}]);
        }
        schema["x-kubernetes-validations"] = json!([
            {"rule": "!has(self.status) || !has(self.status.replicas) || self.status.replicas <= self.spec.replicas"},
            {"rule": "self.metadata.name.size() < 5", "message": "names are short"},
        ]);
    }
    crd
}

async fn start_with_widgets(cluster: Cluster) -> Cluster {
    let _ = cluster.post(CRDS, crd_with_rules().to_string()).await.expect(201);
    wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
    cluster
}

fn invalid(expect: &str) -> String {
    format!("Widget.example.com \"a\" is invalid: {expect}")
}

#[test]
fn invalid_or_expensive_rules_are_rejected() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let mut crd = widget_crd();
        crd["spec"]["versions"].as_array_mut().expect("versions").remove(0);
        let mut post = async |rule: &str| {
            let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
            cluster.post(CRDS, crd.to_string()).await
        };
        let refused = "CustomResourceDefinition.apiextensions.k8s.io \"widgets.example.com\" is invalid";
        let at = "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule";
        let shown = r#"{"Rule":"self.size","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}"#;
        let error = "compilation failed: ERROR: <input>:1:5: undefined field 'size'\n | self.size\n | ....^";
        let message = format!("{refused}: {at}: Invalid value: {shown}: {error}");
        post("self.size").await.expect_error(422, "Invalid", &message);
        let costly = "self.spec.parts.all(a, self.spec.parts.all(b, a.name != b.name))";
        let cost = "exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)";
        let message = format!(
            "{refused}: [{at}: Forbidden: estimated rule cost {cost}, {at}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema, spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema {cost}]"
        );
        post(costly).await.expect_error(422, "Invalid", &message);
        let _ = post("self.spec.parts.all(a, a.name != '')").await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn objects_are_validated_with_the_rules() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let green = |replicas: i64| widget("a", &json!({"colour": "green", "replicas": replicas}));
        let few = invalid("spec: Invalid value: green widgets are few");
        cluster.post(WIDGETS, green(5).to_string()).await.expect_error(422, "Invalid", &few);
        let long = widget("longer", &json!({"colour": "red"})).to_string();
        let message = "Widget.example.com \"longer\" is invalid: <nil>: Invalid value: names are short";
        cluster.post(WIDGETS, long).await.expect_error(422, "Invalid", message);
        // The rules are not evaluated if the name is missing.
        let mut nameless = green(5);
        nameless["metadata"] = json!({});
        let message = "Widget.example.com \"\" is invalid: [metadata.name: Required value: name or generateName is required, <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]";
        cluster.post(WIDGETS, nameless.to_string()).await.expect_error(422, "Invalid", message);
        let _ = cluster.post(WIDGETS, green(4).to_string()).await.expect(201);

        // The rules are evaluated for every kind of update.
        cluster
            .patch(PATH, "merge", json!({"spec": {"replicas": 9}}).to_string())
            .await
            .expect_error(422, "Invalid", &few);
        let red = json!({"spec": {"colour": "red"}}).to_string();
        let forbidden = invalid("spec.colour: Forbidden: was green");
        cluster.patch(PATH, "merge", red).await.expect_error(422, "Invalid", &forbidden);
        let apply = cluster.request("PATCH", &format!("{PATH}?fieldManager=me&force=true"));
        let apply = apply.body("application/apply-patch+yaml", green(7).to_string());
        apply.send().await.expect_error(422, "Invalid", &few);
        let _ = cluster.patch(PATH, "merge", json!({"spec": {"replicas": 3}}).to_string()).await.expect(200);

        // A rule can compare status and spec.
        let status = |replicas: i64| json!({"status": {"replicas": replicas}}).to_string();
        let rule = "!has(self.status) || !has(self.status.replicas) || self.status.replicas <= self.spec.replicas";
        let failed = invalid(&format!("<nil>: Invalid value: failed rule: {rule}"));
        let path = format!("{PATH}/status");
        cluster.patch(&path, "merge", status(4)).await.expect_error(422, "Invalid", &failed);
        let _ = cluster.patch(&path, "merge", status(3)).await.expect(200);
        cluster.stop().await;
    });
}

#[test]
fn each_version_has_its_own_rules() {
    pintle_integration::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let beta = WIDGETS.replace("/v1/", "/v1beta1/");
        let mut old = widget("a", &json!({"colour": "green", "replicas": 1}));
        old["apiVersion"] = json!("example.com/v1beta1");
        let many = invalid("spec: Invalid value: old widgets are many");
        cluster.post(&beta, old.to_string()).await.expect_error(422, "Invalid", &many);
        old["spec"]["replicas"] = json!(9);
        let _ = cluster.post(&beta, old.to_string()).await.expect(201);
        cluster.stop().await;
    });
}

#[test]
fn unchanged_invalid_values_are_ratcheted_with_a_warning() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let _ = cluster.post(CRDS, widget_crd().to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let created = widget("a", &json!({"colour": "green", "replicas": 9}));
        let _ = cluster.post(WIDGETS, created.to_string()).await.expect(201);
        let versions = json!({"spec": {"versions": crd_with_rules()["spec"]["versions"]}});
        let crd = format!("{CRDS}/widgets.example.com");
        let _ = cluster.patch(&crd, "merge", versions.to_string()).await.expect(200);
        // The rules apply once the changed CRD is in effect.
        let labelled = |label: &str| json!({"metadata": {"labels": {"a": label}}}).to_string();
        let mut attempts = 0;
        let warning = loop {
            attempts += 1;
            let response = cluster.patch(PATH, "merge", labelled(&attempts.to_string())).await.expect(200);
            if let Some(warning) = response.headers.get("warning") {
                break warning.to_str().expect("text").to_owned();
            }
        };
        assert_eq!(warning, r#"299 - "spec: Invalid value: green widgets are few""#);
        let more = json!({"spec": {"replicas": 10}}).to_string();
        let few = invalid("spec: Invalid value: green widgets are few");
        cluster.patch(PATH, "merge", more).await.expect_error(422, "Invalid", &few);
        cluster.stop().await;
    });
}

#[test]
fn expensive_rules_are_evaluated_up_to_the_cost_limit() {
    pintle_integration::run(async {
        let cluster = Cluster::start().await;
        let list = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"}});
        let mut crd = widget_crd();
        for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
            version["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {"spec": {
                "type": "object",
                "properties": {"a": list, "b": list, "replicas": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.a.all(x, self.b.all(y, x != y))", "message": "one is in both"}],
            }}});
        }
        let _ = cluster.post(CRDS, crd.to_string()).await.expect(201);
        wait_for_condition(&cluster, "widgets.example.com", "Established", "True").await;
        let with = |a: Vec<i64>, b: Vec<i64>| widget("a", &json!({"a": a, "b": b})).to_string();
        let costly = "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: one is in both";
        for (a, b, refused) in [
            (0..5, 5..10, None),
            (0..150, 150..300, None),
            (0..150, 149..300, Some("one is in both")),
            (0..600, 600..1200, Some(costly)),
        ] {
            let tried = cluster.post(&format!("{WIDGETS}?dryRun=All"), with(a.collect(), b.collect())).await;
            match refused {
                None => drop(tried.expect(201)),
                Some(why) => {
                    let why = invalid(&format!("spec: Invalid value: {why}"));
                    let found = tried.expect(422).json()["message"].as_str().expect("a message").to_owned();
                    assert_eq!(found.replace("\"object\": ", ""), why);
                }
            }
        }
        cluster.stop().await;
    });
}
