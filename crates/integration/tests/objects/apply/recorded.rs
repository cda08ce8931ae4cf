//! Recorded answers of upstream's field manager (apimachinery's `managedfields`, 1.36): random requests by several
//! managers, and after each of them the object and its managed fields. The library applies no defaults, so the kinds
//! have none, or none that matter here. `tools/managed-fields` writes the recordings. Each object follows a line
//! `## number`:
//!
//! ```text
//! verb manager [/subresource] body
//!   = the object without identifying and server-set fields
//!   - manager Operation apiVersion [/subresource] [untimed]: fields
//!   same, if the object and its managed fields are unchanged
//!   ! or the message of a conflict, line by line
//! ```

use std::fmt::Write as _;

use serde_json::Value;

use super::scenario::{CONFIGMAP, DEPLOYMENT, NODE, SERVICE_ACCOUNT, Scenario, ScenarioKind, fields, parse_json};

/// Fields that do not depend on field ownership: identifying fields, and fields that are always set.
const IGNORED_FIELDS: [(&str, &[&str]); 3] = [
    ("metadata", &["managedFields", "uid", "creationTimestamp", "name", "namespace", "resourceVersion", "generation"]),
    ("spec", &["selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds"]),
    ("status", &["nodeInfo", "daemonEndpoints"]),
];

/// Returns an object as recordings contain it, without the ignored fields.
fn without_ignored_fields(mut object: Value) -> Value {
    let members = object.as_object_mut().expect("an object");
    members.remove("kind");
    members.remove("apiVersion");
    for (part, names) in IGNORED_FIELDS {
        let Some(part_members) = members.get_mut(part).and_then(Value::as_object_mut) else { continue };
        names.iter().for_each(|name| {
            part_members.remove(*name);
        });
        if part_members.is_empty() && part != "spec" {
            members.remove(part);
        }
    }
    object
}

/// Formats the object and its managed fields as recordings do.
fn format_state(object: Value) -> String {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut lines = format!("  = {}\n", without_ignored_fields(object));
    for entry in &entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let through = entry["subresource"].as_str().map(|name| format!(" /{name}")).unwrap_or_default();
        let untimed = if entry["time"].is_null() { " untimed" } else { "" };
        let who = format!("{} {} {}{through}{untimed}", text("manager"), text("operation"), text("apiVersion"));
        let _ = writeln!(lines, "  - {who}: {}", fields(entry).join(" "));
    }
    lines
}

/// Sends a request and formats its outcome as recordings do. `before` is the state before the request and is replaced
/// with the state after it.
async fn outcome(scenario: &Scenario, request: &str, body: &str, before: &mut String) -> String {
    let response = scenario.send(request, body).await;
    if !response.status.is_success() {
        let message = response.json()["message"].as_str().unwrap_or_default().to_owned();
        let mut lines: Vec<&str> = message.lines().collect();
        if let Some(([first], rest)) = lines.split_at_mut_checked(1)
            && first.ends_with("errors:")
        {
            // Upstream reports errors in random order.
            rest.sort_unstable();
        }
        return lines.iter().map(|line| format!("  ! {line}\n")).collect();
    }
    let after = format_state(scenario.stored().await.expect("an object"));
    if after == *before {
        return "  same\n".to_owned();
    }
    before.clone_from(&after);
    after
}

/// Returns a recorded outcome with its JSON formatted as this test does.
fn normalize_recorded(lines: &[&str]) -> String {
    let rewritten = |line: &&str| match line.strip_prefix("  = ") {
        Some(object) => format!("  = {}\n", parse_json(object)),
        None => format!("{line}\n"),
    };
    lines.iter().map(rewritten).collect()
}

/// Replays a recording with a cluster for each object.
fn replay(kind: ScenarioKind, recording: &'static str) {
    pintle_integration::run(async move {
        for object in recording.split("## ").skip(1) {
            let (number, steps) = object.split_once('\n').expect("a number");
            let scenario = Scenario::new(kind, "").await;
            let (mut before, mut history) = (String::new(), String::new());
            let lines: Vec<&str> = steps.trim_end().lines().collect();
            for step in lines.chunk_by(|_, next| next.starts_with("  ")) {
                let (request, body) = step[0].split_at(step[0].find('{').expect("a body"));
                let expect = normalize_recorded(&step[1..]);
                let found = outcome(&scenario, request.trim_end(), body, &mut before).await;
                assert_eq!(found, expect, "object {number}: {} after\n{history}", step[0]);
                let _ = write!(history, "{}\n{expect}", step[0]);
            }
            scenario.cluster.stop().await;
        }
    });
}

#[test]
fn configmaps_match_the_recording() {
    replay(CONFIGMAP, include_str!("recorded/configmaps.txt"));
}

#[test]
fn service_accounts_match_the_recording() {
    replay(SERVICE_ACCOUNT, include_str!("recorded/serviceaccounts.txt"));
}

#[test]
fn deployments_and_their_scales_match_the_recording() {
    replay(DEPLOYMENT, include_str!("recorded/deployments.txt"));
}

#[test]
fn lists_in_pod_templates_match_the_recording() {
    replay(DEPLOYMENT, include_str!("recorded/templates.txt"));
}

#[test]
fn upgrades_from_client_side_apply_match_the_recording() {
    replay(CONFIGMAP, include_str!("recorded/upgrades.txt"));
}

#[test]
fn nodes_and_their_statuses_match_the_recording() {
    replay(NODE, include_str!("recorded/nodes.txt"));
}
