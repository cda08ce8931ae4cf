//! Runs scenarios with the smallest plan against a server that a kubeconfig names.

use pintle_integration::Cluster;

use crate::options::Options;
use crate::plan::Plan;
use crate::run_scenarios;

/// Runs one scenario and checks the names of its rows and its remarks.
fn check(scenarios: &'static str, rows: &[&str], remarks: &[&str]) {
    let report = pintle_integration::run(async move {
        let mut cluster = Cluster::start().await;
        let file = cluster.kubeconfig_file();
        let folder = file.parent().expect("the file has a parent directory").to_owned();
        let arguments = ["--kubeconfig", &file.to_string_lossy(), "--only", scenarios].map(str::to_owned);
        let options = Options::read(&arguments).expect("valid arguments");
        let (report, _) =
            run_scenarios(&Options { plan: Plan::TINY, folder: Some(folder), ..options }).await.expect("a report");
        cluster.stop().await;
        report.json()
    });
    let names = report["rows"].as_array().into_iter().flatten().filter_map(|row| row["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), rows);
    assert_eq!(report["remarks"], serde_json::json!(remarks));
}

#[test]
fn scenarios_measure_an_existing_server_by_kubeconfig() {
    check("delete", &["deletes", "deletecollection: objects"], &[]);
    check("start", &[], &["start: skipped, requires --binary"]);
    check("filtered-watches", &[], &[]);
    let lists = [
        "storage version, no conversion",
        "another version, same schema",
        "another version, different schema",
        "conversion webhook, nothing cached",
        "conversion webhook, cached",
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
    check("custom-objects", &custom, &[]);
    check("overload", &overload_rows().iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    check("open-loop", &["gets: p99", "gets, HTTP/2, one connection: p99", "creates: p99", "updates: p99"], &[]);
}

/// The rows of the scenario `overload` without those about the server's processes.
fn overload_rows() -> Vec<String> {
    let mut rows =
        ["GETs, p99", "creates, p99", "requests not served"].map(|row| format!("quiet phase: {row}")).to_vec();
    for part in ["lists", "watches", "unread lists", "slow webhook", "large creates", "all at once"] {
        let of_part = [
            "GETs, p99",
            "GETs, p99 compared with the quiet phase",
            "creates, p99",
            "creates, p99 compared with the quiet phase",
            "GETs and creates not served",
            "lease renewals not served",
            "node requests not served",
            "noisy requests served",
        ];
        rows.extend(of_part.map(|row| format!("{part}: {row}")));
    }
    rows
}
