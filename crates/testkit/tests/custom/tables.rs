//! Tables of custom resources, as `kubectl get` requests them.

use pintle_testkit::Cluster;
use serde_json::json;

use super::{WIDGETS, start_with_widgets, widget};

#[test]
fn tables_have_the_columns_of_the_definition() {
    pintle_testkit::run(async {
        let cluster = start_with_widgets(Cluster::start().await).await;
        let _ = cluster.post(WIDGETS, widget("a", &json!({"colour": "red"})).to_string()).await.expect(201);
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let table = cluster.request("GET", WIDGETS).header("accept", accept).send().await.expect(200).json();
        let columns: Vec<_> = table["columnDefinitions"].as_array().expect("columns").iter().collect();
        let names: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
        assert_eq!(names, ["Name", "Colour", "Replicas"]);
        let description = "Custom resource definition column (in JSONPath format): .spec.colour";
        assert_eq!(columns[1]["description"], description);
        assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 1]));
        cluster.stop().await;
    });
}
