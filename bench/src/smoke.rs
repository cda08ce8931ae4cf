//! Scenarios at work, small enough for a test, on a server that a kubeconfig names.

use pintle_testkit::Cluster;

use crate::measure;
use crate::options::Options;
use crate::plan::Plan;

/// Runs scenarios and says what the rows are called, and what was remarked.
fn check(scenarios: &'static str, rows: &[&str], remarks: &[&str]) {
    let report = pintle_testkit::run(async move {
        let mut cluster = Cluster::start().await;
        let file = cluster.kubeconfig_file();
        let folder = file.parent().expect("a file is in a folder").to_owned();
        let arguments = ["--kubeconfig", &file.to_string_lossy(), "--only", scenarios].map(str::to_owned);
        let options = Options::read(&arguments).expect("the arguments are good");
        let (report, _) =
            measure(&Options { plan: Plan::TINY, folder: Some(folder), ..options }).await.expect("a report");
        cluster.stop().await;
        report.json()
    });
    let names = report["rows"].as_array().into_iter().flatten().filter_map(|row| row["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), rows);
    assert_eq!(report["remarks"], serde_json::json!(remarks));
}

#[test]
fn a_server_is_measured_by_its_kubeconfig() {
    check("delete", &["deletes", "deletecollection, objects"], &[]);
    check("start", &[], &["start: not measured, since it starts servers itself"]);
    check("narrow", &[], &[]);
    let lists = [
        "as they are stored",
        "at a version of the same schema",
        "at a version of another schema",
        "by a webhook that is asked about all of them",
        "by a webhook that was asked before",
    ];
    check("conversion", &lists, &[]);
    let custom = [
        "creates without rules",
        "patches without rules",
        "lists of 1000 without rules",
        "creates with 20 rules",
        "patches with 20 rules",
        "lists of 1000 with 20 rules",
    ];
    check("custom", &custom, &[]);
    check("open", &["gets: p99", "gets, HTTP/2, one connection: p99", "creates: p99", "updates: p99"], &[]);
}
