//! What upstream's own field manager (apimachinery's `managedfields`, 1.36) makes of objects that several write to at
//! random: requests of all sorts, and after each of them the object and who owns what. Defaults are not that library's: the
//! kinds have none, or none that matter here. `tools/owners` writes the recordings. One has, for each object, under a line
//! `## number`:
//!
//! ```text
//! verb manager [/subresource] body
//!   = the object without what names it
//!   - manager Operation apiVersion [/subresource] [untimed]: fields
//!   same, if object and owners are what they were
//!   ! or the message of a conflict, line by line
//! ```

use std::fmt::Write as _;

use serde_json::Value;

use crate::scene::{ACCOUNT, DEPLOYMENT, Kind, MAP, NODE, Scene, fields, read};

/// The parts of objects that have nothing to do with who owns what: names, and what is always there.
const LEFT_OUT: [(&str, &[&str]); 3] = [
    ("metadata", &["managedFields", "uid", "creationTimestamp", "name", "namespace", "resourceVersion", "generation"]),
    ("spec", &["selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds"]),
    ("status", &["nodeInfo", "daemonEndpoints"]),
];

/// An object as recordings show it.
fn shown(mut object: Value) -> Value {
    let members = object.as_object_mut().expect("an object");
    members.remove("kind");
    members.remove("apiVersion");
    for (part, names) in LEFT_OUT {
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

/// The object and its owners as recordings write them.
fn state(object: Value) -> String {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut lines = format!("  = {}\n", shown(object));
    for entry in &entries {
        let text = |key: &str| entry[key].as_str().unwrap_or_default();
        let through = entry["subresource"].as_str().map(|name| format!(" /{name}")).unwrap_or_default();
        let untimed = if entry["time"].is_null() { " untimed" } else { "" };
        let who = format!("{} {} {}{through}{untimed}", text("manager"), text("operation"), text("apiVersion"));
        let _ = writeln!(lines, "  - {who}: {}", fields(entry).join(" "));
    }
    lines
}

/// What recordings say comes of a request; `before` is the state that it meets, and then the one that it leaves.
async fn outcome(scene: &Scene, request: &str, body: &str, before: &mut String) -> String {
    let answer = scene.ask(request, body).await;
    if !answer.status.is_success() {
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        let mut lines: Vec<&str> = message.lines().collect();
        if let Some(([first], rest)) = lines.split_at_mut_checked(1)
            && first.ends_with("errors:")
        {
            // Upstream's come in any order.
            rest.sort_unstable();
        }
        return lines.iter().map(|line| format!("  ! {line}\n")).collect();
    }
    let after = state(scene.stored().await.expect("an object"));
    if after == *before {
        return "  same\n".to_owned();
    }
    before.clone_from(&after);
    after
}

/// An outcome of the recording, with the object as this test writes it.
fn recorded(lines: &[&str]) -> String {
    let rewritten = |line: &&str| match line.strip_prefix("  = ") {
        Some(object) => format!("  = {}\n", read(object)),
        None => format!("{line}\n"),
    };
    lines.iter().map(rewritten).collect()
}

/// Plays a recording; every object is in a cluster of its own.
fn replay(kind: Kind, recording: &'static str) {
    pintle_testkit::run(async move {
        for object in recording.split("## ").skip(1) {
            let (number, steps) = object.split_once('\n').expect("a number");
            let scene = Scene::of(kind, "").await;
            let (mut before, mut past) = (String::new(), String::new());
            let lines: Vec<&str> = steps.trim_end().lines().collect();
            for step in lines.chunk_by(|_, next| next.starts_with("  ")) {
                let (request, body) = step[0].split_at(step[0].find('{').expect("a body"));
                let expect = recorded(&step[1..]);
                let found = outcome(&scene, request.trim_end(), body, &mut before).await;
                assert_eq!(found, expect, "object {number}: {} after\n{past}", step[0]);
                let _ = write!(past, "{}\n{expect}", step[0]);
            }
            scene.cluster.stop().await;
        }
    });
}

#[test]
fn config_maps_are_owned_as_recorded() {
    replay(MAP, include_str!("recorded/configmaps.txt"));
}

#[test]
fn service_accounts_are_owned_as_recorded() {
    replay(ACCOUNT, include_str!("recorded/serviceaccounts.txt"));
}

#[test]
fn deployments_and_their_scales_are_owned_as_recorded() {
    replay(DEPLOYMENT, include_str!("recorded/deployments.txt"));
}

#[test]
fn lists_in_pod_templates_are_owned_as_recorded() {
    replay(DEPLOYMENT, include_str!("recorded/templates.txt"));
}

#[test]
fn what_kubectl_applied_before_is_owned_as_recorded() {
    replay(MAP, include_str!("recorded/upgrades.txt"));
}

#[test]
fn nodes_and_their_statuses_are_owned_as_recorded() {
    replay(NODE, include_str!("recorded/nodes.txt"));
}
