use std::collections::BTreeMap;
use std::time::Duration;

use pintle_flow_control::{ListOptions, ObjectStats, WorkEstimate, list_estimate, mutating_estimate, watch_estimate};
use serde_json::Value;

use crate::{number, rows, text};

/// The query of a request, and whether it can be decoded. The server rejects the other requests.
struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(text: &str) -> Option<Self> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let query = Self(pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(own).collect());
        let is_number = |name| query.0.get(name).is_none_or(|value: &String| value.parse::<i64>().is_ok());
        (is_number("limit") && is_number("timeoutSeconds")).then_some(query)
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn options(&self, name: &str) -> ListOptions<'_> {
        ListOptions {
            limit: self.get("limit").parse().unwrap_or_default(),
            continue_token: self.get("continue"),
            resource_version: self.get("resourceVersion"),
            resource_version_match: self.get("resourceVersionMatch"),
            has_selector: !self.get("labelSelector").is_empty() || !self.get("fieldSelector").is_empty(),
            send_initial_events: self.0.get("sendInitialEvents").is_some_and(|value| value != "false" && value != "0"),
            is_of_one_object: !name.is_empty(),
        }
    }
}

fn own((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn stats(row: &Value) -> Option<ObjectStats> {
    match text(row, "Count") {
        "unknown" => None,
        "stale" | "error" => Some(ObjectStats::STALE),
        _ => Some(ObjectStats { count: number(row, "Objects"), average_bytes: number(row, "Size") }),
    }
}

fn estimate(row: &Value) -> Option<WorkEstimate> {
    let query = Query::parse(text(row, "Query"))?;
    let options = query.options(text(row, "Name"));
    let max_seats = number(row, "MaxSeats");
    Some(match text(row, "Verb") {
        "list" => list_estimate(&options, stats(row), max_seats),
        "watch" => watch_estimate(&options, stats(row), max_seats),
        "create" if text(row, "Subresource") == "token" && text(row, "Resource") == "serviceaccounts" => {
            WorkEstimate::default()
        }
        "create" | "update" | "patch" | "delete" => mutating_estimate(number(row, "Watches"), max_seats),
        _ => WorkEstimate::default(),
    })
}

#[test]
fn requests_get_the_seats_that_upstream_estimates() {
    let mut compared = 0;
    for row in rows("work_estimates.jsonl") {
        let Some(found) = estimate(&row) else { continue };
        let expected = WorkEstimate {
            initial_seats: number(&row, "Initial"),
            final_seats: number(&row, "Final"),
            additional_latency: Duration::from_nanos(number(&row, "Latency")),
        };
        assert_eq!(found, expected, "{row}");
        compared += 1;
    }
    assert!(compared > 1000, "{compared}");
}
