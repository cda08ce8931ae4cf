use std::collections::BTreeMap;

use pintle_flow_control::{WatchTarget, WatchTracker};
use serde_json::Value;

use crate::{number, rows, text};

fn target(row: &Value) -> WatchTarget<'_> {
    WatchTarget {
        group: text(row, "Group"),
        resource: text(row, "Resource"),
        namespace: text(row, "Namespace"),
        name: text(row, "Name"),
    }
}

/// The value that the query of a watch requires of `spec.nodeName`.
fn node_name(query: &str) -> Option<String> {
    let selector = query.strip_prefix("fieldSelector=")?.replace("%3D", "=").replace("%2C", ",");
    let mut terms = selector.split(',').filter_map(|term| term.split_once('='));
    terms.find_map(|(field, value)| (field == "spec.nodeName").then(|| value.to_owned()))
}

#[test]
fn writes_interest_the_watches_of_upstream() {
    let tracker = WatchTracker::default();
    let mut watches = BTreeMap::new();
    let mut asked = 0;
    for (place, row) in rows("watch_counts.jsonl").iter().enumerate() {
        if let Some(watch) = row.get("Watch") {
            watches.insert(place as u64, tracker.track(&target(watch), node_name(text(row, "Query")).as_deref()));
        }
        if let Some(place) = row["Forget"].as_u64() {
            drop(watches.remove(&place).expect("a watch"));
        }
        if let Some(request) = row.get("Request")
            // The server asks about writes only.
            && matches!(text(request, "Verb"), "create" | "update" | "delete")
        {
            assert_eq!(tracker.interested(&target(request)), number(row, "Count"), "{row}");
            asked += 1;
        }
    }
    assert!(asked > 50 && watches.is_empty(), "{asked} {watches:?}");
}
